"""How fast Holdfast begins: help, mistakes on the command line and the import load nothing that takes long."""

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast.cli
from holdfast.clean.rule import USUAL
from holdfast.cli import names
from holdfast.cli.commands import FILES
from holdfast.contrastive import CONTRASTIVE
from holdfast.encoders import ENCODERS
from holdfast.methods import DEFAULT
from holdfast.nets import NETS
from holdfast.noise import KINDS, TARGET_KINDS
from holdfast.stop import STOPS
from holdfast.usual import NEW, TUNED

SLOW = {
    "torch",
    "numpy",
    "pandas",
    "pyarrow",
    "scipy",
    "sklearn",
    "numba",
    "matplotlib",
    "pydantic",
    "lightning_fabric",
}
HELPERS = {
    "__init__", "commands", "config_file", "mistakes", "names", "noise_file", "on_disk", "options",
    "settings",
}  # fmt: skip


def loaded(code, *words):
    """Packages that a fresh process has loaded when it ends, and how it ended."""
    script = (
        f"import atexit, sys; sys.argv = ['holdfast', *{words!r}]\n"
        f"atexit.register(lambda: print('LOADED', *(set({sorted(SLOW)!r}) & set(sys.modules)), file=sys.stderr))\n"
        f"{code}"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    return done.stderr.rpartition("LOADED")[2].split(), done


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("fitt",), *((name, "--help") for name in FILES),
                                   *((name, "--no-such-option") for name in FILES)], ids=" ".join)  # fmt: skip
def test_help_and_mistakes_load_nothing_slow(words):
    found, done = loaded("from holdfast.cli import main; main()", *words)
    assert found == [], done.stderr
    assert done.returncode == (0 if words[-1] in ("--help", "--version") else 2), done.stderr
    assert ("Usage" in done.stdout + done.stderr) == (words != ("--version",))


def test_the_import_loads_nothing_slow():
    assert loaded("import holdfast")[0] == []
    assert "torch" in loaded("import holdfast; holdfast.fit")[0]


def test_a_training_in_one_process_loads_no_fabric():
    data = "(torch.randn(40, 3), torch.arange(40) % 2)"
    found, done = loaded(f"import holdfast, torch; holdfast.fit({data}, epochs=1, device='cpu')")
    assert done.returncode == 0, done.stderr
    assert "torch" in found
    assert "lightning_fabric" not in found


def test_every_file_of_a_command_is_called():
    files = {path.stem for path in Path(holdfast.cli.__file__).parent.glob("*.py")}
    assert files == {*FILES.values(), *HELPERS}


def test_help_names_what_there_is():
    assert names.METHOD == DEFAULT
    assert set(names.STOPS) == set(STOPS)
    assert names.NETS == NETS
    assert tuple(ENCODERS) == names.ENCODERS
    assert tuple(CONTRASTIVE) == names.CONTRASTIVE
    assert tuple(KINDS) == names.KINDS
    assert tuple(TARGET_KINDS) == names.TARGET_KINDS
    assert (NEW.epochs, NEW.largest, NEW.rate, NEW.sgd) == (names.EPOCHS, names.BATCH, names.ADAM, names.SGD)
    assert (TUNED.epochs, TUNED.largest) == (names.TUNED_EPOCHS, names.TUNED_BATCH)
    assert (TUNED.rate, TUNED.sgd) == (names.TUNED_ADAM, names.TUNED_SGD)
    assert names.CORRECT == USUAL

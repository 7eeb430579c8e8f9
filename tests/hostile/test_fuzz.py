"""Wrong inputs through every door: those that have once failed, and 50,000 new ones (``make fuzz`` tries more)."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def fuzz(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, HERE / "fuzz.py", *words]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=1200)


@pytest.mark.slow
def test_what_has_failed_once_does_not_fail_again():
    done = fuzz("--replay", HERE / "kept")
    kept = [path for path in (HERE / "kept").rglob("*") if path.is_file()]
    assert done.returncode == 0, done.stdout
    assert f"\n{len(kept)} inputs, 0 failures" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_fifty_thousand_wrong_inputs_end_in_a_sentence():
    done = fuzz("--inputs", 50_000, "--seed", 0)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "0 failures" in done.stdout

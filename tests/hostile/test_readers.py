"""Folders and lists whose parts lie about their sizes: a sentence, and no loop, crash or traceback."""

import io
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast import HoldfastError, read
from holdfast.data import webvision
from holdfast.encoders.named import encoder_named
from holdfast.files import temporary_folder, write_text
from holdfast.trackers.csv import CSV

DIGITS = "7" * 5000
"""More than int() takes."""
READ = "import sys; from holdfast import read; read(sys.argv[1], label=sys.argv[3], on_disk=sys.argv[2] == 'disk')"


def reading(path: Path, way: str, label: str) -> str:
    """What a process says that reads, and ends well in time or with a sentence."""
    done = subprocess.run(
        [sys.executable, "-c", READ, path, way, label], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 1, done.returncode
    assert "HoldfastError: " in done.stderr, done.stderr[-800:]
    return done.stderr.rpartition("HoldfastError: ")[2]


def sealed(header: bytearray) -> bytes:
    """A header of a tar archive with the sum that it should have."""
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def test_a_size_below_zero_does_not_lead_back(tmp_path):
    out = io.BytesIO()
    Image.new("RGB", (4, 4)).save(out, "PNG")
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in (("a.png", out.getvalue()), ("a.cls", b"1")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    held = bytearray(path.read_bytes())
    header = held[:512]
    header[124:136] = b"-0000001000\0"
    path.write_bytes(sealed(header) + held[512:])
    assert "damaged or no tar archive" in reading(path, "memory", "cls")


def test_numbers_of_thousands_of_digits_are_a_sentence(tmp_path):
    (tmp_path / "info").mkdir()
    (tmp_path / webvision.SYNSETS).write_text("n00000001 a\nn00000002 b\n")
    (tmp_path / webvision.TRAIN).write_text(f"a.jpg {DIGITS}\n")
    (tmp_path / webvision.TEST).write_text("a.jpg 0\n")
    with pytest.raises(HoldfastError, match="no path and class number"):
        webvision.read(tmp_path, classes=2)
    with pytest.raises(HoldfastError, match="multiple of 32"):
        encoder_named(f"lite0@{DIGITS}")
    (tmp_path / "figures.csv").write_text(f"step,name,value\n{DIGITS},loss,1\n")
    with pytest.raises(HoldfastError, match="no figures of a run"):
        CSV().open({}, tmp_path, 1)
    np.savez(tmp_path / "a.npz", x_train=np.zeros((4, 2)), y_train=np.array(["a", "b", DIGITS, "a"]),
             class_names=np.array(["a", "b"]))  # fmt: skip
    with pytest.raises(HoldfastError, match="none of the 2 classes"):
        read(tmp_path / "a.npz")


def test_files_named_after_no_process_are_left_alone(tmp_path, monkeypatch):
    """Whoever may write beside a file, or into /tmp, must not end every command."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for number in ("9" * 30, str(1 << 31), "9" * 200):
        (tmp_path / f".a.csv.{number}.part").write_text("x")
        (tmp_path / f"holdfast-{number}-x").mkdir()
    write_text(tmp_path / "a.csv", "whole")
    with temporary_folder() as folder:
        assert folder.is_dir()
    assert len(list(tmp_path.iterdir())) == 7


@pytest.mark.parametrize("way", ["memory", "disk"])
def test_texts_that_lie_outside_of_their_file_are_not_read(tmp_path, way):
    """A column of texts is a list of places; arrow believes whatever stands there."""
    datasets = pytest.importorskip("datasets")
    texts = [f"word {i % 7} and more of it" for i in range(50)]
    columns = {"a": list(range(50)), "text": texts, "label": ["x", "y"] * 25}
    datasets.Dataset.from_dict(columns).save_to_disk(tmp_path / "set")
    file: Path = next((tmp_path / "set").glob("*.arrow"))
    width = len(texts[0])
    places = struct.pack("<4i", *(k * width for k in range(4)))
    content = file.read_bytes()
    assert content.count(places) == 1
    file.write_bytes(content.replace(places, struct.pack("<4i", 0, 1 << 29, 1 << 30, 3 * width)))
    assert "set cannot be read" in reading(tmp_path / "set", way, "label")

"""Shards of WebDataset: read by their places, with sizes checked, and nothing unpacked."""

import io
import json
import tarfile
from contextlib import suppress

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from holdfast import HoldfastError, Run, read
from holdfast.cli import app
from holdfast.data import read_inputs
from holdfast.data.images import Pictures
from holdfast.data.shards import members_of


def picture(colour: int) -> bytes:
    draw = np.random.default_rng(colour)
    pixels = np.clip(draw.normal(colour, 20, (10, 12, 3)), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    return file.getvalue()


def archive(path, members, kind=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w", format=kind) as tar:
        for name, held in members:
            info = tarfile.TarInfo(name)
            info.size = len(held)
            tar.addfile(info, io.BytesIO(held))


def samples(start, count):
    for k in range(start, start + count):
        yield f"{k:04}.png", picture(60 if k % 2 else 190)
        yield f"{k:04}.cls", str(k % 2).encode()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "wds").mkdir()
    archive(tmp_path / "wds/train-0.tar", samples(0, 30))
    archive(tmp_path / "wds/train-1.tar", samples(30, 30))
    archive(tmp_path / "wds/val-0.tar", samples(60, 12))
    return tmp_path / "wds"


def test_pictures_with_their_classes_and_those_to_test_on(folder):
    rows, test = read(folder)
    assert (len(rows), len(test)) == (60, 12)
    assert rows.classes == ("0", "1")
    assert rows.y[:4].tolist() == [0, 1, 0, 1]
    assert rows.names[31] == "train-1.tar/0031"
    expected = np.asarray(Image.open(io.BytesIO(picture(60)))).transpose(2, 0, 1)
    assert np.array_equal(rows.x[31], expected)
    assert rows.summary.found == "2 shards of WebDataset"


def test_on_disk_they_are_the_same_and_nothing_is_unpacked(folder):
    before = sorted(path.name for path in folder.rglob("*"))
    held, lying = read(folder)[0], read(folder, on_disk=True)[0]
    assert isinstance(lying.x, Pictures)
    assert torch.equal(torch.stack(lying.x.__getitems__(range(60))), held.x)
    assert sorted(path.name for path in folder.rglob("*")) == before


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_places_are_those_that_tarfile_finds(tmp_path, kind):
    long = "deep/" * 25 + "x" * 60
    archive(tmp_path / "a.tar", [(f"{long}.png", b"1" * 700), ("süß.cls", b"2"), ("c/d.json", b"{}" * 600)], kind)
    with tarfile.open(tmp_path / "a.tar") as tar:
        expected = [(info.name, info.offset_data, info.size) for info in tar]
    assert [tuple(member) for member in members_of(tmp_path / "a.tar")] == expected


def test_labels_of_json_by_the_key_that_is_named(tmp_path):
    members = []
    for k in range(8):
        told = {"label": "all", "animal": "cat" if k % 2 else "dog", "score": 1.5}
        members += [(f"{k}.jpg", picture(k)), (f"{k}.json", json.dumps(told).encode())]
    archive(tmp_path / "a.tar", members)
    rows, _ = read(tmp_path / "a.tar", label="animal")
    assert rows.classes == ("cat", "dog")
    with pytest.raises(HoldfastError, match="only one class"):
        read(tmp_path / "a.tar")


def test_a_picture_without_a_label(folder):
    archive(folder / "train-2.tar", [("0100.png", picture(3)), *samples(101, 3)])
    with pytest.raises(HoldfastError, match=r"an image without a label \(0100\); label them or pass --missing drop"):
        read(folder)
    assert len(read(folder, missing_labels="drop")[0]) == 63


def test_a_broken_picture_is_named(folder):
    whole = picture(3)
    archive(folder / "train-2.tar", [("0100.png", whole[: len(whole) // 2]), ("0100.cls", b"1")])
    with pytest.raises(HoldfastError, match=r"train-2.tar/0100 cannot be decoded"):
        read(folder)
    for lying in (True, False):
        assert len(read(folder, skip_broken=True, on_disk=lying)[0]) == 60


@pytest.mark.parametrize(
    ("name", "held", "sentence"),
    [
        ("0.cls", b"1" * 70_000, "takes 70,000 bytes, as no label does"),
        ("0.json", b"{", "is no JSON"),
        ("0.json", b"[" * 60_000, "is no JSON"),
    ],
)
def test_a_label_that_is_none(tmp_path, name, held, sentence):
    archive(tmp_path / "a.tar", [("0.png", picture(3)), (name, held)])
    with pytest.raises(HoldfastError, match=sentence):
        read(tmp_path / "a.tar")


def test_archives_that_are_cut_short_damaged_or_lie_about_their_sizes(tmp_path):
    path = tmp_path / "a.tar"
    archive(path, samples(0, 4))
    whole = path.read_bytes()
    lying = bytearray(whole)
    lying[124:136] = b"\x80" + (1 << 62).to_bytes(11, "big")
    lying[148:156] = b"        "
    lying[148:156] = f"{sum(lying[:512]):06o}\0 ".encode()
    flipped = bytearray(whole)
    flipped[3] ^= 1
    for held in (whole[:700], whole[:100], b"", bytes(lying), bytes(flipped), b"no archive" * 100):
        path.write_bytes(held)
        with pytest.raises(HoldfastError, match=r"a\.tar (is|takes)"):
            read(path)


def test_no_bytes_whatever_end_in_anything_but_a_sentence(tmp_path):
    path, draw = tmp_path / "a.tar", np.random.default_rng(0)
    archive(path, samples(0, 4))
    whole = path.read_bytes()
    for _ in range(150):
        held = bytearray(whole)
        for place in draw.integers(0, len(held), draw.integers(1, 6)):
            held[place] = draw.integers(256)
        path.write_bytes(held[: draw.integers(len(held))] if draw.random() < 0.3 else held)
        with suppress(HoldfastError):
            read(path)


def test_links_in_an_archive_are_no_pictures(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        link = tarfile.TarInfo("9.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        for name, held in samples(0, 4):
            info = tarfile.TarInfo(name)
            info.size = len(held)
            tar.addfile(info, io.BytesIO(held))
    assert len(read(path)[0]) == 4


def test_from_fit_to_predictions(folder, tmp_path):
    out = tmp_path / "run"
    call = CliRunner().invoke
    done = call(app, ["fit", str(folder), "--net", "mlp", "--out", str(out), "--epochs", "3", "--quiet"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert len(Run.load(out).read_again()) == 60
    assert call(app, ["report", str(out)]).exit_code == 0
    done = call(app, ["predict", str(out), str(folder), "--out", str(tmp_path / "p.csv")])
    assert done.exit_code == 0, (done.output, done.exception)
    x, names = read_inputs(folder, Run.load(out).config.recipe)
    assert len(x) == len(names) == 12

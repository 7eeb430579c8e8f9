"""Inputs that stay on disk: the same rows, batches and runs as from memory."""

import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast import HoldfastError, Run, fit, read
from holdfast.data.images import Pictures
from holdfast.data.on_disk import KeptPixels
from holdfast.data.source import Source
from holdfast.feed import Feed, loaded


@pytest.fixture
def folder(tmp_path):
    draw = np.random.default_rng(0)
    for label, colour in (("cat", 60), ("dog", 180)):
        (tmp_path / "data" / label).mkdir(parents=True)
        for k in range(40):
            pixels = np.clip(draw.normal(colour, 40, (12, 10, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "data" / label / f"{k:02}.png")
    return tmp_path / "data"


def test_many_images_are_left_on_disk_and_few_are_not(folder, monkeypatch):
    assert isinstance(read(folder)[0].x, torch.Tensor)
    monkeypatch.setattr("holdfast.data.images.SMALL", 80 * 12 * 10 * 3 - 1)
    rows, _ = read(folder)
    assert isinstance(rows.x, Pictures)
    assert rows.shape == (3, 12, 10)


def test_before_the_first_batch_no_image_is_decoded(folder, monkeypatch):
    called = []
    pixels = __import__("holdfast.data.images", fromlist=["_pixels"])._pixels
    monkeypatch.setattr("holdfast.data.images._pixels", lambda *args: called.append(args) or pixels(*args))
    rows, _ = read(folder, on_disk=True)
    held = rows.take(torch.arange(0, 80, 2))
    assert not called
    assert len(held.x[3]) == 3
    assert len(called) == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_those_from_memory(folder, workers):
    lying, held = read(folder, on_disk=True)[0], read(folder)[0]
    one, other = (Feed(rows, batch_size=16, seed=3, workers=workers) for rows in (lying, held))
    for a, b in zip(one.batches(), other.batches(), strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.index, b.index)


def test_a_run_is_bit_for_bit_that_from_memory(folder, tmp_path):
    runs = []
    for lying in (True, False):
        rows, test = Source.at(folder, "0.25", 0, on_disk=lying).load()
        runs.append(fit(rows, net="cnn4", test=test, epochs=2, evidence=True, out=tmp_path / f"run{lying}"))
    for name, value in runs[0].net.state_dict().items():
        assert torch.equal(value, runs[1].net.state_dict()[name]), name
    assert np.array_equal(runs[0].issues()["trust"], runs[1].issues()["trust"])
    again = Run.load(tmp_path / "runTrue").judged_rows()
    assert isinstance(again.x, Pictures)
    assert len(again) == 80


def test_a_run_finds_its_images_on_disk_however_large_that_is_by_then(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.data.images.SMALL", 1)
    rows, test = Source.at(folder, "0.25", 0).load()
    fit(rows, net="mlp", test=test, epochs=1, out=tmp_path / "run")
    monkeypatch.undo()
    assert isinstance(Run.load(tmp_path / "run").read_again().x, Pictures)


def test_other_sizes_or_names_are_other_data(folder, tmp_path):
    rows, _ = Source.at(folder, "0", 0, on_disk=True).load()
    fit(rows, net="mlp", epochs=1, out=tmp_path / "run")
    Image.fromarray(np.zeros((12, 10, 3), dtype=np.uint8)).save(folder / "cat/00.png")
    with pytest.raises(HoldfastError, match="has changed since"):
        Run.load(tmp_path / "run").read_again()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_broken_image_is_one_sentence(folder, workers):
    whole = (folder / "dog/07.png").read_bytes()
    (folder / "dog/07.png").write_bytes(whole[: len(whole) // 2])
    rows, _ = read(folder, on_disk=True)
    with pytest.raises(HoldfastError, match=r"^[^\n]*dog/07.png [^\n]*--skip-broken$"):
        list(loaded(rows.x, list(torch.arange(80).split(20)), workers))
    kept, _ = read(folder, on_disk=True, skip_broken=True)
    assert len(kept) == 79
    assert "dog/07.png" not in kept.names
    assert kept.x[46].equal(read(folder, skip_broken=True)[0].x[46])


def test_images_are_decoded_once_and_changed_ones_anew(folder, monkeypatch):
    rows, _ = read(folder, on_disk=True)
    first = torch.stack(rows.x.__getitems__(range(80)))
    monkeypatch.setattr("holdfast.data.images._pixels", None)
    again, _ = read(folder, on_disk=True)
    assert torch.equal(torch.stack(again.x.__getitems__(range(80))), first)
    monkeypatch.undo()
    Image.fromarray(np.full((12, 10, 3), 5, dtype=np.uint8)).save(folder / "cat/00.png")
    assert read(folder, on_disk=True)[0].x[0].unique().tolist() == [5]


def test_what_is_half_written_is_not_taken(tmp_path):
    kept = KeptPixels(tmp_path / "kept", 3, (1, 2, 2))
    pixels = np.arange(4, dtype=np.uint8).reshape(1, 2, 2)
    kept.put(1, pixels)
    assert kept.get(0) is None
    assert np.array_equal(kept.get(1), pixels)
    raw = bytearray((tmp_path / "kept").read_bytes())
    raw[-1] ^= 1
    (tmp_path / "kept").write_bytes(raw)
    assert kept.get(1) is None
    assert pickle.loads(pickle.dumps(kept)).get(2) is None


def test_parts_of_parts_and_both_together(folder):
    rows, _ = read(folder, on_disk=True)
    rows = Source.at(folder, "0", 0, on_disk=True).load()[0]
    most, few = rows.split(0.25, 0)
    both = most.followed_by(few)
    assert isinstance(both.x, Pictures)
    for i in (0, 30, 61, 79):
        assert both.x[i].equal(rows.x[rows.names.index(both.names[i])])
    assert most.fingerprint != few.fingerprint
    with pytest.raises(IndexError):
        both.x[80]

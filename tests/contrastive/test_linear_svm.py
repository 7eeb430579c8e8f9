"""Transfer to VOC: its lists, a linear SVM for each class, and average precision."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from holdfast import HoldfastError, Rows
from holdfast.contrastive import sgd_linear_accuracy
from holdfast.contrastive.linear_svm import average_precision, svm_precision, voc_precision
from holdfast.data import voc


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images that are redder the first class is there and bluer the second, and others by chance."""
    root, chance = tmp_path_factory.mktemp("voc") / "VOC2007", np.random.default_rng(0)
    (root / voc.LISTS).mkdir(parents=True)
    (root / voc.IMAGES).mkdir()
    for part, count in (("trainval", 36), ("test", 18)):
        marks = {each: chance.choice([-1, 1], count) for each in voc.CLASSES}
        marks["cat"][0] = 0
        for each, own in marks.items():
            own[1:4], own[4:8] = 1, -1
            lines = [f"{part}{k:03d} {mark:2d}\n" for k, mark in enumerate(own)]
            (root / voc.LISTS / f"{each}_{part}.txt").write_text("".join(lines))
        for k in range(count):
            pixels = np.full((30, 40, 3), 40, np.uint8)
            pixels[..., 0] += np.uint8(90 * (marks["aeroplane"][k] > 0))
            pixels[..., 2] += np.uint8(90 * (marks["bicycle"][k] > 0))
            Image.fromarray(pixels).save(root / voc.IMAGES / f"{part}{k:03d}.jpg")
    return root


class Mean(nn.Module):
    """Features are the mean colours."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

    def features(self, x):
        return x.mean((2, 3)) - 0.3


def test_lists_and_images(folder):
    found = voc.read(folder, "trainval", image_size=16)
    assert found.rows.shape == (3, 16, 16)
    assert found.marks.shape == (36, 20)
    assert found.rows.names[1] == "trainval001"
    assert found.marks[0, voc.CLASSES.index("cat")] == 0
    assert found.rows.unlabelled


def test_each_class_has_its_machine(folder):
    found = voc_precision(Mean(), folder, image_size=16, costs=(0.1, 1.0))
    assert list(found) == [*voc.CLASSES, "mean"]
    assert found["aeroplane"] == found["bicycle"] == 1
    assert found["mean"] < 0.9
    assert found["mean"] == pytest.approx(sum(found[each] for each in voc.CLASSES) / 20)


def test_precision_by_plain_loops():
    chance = np.random.default_rng(0)
    for _ in range(20):
        score, right = chance.random(12), chance.random(12) < 0.4
        right[0] = True
        order, points = sorted(range(12), key=lambda i: -score[i]), []
        for count in range(1, 13):
            hits = sum(right[i] for i in order[:count])
            points.append((hits / sum(right), hits / count))
        wanted = sum(max([p for r, p in points if r >= t / 10 - 1e-12], default=0) for t in range(11)) / 11
        assert average_precision(score, right) == pytest.approx(wanted)


def test_the_cost_is_chosen_without_the_test_images():
    torch.manual_seed(0)
    known, queries = torch.randn(60, 4), torch.randn(40, 4)
    marks, wanted = (torch.where(x[:, :1] > 0, 1, -1) for x in (known, queries))
    good = svm_precision(known, marks, queries, wanted, costs=(1e-7, 1.0))
    assert good[0] > 0.95
    turned = svm_precision(known, marks, queries, -wanted, costs=(1e-7, 1.0))
    assert turned[0] < 0.6
    # An image that is hard to tell counts for nothing.
    doubtful = torch.where(torch.arange(40)[:, None] < 10, 0, wanted)
    assert svm_precision(known, marks, queries, doubtful, costs=(1.0,)) == svm_precision(
        known, marks, queries[10:], wanted[10:], costs=(1.0,)
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [("a 2", "no name of an image"), ("../a 1", "no name of an image"), ("", "lists no image"), ("a 1", "lacks 1")],
)
def test_mistakes_are_named(tmp_path, line, words):
    (tmp_path / voc.LISTS).mkdir(parents=True)
    (tmp_path / voc.LISTS / "cat_test.txt").write_text(line)
    with pytest.raises(HoldfastError, match=words):
        voc.read(tmp_path, "test", classes=("cat",))
    with pytest.raises(HoldfastError, match="cannot be read"):
        voc.read(tmp_path, "test")
    with pytest.raises(HoldfastError, match="needs 3 images"):
        svm_precision(torch.randn(4, 2), torch.ones(4, 1), torch.randn(4, 2), torch.ones(4, 1))


def test_a_linear_layer_by_sgd():
    source = torch.Generator().manual_seed(0)
    truth = torch.arange(200) % 2
    x = torch.rand(200, 3, 4, 4, generator=source) * 0.2
    x[:, 0] += 0.3 * truth[:, None, None]
    rows = Rows(x, truth, ("a", "b"))
    assert sgd_linear_accuracy(Mean(), rows, rows, epochs=4, batch_size=50) == 1
    assert sgd_linear_accuracy(Mean(), rows, rows, epochs=1, rate=1e-9, batch_size=50) < 1

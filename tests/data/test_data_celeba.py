"""The published layout of CelebA, in a tiny generated copy."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast.data import read, read_inputs
from holdfast.data.celeba import IMAGES, LANDMARKS, PARTITION, read_parts
from holdfast.errors import HoldfastError

NAMES = [f"{i:06d}.jpg" for i in range(1, 10)]
HEAD = "lefteye_x lefteye_y righteye_x righteye_y nose_x nose_y leftmouth_x leftmouth_y rightmouth_x rightmouth_y"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = np.random.default_rng(0)
    (tmp_path / IMAGES).mkdir()
    lines = [str(len(NAMES)), HEAD]
    for i, name in enumerate(NAMES):
        pixels = source.integers(0, 256, (218, 178, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / IMAGES / name)
        values = [value for k in range(5) for value in (10 * k + i, 100 + 10 * k + i)]
        lines.append(f"{name}  " + "  ".join(map(str, values)) + " ")
    (tmp_path / LANDMARKS).write_text("\n".join(lines) + "\n")
    (tmp_path / PARTITION).write_text("".join(f"{name} {i // 3}\n" for i, name in enumerate(NAMES)))
    return tmp_path


def test_images_landmarks_and_partition(folder: Path) -> None:
    train, test = read(folder)
    assert test is not None
    assert train.names == tuple(NAMES[:3])
    assert test.names == tuple(NAMES[6:])
    assert train.shape == (3, 64, 52)
    assert train.classes is None
    assert train.y.shape == (3, 10)
    x = torch.tensor([0.0, 10, 20, 30, 40]) + 1
    torch.testing.assert_close(train.y[1], torch.cat([x / 178, (x + 100) / 218]))
    assert set(read_parts(folder)) == {"train", "validation", "test"}


def test_size_and_recipe(folder: Path) -> None:
    train, _ = read(folder, image_size=(40, 32))
    assert train.shape == (3, 40, 32)
    x, names = read_inputs(folder, train.recipe)
    assert tuple(x.shape) == (3, 3, 40, 32)
    assert names == tuple(NAMES[6:])


def test_without_a_partition_all_images_train(folder: Path) -> None:
    (folder / PARTITION).unlink()
    train, test = read(folder)
    assert len(train) == 9
    assert test is None


def test_a_face_trains(folder: Path) -> None:
    from holdfast import fit
    from holdfast.methods import PRLL

    train, test = read(folder, image_size=16)
    run = fit(train, PRLL(0.2), "cnn4", test=test, epochs=1, batch_size=3)
    assert np.isfinite(run.history["test"].iloc[-1])


def test_missing_images_are_named(folder: Path) -> None:
    (folder / IMAGES / NAMES[1]).unlink()
    with pytest.raises(HoldfastError, match=r"lacks 1 listed image \(000002.jpg, ...\); fetch them, or pass --skip-"):
        read(folder)
    assert len(read(folder, skip_broken=True)[0]) == 2


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        (LANDMARKS, "1\nhead\n000001.jpg 1 2 3\n", "line 3 holds no file name and 10 coordinates"),
        (LANDMARKS, "", "lists no images"),
        (PARTITION, "000001.jpg 7\n", "line 1 is no file name and 0, 1 or 2"),
        (PARTITION, "000001.jpg 0\n", r"does not tell the set of 8 images \(000002.jpg"),
        (PARTITION, "".join(f"{name} 1\n" for name in NAMES), "no image that is there into the training set"),
    ],
)
def test_damaged_lists_are_named(folder: Path, file: str, text: str, words: str) -> None:
    (folder / file).write_text(text)
    with pytest.raises(HoldfastError, match=words):
        read(folder)
    with pytest.raises(HoldfastError, match="landmarks to regress on"):
        read(folder, task="classification")

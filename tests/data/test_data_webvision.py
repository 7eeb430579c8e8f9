"""The published layouts of WebVision and of ImageNet's validation images, in tiny generated copies."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast.data import read, read_inputs
from holdfast.data.images import Pictures
from holdfast.data.webvision import SYNSETS, TEST, TEST_IMAGES, TRAIN, is_webvision, read_imagenet
from holdfast.data.webvision import read as read_webvision
from holdfast.errors import HoldfastError

# Not in the order of the alphabet, so that numbers of the two sources differ.
ORDER = ["n00000003", "n00000001", "n00000004", "n00000002"]
TRAINED = [("google/q0001/a.jpg", 0), ("google/q0002/b.jpg", 2), ("google/q0001/c.jpg", 1), ("google/q0009/d.jpg", 3)]
TESTED = [("val000001.jpg", 3), ("val000002.jpg", 0), ("val000003.jpg", 2), ("val000004.jpg", 1)]


def paint(path: Path, label: int, size: tuple[int, int] = (24, 16)) -> None:
    """An image whose red tells its class, with edges on the left and right that a crop must take away."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    pixels[:, 2:-2, 0] = 50 * (label + 1)
    Image.fromarray(pixels).save(path, format="PNG")


def listed(images: list[tuple[str, int]]) -> str:
    return "".join(f"{name} {label}\n" for name, label in images)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "webvision"
    (root / "info").mkdir(parents=True)
    (root / SYNSETS).write_text("".join(f"{synset} some fish, Latin name\n" for synset in ORDER))
    (root / TRAIN).write_text(listed(TRAINED))
    (root / TEST).write_text(listed(TESTED))
    for name, label in TRAINED:
        paint(root / name, label)
    for name, label in TESTED:
        paint(root / TEST_IMAGES / name, label)
    return root


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    for label, synset in enumerate(ORDER):
        for i in range(2):
            paint(tmp_path / "val" / synset / f"ILSVRC2012_val_{2 * label + i:08d}.JPEG", label, (16, 24))
    return tmp_path / "val"


def red(rows) -> list[int]:
    """The class that each image was painted with."""
    return [round(float(rows.x[i][0].float().median()) / 50) - 1 for i in range(len(rows))]


def test_the_first_classes_with_their_labels_and_files(folder: Path) -> None:
    train, test = read_webvision(folder, classes=3, image_size=8)
    assert train.classes == test.classes == tuple(ORDER[:3])
    assert train.names == ("google/q0001/a.jpg", "google/q0002/b.jpg", "google/q0001/c.jpg")
    assert test.names == ("val000002.jpg", "val000003.jpg", "val000004.jpg")
    assert train.y.tolist() == red(train) == [0, 2, 1]
    assert test.y.tolist() == red(test) == [0, 2, 1]
    assert len(read_webvision(folder, classes=4)[0]) == 4


def test_images_are_decoded_when_asked_for(folder: Path) -> None:
    train, _ = read_webvision(folder, classes=3)
    assert isinstance(train.x, Pictures)
    assert train.shape == (3, 64, 64)
    paint(folder / TRAINED[0][0], 4)
    assert red(train)[0] == 4
    (folder / TRAINED[0][0]).write_bytes(b"no image")
    with pytest.raises(HoldfastError, match=r"a\.jpg is no image of a known format; mend it or pass --skip-broken"):
        train.x[0]


def test_images_are_cropped_and_not_stretched(folder: Path) -> None:
    x = read_webvision(folder, classes=3, image_size=16)[0].x[0]
    assert x.shape == (3, 16, 16)
    assert x.dtype == torch.uint8
    assert x[0].unique().tolist() == [50]
    wide = read_webvision(folder, classes=3, image_size=(16, 24))[0].x[0]
    assert wide[0, :, 0].unique().tolist() == [0]
    with pytest.raises(HoldfastError, match="positive side"):
        read_webvision(folder, classes=3, image_size=0)


def test_one_door_reads_fifty_classes(folder: Path) -> None:
    assert is_webvision(folder)
    with pytest.raises(HoldfastError, match=r"synsets\.txt lists 4 classes; take 2 to 4, not 50"):
        read(folder)
    (folder / SYNSETS).write_text("".join(f"n{k:08d} thing\n" for k in range(60)))
    (folder / TRAIN).write_text(listed([*TRAINED, ("google/q0100/e.jpg", 50), ("google/q0100/f.jpg", 49)]))
    paint(folder / "google/q0100/f.jpg", 1)
    train, test = read(folder, image_size=8)
    assert test is not None
    assert len(train.classes or ()) == 50
    assert train.y.tolist() == [0, 2, 1, 3, 49]
    x, names = read_inputs(folder, train.recipe)
    assert names == test.names == tuple(name for name, _ in TESTED)
    assert torch.equal(x[2], test.x[2])
    with pytest.raises(HoldfastError, match="classes, not numbers"):
        read(folder, task="regression")


def test_a_recipe_keeps_size_and_classes(folder: Path) -> None:
    train, _ = read_webvision(folder, classes=2, image_size=8)
    again, _ = read(folder, recipe=train.recipe)
    assert again.names == train.names
    assert again.shape == (3, 8, 8)


def test_it_trains_from_files(folder: Path) -> None:
    from holdfast import fit
    from holdfast.methods import Crust

    train, test = read_webvision(folder, classes=3, image_size=8)
    run = fit(train, Crust(warmup=0), "cnn4", test=test, epochs=1, batch_size=3)
    assert np.isfinite(run.history["loss"].iloc[-1])


def test_missing_and_broken_images_are_told_or_left_out(folder: Path) -> None:
    (folder / TRAINED[1][0]).unlink()
    with pytest.raises(HoldfastError, match=r"lacks 1 of the 3 images that .*google\.txt names \(google/q0002/b\.jpg"):
        read_webvision(folder, classes=3)
    broken = folder / TRAINED[0][0]
    broken.write_bytes(broken.read_bytes()[:60])
    train, test = read_webvision(folder, classes=3, skip_broken=True)
    assert train.names == ("google/q0001/c.jpg",)
    assert train.y.tolist() == [1]
    assert len(test) == 3
    shutil.rmtree(folder / TEST_IMAGES)
    with pytest.raises(HoldfastError, match="val_images_256 holds none of the 3 images"):
        read_webvision(folder, classes=3, skip_broken=True)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        (TRAIN, "google/q0001/a.jpg 0\n\ngoogle/q0001/c.jpg\n", "google.txt line 3 is no path and class number"),
        (TRAIN, "google/q0001/a.jpg one\n", "line 1 is no path and class number"),
        (TRAIN, "google/q0001/a.jpg -1\n", "line 1 is no path and class number"),
        (TRAIN, "google/q0001/a.jpg 4\n", "line 1 names class 4, but there are 4 synsets, from 0 on"),
        (TRAIN, "google/q0001/a.jpg 3\n", "google.txt names no image of the 3 classes"),
        (TEST, "", "val_filelist.txt names no image"),
        (SYNSETS, "n00000001 a\ntench\n", "line 2 does not begin with a synset such as n01440764: 'tench'"),
        (SYNSETS, "n00000001 a\nn00000001 b\n", "line 2 lists n00000001 a second time"),
        (SYNSETS, None, "synsets.txt cannot be read: No such file"),
        (TEST, None, "val_filelist.txt cannot be read: No such file"),
    ],
)
def test_damaged_lists_are_named(folder: Path, file: str, text: str | None, words: str) -> None:
    (folder / file).unlink() if text is None else (folder / file).write_text(text)
    with pytest.raises(HoldfastError, match=words):
        read_webvision(folder, classes=3)


def test_imagenet_in_folders_of_synsets(folder: Path, imagenet: Path) -> None:
    train, _ = read_webvision(folder, classes=3, image_size=8)
    test = read_imagenet(imagenet, folder / SYNSETS, train.recipe)
    assert test.classes == train.classes
    assert test.shape == train.shape
    assert test.y.tolist() == red(test) == [0, 0, 1, 1, 2, 2]
    assert test.names is not None
    assert test.names[2] == "n00000001/ILSVRC2012_val_00000002.JPEG"
    shutil.rmtree(imagenet / ORDER[1])
    with pytest.raises(HoldfastError, match=r"val has no folder n00000001 and no list val\.txt; sort the images"):
        read_imagenet(imagenet, folder / SYNSETS, train.recipe)


NUMBERS = "".join(f"ILSVRC2012_val_{i:08d}.JPEG {sorted(ORDER).index(ORDER[i // 2])}\n" for i in (7, 4, 0, 2))
NAMES = "".join(f"ILSVRC2012_val_{i:08d}.JPEG {ORDER[i // 2]}\n" for i in (7, 4, 0, 2))
KAGGLE = "ImageId,PredictionString\n" + "".join(
    f"ILSVRC2012_val_{i:08d},{ORDER[i // 2]} 85 1 499 272 {ORDER[i // 2]} 1 2 3 4\n" for i in (7, 4, 0, 2)
)


@pytest.mark.parametrize("text", [NUMBERS, NAMES, KAGGLE])
@pytest.mark.parametrize("named", [True, False])
def test_imagenet_side_by_side_with_a_list(folder: Path, imagenet: Path, text: str, named: bool) -> None:
    flat = folder.parent / "flat"
    flat.mkdir()
    for path in imagenet.glob("*/*"):
        path.rename(flat / path.name)
    labels = folder.parent / "solution.csv" if named else flat / "val.txt"
    labels.write_text(text)
    train, _ = read_webvision(folder, classes=3, image_size=8)
    test = read_imagenet(flat, folder / SYNSETS, train.recipe, labels=labels if named else None)
    assert test.y.tolist() == red(test) == [2, 0, 1]
    assert test.names == tuple(f"ILSVRC2012_val_{i:08d}.JPEG" for i in (4, 0, 2))
    (flat / "ILSVRC2012_val_00000000.JPEG").unlink()
    with pytest.raises(HoldfastError, match=r"flat lacks 1 of the 3 images .*val_00000000\.JPEG"):
        read_imagenet(flat, folder / SYNSETS, train.recipe, labels=labels)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # The list of numbers alone that comes with the images counts in an order of its own.
        ("490\n361\n", "line 1 is no file name and class: '490'"),
        (",\n", "line 1 is no file name and class"),
        ("a.JPEG tench\n", "line 1 is no file name and class"),
        ("a.JPEG 4\n", "line 1 names class 4, but there are 4 synsets"),
        ("a.JPEG n09999999\n", r"val\.txt names no image of the 3 classes"),
    ],
)
def test_damaged_imagenet_lists_are_named(folder: Path, imagenet: Path, text: str, words: str) -> None:
    (imagenet / "val.txt").write_text(text)
    train, _ = read_webvision(folder, classes=3)
    with pytest.raises(HoldfastError, match=words):
        read_imagenet(imagenet, folder / SYNSETS, train.recipe)

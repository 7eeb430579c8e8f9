import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast.data import read, read_inputs
from holdfast.errors import HoldfastError

X = np.random.default_rng(0).integers(0, 256, (6, 5, 4), dtype=np.uint8)
Y = np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8)


def npz(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


def jpegs(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    blobs = []
    for image in images:
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "JPEG", quality=95)
        blobs.append(buffer.getvalue())
    offsets = np.cumsum([0, *map(len, blobs)])
    return np.frombuffer(b"".join(blobs), np.uint8), offsets


def test_training_and_test_rows_with_truth(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", x_train=X, y_train=Y, x_test=X[:2], y_test=Y[1:3], y_true=Y[::-1])
    train, test = read(path)
    assert train.x.shape == (6, 1, 5, 4)
    assert train.x.dtype == torch.uint8
    assert np.array_equal(train.x[:, 0], X)
    assert train.y.tolist() == Y.tolist()
    assert train.truth.tolist() == Y[::-1].tolist()
    assert train.classes == test.classes == ("0", "1", "2")
    assert test.y.tolist() == [1, 2]
    assert np.array_equal(test.x[:, 0], X[:2])


@pytest.mark.parametrize(
    ("x", "shape", "dtype"),
    [
        (np.zeros((6, 8, 9, 3), np.uint8), (6, 3, 8, 9), torch.uint8),
        (np.zeros((6, 3, 8, 9), np.uint8), (6, 3, 8, 9), torch.uint8),
        (np.zeros((6, 7)), (6, 7), torch.float32),
        (np.zeros((6, 7), np.int32), (6, 7), torch.float32),
        (np.zeros((6, 7, 2)), (6, 7, 2), torch.float32),
    ],
)
def test_inputs_keep_their_layout_save_for_channels_last(tmp_path: Path, x, shape, dtype) -> None:
    rows, test = read(npz(tmp_path / "a.npz", x=x, y=Y))
    assert test is None
    assert (tuple(rows.x.shape), rows.x.dtype) == (shape, dtype)


def test_channels_last_pixels_move_with_their_channel(tmp_path: Path) -> None:
    x = np.random.default_rng(1).integers(0, 256, (6, 8, 9, 3), dtype=np.uint8)
    rows, _ = read(npz(tmp_path / "a.npz", x_train=x, y_train=Y))
    assert int(rows.x[4, 2, 5, 6]) == x[4, 5, 6, 2]


@pytest.mark.parametrize(
    ("y", "task", "classes", "expected"),
    [
        (np.array([5, 7, 7, 5, 11, 5]), None, ("5", "7", "11"), [0, 1, 1, 0, 2, 0]),
        (np.array(list("bcabca")), None, ("a", "b", "c"), [1, 2, 0, 1, 2, 0]),
        (np.array([b"b", b"a"] * 3), None, ("a", "b"), [1, 0] * 3),
        (np.array([0.0, 1.0] * 3), None, ("0", "1"), [0, 1] * 3),
        (Y[:, None], None, ("0", "1", "2"), Y.tolist()),
        (np.linspace(0, 1, 6), None, None, np.linspace(0, 1, 6, dtype=np.float32)[:, None].tolist()),
        (np.ones((6, 2)), None, None, np.ones((6, 2)).tolist()),
        (Y, "regression", None, Y[:, None].tolist()),
    ],
)
def test_labels_of_every_kind(tmp_path: Path, y, task, classes, expected) -> None:
    rows, _ = read(npz(tmp_path / "a.npz", x_train=X, y_train=y), task=task)
    assert rows.classes == classes
    assert rows.y.tolist() == expected


def test_a_hundred_whole_numbers_are_still_classes(tmp_path: Path) -> None:
    rows, _ = read(npz(tmp_path / "a.npz", x_train=np.zeros((100, 2)), y_train=np.arange(100)))
    assert len(rows.classes) == 100


def test_class_names_and_recipe_through_json(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", x_train=X, y_train=Y, class_names=np.array(["owl", "cat", "dog"]))
    rows, _ = read(path)
    assert rows.classes == ("owl", "cat", "dog")
    assert rows.y.tolist() == Y.tolist()
    recipe = json.loads(json.dumps(rows.recipe))
    turned = npz(tmp_path / "b.npz", x_train=X, y_train=2 - Y, class_names=np.array(["dog", "cat", "owl"]))
    assert read(turned, recipe=recipe)[0].y.tolist() == Y.tolist()
    bare, _ = read(npz(tmp_path / "c.npz", x=X[:2], y=np.array([2, 2])), recipe=recipe)
    assert bare.y.tolist() == [2, 2]
    assert bare.classes == rows.classes
    x, names = read_inputs(npz(tmp_path / "d.npz", x=X[3:]), recipe)
    assert torch.equal(x, rows.x[3:])
    assert names is None


def test_inputs_to_predict_come_from_the_test_set_first(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", x_train=X, y_train=Y, x_test=X[:2], y_test=Y[:2])
    rows, test = read(path)
    assert torch.equal(read_inputs(path, rows.recipe)[0], test.x)


def test_jpeg_bytes_end_to_end(tmp_path: Path) -> None:
    images = np.repeat(np.linspace(0, 255, 6).astype(np.uint8), 16 * 16 * 3).reshape(6, 16, 16, 3)
    (data, offsets), (few, some) = jpegs(images), jpegs(images[:2])
    path = npz(
        tmp_path / "a.npz",
        jpeg_train=data,
        offsets_train=offsets,
        y_train=Y,
        jpeg_test=few,
        offsets_test=some,
        y_test=Y[:2],
    )
    train, test = read(path)
    assert train.x.shape == (6, 3, 16, 16)
    assert np.abs(train.x.numpy().astype(int) - images.transpose(0, 3, 1, 2)).max() <= 2
    assert test.x.shape == (2, 3, 16, 16)
    assert read(path, image_size=8)[0].x.shape == (6, 3, 8, 8)

    broken = data.copy()
    broken[offsets[1] : offsets[2]] = 0
    path = npz(tmp_path / "b.npz", jpeg_train=broken, offsets_train=offsets, y_train=Y, y_true=Y)
    with pytest.raises(HoldfastError, match=r"image 1 of jpeg_train is no image"):
        read(path)
    rows, _ = read(path, skip_broken=True)
    assert rows.y.tolist() == rows.truth.tolist() == [0, 2, 0, 1, 2]
    assert rows.names[:2] == ("row 0", "row 2")
    for bad in (offsets[::-1], offsets + 1):
        with pytest.raises(HoldfastError, match="offsets_train does not rise"):
            read(npz(tmp_path / "c.npz", jpeg_train=data, offsets_train=bad, y_train=Y))
    with pytest.raises(HoldfastError, match="but no offsets_train"):
        read(npz(tmp_path / "d.npz", jpeg_train=data, y_train=Y))


def test_missing_labels_are_an_error_or_dropped(tmp_path: Path) -> None:
    y = np.array([0.0, np.nan, 1, 0, np.nan, 1])
    path = npz(tmp_path / "a.npz", x_train=X, y_train=y, y_true=Y)
    with pytest.raises(HoldfastError, match=r"y_train has 2 missing values \(rows 1, 4\); .*--missing drop"):
        read(path)
    rows, _ = read(path, missing_labels="drop")
    assert np.array_equal(rows.x[:, 0], X[[0, 2, 3, 5]])
    assert rows.truth.tolist() == [0, 2, 0, 2]
    assert rows.names == ("row 0", "row 2", "row 3", "row 5")
    path = npz(tmp_path / "b.npz", x_train=X, y_train=Y, y_true=y)
    with pytest.raises(HoldfastError, match="y_true has missing values; leave it out"):
        read(path, missing_labels="drop")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": X}, "holds a; needed are x_train, y_train"),
        ({"x_train": X}, "no y_train"),
        ({"x_train": X, "y_train": Y[:3]}, "6 inputs but 3 labels"),
        ({"x_train": X, "y_train": Y, "y_true": Y[:3]}, "3 true labels in y_true beside 6"),
        ({"x_train": X, "y_train": Y, "y_true": np.full(6, np.nan)}, "y_true has 6 missing values"),
        ({"x_train": X, "y_train": np.full(6, np.nan)}, "y_train has 6 missing values"),
        ({"x_train": X, "y_train": np.zeros((6, 2), int)}, r"shape \(6, 2\); classes need one number"),
        ({"x_train": X, "y_train": np.zeros((6, 2, 2))}, r"shape \(6, 2, 2\); labels are"),
        ({"x_train": Y, "y_train": Y}, r"uint8 of shape \(6,\); inputs are numbers"),
        ({"x_train": np.array(["a"] * 6)[:, None], "y_train": Y}, "inputs are numbers"),
        ({"x_train": np.full((6, 2), np.nan), "y_train": Y}, "hold NaN or infinite features"),
        ({"x_train": np.full((6, 2), 1e300), "y_train": Y}, "hold NaN or infinite features"),
        (
            {"x_train": X, "y_train": Y, "class_names": np.array(["a", "b"])},
            r"'2' \(rows 2, 5\), .* 2 classes",
        ),
        ({"x_train": X, "y_train": Y, "class_names": np.array(["a", "b", "a"])}, "share the name 'a'"),
        ({"x_train": X, "y_train": np.array([{}] * 6)}, "arrays of Python objects"),
    ],
)
def test_arrays_that_do_not_fit_are_named(tmp_path: Path, arrays, message: str) -> None:
    with pytest.raises(HoldfastError, match=message):
        read(npz(tmp_path / "a.npz", **arrays))


def test_no_label_at_all_is_an_error_even_when_dropping(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="no value in any row"):
        read(npz(tmp_path / "a.npz", x_train=X, y_train=np.full(6, np.nan)), missing_labels="drop")


def test_inputs_of_another_shape_than_the_recipe(tmp_path: Path) -> None:
    rows, _ = read(npz(tmp_path / "a.npz", x_train=X, y_train=Y))
    with pytest.raises(HoldfastError, match=r"shape \[1, 4, 5\] per row, but .* bytes of shape \[1, 5, 4\]"):
        read_inputs(npz(tmp_path / "b.npz", x=X.transpose(0, 2, 1)), rows.recipe)
    with pytest.raises(HoldfastError, match="holds numbers of shape"):
        read_inputs(npz(tmp_path / "c.npz", x=X[:, None] / 255), rows.recipe)
    flat, _ = read(npz(tmp_path / "d.npz", x=np.zeros((6, 3)), y=Y))
    with pytest.raises(HoldfastError, match="NaN or infinite features"):
        read_inputs(npz(tmp_path / "e.npz", x=np.full((2, 3), np.nan)), flat.recipe)
    data, offsets = jpegs(np.zeros((2, 8, 8), np.uint8))
    with pytest.raises(HoldfastError, match="fitted on something else"):
        read_inputs(npz(tmp_path / "f.npz", jpeg_test=data, offsets_test=offsets), flat.recipe)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    whole = npz(tmp_path / "a.npz", x_train=X, y_train=Y).read_bytes()
    flipped = bytearray(whole)
    flipped[200] ^= 255
    np.save(tmp_path / "single.npy", X)
    damaged = {
        "empty.npz": b"",
        "cut.npz": whole[: len(whole) // 2],
        "flipped.npz": bytes(flipped),
        "text.npz": b"not an archive",
        "single.npz": (tmp_path / "single.npy").read_bytes(),
    }
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(HoldfastError, match=f"{name} is "):
            read(tmp_path / name)


@pytest.mark.skipif(not os.environ.get("HOLDFAST_DATA"), reason="HOLDFAST_DATA names no folder of public data")
def test_mnist_as_npz() -> None:
    train, test = read(Path(os.environ["HOLDFAST_DATA"]) / "mnist.npz")
    assert train.x.shape == (60000, 1, 28, 28)
    assert len(test) == 10000
    assert len(train.classes) == 10

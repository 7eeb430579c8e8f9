import gzip
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.data import read, read_inputs
from holdfast.errors import HoldfastError

X = np.random.default_rng(0).integers(0, 256, (6, 4, 3), dtype=np.uint8)
Y = np.array([0, 1, 9, 0, 1, 9], dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def fill(folder: Path, joint: str = "-", packed: bool = False, test: bool = True) -> Path:
    pack, end = (gzip.compress, ".gz") if packed else (bytes, "")
    for split, n in (("train", 6), ("t10k", 2))[: 2 if test else 1]:
        (folder / f"{split}-images{joint}idx3-ubyte{end}").write_bytes(pack(idx(X[:n])))
        (folder / f"{split}-labels{joint}idx1-ubyte{end}").write_bytes(pack(idx(Y[:n])))
    return folder


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("joint", ["-", "."])
def test_idx_files_under_their_usual_names(tmp_path: Path, joint: str, packed: bool) -> None:
    train, test = read(fill(tmp_path, joint, packed))
    assert np.array_equal(train.x[:, 0], X)
    assert train.x.dtype == torch.uint8
    assert train.classes == ("0", "1", "9")
    assert train.y.tolist() == [0, 1, 2, 0, 1, 2]
    assert np.array_equal(test.x[:, 0], X[:2])
    assert test.y.tolist() == [0, 1]


def test_without_a_test_set(tmp_path: Path) -> None:
    train, test = read(fill(tmp_path, test=False))
    assert test is None
    assert torch.equal(read_inputs(tmp_path, train.recipe)[0], train.x)


def test_recipe_through_json(tmp_path: Path) -> None:
    train, test = read(fill(tmp_path))
    recipe = json.loads(json.dumps(train.recipe))
    again, _ = read(tmp_path, recipe=recipe)
    assert torch.equal(again.x, train.x)
    assert torch.equal(again.y, train.y)
    assert torch.equal(read_inputs(tmp_path, recipe)[0], test.x)
    with pytest.raises(HoldfastError, match=r"shape \[1, 4, 3\] per row"):
        read(tmp_path, recipe={**recipe, "size": [9, 9]})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("train-images-idx3-ubyte", lambda b: b[:-1], "cut short or damaged: 71 bytes .* tells of 72"),
        ("train-images-idx3-ubyte", lambda b: b[:10], "cut short: 10 bytes"),
        ("train-images-idx3-ubyte", lambda b: b"", "cut short: 0 bytes"),
        ("train-images-idx3-ubyte", lambda b: b"\x00\x00\x0d\x03" + b[4:], "no idx file of bytes in 3"),
        ("train-images-idx3-ubyte", lambda b: b[:4] + b"\xff" * 12 + b[16:], "cut short or damaged"),
        ("t10k-labels-idx1-ubyte", lambda b: idx(Y[:5]), "holds 5 labels beside 2 images"),
        ("t10k-labels-idx1-ubyte", None, "lacks t10k-labels-idx1-ubyte"),
        ("train-images-idx3-ubyte", None, "lacks train-images-idx3-ubyte"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, change, message: str) -> None:
    path = fill(tmp_path) / name
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    with pytest.raises(HoldfastError, match=message) as caught:
        read(tmp_path)
    assert name in str(caught.value)


def test_cut_gzip_is_named(tmp_path: Path) -> None:
    path = fill(tmp_path, packed=True) / "train-images-idx3-ubyte.gz"
    for content in (path.read_bytes()[:40], b"plain bytes"):
        path.write_bytes(content)
        with pytest.raises(HoldfastError, match=r"train-images-idx3-ubyte\.gz is cut short or damaged"):
            read(tmp_path)

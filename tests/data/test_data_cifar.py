import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.data import read, read_inputs
from holdfast.errors import HoldfastError

NAMES = ["airplane", "automobile", "bird"]


def word(text: str) -> bytes:
    """A string as Python 2 pickled it."""
    return b"U" + bytes([len(text)]) + text.encode()


def batch(x: np.ndarray, labels: list[int], key: str = "labels") -> bytes:
    """A batch byte by byte as Python 2 and an old numpy pickled it, which is how it is published."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + word("b") + b"\x87R"
        b"(K\x01K" + bytes([len(x)]) + b"M\x00\x0c\x86cnumpy\ndtype\n" + word("u1") + b"K\x00K\x01\x87R"
        b"(K\x03" + word("|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        b"T" + struct.pack("<I", x.size) + x.tobytes() + b"tb"
    )
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    files = b"](" + b"".join(word(f"{label}_s_{i}.png") for i, label in enumerate(labels)) + b"e"
    return b"\x80\x02}(" + word("data") + array + word(key) + listed + word("filenames") + files + b"u."


def pixels(seed: int, n: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 3072), dtype=np.uint8)


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    for i in range(1, 6):
        (tmp_path / f"data_batch_{i}").write_bytes(batch(pixels(i), [2, 0, 1]))
    (tmp_path / "test_batch").write_bytes(batch(pixels(9, 2), [1, 1]))
    (tmp_path / "batches.meta").write_bytes(pickle.dumps({b"label_names": [n.encode() for n in NAMES]}, 2))
    return tmp_path


def test_cifar_10(ten: Path) -> None:
    train, test = read(ten)
    assert train.x.shape == (15, 3, 32, 32)
    assert train.x.dtype == torch.uint8
    assert np.array_equal(train.x[3:6].reshape(3, -1), pixels(2))
    assert train.classes == tuple(NAMES)
    assert train.y.tolist() == [2, 0, 1] * 5
    assert train.names[:2] == ("2_s_0.png", "0_s_1.png")
    assert np.array_equal(test.x.reshape(2, -1), pixels(9, 2))
    assert test.y.tolist() == [1, 1]


def test_cifar_100(tmp_path: Path) -> None:
    (tmp_path / "train").write_bytes(batch(pixels(1), [0, 1, 2], "fine_labels"))
    (tmp_path / "test").write_bytes(batch(pixels(2), [2, 2, 2], "fine_labels"))
    (tmp_path / "meta").write_bytes(pickle.dumps({"fine_label_names": NAMES, "coarse_label_names": ["x"]}, 2))
    train, test = read(tmp_path)
    assert train.classes == tuple(NAMES)
    assert train.y.tolist() == [0, 1, 2]
    assert test.y.tolist() == [2, 2, 2]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_batches_pickled_anew(ten: Path, protocol: int) -> None:
    contents = {b"data": pixels(1), b"labels": [np.int64(2), 0, 1]}
    (ten / "data_batch_1").write_bytes(pickle.dumps(contents, protocol))
    (ten / "batches.meta").unlink()
    (ten / "test_batch").unlink()
    train, test = read(ten)
    assert test is None
    assert np.array_equal(train.x[:3].reshape(3, -1), pixels(1))
    assert train.y[:3].tolist() == [2, 0, 1]
    assert train.classes == ("0", "1", "2")
    assert train.names is None


def test_recipe_through_json(ten: Path) -> None:
    train, test = read(ten)
    recipe = json.loads(json.dumps(train.recipe))
    again, _ = read(ten, recipe=recipe)
    assert torch.equal(again.x, train.x)
    assert torch.equal(again.y, train.y)
    x, names = read_inputs(ten, recipe)
    assert torch.equal(x, test.x)
    assert names == test.names
    (ten / "test_batch").unlink()
    assert len(read_inputs(ten, recipe)[0]) == 15
    with pytest.raises(HoldfastError, match=r"shape \[3, 32, 32\] per row"):
        read(ten, recipe={**recipe, "channels": 1})


class Malice:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


def test_code_in_a_batch_is_refused_and_not_run(ten: Path) -> None:
    mark = ten / "mark"
    evil = pickle.dumps({b"data": Malice(mark), b"labels": []}, 2)
    (ten / "data_batch_3").write_bytes(evil)
    with pytest.raises(HoldfastError, match=r"data_batch_3 is a pickle that asks for \w+\.system.* not run"):
        read(ten)
    assert not mark.exists()
    pickle.loads(evil)
    assert mark.exists()


@pytest.mark.parametrize(
    "evil",
    [
        b"cbuiltins\neval\n(V1\ntR.",
        b"cnumpy\nload\n(Vx\ntR.",
        b"\x80\x04\x8c\x05numpy\x8c\x0fndarray.tobytes\x93.",
        b"c_codecs\nencode\n(Vx\nVzlib\ntR.",
        b"c__builtin__\ngetattr\n.",
    ],
)
def test_other_calls_are_refused_too(ten: Path, evil: bytes) -> None:
    (ten / "data_batch_3").write_bytes(evil)
    with pytest.raises(HoldfastError, match=r"data_batch_3 (is a pickle that asks for|asks for the encoding)"):
        read(ten)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data_batch_2", b"", "is empty, cut short or damaged"),
        ("data_batch_2", batch(pixels(1), [0, 1, 2])[:5000], "is empty, cut short or damaged"),
        ("data_batch_2", b"random bytes", "is empty, cut short or damaged"),
        ("data_batch_2", pickle.dumps([1], 2), "holds a list, not a CIFAR batch"),
        ("data_batch_2", pickle.dumps({b"labels": [1]}, 2), "holds no 'data' of 3072 bytes"),
        ("data_batch_2", batch(pixels(1), [0]), "one label for each of its 3 images"),
        ("batches.meta", pickle.dumps({}, 2), "holds no list of class names"),
        ("data_batch_4", None, "lacks data_batch_4; fetch"),
    ],
)
def test_damaged_batches_are_named(ten: Path, name: str, content: bytes | None, message: str) -> None:
    if content is None:
        (ten / name).unlink()
    else:
        (ten / name).write_bytes(content)
    with pytest.raises(HoldfastError, match=message) as caught:
        read(ten)
    assert name in str(caught.value)

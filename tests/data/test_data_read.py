import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import holdfast
from holdfast.data import read, read_inputs
from holdfast.errors import HoldfastError

X = np.arange(8, dtype=np.float32).reshape(4, 2)
Y = np.array([0, 1, 0, 1])


def table(path: Path) -> Path:
    path.write_text("a,y\n1,p\n2,q\n3,p\n")
    return path


def npz(path: Path) -> Path:
    np.savez(path, x_train=X, y_train=Y)
    return path


def test_public_names() -> None:
    assert all(hasattr(holdfast.data, name) for name in holdfast.data.__all__)
    assert holdfast.read is read
    assert holdfast.Rows is holdfast.data.Rows


def test_paths_may_be_strings(tmp_path: Path) -> None:
    assert len(read(str(table(tmp_path / "a.csv")), label="y")[0]) == 3


@pytest.mark.parametrize("name", ["a.docx", "a", "train-images-idx3-ubyte"])
def test_unknown_kinds_list_what_is_understood(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(HoldfastError, match=r"understood are tables \(\.csv.*npz.*images.*MNIST.*CIFAR"):
        read(tmp_path / name)


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("gone.csv", "gone"):
        with pytest.raises(HoldfastError, match=f"{name} does not exist"):
            read(tmp_path / name)
        with pytest.raises(HoldfastError, match=f"{name} does not exist"):
            read_inputs(tmp_path / name, {"kind": "table"})
    file = table(tmp_path / "a.csv")
    with pytest.raises(HoldfastError, match="cannot be read: Not a directory"):
        read(file / "b.csv")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user whom file modes bind")
def test_forbidden_paths(tmp_path: Path) -> None:
    file = table(tmp_path / "a.csv")
    file.chmod(0)
    with pytest.raises(HoldfastError, match="Permission denied"):
        read(file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "ranking"}, "task is one of None, 'classification', 'regression', not 'ranking'"),
        ({"missing_labels": "keep"}, "missing_labels is one of 'error', 'drop', not 'keep'"),
        ({"label": "y"}, "has no columns, so none is named 'y'"),
        ({"truth": "t"}, "has no columns, so none is named 't'"),
        ({"image_size": 8}, "arrays, which keep their size"),
        ({"recipe": {"kind": "table"}}, "fitted on rows of kind 'table'"),
        ({"recipe": {}}, "not one that a reading"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options, message: str) -> None:
    with pytest.raises(HoldfastError, match=message):
        read(npz(tmp_path / "a.npz"), **options)


def test_tables_and_folders_refuse_what_they_cannot_heed(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="no image files to resize"):
        read(table(tmp_path / "a.csv"), label="y", image_size=8)
    with pytest.raises(HoldfastError, match="fitted on rows of kind 'image'"):
        read_inputs(tmp_path / "a.csv", {"kind": "image"})
    with pytest.raises(HoldfastError, match="holds classes, not numbers"):
        read(tmp_path, task="regression")
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(HoldfastError, match="a single image; pass the folder"):
        read(tmp_path / "a.png")


class Malice:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("name", ["a.pkl", "a.pickle", "a.pt", "A.PTH"])
def test_pickles_are_refused_and_not_run(tmp_path: Path, name: str) -> None:
    path, mark = tmp_path / name, tmp_path / "mark"
    path.write_bytes(pickle.dumps(Malice(mark)))
    with pytest.raises(HoldfastError, match=r"is a pickle.*save the arrays as npz.*--trust-pickle"):
        read(path)
    with pytest.raises(HoldfastError, match="is a pickle"):
        read_inputs(path, {"kind": "array"})
    assert not mark.exists()


def test_trusted_pickles(tmp_path: Path) -> None:
    contents = {
        "pair.pkl": (X, Y),
        "named.pickle": {"x_train": X, "y_train": Y, "x_test": X[:1], "y_test": Y[:1]},
        "tensors.pt": (torch.from_numpy(X), torch.from_numpy(Y)),
    }
    for name, value in contents.items():
        path = tmp_path / name
        if name.endswith(".pt"):
            torch.save(value, path)
        else:
            path.write_bytes(pickle.dumps(value))
        train, test = read(path, trust_pickle=True)
        assert np.array_equal(train.x, X)
        assert train.y.tolist() == Y.tolist()
        assert (test is not None) == (name == "named.pickle")
        assert len(read_inputs(path, train.recipe, trust_pickle=True)[0]) in (1, 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty, cut short or damaged"),
        (pickle.dumps((X, Y))[:50], "is empty, cut short or damaged"),
        (pickle.dumps(3), "holds a int; needed is"),
        (pickle.dumps({"a": X}), "holds a; needed are x_train"),
    ],
)
def test_trusted_pickles_may_be_damaged(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.pkl").write_bytes(content)
    with pytest.raises(HoldfastError, match=message):
        read(tmp_path / "a.pkl", trust_pickle=True)

"""What people hold in Python: every kind becomes the rows that a file of the same would."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from PIL import Image
from scipy import sparse
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from holdfast import HoldfastError, Method, Rows, Run, compare, fit, read
from holdfast.data.held import Columns, held_inputs, take

BY = Columns("income")


@pytest.fixture(scope="module")
def frame():
    """Numbers with gaps, categories with gaps, text, dates and a key."""
    rng = np.random.default_rng(0)
    n = 160
    income = rng.choice(["low", "high"], n)
    age = np.where(income == "high", 50, 30) + rng.normal(0, 5, n)
    age[::17] = np.nan
    words = {"low": "rent bus night shift work", "high": "golf yacht board meeting trip"}
    note = [" ".join(rng.permutation(words[k].split())) + f" day {i % 9}" for i, k in enumerate(income)]
    town = rng.choice(["A", "B", "C"], n).astype(object)
    town[::23] = None
    key = [f"k{i:04}" for i in range(n)]
    return pd.DataFrame({"key": key, "age": age, "town": town, "note": note, "income": income})


@pytest.fixture(scope="module")
def path(frame, tmp_path_factory):
    file = tmp_path_factory.mktemp("held") / "people.csv"
    frame.to_csv(file, index=False)
    return file


def same(one, other):
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.y, other.y)
    assert (one.classes, one.names, one.recipe) == (other.classes, other.names, other.recipe)


def of_polars(frame):
    return pytest.importorskip("polars").from_pandas(frame)


def of_hugging_face(frame):
    return pytest.importorskip("datasets").Dataset.from_pandas(frame)


@pytest.mark.parametrize(
    "made",
    [
        lambda frame: frame,
        lambda frame: frame.to_dict("list"),
        pa.Table.from_pandas,
        of_polars,
        lambda frame: of_polars(frame).lazy(),
        of_hugging_face,
        lambda frame: DataLoader(of_hugging_face(frame), batch_size=7),
    ],
    ids=["pandas", "dict", "arrow", "polars", "polars lazy", "hugging face", "loader of hugging face"],
)
def test_tables_in_memory_become_what_a_file_becomes(frame, path, made):
    expected = take(str(path), 0.25, BY, net="mlp")
    found = take(made(frame), 0.25, BY, net="mlp")
    same(found.rows, expected.rows)
    same(found.test, expected.test)


def test_a_table_and_its_labels_apart(frame, path):
    expected = take(path, None, BY, net="mlp").rows
    inputs, labels = frame.drop(columns="income"), frame["income"]
    same(take((inputs, labels), net="mlp").rows, expected)
    unnamed = take((inputs, labels.to_numpy()), net="mlp").rows
    assert torch.equal(unnamed.x, expected.x)
    assert unnamed.recipe["label"] == "label"
    # A column that has the name already stays an input.
    other = take((frame, labels), net="mlp").rows
    assert other.recipe["label"] == "income_given"
    assert any(spec["name"] == "income" for spec in other.recipe["columns"])


def test_further_rows_are_encoded_as_the_training_rows(frame, path):
    train, test = frame[:120], frame[120:]
    by_frame = take(train, test, BY, net="mlp")
    by_pair = take(
        (train.drop(columns="income"), train["income"]), (test.drop(columns="income"), test["income"]), net="mlp"
    )
    same(by_frame.test, by_pair.test)
    same(by_frame.test, take(train, (test.drop(columns="income"), test["income"].to_numpy()), BY, net="mlp").test)
    numbers = held_inputs(test.drop(columns="income"), by_frame.rows.recipe)
    assert torch.equal(numbers, by_frame.test.x)
    everything = take(train, path, BY, net="mlp").test
    assert torch.equal(everything.x[120:], by_frame.test.x)
    with pytest.raises(HoldfastError, match="lacks the column 'age'"):
        held_inputs(test.drop(columns="age"), by_frame.rows.recipe)
    with pytest.raises(HoldfastError, match="pass the test rows as a table too"):
        take(train, (np.zeros((3, 2)), ["low"] * 3), BY, net="mlp")


def test_an_index_of_its_own_names_the_rows(frame):
    lettered = frame.drop(columns="key").set_axis([f"p{i}" for i in range(len(frame))])
    assert take(lettered, None, BY, net="mlp").rows.names[:2] == ("p0", "p1")
    shuffled = frame.drop(columns="key").sample(frac=1.0, random_state=0)
    assert take(shuffled, None, BY, net="mlp").rows.names[0] == str(shuffled.index[0])
    assert take(frame.drop(columns="key"), None, BY, net="mlp").rows.names is None


def test_fit_predict_and_issues_from_a_frame(frame, tmp_path):
    run = fit(frame, "prl-l", "mlp", label="income", test=0.25, epochs=6, out=tmp_path / "run")
    assert run.config.method["name"] == "PRLL"
    assert run.score > 0.9
    assert (run.predict(frame.drop(columns="income")) == frame["income"]).mean() > 0.9
    assert set(run.issues()["name"]) <= set(frame["key"])
    issues = run.issues().set_index("row")
    assert (issues["given"] == frame["income"][issues.index]).all()
    again = Run.load(tmp_path / "run")
    assert (again.predict(frame) == run.predict(frame)).all()


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Bright and dark pictures in files, and a table that names them."""
    folder, rng = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
    lines = []
    for k in range(60):
        pixels = np.clip(rng.normal(60 + 130 * (k % 2), 20, (8, 8, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{k}.png")
        lines.append((str(folder / f"{k}.png"), ("dark", "light")[k % 2]))
    return pd.DataFrame(lines, columns=["file", "kind"])


def test_a_frame_that_names_pictures(photographs, tmp_path):
    run = fit(photographs[:40], "standard", "mlp", label="kind", test=photographs[40:], epochs=60)
    assert run.config.recipe["kind"] == "image"
    assert run.score == 1
    assert (run.predict(photographs[["file"]]) == photographs["kind"]).all()
    photographs.to_csv(tmp_path / "list.csv", index=False)
    expected = take(tmp_path / "list.csv", None, Columns("kind"), net="mlp").rows
    assert torch.equal(take(photographs, None, Columns("kind"), net="mlp").rows.x, expected.x)


def test_datasets_of_hugging_face_with_pictures_and_numbered_classes(photographs):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "kind": datasets.ClassLabel(names=["light", "dark"])})
    held = datasets.Dataset.from_dict(
        {"image": photographs["file"].tolist(), "kind": photographs["kind"].tolist()}, features=features
    )
    run = fit(held, "standard", "mlp", label="kind", test=0.25, epochs=60)
    assert run.classes == ("dark", "light")
    assert (run.predict(held) == photographs["kind"]).all()
    with pytest.raises(HoldfastError, match=r"a DatasetDict has parts \('train', 'test'\); pass one to train on"):
        fit(datasets.DatasetDict({"train": held, "test": held}), "standard", "mlp", label="kind")
    with pytest.raises(HoldfastError, match="IterableDataset of Hugging Face has no table"):
        fit(held.to_iterable_dataset(), "standard", "mlp", label="kind")


def test_targets_of_a_frame_are_predicted_in_their_units():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    table = pd.DataFrame(x, columns=list("abc")).assign(price=50_000 + 8_000 * x @ [1.0, -2.0, 0.5])
    run = fit(table, Method(), "mlp", label="price", test=table[:50], epochs=40, batch_size=16)
    assert np.abs(run.predict(table)[:, 0] - table["price"]).mean() < 3_000
    assert run.score > 0.9


def test_texts_alone_are_a_table_of_one_column():
    words = {"ham": "meet lunch office plan notes", "spam": "prize money click winner offer"}
    labels = ["ham", "spam"] * 60
    texts = [f"{words[k]} number {i}" for i, k in enumerate(labels)]
    run = fit((texts, labels), Method(), "mlp", epochs=8)
    assert run.predict(["lunch at the office, see notes", "click for money and a prize"]).tolist() == ["ham", "spam"]


def test_sparse_inputs_are_written_out(blobs):
    held = sparse.csr_matrix(blobs.x.numpy())
    rows = take((held, blobs.y)).rows
    assert torch.equal(rows.x, blobs.x)
    run = fit((held, blobs.y), Method(), "mlp", epochs=1)
    assert (run.predict(held) == run.predict(blobs.x)).all()
    with pytest.raises(HoldfastError, match=r"takes 400 GB .* TruncatedSVD"):
        take((sparse.csr_matrix((1_000_000, 100_000)), np.zeros(1_000_000)))


class Pairs(Dataset):
    """Items as a function of the number makes them."""

    def __init__(self, make, size=60):
        self.make, self.size = make, size

    def __len__(self):
        return self.size

    def __getitem__(self, row):
        return self.make(row)


@pytest.mark.parametrize(
    "made",
    [
        lambda x, y: TensorDataset(x, y),
        lambda x, y: Subset(TensorDataset(x, y), range(len(y))),
        lambda x, y: Pairs(lambda i: (x[i], int(y[i])), len(y)),
        lambda x, y: Pairs(lambda i: (x[i].double().numpy(), y[i]), len(y)),
        lambda x, y: Pairs(lambda i: {"x": x[i], "income": int(y[i])}, len(y)),
        lambda x, y: DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True),
        lambda x, y: [x, y],
    ],
    ids=["tensors", "subset", "pairs", "doubles", "dicts", "loader", "list"],
)
def test_datasets_become_what_a_pair_becomes(blobs, made):
    x, y = blobs.x, blobs.y
    data = made(x, y)
    label = "income" if isinstance(data, Dataset) and isinstance(data[0], dict) else None
    size = 40 if isinstance(data, DataLoader) else None
    expected = fit((x, y), Method(), "mlp", test=(x, y), epochs=2, batch_size=size)
    run = fit(data, "standard", "mlp", test=data, epochs=2, label=label)
    assert run.config.batch_size == expected.config.batch_size
    assert run.history["test"].tolist() == expected.history["test"].tolist()
    if label is None and not isinstance(data, list):
        assert (run.predict(data) == expected.predict(x)).all()


def test_a_loader_says_what_of_it_is_ignored(blobs):
    pairs = TensorDataset(blobs.x, blobs.y)
    with pytest.warns(UserWarning, match="its batch size are taken; ignored: collate_fn, drop_last"):
        found = take(DataLoader(pairs, batch_size=500, drop_last=True, collate_fn=list))
    assert found.batch_size == len(pairs)
    take(DataLoader(pairs, batch_size=8, shuffle=True))


def test_what_read_returns(path, blobs):
    run = fit(read(path, label="income"), Method(), "mlp", epochs=1)
    assert "test" not in run.history
    run = fit((blobs, blobs.take(torch.arange(30))), Method(), "mlp", epochs=1)
    assert "test_true" in run.history


def test_a_path_trains_as_the_command_does(path, tmp_path):
    run = fit(path, Method(), "mlp", label="income", test=0.2, epochs=1, out=tmp_path / "run")
    assert len(run.issues()) == 160
    again = Run.load(tmp_path / "run")
    assert again.judged_rows().fingerprint == run.judged_rows().fingerprint
    run = fit(str(path), Method(), "mlp", label="income", test=str(path), epochs=1)
    assert (run.predict(path) == run.predict(pd.read_csv(path))).all()


def test_methods_are_compared_by_name_on_a_frame(frame):
    summary = compare(frame, ["standard", "prl-l"], "mlp", label="income", test=0.25, seeds=1, epochs=1)
    assert summary.index.tolist() == ["standard", "prl-l"]
    with pytest.raises(HoldfastError, match="needs test rows"):
        compare(frame, ["standard"], "mlp", label="income")
    with pytest.raises(HoldfastError, match="did you mean prl-l"):
        compare(frame, ["prl-ll"], "mlp", label="income", test=0.25)


class Endless(IterableDataset):
    def __iter__(self):
        return iter(())


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ({"age": [1, 2], "income": ["a", "b"]}, {}, "name the column of the labels .* one of 'age', 'income'"),
        ({"age": [1, 2], "income": ["a", "b"]}, {"label": "incme"}, "did you mean 'income'"),
        (np.zeros((4, 2)), {}, "training rows are a path, a table .* this is a ndarray"),
        ((1, 2, 3), {}, "this is a tuple of 3"),
        ((np.zeros((4, 2)), [0, 1, 0, 1]), {"label": "y"}, "no table with columns, so 'y' means nothing"),
        (({"a": torch.zeros(4, 3), "b": torch.zeros(4, 2)}, [0, 1, 0, 1]), {}, r"dict of arrays .* \(a, b\)"),
        (Endless(), {}, "Endless can only be gone through"),
        (TensorDataset(*[torch.zeros(4)] * 3), {}, "TensorDataset of 3 tensors"),
        (Pairs(lambda i: torch.zeros(3)), {}, "an item of the dataset is of the type Tensor; training rows are pairs"),
        (Pairs(lambda i: ({"ids": 1, "mask": 2}, 0)), {}, r"are dicts \(ids, mask\); .* one tensor a row"),
        (Pairs(lambda i: {"ids": 1, "mask": 2, "y": 0}), {"label": "y"}, r"dicts with 2 inputs \(ids, mask\)"),
        (Pairs(lambda i: {"x": 1, "y": 0}), {}, r"name the label \(label=...\), one of x, y"),
        (Pairs(lambda i: ("text", 0)), {}, "are of the type str; give it a transform"),
        (Pairs(lambda i: (0, 0), 0), {}, "the dataset holds no rows"),
    ],
)
def test_mistakes_are_sentences(data, options, words):
    with pytest.raises(HoldfastError, match=words):
        fit(data, Method(), "mlp", epochs=1, **options)


def test_inputs_of_another_shape_are_named(blobs):
    run = fit(blobs, "standard", "mlp", epochs=1)
    with pytest.raises(HoldfastError, match=r"shape \(5,\), but the run was trained on \(2,\)"):
        run.predict(np.zeros((3, 5)))
    assert (run.predict(Rows(blobs.x, blobs.y, blobs.classes)) == run.predict(pd.DataFrame(blobs.x.numpy()))).all()

"""Libraries of boosted trees: what each of them predicts is what its trees predict as tensors."""

import numpy as np
import pytest
import torch

from holdfast import Rows, fit
from holdfast.errors import HoldfastError
from holdfast.functional.boosting import BOOSTING, USUAL, scikit_learn
from holdfast.functional.trees import opinions_of, trees_of_folds
from holdfast.methods import SecondOpinion
from holdfast.nets import WithTrees
from holdfast.nets.trees import as_tensors

LIBRARIES = [pytest.param(name, id=name) for name in BOOSTING]


def library(name):
    pytest.importorskip(BOOSTING[name].module)
    return BOOSTING[name]


def table(classes, rows=600):
    source = np.random.default_rng(classes)
    x = source.normal(size=(rows, 5)).astype("float32")
    x[:, 3] = x[:, 3].round(1)  # values that come often, on which thresholds fall
    y = (np.abs(x[:, 0]) * 2 + (x[:, 1] > 0.3) * x[:, 3] * classes / 2).clip(0, classes - 1).astype("int64")
    return torch.from_numpy(x), torch.from_numpy(y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", LIBRARIES)
def test_classes_as_tensors(name, classes):
    x, y = table(classes)
    fold = torch.arange(600) % 2
    y[fold == 0] = y[fold == 0].clamp_max(classes - 1)
    trained = trees_of_folds(x, y, fold, classes + 1, library=library(name))
    for each in trained:
        expected = each.expected(x.numpy())
        torch.testing.assert_close(as_tensors(each)(x).softmax(1), expected, atol=1e-5, rtol=0)
        assert (expected[:, classes] == 0).all()  # a class that no row has
    opinions = opinions_of(trained, x, fold)
    assert (opinions.argmax(1) == y).float().mean() > 0.85


@pytest.mark.parametrize("name", LIBRARIES)
def test_few_rows_of_a_class_and_a_class_between_that_is_missing(name):
    x, y = table(2)
    y = 2 * y
    y[:5] = 1  # too few to withhold a tenth of them
    y[y == 1] = 3
    (each, _) = trees_of_folds(x, y, torch.arange(600) % 2, 4, library=library(name))
    expected = each.expected(x.numpy())
    assert (expected[:, 1] == 0).all()
    torch.testing.assert_close(expected.sum(1), torch.ones(600), atol=1e-5, rtol=0)
    torch.testing.assert_close(as_tensors(each)(x).softmax(1), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", LIBRARIES)
def test_numbers_as_tensors_and_wrong_ones_hardly_pull(name):
    x, _ = table(2)
    right = torch.stack([x[:, 0] ** 2 + 100, 3 + x[:, 1]], 1)
    y = right.clone()
    y[::10] += 1000
    each = trees_of_folds(x, y, torch.arange(600) % 2, 2, library=library(name))[0]
    expected = each.expected(x.numpy())
    torch.testing.assert_close(as_tensors(each)(x), expected, atol=1e-3, rtol=1e-5)
    assert (expected - right).abs().median() < 0.3


@pytest.mark.parametrize("name", LIBRARIES)
def test_inputs_that_lie_on_a_threshold_go_where_they_went(name):
    low = np.float32(0.1)
    values = np.array([low, np.nextafter(low, np.float32(1))])
    x = torch.from_numpy(np.tile(np.repeat(values, 60), 2)[:, None])
    y = (x[:, 0] > float(low)).long()
    each = trees_of_folds(x, y, torch.arange(240) // 120, 2, library=library(name))[0]
    torch.testing.assert_close(as_tensors(each)(x).softmax(1), each.expected(x.numpy()), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", [name for name in LIBRARIES if name.values[0] != USUAL])
def test_a_run_asks_those_that_are_named(name, tmp_path):
    library(name)
    x, y = table(2, 400)
    y = torch.where(torch.rand(400, generator=torch.Generator().manual_seed(0)) < 0.1, 1 - y, y)
    rows, how = Rows(x, y, ("a", "b")), {"epochs": 2, "device": "cpu", "net": "mlp"}
    run = fit(rows, SecondOpinion(trees=name), out=tmp_path / "run", **how)
    usual = fit(rows, SecondOpinion(), **how)
    assert isinstance(run.net, WithTrees)
    assert not torch.equal(run.outputs(x), usual.outputs(x))
    again = fit(rows, SecondOpinion(trees=name), out=tmp_path / "run", resume=True, **how)
    assert torch.equal(again.outputs(x), run.outputs(x))
    assert run.config.call == f"SecondOpinion(trees='{name}')"


def test_named_trees_are_asked_of_many_features_too(monkeypatch):
    x, y = table(2, 200)
    wide = torch.cat([x, torch.full((200, 300), 0.5)], 1)
    how = {"epochs": 1, "device": "cpu", "net": "mlp"}
    rows = Rows(wide, y, ("a", "b"))
    assert not isinstance(fit(rows, SecondOpinion(), **how).net, WithTrees)
    assert isinstance(fit(rows, SecondOpinion(trees=USUAL), **how).net, WithTrees)


def test_what_cannot_be_asked_is_one_sentence(monkeypatch):
    with pytest.raises(HoldfastError, match="trees is one of scikit-learn, lightgbm, xgboost, catboost, not 'forest'"):
        SecondOpinion(trees="forest")
    pictures = Rows(torch.zeros(40, 3, 8, 8), torch.arange(40) % 2, ("a", "b"))
    with pytest.raises(HoldfastError, match=r"boosted trees \(scikit-learn\) learn from features in memory"):
        fit(pictures, SecondOpinion(trees=USUAL), "cnn4", epochs=1, device="cpu")
    monkeypatch.setattr(type(BOOSTING["lightgbm"]), "module", "no_such_module")
    x, y = table(2, 60)
    with pytest.raises(HoldfastError, match="pip install lightgbm"):
        fit(Rows(x, y, ("a", "b")), SecondOpinion(trees="lightgbm"), "mlp", epochs=1)


def test_categories_are_refused_where_they_would_be_read_as_numbers():
    x, y = table(2, 100)
    with pytest.raises(HoldfastError, match="gets categories as numbers"):
        trees_of_folds(x, y, torch.arange(100) % 2, 2, np.array([True] + [False] * 4), BOOSTING["lightgbm"])


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("classes", [2, 3, 0])
def test_doubles_of_a_large_table_lie_in_a_file_and_give_the_same_trees(monkeypatch, classes, stops):
    source, written = np.random.default_rng(classes), []
    x = source.normal(size=(2_000, 6)).astype("float32")
    x[source.random(x.shape) < 0.02] = np.nan
    value = np.nan_to_num(x[:, 0]) * 2 + source.normal(size=len(x))
    y = np.digitize(value, [-1, 1][: classes - 1]) if classes else value
    rows = np.flatnonzero(source.random(len(x)) < 0.8)
    train = BOOSTING[USUAL].classes if classes else BOOSTING[USUAL].numbers
    here = train(x, rows, y[rows], stops, None, 1)
    doubles = scikit_learn._doubles
    monkeypatch.setattr(scikit_learn, "LARGE", 1)
    monkeypatch.setattr(scikit_learn, "_doubles", lambda path, *rest: written.append(path) or doubles(path, *rest))
    there = train(x, rows, y[rows], stops, None, 1)
    predicted = [each.predict_proba(x) if classes else each.predict(x) for each in (here, there)]
    assert predicted[0].tobytes() == predicted[1].tobytes()
    assert here.n_iter_ == there.n_iter_
    assert (here.n_iter_ < 50) == stops
    assert len(written) == 1 + stops
    assert not any(path.exists() for path in written)

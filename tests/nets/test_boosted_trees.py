"""Boosted trees as tensors: what scikit-learn predicts, and what a file holds of them."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from torch import nn

from holdfast.errors import HoldfastError
from holdfast.files import read_tensors, write_tensors
from holdfast.functional.trees import TrainedTrees, trees_of_folds
from holdfast.nets import trees as module
from holdfast.nets.trees import (
    ClassTrees,
    NumberTrees,
    WithTrees,
    as_tensors,
    as_they_were,
    network_weights,
    trees_among,
    without_trees,
)


def table(classes, rows=600, gaps=True):
    source = np.random.default_rng(classes)
    x = source.normal(size=(rows, 5)).astype("float32")
    x[:, 3] = x[:, 3].round(1)  # values that come often, on which thresholds fall
    y = (np.abs(x[:, 0]) * 2 + (x[:, 1] > 0.3) * x[:, 3] * classes / 2).clip(0, classes - 1).astype("int64")
    y[:classes] = np.arange(classes)
    if gaps:
        x[source.random(x.shape) < 0.2] = np.nan
    return x, y


@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize("gaps", [False, True])
def test_classes_are_those_of_scikit_learn(classes, gaps):
    x, y = table(classes, gaps=gaps)
    model = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=15).fit(x[:400], y[:400])
    trained = TrainedTrees((model,), torch.from_numpy(model.classes_), classes)
    x[500:] *= 40  # beyond all that was seen
    ours = as_tensors(trained)(torch.from_numpy(x)).softmax(1)
    torch.testing.assert_close(ours, torch.from_numpy(model.predict_proba(x)).float(), atol=1e-6, rtol=0)
    torch.testing.assert_close(trained.expected(x), ours, atol=1e-6, rtol=0)


def test_numbers_are_those_of_scikit_learn():
    x, _ = table(2)
    y = np.stack([np.nan_to_num(x[:, 0]) ** 2, 3 + np.nan_to_num(x[:, 1] * x[:, 2])], 1)
    makers = (HistGradientBoostingRegressor(loss="absolute_error", max_iter=rounds) for rounds in (20, 35))
    models = tuple(model.fit(x, y[:, k]) for k, model in enumerate(makers))
    ours = as_tensors(TrainedTrees(models, torch.arange(2), 2))(torch.from_numpy(x))
    expected = np.stack([model.predict(x) for model in models], 1)
    torch.testing.assert_close(ours, torch.from_numpy(expected).float(), atol=1e-5, rtol=1e-6)


def test_inputs_that_lie_on_a_threshold_go_where_they_went():
    """A threshold of double precision between two neighbours of single precision parts them."""
    low = np.float32(0.1)
    x = np.repeat([low, np.nextafter(low, np.float32(1))], 30)[:, None]
    model = HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=5).fit(x, np.repeat([0, 1], 30))
    ours = as_tensors(TrainedTrees((model,), torch.arange(2), 2))(torch.from_numpy(x)).softmax(1)
    torch.testing.assert_close(ours, torch.from_numpy(model.predict_proba(x)).float(), atol=1e-6, rtol=0)
    assert ours[0, 0] > ours[-1, 0]


def test_classes_that_were_never_seen():
    x, y = table(2)
    inputs = torch.from_numpy(x)
    two = HistGradientBoostingClassifier(max_iter=5).fit(x, y)
    among_four = as_tensors(TrainedTrees((two,), torch.tensor([1, 3]), 4))(inputs).softmax(1)
    torch.testing.assert_close(among_four[:, [1, 3]], torch.from_numpy(two.predict_proba(x)).float(), atol=1e-6, rtol=0)
    assert among_four[:, [0, 2]].max() < 1e-6
    lone = as_tensors(TrainedTrees((), torch.tensor([1]), 3))(inputs).softmax(1)
    assert (lone.argmax(1) == 1).all()
    assert lone.min(0).values[1] > 0.999


def test_what_does_not_fit_at_once_is_the_same_in_parts(monkeypatch):
    x, y = table(3)
    trees = as_tensors(trees_of_folds(torch.from_numpy(x), torch.from_numpy(y), torch.arange(600) % 2, 3)[0])
    whole = trees(torch.from_numpy(x))
    monkeypatch.setattr(module, "AT_ONCE", 700)
    assert torch.equal(trees(torch.from_numpy(x)), whole)


def joined(share=0.75, gaps=False):
    x, y = table(3, gaps=gaps)
    trained = trees_of_folds(torch.from_numpy(x), torch.from_numpy(y), torch.arange(600) % 4, 3)
    trees = ClassTrees([as_tensors(each) for each in trained], torch.tensor(share), torch.eye(3))
    return WithTrees(nn.Linear(5, 3), trees), torch.from_numpy(x), trained


def test_a_network_that_trees_have_joined_expects_the_mean_of_both():
    both, x, trained = joined()
    alone = torch.stack([each.expected(x.numpy()) for each in trained]).mean(0)
    mean = 0.25 * both.net(x).softmax(1) + 0.75 * alone
    torch.testing.assert_close(both(x).softmax(1), mean, atol=1e-3, rtol=0)  # no class has less than the least
    numbers = NumberTrees(list(both.trees.members), torch.tensor(0.5))
    torch.testing.assert_close(
        numbers.join(both.net(x), numbers(x)),
        (both.net(x) + torch.stack([each(x) for each in both.trees.members]).mean(0)) / 2,
    )
    assert without_trees(both) is both.net
    assert without_trees(both.net) is both.net


def test_the_noise_is_taken_out():
    both, x, _ = joined()
    says = torch.tensor([[0.8, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    expected = both.trees(x)
    both.trees.correction.copy_(torch.linalg.inv(says))
    assert (both.trees(x)[:, 0] > expected[:, 0])[(expected[:, 0] > 0.2) & (expected[:, 1] > 0.3)].all()
    torch.testing.assert_close(both.trees(x).sum(1), torch.ones(len(x)))


@pytest.mark.parametrize("numbers", [False, True])
def test_a_file_tells_how_many_trees_there_are(tmp_path, numbers):
    both, x, _ = joined()
    if numbers:
        both = WithTrees(both.net, NumberTrees(list(both.trees.members), torch.tensor(0.5)))
    write_tensors(tmp_path / "model.safetensors", dict(both.state_dict()))
    weights, _ = read_tensors(tmp_path / "model.safetensors")
    again = as_they_were(nn.Linear(5, 3), weights)
    assert type(again.trees) is type(both.trees)
    assert torch.equal(again(x), both(x))
    assert set(network_weights(weights)) == {"weight", "bias"}
    assert torch.equal(network_weights(weights)["weight"], both.net.weight)


def test_trees_that_cannot_be_read_are_named():
    class Other:
        """A boosting of a version that keeps its trees elsewhere."""

    with pytest.raises(HoldfastError, match=r"scikit-learn [\d.]+ keeps boosted trees in a way"):
        as_tensors(TrainedTrees((Other(),), torch.arange(2), 2))
    x = np.arange(60)[:, None] % 6
    by_category = HistGradientBoostingClassifier(categorical_features=[0], max_iter=3).fit(x, x[:, 0] % 2)
    with pytest.raises(HoldfastError, match="split by categories"):
        as_tensors(TrainedTrees((by_category,), torch.arange(2), 2))


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        ("branches", lambda part: part + 10_000),
        ("column", lambda part: part - 5),
        ("feature", lambda part: part.float()),
        ("threshold", lambda part: part[:, :-1]),
        ("value", None),
        ("code", None),
        ("place", lambda part: part + 10_000),
        ("place", lambda part: part.float()),
        ("code", lambda part: part[:-1]),
    ],
)
def test_trees_of_a_damaged_file_are_refused(name, damaged):
    """A run folder may be anybody's."""
    state = {**saved_trees()}
    key = f"trees.members.0.{name}"
    state.pop(key) if damaged is None else state.update({key: damaged(state[key])})
    with pytest.raises(HoldfastError, match="damaged"):
        trees_among(state)


def test_trees_that_lead_round_in_a_circle_end():
    state = {**saved_trees()}
    state["trees.members.0.branches"] = state["trees.members.0.branches"].flip(2).roll(1, 1)
    trees = trees_among(state)
    assert trees is not None
    assert trees(torch.randn(8, 6)).shape == (8, 2)


def saved_trees():
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    x = torch.cat([x, torch.eye(3)[torch.arange(200) % 3]], 1)
    trained = trees_of_folds(x, (x[:, 0] > 0).long(), torch.arange(200) % 4, 2)
    trees = ClassTrees([as_tensors(each) for each in trained], torch.tensor(0.5), torch.eye(2))
    return trees.state_dict(prefix="trees.")

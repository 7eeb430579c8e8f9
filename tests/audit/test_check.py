"""The check as a whole: labels, columns, classes, rows; as a function, a command and a page."""

import numpy as np
import pandas as pd
import pytest
import torch
from planted import table, texts
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.metrics import f1_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import holdfast
from holdfast import HoldfastError
from holdfast.audit.columns import share_told
from holdfast.audit.learners import Linear
from holdfast.cli import app

KINDS = [
    "label", "leaking column", "identifier column", "constant column", "empty column", "rare class", "empty row",
    "duplicate", "near duplicate", "conflicting duplicate", "outlier",
]  # fmt: skip


def flipped(labels, rate, seed=5):
    return np.random.default_rng(seed).random(len(labels)) < rate


@pytest.fixture(scope="module")
def noisy():
    """A table with a fifth of its labels flipped, and which they are."""
    frame = table(2000)
    wrong = flipped(frame["label"], 0.2)
    other = np.where(frame["label"] == "good", "bad", "good")
    return frame.assign(label=np.where(wrong, other, frame["label"])), wrong, frame["label"].to_numpy()


@pytest.fixture(scope="module")
def checked(noisy):
    return holdfast.check(noisy[0], label="label")


def test_wrong_labels_of_a_table_are_found(checked, noisy):
    frame, wrong, truth = noisy
    lines = checked.issues[checked.issues["kind"] == "label"].sort_values("row")
    assert lines["row"].tolist() == list(range(len(frame)))
    assert lines["given"].tolist() == frame["label"].tolist()
    flag = lines["flag"].to_numpy()
    assert f1_score(wrong, flag) > 0.8
    hit = flag & wrong
    assert (lines["suggested"].to_numpy()[hit] == truth[hit]).all()
    assert (lines["suggested"].to_numpy()[~flag] == lines["given"].to_numpy()[~flag]).all()
    rate, low, high = checked.judged.noise.rate
    assert low <= 0.2 <= high
    assert abs(rate - 0.2) < 0.06


@pytest.mark.slow
def test_the_model_is_chosen_by_held_out_labels_and_named(checked):
    losses = {name: found.loss for name, found in checked.judged.opinions.held_out.items()}
    assert set(losses) == {"boosted trees", "a linear model", "a small network"}
    assert checked.judged.opinions.chosen == min(losses, key=losses.get)
    assert f"judged by {checked.judged.opinions.chosen}" in checked.findings[0].sentence
    # Where nothing but the sign of a product counts, a line is of no use and trees are.
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.uniform(-1, 1, size=(1500, 2)), columns=["a", "b"])
    crossed = holdfast.check(frame.assign(label=frame["a"] * frame["b"] > 0), label="label")
    assert crossed.judged.opinions.held_out["a linear model"].loss > 0.6
    assert crossed.judged.opinions.held_out["boosted trees"].loss < 0.3


def test_every_kind_is_reported(checked):
    assert checked.summary["kind"].tolist() == KINDS
    assert checked.issues.columns.tolist() == [
        "row", "name", "column", "kind", "score", "flag", "given", "suggested", "why",
    ]  # fmt: skip
    assert checked.issues["score"].between(0, 1).all()
    with pytest.raises(HoldfastError, match="no kind of issue is called 'labels'; there are label, leaking column"):
        checked.rows("labels")


@pytest.mark.parametrize("kind", ["texts", "vectors"])
def test_wrong_labels_of_texts_and_vectors(kind):
    if kind == "texts":
        lines, y = texts(1200)
        wrong = flipped(y, 0.2)
        frame = pd.DataFrame({"text": lines, "label": np.where(wrong, 1 - y, y)})
        check = holdfast.check(frame, label="label", encoder=None)
        assert check.judged.opinions.chosen != "boosted trees"
    else:
        draw = np.random.default_rng(1)
        y = draw.integers(0, 3, 900)
        x = draw.normal(size=(900, 20)) + 3.5 * np.eye(20)[y]
        wrong = flipped(y, 0.2)
        check = holdfast.check((x, np.where(wrong, (y + 1) % 3, y)))
    assert f1_score(wrong, np.isin(np.arange(len(y)), check.rows("label"))) > 0.85


@pytest.mark.slow
def test_wrong_numbers_are_found_in_the_units_of_the_file():
    draw = np.random.default_rng(2)
    frame = pd.DataFrame(draw.normal(size=(1200, 3)), columns=list("abc"))
    frame["price"] = 1000 + 200 * frame["a"] - 100 * frame["b"] + draw.normal(0, 10, 1200)
    wrong = flipped(frame, 0.08)
    true = frame["price"].to_numpy().copy()
    frame.loc[wrong, "price"] = draw.uniform(2500, 4000, wrong.sum())
    check = holdfast.check(frame, label="price")
    found = check.rows("label")
    assert f1_score(wrong, np.isin(np.arange(1200), found)) > 0.95
    lines = check.issues[check.issues["kind"] == "label"].set_index("row")
    assert abs(float(lines.loc[found[0], "suggested"]) - true[found[0]]) < 100


def test_columns_that_repeat_each_other_are_no_trouble():
    """Neither a warning, which would be an error here, nor a wrong answer."""
    a = 100 * np.random.default_rng(3).normal(size=2000).astype("float32")
    model = Linear(None)
    for _ in range(Linear.steps):
        model.advance(np.stack([a, a], 1), a[:, None])
    np.testing.assert_allclose(model.expected(np.stack([a, a], 1))[:, 0], a, atol=0.5)


def test_columns_that_deserve_a_second_look():
    frame = table(400)
    frame["paid"] = np.where(frame["label"] == "good", "in full", "never")
    frame["code"] = [f"c{k:05d}" for k in np.random.default_rng(0).permutation(400)]
    frame["number"] = 7 * np.random.default_rng(1).permutation(400)
    frame["country"] = "here"
    frame["note"] = [None] * 380 + ["seen"] * 20
    check = holdfast.check(frame, label="label")
    named = check.issues[check.issues["column"] != ""].groupby("kind")["column"].apply(list).to_dict()
    assert named == {
        "leaking column": ["paid"],
        "identifier column": ["code", "number"],
        "constant column": ["country"],
        "empty column": ["note"],
    }
    assert check.issues.loc[check.issues["column"] != "", "row"].isna().all()


def test_a_column_that_says_much_but_not_all_is_no_leak():
    draw = np.random.default_rng(0)
    y = draw.integers(0, 2, 4000)
    assert share_told(pd.Series(np.where(draw.random(4000) < 0.1, 1 - y, y)), y, True) == pytest.approx(0.8, abs=0.04)
    assert share_told(pd.Series(draw.normal(size=4000)), y, True) < 0.1
    assert share_told(pd.Series(draw.permutation(4000)), y, True) < 0.1
    x = draw.uniform(0, 1, 4000)
    assert share_told(pd.Series(x), 3 * x, False) > 0.99


def test_rare_classes_and_labels_that_nobody_can_judge():
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(303, 4)), np.array([0, 1] * 150 + [2] * 3)
    check = holdfast.check((x + 4 * y[:, None], y))
    line = check.issues[check.issues["kind"] == "rare class"].iloc[0]
    assert (line["given"], line["why"]) == ("2", "3 of 303 rows; an even share would be 101")
    assert not set(check.rows("label")) & {300, 301, 302}
    assert "10 rows" not in check.findings[0].sentence
    twenty = np.array([0] * 400 + [1] * 20)
    assert holdfast.check((draw.normal(size=(420, 4)), twenty)).issues["kind"].eq("rare class").sum() == 1
    few = holdfast.check((x[:6], y[:6]))
    assert few.findings[0].sentence == "6 rows are too few to hold some out and judge labels by the others"
    assert few.issues["kind"].unique().tolist() == ["rare class"]


def test_empty_rows():
    frame = table(100)
    frame.loc[[7, 31], [name for name in frame.columns if name != "label"]] = None
    assert sorted(holdfast.check(frame, label="label").rows("empty row")) == [7, 31]
    x = torch.rand(60, 1, 8, 8)
    x[5] = 0.25
    assert holdfast.check((x, np.arange(60) % 2)).rows("empty row") == [5]


def test_texts_that_share_no_word_with_others():
    lines, y = texts(300)
    lines[12] = "qwzx plugh xyzzy frotz"
    frame = pd.DataFrame({"text": lines, "label": y})
    assert holdfast.check(frame, label="label", encoder=None).rows("outlier") == [12]


def test_a_file_and_a_frame_give_the_same(noisy, checked, tmp_path):
    noisy[0].to_csv(tmp_path / "train.csv", index=False)
    again = holdfast.check(tmp_path / "train.csv", label="label")
    pd.testing.assert_frame_equal(again.issues, checked.issues)


def test_the_command_writes_a_table_and_a_page(tmp_path):
    frame = table(300)
    frame["town"] = frame["town"].replace("north", "<script>alert(1)</script>")
    frame["label"] = frame["label"].replace("good", "<script>good</script>")
    frame = pd.concat([frame, frame.iloc[:4]])
    frame.to_csv(tmp_path / "train.csv", index=False)
    asked = ["check", str(tmp_path / "train.csv"), "--label", "label", "--out", str(tmp_path / "out"), "--quiet"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "wrong labels, estimated:" in said
    assert "duplicate" in said
    assert "none found: leaking column" in said
    assert f"next: holdfast fit {tmp_path}/train.csv --label label --out run/" in said
    lines = pd.read_csv(tmp_path / "out" / "issues.csv")
    assert lines.loc[lines["kind"] == "duplicate", "row"].tolist() == [300, 301, 302, 303]
    page = (tmp_path / "out" / "check.html").read_text()
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["check.html", "issues.csv"]


def test_mistakes_are_one_sentence(tmp_path):
    table(50).to_csv(tmp_path / "train.csv", index=False)
    with pytest.raises(HoldfastError, match="pass --label with the column of the labels"):
        holdfast.check(tmp_path / "train.csv")
    with pytest.raises(HoldfastError, match=r"has no column 'labels' .did you mean 'label'"):
        holdfast.check(table(50), label="labels")
    gap = table(50)
    gap.loc[3, "label"] = None
    with pytest.raises(HoldfastError, match=r"1 missing value .row 3.; drop them"):
        holdfast.check(gap, label="label")
    assert len(holdfast.check(gap, label="label", missing_labels="drop").subject) == 49


@pytest.mark.slow
def test_a_model_of_ones_own_joins_the_choice(noisy):
    frame = noisy[0].head(300)
    found = holdfast.check(frame, label="label", model=RandomForestClassifier(20, min_samples_leaf=10, random_state=0))
    losses = {name: each.loss for name, each in found.judged.opinions.held_out.items()}
    assert set(losses) == {"boosted trees", "a linear model", "a small network", "RandomForestClassifier"}
    assert found.judged.opinions.chosen == min(losses, key=losses.get)
    # Trained on other rows alone: one that remembers every label that it has seen is no better for it.
    memory = holdfast.check(frame, label="label", model=make_pipeline(SimpleImputer(), KNeighborsClassifier(1)))
    assert memory.judged.opinions.chosen != "Pipeline"
    assert memory.judged.opinions.held_out["Pipeline"].loss > 1
    with pytest.raises(HoldfastError, match="KNeighborsClassifier cannot be trained on this data: Input X"):
        holdfast.check(frame, label="label", model=KNeighborsClassifier(1))


def test_a_model_of_ones_own_for_numbers_and_rare_classes():
    x = np.random.default_rng(0).normal(size=(100, 4))
    found = holdfast.check((x, 3 * x[:, 0] + x[:, 1] ** 2), model=RandomForestRegressor(5, random_state=0))
    assert "RandomForestRegressor" in found.judged.opinions.held_out
    y = np.where(x[:, 0] > 0, "a", "b").astype(object)
    y[7] = "c"
    rare = holdfast.check((x, y), model=RandomForestClassifier(5, random_state=0))
    assert rare.judged.opinions.held_out["RandomForestClassifier"].expected.shape == (100, 3)


def test_the_command_takes_a_model_by_name(tmp_path):
    table(200).to_csv(tmp_path / "train.csv", index=False)
    args = ["check", str(tmp_path / "train.csv"), "--label", "label", "--out", str(tmp_path / "out"), "--quiet"]
    done = CliRunner().invoke(app, [*args, "--model", "sklearn.tree:DecisionTreeClassifier"])
    assert done.exit_code == 0, done.output
    assert "DecisionTreeClassifier" in (tmp_path / "out" / "check.html").read_text()
    for named, message in [
        ("lightgbm", "written module.path:Name, not 'lightgbm'"),
        ("sklearn.ensemble:Trees", "Trees does not exist in"),
        ("no_such_package:Model", "cannot import no_such_package"),
        ("sklearn.svm:LinearSVC", "has no fit and predict_proba"),
        ("collections:OrderedDict", "must be a model of scikit-learn's kind"),
    ]:
        failed = CliRunner().invoke(app, [*args, "--model", named])
        assert isinstance(failed.exception, HoldfastError), failed.output
        assert message in str(failed.exception)

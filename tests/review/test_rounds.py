"""Fit, review, export and fit again, three times: by commands, with reviewers that know the truth."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest
import torch
import torch.distributed as dist
from typer.testing import CliRunner

from holdfast import Run
from holdfast.cli.commands import app
from holdfast.review.order import telling
from holdfast.review.store import REVIEWS, Answer, Store

ROUNDS, ANSWERS = 3, 40
IN_TWO = pytest.param(
    ("--devices", 2),
    marks=pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="torch has no gloo here"),
    id="two processes",
)


def command(*words, fails=False):
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert (result.exit_code != 0) == fails, result.output or result.exception
    return result.output + (str(result.exception) if fails else "")


def kinds(folder, rows=500):
    """A table of three kinds, a fifth of the labels wrong; its options, true and given labels."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, rows)
    x = rng.normal(0, 1, (rows, 4)) + 2.2 * np.eye(4)[truth]
    given = np.where(rng.random(rows) < 0.2, (truth + rng.integers(1, 3, rows)) % 3, truth)
    names = np.array(["ant", "bee", "cat"], dtype=object)
    frame = pd.DataFrame(x, columns=list("abcd")).assign(kind=names[given])
    frame.to_csv(folder / "data.csv", index=False)
    return ["--label", "kind", "--epochs", 5], names[truth], names[given]


def prices(folder, rows=400):
    """A table of prices around a thousand, one in eight far off, some of them 0."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2))
    truth = (1000 + x @ [200.0, -100.0] + rng.normal(0, 10, rows)).round(2)
    given = np.where(np.arange(rows) % 8 == 0, truth + rng.choice([-1, 1], rows) * rng.uniform(200, 900, rows), truth)
    given[::24] = 0.0
    pd.DataFrame({"size": x[:, 0], "age": x[:, 1], "price": given}).to_csv(folder / "data.csv", index=False)
    return ["--label", "price", "--epochs", 12], truth, given


def review(folder, truth, reviewer, answers=ANSWERS):
    """Answer by the truth: half of the answers about the most telling rows of a run, half about the least trusted."""
    run = Run.records(folder)
    table = run.issue_table()
    trust = table["trust"].to_numpy()
    order = np.argsort(-telling(trust), kind="stable")[: answers // 2]
    least = np.argsort(trust, kind="stable")
    order = np.concatenate([order, least[~np.isin(least, order)][: answers - len(order)]])
    with closing(Store(folder / REVIEWS, run.config.fingerprint)) as store:
        for place in order.tolist():
            line, true = table.loc[place], truth[table.at[place, "row"]]
            same = line["given"] == true if run.classes else np.isclose(line["given"], true, rtol=1e-5)
            stands = line["given"] if run.classes else [float(line["given"])]
            wanted = str(true) if run.classes else [float(true)]
            verdict = Answer.keep if same else Answer.suggestion if line["suggested"] == true else Answer.other
            store.decide(place, reviewer, verdict, stands if same else wanted)
    return set(table["row"].to_numpy()[order].tolist())


def differs(labels, truth):
    """Which labels are wrong, by row."""
    if labels.dtype.kind == "f":
        return ~np.isclose(labels, truth.astype(float), rtol=1e-5, atol=1e-3)
    return labels.to_numpy() != truth


@pytest.mark.parametrize("how", [pytest.param((), id="one process"), IN_TWO])
@pytest.mark.parametrize("make", [kinds, prices])
def test_three_rounds(tmp_path, make, how):
    options, truth, given = make(tmp_path)
    wrong_before, reviewed, labels = int((given != truth).sum()), set(), ()
    for number in range(1, ROUNDS + 1):
        out = tmp_path / f"run{number}"
        command("fit", tmp_path / "data.csv", *options, *labels, "--out", out, "--device", "cpu", "--quiet", *how)
        asked = review(out, truth, f"reviewer {number}")
        assert not asked & reviewed
        reviewed |= asked
        said = command("issues", out, "--show", 3)
        file = tmp_path / f"labels{number}.csv"
        exported = command("export", out, "--out", file)
        table = pd.read_csv(file, keep_default_na=False)
        wrong = int(differs(table["label"], truth).sum())
        # Each round leaves fewer wrong labels, and the interval holds how many.
        assert wrong < wrong_before
        found = Run.records(out).wrong_labels().review
        assert found.answered == ANSWERS
        assert found.wrong == wrong_before - wrong
        assert found.left[1] <= wrong <= found.left[2]
        assert str(found) in said
        assert f"after {ANSWERS} answers" in said
        # All that was ever reviewed is in the file, with those who did, beside what the data says.
        assert set(table["row"][table["reviewed"]]) == reviewed
        assert set(table["reviewers"][table["row"].isin(asked)]) == {f"reviewer {number}"}
        assert len(set(table["reviewers"]) - {""}) == number
        assert not differs(table["original"], given).any()
        assert f"{len(reviewed):,} rows reviewed" in exported
        wrong_before, labels = wrong, ("--labels", file)
    again = Run.records(out).earlier_reviews()
    assert int(again["reviewed"].sum()) == (ROUNDS - 1) * ANSWERS
    assert wrong < 0.5 * (given != truth).sum()


@pytest.fixture(scope="module")
def first_round(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    options, truth, _ = kinds(folder, 200)
    command("fit", folder / "data.csv", *options, "--out", folder / "run", "--device", "cpu", "--quiet")
    review(folder / "run", truth, "Ada", 10)
    command("export", folder / "run", "--out", folder / "labels.csv")
    return folder, options


def load(folder, **changed):
    """The rows with a file of labels in which columns were changed."""
    from holdfast.data.source import Source

    table = pd.read_csv(folder / "labels.csv", keep_default_na=False)
    table.assign(**changed).to_csv(folder / "changed.csv", index=False)
    return Source.at(folder / "data.csv", "0", 0, folder / "changed.csv", label="kind").load()[0]


@pytest.mark.parametrize(
    ("yes", "no"),
    [("yes", "no"), ("YES", "No"), ("True", "FALSE"), (1, 0), ("x", ""), (" X ", " "), ("y", "n"), (1, "")],
)
def test_whether_reviewed_in_many_words(first_round, yes, no):
    folder, _ = first_round
    marks = pd.read_csv(folder / "labels.csv")["reviewed"].to_numpy(dtype=bool)
    rows = load(folder, reviewed=np.where(marks, pd.Series([yes] * 200, dtype=object), no))
    assert rows.reviewed.tolist() == marks.tolist()
    assert {rows.reviewers[k - 1] for k in rows.reviewer[rows.reviewed].tolist()} == {"Ada"}


def test_other_words_are_refused_in_a_sentence(first_round):
    folder, _ = first_round
    with pytest.raises(Exception, match=r"column 'reviewed' says 'maybe' \(row 7\); write yes or no"):
        load(folder, reviewed=["maybe" if row == 7 else "yes" for row in range(200)])


def test_a_file_without_a_reviewed_row_says_so(first_round):
    folder, options = first_round
    load(folder, reviewed="no")
    out = folder / "none"
    said = command(
        "fit", folder / "data.csv", *options, "--labels", folder / "changed.csv", "--out", out, "--quiet"
    )  # fmt: skip
    assert "no row of changed.csv is marked as reviewed" in " ".join(said.split())


def test_a_file_of_other_data_is_refused_in_the_second_round_too(first_round):
    folder, _ = first_round
    table = pd.read_csv(folder / "labels.csv")
    other = table["original"].where(
        table["row"] != 11, table["original"].map({"ant": "bee", "bee": "cat", "cat": "ant"})
    )
    with pytest.raises(Exception, match="exported for other data: row 11 has another label there"):
        load(folder, original=other)


def test_a_file_of_the_first_version_is_read(first_round):
    """It has no column of original labels, as those given were they."""
    from holdfast.data.source import Source

    folder, _ = first_round
    table = pd.read_csv(folder / "labels.csv").drop(columns=["original", "reviewers"])
    table.to_csv(folder / "old.csv", index=False)
    rows, _ = Source.at(folder / "data.csv", "0", 0, folder / "old.csv", label="kind").load()
    assert int(rows.reviewed.sum()) == 10
    assert rows.reviewers == ()


def test_the_issues_before_and_after(first_round):
    folder, _ = first_round
    run = Run.records(folder / "run")
    own, after, found = run.issue_table(), run.answered_table(), run.wrong_labels()
    settled = run.answers().reviewed
    assert set(after["trust"][settled]) <= {0.0, 1.0}
    assert (after["why"][settled] == "reviewed").all()
    assert not np.allclose(after["trust"][~settled], own["trust"][~settled], atol=1e-3)
    # One number, wherever it is asked for.
    rate = (1 - after["trust"]).mean()
    assert found.rate == pytest.approx(rate)
    assert run.noise().rate == (found.rate, found.low, found.high)
    classes = run.noise().classes
    assert (classes["wrong"] * classes["labels"]).sum() == pytest.approx(rate * len(after))
    assert ((classes["low"] <= classes["wrong"]) & (classes["wrong"] <= classes["high"])).all()
    assert run.issues()["flag"].sum() == found.flagged == (after["flag"]).sum()
    assert found.review.before == pytest.approx(Run.records(folder / "run")._own_noise().rate)
    assert f"before: {found.review.own}" in command("issues", folder / "run")
    command("report", folder / "run")
    assert str(found.review) in (folder / "run" / "report.html").read_text()


def targets(folder, values, several=False):
    from holdfast.data.source import Source

    x = np.linspace(-1, 1, len(values))
    if several:
        np.savez(folder / "data.npz", x_train=np.stack([x, x**2], 1).astype(np.float32), y_train=values)
        return lambda labels=None: Source.at(folder / "data.npz", "0", 0, labels, task="regression").load()[0]
    pd.DataFrame({"x": x, "y": values}).to_csv(folder / "data.csv", index=False)
    return lambda labels=None: Source.at(folder / "data.csv", "0", 0, labels, label="y", task="regression").load()[0]


@pytest.mark.parametrize(
    "values",
    [
        np.tile([0.0, 2000.0], 40),
        np.concatenate([np.zeros(30), np.full(20, 1000.0), np.full(30, 1e6)]),
        np.linspace(-1e-3, 1e-3, 80) + 5e4,
        np.stack([np.tile([0.0, 2000.0], 40), np.linspace(0, 1e-4, 80)], 1),
    ],
    ids=["a median between", "large beside", "small around large", "several"],
)
def test_targets_are_not_refused_for_what_scaling_loses(tmp_path, values):
    from holdfast import Method, fit
    from holdfast.review.export import corrected

    load = targets(tmp_path, values.astype(np.float32), several=values.ndim == 2)
    file, rows = None, load()
    for _ in range(3):
        run = fit(rows, Method(), "mlp", epochs=1, batch_size=16, device="cpu")
        table = corrected(run, None)
        table.assign(reviewed=table["row"] == 3).to_csv(tmp_path / "labels.csv", index=False)
        file = tmp_path / "labels.csv"
        rows = load(file)
        # As the data has them, to the last bit.
        assert torch.equal(rows.y, load().y)
    first = next(name for name in table.columns if name.startswith("original"))
    table.assign(**{first: table[first] + np.where(table["row"] == 5, 1e-2 * (1 + values.max()), 0)}).to_csv(
        file, index=False
    )
    with pytest.raises(Exception, match="exported for other data: row 5"):
        load(file)

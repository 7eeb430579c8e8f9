"""The example of each framework, with the real one: killed or not, in one process or two, it ends as ``fit`` does."""

from pathlib import Path

import pytest
import torch
from framework_support import assert_like_fit, assert_same, die_at, example, in_two, killed, weights
from torch import nn

import holdfast

FRAMEWORKS = {
    "plain_loop": None, "lightning_module": "lightning", "hf_trainer": "accelerate", "accelerate_loop": "accelerate",
    "skorch_net": "skorch",
}  # fmt: skip
"""Examples, and the library that each needs."""
pytestmark = [
    # Of the frameworks themselves, and of processes that are forked.
    pytest.mark.filterwarnings("ignore:::lightning"),
    pytest.mark.filterwarnings("ignore:.*treespec.*"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*(Checkpoint directory|resuming from a checkpoint|num_workers).*"),
]


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    if FRAMEWORKS[request.param]:
        pytest.importorskip(FRAMEWORKS[request.param])
    return example(request.param)


class OneTensor(nn.Module):
    """A model of Hugging Face as ``fit`` calls networks."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).logits


def test_it_is_under_60_lines(framework):
    assert len(Path(framework.__file__).read_text().splitlines()) < 60


def settled(made):
    """Weights by the names that they have in one process."""
    return {name.removeprefix("module."): value for name, value in weights(made).items()}


def rows_of(framework, count=None):
    return tuple(part[:count] for part in framework.data())


def test_it_ends_where_fit_ends_with_the_same_issues(framework, tmp_path):
    x, y, truth = rows_of(framework)
    net, session = framework.train(x, y, tmp_path / "out", epochs=6)
    own = framework.network()
    is_model = hasattr(own, "config")
    rows = holdfast.Rows(x, y, tuple(map(str, range(int(y.max()) + 1))))
    run = holdfast.fit(
        rows, "prl-l", OneTensor(own) if is_model else own, epochs=6, batch_size=32, schedule=lambda _: 1.0,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.001), device="cpu",
    )  # fmt: skip
    right = [(each.argmax(1) == truth).double().mean() for each in (_outputs(run.net, x), _outputs(net, x))]
    assert right[1] > right[0] - 0.02
    assert_like_fit(session.issues(), run)
    assert (tmp_path / "out" / "run" / "issues.csv").read_text().count("\n") == len(y) + 1
    assert holdfast.Run.records(tmp_path / "out" / "run").issues().equals(session.issues())


@torch.no_grad()
def _outputs(net, x):
    found = net.eval()(x)
    return getattr(found, "logits", found)


@pytest.mark.slow
def test_killed_and_resumed_it_ends_in_the_same_weights(framework, tmp_path):
    x, y, _ = rows_of(framework, 320)
    whole, session = framework.train(x, y, tmp_path / "whole", epochs=4)

    def dying():
        die_at(27)  # in the third epoch of ten steps
        framework.train(x, y, tmp_path / "again", epochs=4)

    killed(dying)
    assert not (tmp_path / "again" / "run").exists()
    net, resumed = framework.train(x, y, tmp_path / "again", epochs=4)
    assert resumed.run().history["epoch"].tolist() == [0, 1, 2, 3]
    assert_same(settled(whole), settled(net))
    assert resumed.issues().equals(session.issues())


def as_rank(folder, name):
    framework = example(name)
    x, y, _ = rows_of(framework, 330)
    net, session = framework.train(x, y, folder / "two", epochs=2, batch_size=16)
    return settled(net), session.issues()["row"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, needed in FRAMEWORKS.items() if needed])
def test_two_processes_end_where_one_does(name, tmp_path):
    pytest.importorskip(FRAMEWORKS[name])
    framework = example(name)
    two, issues = in_two(as_rank, tmp_path, name)
    x, y, _ = rows_of(framework, 330)
    one, session = framework.train(x, y, tmp_path / "one", epochs=2)
    assert_same(settled(one), two, rtol=1e-3, atol=1e-4)
    assert issues[:30] == session.issues()["row"].tolist()[:30]
    assert session.run().ledger["trained"].tolist() == [2] * 330


@pytest.mark.parametrize("name", [name for name, needed in FRAMEWORKS.items() if needed])
def test_four_batches_that_add_up_are_one_of_four_times_the_size(name, tmp_path):
    pytest.importorskip(FRAMEWORKS[name])
    framework = example(name)
    x, y, _ = rows_of(framework, 330)
    made = {
        accumulate: framework.train(
            x, y, tmp_path / str(accumulate), epochs=2, batch_size=32 // accumulate, accumulate=accumulate, method="elr"
        )
        for accumulate in (1, 4)
    }
    assert_same(settled(made[1][0]), settled(made[4][0]), rtol=1e-3, atol=1e-4)
    ledgers = [session.run().ledger["trained"].tolist() for _, session in made.values()]
    assert ledgers[0] == ledgers[1] == [2] * 330

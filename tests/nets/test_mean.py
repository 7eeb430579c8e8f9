"""Networks that predict together: trained, saved, loaded, started from."""

import pytest
import torch
from torch import nn

from holdfast import HoldfastError, Method, Run, fit
from holdfast.diagnosis import diagnose
from holdfast.methods import DivideMix, ELRPlus
from holdfast.nets import MeanOf, first_of
from holdfast.nets.mean import weights_of_each

FAST = {"epochs": 3, "batch_size": 40, "device": "cpu"}


@pytest.mark.parametrize("method", [DivideMix(warmup=1), ELRPlus()], ids=repr)
def test_both_networks_predict_and_are_found_again(blobs, tmp_path, method):
    run = fit(blobs, method, "mlp", test=blobs, out=tmp_path / "run", **FAST)
    assert isinstance(run.net, MeanOf)
    first, second = run.net.together
    assert not torch.equal(first.head.weight, second.head.weight)
    outputs = run.outputs(blobs.x)
    with torch.no_grad():
        torch.testing.assert_close(outputs, (first(blobs.x) + second(blobs.x)) / 2)
    right = float((outputs.argmax(1) == blobs.truth).double().mean())
    assert run.history["test_true"].iloc[-1] == pytest.approx(right)
    again = Run.load(tmp_path / "run")
    torch.testing.assert_close(again.outputs(blobs.x), outputs)
    # Another training starts from the first of them, and theorems are held against it.
    body = fit(blobs, Method(), pretrained=tmp_path / "run", epochs=1, batch_size=40, device="cpu",
               optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-12))  # fmt: skip
    torch.testing.assert_close(body.net.body[1].weight, first.body[1].weight, atol=1e-6, rtol=0)
    found = diagnose(again, blobs, examples=10)
    assert found.losses.mean() == pytest.approx(losses_of(first, blobs))


def losses_of(net, rows):
    with torch.no_grad():
        return float(nn.functional.cross_entropy(net(rows.x), rows.y))


def test_a_broken_run_goes_on_with_both(blobs, tmp_path):
    whole = fit(blobs, ELRPlus(), "mlp", seed=1, **FAST)

    def stop(epoch, net):
        if epoch == 1:
            raise KeyboardInterrupt
        return {}

    with pytest.raises(KeyboardInterrupt):
        fit(blobs, ELRPlus(), "mlp", seed=1, out=tmp_path / "run", watch=stop, **FAST)
    run = fit(blobs, ELRPlus(), "mlp", seed=1, out=tmp_path / "run", resume=True, **FAST)
    torch.testing.assert_close(run.outputs(blobs.x), whole.outputs(blobs.x))


def test_weights_in_a_file():
    net = nn.Linear(2, 3)
    assert list(weights_of_each(net.state_dict())[0]) == ["weight", "bias"]
    both = MeanOf([net, nn.Linear(2, 3)]).state_dict()
    assert [list(each) for each in weights_of_each(both)] == [["weight", "bias"]] * 2
    assert first_of(net) is net
    for damaged in (
        {name.replace("together.1", "together.7"): value for name, value in both.items()},
        {name: value for name, value in both.items() if name != "together.1.bias"},
    ):
        with pytest.raises(HoldfastError, match="networks of one kind"):
            weights_of_each(damaged)

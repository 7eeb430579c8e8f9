import copy

import pytest
import torch
from torch import nn

from contrastive.specification import K, Q, close, unit
from holdfast import HoldfastError, Rows
from holdfast.contrastive import CONTRASTIVE, SANE, MoCo, VanillaMixup
from holdfast.contrastive.moco import moco_losses
from holdfast.contrastive.momentum import keys_of
from holdfast.contrastive.pretrain import pretrain
from holdfast.contrastive.queue import KeyQueue


def test_numbers_of_the_specification(begun, q, k, bank):
    close(moco_losses(q, k, bank, 0.2), [0.330766, 0.029552])
    method = MoCo(groups=1)
    net, batch = begun(method)
    assert method.loss([net], batch).loss.item() == pytest.approx(0.180159, abs=2e-6)


def test_losses_by_plain_loops():
    source = torch.Generator().manual_seed(0)
    q, k, bank = (unit(torch.randn(n, 5, generator=source)) for n in (4, 4, 7))
    wanted = []
    for i in range(4):
        own = torch.exp(q[i].dot(k[i]) / 0.3)
        rest = sum(torch.exp(q[i].dot(bank[j]) / 0.3) for j in range(7))
        wanted.append(-torch.log(own / (own + rest)))
    torch.testing.assert_close(moco_losses(q, k, bank, 0.3), torch.stack(wanted))


def test_a_step_moves_the_target_and_then_enqueues_the_keys(begun):
    method = MoCo(momentum=0.75, groups=1)
    net, batch = begun(method)
    method.loss([net], batch).loss.backward()
    net.weight.data.add_(4.0)
    method.after_step([net])
    close(method.target.weight, [[2.0, 1.0], [1.0, 2.0]])
    close(method.bank.keys, unit(K).tolist())
    assert method.target.weight.grad is None


def test_keys_are_those_of_the_momentum_encoder_and_have_no_gradient(begun, bank):
    method = MoCo(groups=1)
    net, batch = begun(method)
    method.target.weight.data.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    loss = method.loss([net], batch).loss
    loss.backward()
    key = unit(K.flip(1))
    weight, total = torch.eye(2, requires_grad=True), 0.0
    for i in range(2):
        z = weight @ Q[i]
        logits = torch.cat([key[i : i + 1], bank]) @ (z / z.norm()) / 0.2
        total = total - logits.log_softmax(0)[0] / 2
    total.backward()
    torch.testing.assert_close(loss, total)
    torch.testing.assert_close(net.weight.grad, weight.grad, atol=1e-6, rtol=0)
    method.after_step([net])
    close(method.bank.keys, key.tolist())


FAMILY = [make for make in CONTRASTIVE.values() if isinstance(make, type) and issubclass(make, MoCo)]
SHARED = {"queue": 7, "momentum": 0.5, "temperature": 0.3, "groups": 2}


@pytest.mark.parametrize("make", FAMILY)
def test_every_method_on_momentum_contrast_takes_its_settings(make):
    assert {name: make().settings()[name] for name in SHARED} == MoCo().settings()
    method = make(**SHARED)
    assert {name: method.settings()[name] for name in SHARED} == SHARED
    again = eval(repr(method), {make.__name__: make})
    assert repr(again) == repr(method) == f"{make.__name__}(queue=7, momentum=0.5, temperature=0.3, groups=2)"
    assert again.settings() == method.settings()
    with pytest.raises(HoldfastError, match="temperature must be positive"):
        make(temperature=0.0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        make(ques=7)


def test_the_family_is_whole():
    assert {make.__name__ for make in FAMILY} == {"MoCo", "IMix", "MixCo", "CO2", "CLSA", "SANE", "PCL", "InfoMin"}


def test_weights_of_a_plan_count(begun):
    method = MoCo(groups=1)
    net, batch = begun(method)
    one = batch._replace(weight=torch.tensor([1.0, 0.0]))
    assert method.loss([net], one).loss.item() == pytest.approx(0.330766, abs=2e-6)


def test_the_queue_is_first_in_first_out_for_batches_of_any_size():
    queue = KeyQueue(5, 1, torch.Generator().manual_seed(0))
    assert torch.equal(queue.keys.abs(), torch.ones(5, 1))
    expected = [float(v) for v in queue.keys]
    for start, count in ((10, 3), (20, 4), (30, 1), (40, 7)):
        batch = torch.arange(start, start + count).float()[:, None]
        queue.push(batch)
        expected = (expected + batch[:, 0].tolist())[-5:]
        assert sorted(queue.keys[:, 0].tolist()) == sorted(expected)


def test_the_queue_is_no_longer_than_the_data(begun):
    method = MoCo(queue=4096)
    begun(method)
    assert len(method.bank.keys) == 2


def test_keys_are_those_of_their_own_rows_whatever_the_groups():
    torch.manual_seed(0)
    net, x = nn.Linear(3, 4), torch.randn(13, 3)
    for groups in (1, 4, 100):
        torch.testing.assert_close(keys_of(net, x, groups), unit(net(x)).detach())
    normed = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    assert not torch.allclose(keys_of(normed, x, 4), keys_of(normed, x, 1))
    twice = copy.deepcopy(normed)
    keys_of(normed, x, 1)
    assert not torch.equal(twice[1].running_mean, normed[1].running_mean)


@pytest.mark.parametrize("make", [MoCo, SANE, lambda **s: SANE(strong=True, mixup=VanillaMixup(), **s)])
def test_a_broken_run_goes_on_bit_for_bit(tmp_path, stripes, make):
    class Interrupted(Exception):
        pass

    def train(out, **more):
        method = make(queue=50)
        run = pretrain(stripes, method, "cnn4", epochs=4, batch_size=20, out=out, seed=3, device="cpu", **more)
        return run, method

    def breaking(epoch, net):
        if epoch == 2:
            raise Interrupted
        return {}

    whole, one = train(tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(tmp_path / "broken", watch=breaking)
    again, two = train(tmp_path / "broken", resume=True)
    assert int(one.bank.at) == int(two.bank.at) != 0
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name]), name
    for name, value in whole.net.state_dict().items():
        assert torch.equal(value, again.net.state_dict()[name]), name
    assert whole.history["loss"].tolist() == again.history["loss"].tolist()


def test_two_classes_come_apart_without_a_label():
    source = torch.Generator().manual_seed(1)
    truth = torch.arange(200) % 2
    centre = torch.zeros(2, 20)
    centre[0, :10], centre[1, 10:] = 3.0, 3.0
    rows = Rows(centre[truth] + torch.randn(200, 20, generator=source), truth, ("a", "b"))
    run = pretrain(rows, MoCo(queue=100), "mlp", epochs=10, batch_size=50, device="cpu")
    with torch.no_grad():
        z = unit(run.net.eval()(rows.x))
    same = truth[:, None] == truth
    assert (z @ z.T)[same].mean() > (z @ z.T)[~same].mean() + 0.3

import copy

import pytest
import torch
from torch import nn

from contrastive.specification import BANK, K, Q, close, unit
from holdfast import Rows
from holdfast.contrastive import SANE, MoCo, VanillaMixup
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


def test_weights_of_a_plan_count(begun):
    method = MoCo(groups=1)
    net, batch = begun(method)
    one = batch._replace(weight=torch.tensor([1.0, 0.0]))
    assert method.loss([net], one).loss.item() == pytest.approx(0.330766, abs=2e-6)


def test_the_queue_is_first_in_first_out_for_batches_of_any_size():
    queue = KeyQueue(5, 1, torch.Generator().manual_seed(0))
    assert torch.equal(queue.keys.abs(), torch.ones(5, 1))
    held = [float(v) for v in queue.keys]
    for start, count in ((10, 3), (20, 4), (30, 1), (40, 7)):
        batch = torch.arange(start, start + count).float()[:, None]
        queue.push(batch)
        held = (held + batch[:, 0].tolist())[-5:]
        assert sorted(queue.keys[:, 0].tolist()) == sorted(held)


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


def test_the_fixture_is_that_of_the_specification():
    assert Q.tolist() == [[1, 0], [1, 1]]
    assert BANK.tolist() == [[-1, 0], [1, -1]]

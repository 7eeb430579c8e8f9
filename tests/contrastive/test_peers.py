"""The numbers of the specification for the methods that SANE is compared with, and oracles in plain loops."""

import math

import pytest
import torch
from torch import nn

from contrastive.specification import K, Q, close, unit
from holdfast.contrastive import BYOL, CLSA, CO2, PCL, ImageViews, IMix, MixCo, SimCLR, SimSiam, SwAV
from holdfast.contrastive import i_mix as i_mix_module
from holdfast.contrastive.byol import byol_losses, momentum_at
from holdfast.contrastive.co2 import co2_losses
from holdfast.contrastive.i_mix import i_mix_losses
from holdfast.contrastive.pcl import concentration, k_means
from holdfast.contrastive.simclr import nt_xent
from holdfast.contrastive.simsiam import simsiam_losses
from holdfast.contrastive.swav import sinkhorn, swav_losses


def test_simclr(begun):
    z = torch.tensor([[1.0, 0.0], [1.0, 1.0], [2.0, 1.0], [0.0, 1.0]])
    losses = nt_xent(unit(z), 0.5)
    close(losses, [0.617716, 1.286799, 0.925631, 0.608550])
    method = SimCLR(0.5)
    net, batch = begun(method, (z[:2], z[2:]))
    assert method.loss([net], batch).loss.item() == pytest.approx(0.859674, abs=2e-6)


def test_byol(begun, q, k):
    close(byol_losses(q, k), [0.211146, 0.585786])
    assert byol_losses(q, k).mean().item() == pytest.approx(0.398466, abs=2e-6)
    assert momentum_at(0.5, 0.996) == pytest.approx(0.998)
    method = BYOL(0.5, hidden=3)
    net, batch = begun(method)
    method.predict = nn.Identity()
    close(method.loss([net], batch).loss, 2 * 0.398466, atol=5e-6)
    method.target.weight.data.mul_(2)  # a length changes nothing, and no gradient flows there
    close(method.loss([net], batch).loss, 2 * 0.398466, atol=5e-6)
    method.loss([net], batch).loss.backward()
    assert method.target.weight.grad is None
    net.weight.data.zero_()
    method.after_step([net])
    close(method.target.weight, [[1.0, 0.0], [0.0, 1.0]])


def test_simsiam(begun, q, k):
    close(simsiam_losses(q, k).mean(), -0.800767)
    method = SimSiam(3)
    net, batch = begun(method)
    method.predict = nn.Identity()
    loss = method.loss([net], batch).loss
    close(loss, -0.800767)
    loss.backward()
    weight = torch.eye(2, requires_grad=True)
    targets = torch.stack([unit(Q), unit(K)])
    total = 0.0
    for x, z in ((Q, targets[1]), (K, targets[0])):
        total = total - (unit(x @ weight.T) * z).sum(1).mean() / 2
    total.backward()
    torch.testing.assert_close(net.weight.grad, weight.grad, atol=1e-6, rtol=0)


def test_i_mix(begun, monkeypatch, k, bank):
    keys, query = torch.cat([k, bank]), torch.tensor([[0.919145, 0.393919], [0.792624, 0.609711]])
    share, partner = torch.tensor([0.7, 0.6]), torch.tensor([1, 0])
    close(i_mix_losses(query, keys, share, partner, 0.2), [0.994826, 1.272709], atol=1e-5)
    assert i_mix_losses(query, keys, share, partner, 0.2).mean().item() == pytest.approx(1.133767, abs=1e-5)
    monkeypatch.setattr(i_mix_module, "draw_mix", lambda count, kappa: (torch.tensor([0.3, 0.6]), partner))
    method = IMix(groups=1)
    net, batch = begun(method)
    # The larger share is the example's own, and partners are queries.
    mixed = unit(torch.stack([0.7 * Q[0] + 0.3 * Q[1], 0.6 * Q[1] + 0.4 * Q[0]]))
    close(method.loss([net], batch).loss, i_mix_losses(mixed, keys, share, partner, 0.2).mean().item())


def test_mixco(begun, monkeypatch, k, bank):
    monkeypatch.setattr(torch, "rand", lambda *size: torch.full(size, 0.7))
    method = MixCo(groups=1, mixed_temperature=1.0)
    net, batch = begun(method)
    close(method.loss([net], batch).loss, 1.196326)
    mixed = unit(0.7 * Q[:1] + 0.3 * Q[1:])
    log = (mixed @ torch.cat([k, bank]).T).log_softmax(1)[0]
    assert -(0.7 * log[0] + 0.3 * log[1]).item() == pytest.approx(1.016167, abs=2e-6)


def test_mixco_leaves_the_last_of_an_odd_batch_out_of_the_mix(begun):
    method = MixCo(groups=1)
    views = (torch.cat([Q, Q[:1]]), torch.cat([K, K[:1]]))
    net, batch = begun(method, views)
    assert torch.isfinite(method.loss([net], batch).loss)


def test_co2(begun, q, k, bank):
    p, r = (q @ bank.T / 0.5).softmax(1), (k @ bank.T / 0.5).softmax(1)
    close(p, [[0.031854, 0.968146], [0.195570, 0.804430]])
    close(r, [[0.081562, 0.918438], [0.804430, 0.195570]])
    close(co2_losses(q, k, bank, 0.5), [0.024678, 0.861057])
    assert co2_losses(q, k, bank, 0.5).mean().item() == pytest.approx(0.442867, abs=2e-6)
    method = CO2(2.0, 0.5, groups=1)
    net, batch = begun(method)
    close(method.loss([net], batch).loss, 0.180159 + 2 * 0.442867, atol=5e-6)


def test_the_consistency_of_co2_trains_the_network(begun):
    grads = []
    for weight in (0.0, 5.0):
        method = CO2(weight, 0.5, groups=1)
        net, batch = begun(method)
        method.loss([net], batch).loss.backward()
        grads.append(net.weight.grad)
    assert (grads[0] - grads[1]).norm() > 0.1


def test_clsa(begun, q, k, bank):
    strong = torch.tensor([[1.0, 0.5], [0.2, 1.0]])
    keys = torch.cat([k, bank])
    targets = (q @ keys.T / 0.2).softmax(1)
    close(targets, [[0.712526, 0.008139, 0.000055, 0.279280], [0.764648, 0.228499, 0.000194, 0.006659]])
    losses = [-(targets[i] * torch.log_softmax(keys @ unit(strong)[i] / 0.2, 0)).sum() for i in range(2)]
    close(torch.stack(losses), [1.069383, 1.605144])
    method = CLSA(groups=1)
    net, batch = begun(method, (Q, K, strong))
    close(method.loss([net], batch).loss, 0.907581 + 1.337264, atol=5e-6)
    method.loss([net], batch).loss.backward()
    weight, total = torch.eye(2, requires_grad=True), 0.0
    for i in range(2):
        plain, hard = ((keys @ (z / z.norm()) / 0.2).log_softmax(0) for z in (weight @ Q[i], weight @ strong[i]))
        total = total - (plain[i] + (targets[i] * hard).sum()) / 2
    total.backward()
    torch.testing.assert_close(net.weight.grad, weight.grad, atol=1e-5, rtol=0)


def test_every_weak_query_of_clsa_supervises_every_strong_one(begun, k, bank):
    views = [Q, K, torch.tensor([[0.3, 1.0], [1.0, 2.0]]), *(torch.tensor(v) for v in ([[1.0, 0.5], [0.2, 1.0]],))]
    views.append(torch.tensor([[-1.0, 0.5], [0.2, 0.1]]))
    method = CLSA((1.0, 0.5), (1.0, 0.5), groups=1)
    net, batch = begun(method, views)
    keys, total = torch.cat([k, bank]), 0.0
    for weak in (views[0], views[2]):
        logits = unit(weak) @ keys.T / 0.2
        total += -logits.log_softmax(1).diagonal().mean()
        for strong in views[3:]:
            total += -(logits.softmax(1) * (unit(strong) @ keys.T / 0.2).log_softmax(1)).sum(1).mean()
    close(method.loss([net], batch).loss, float(total), atol=1e-5)


SCORES = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.3, 0.1], [0.2, 0.1, 0.7]])
OTHER = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.6, 0.1], [0.1, 0.2, 0.9]])


def test_swav():
    q = sinkhorn(SCORES, 0.05)
    close(q, [[0.973969, 0.026030, 0.000001], [0.084876, 0.915119, 0.000005], [0.000001, 0.019056, 0.980943]])
    losses = -(q * (OTHER / 0.1).log_softmax(1)).sum(1)
    close(losses, [0.139331, 0.403078, 0.134644])
    assert losses.mean().item() == pytest.approx(0.225684, abs=2e-6)
    torch.testing.assert_close(swav_losses([SCORES, OTHER], [q], 0.1), losses)
    both = swav_losses([SCORES, OTHER, SCORES], [q, sinkhorn(OTHER, 0.05)], 0.1)
    wanted = torch.zeros(3)
    logs = [(s / 0.1).log_softmax(1) for s in (SCORES, OTHER, SCORES)]
    for a, target in enumerate((q, sinkhorn(OTHER, 0.05))):
        for v in range(3):
            if v != a:
                wanted -= (target * logs[v]).sum(1) / 4
    torch.testing.assert_close(both, wanted)


def test_assignments_by_large_scores_do_not_overflow():
    assert torch.isfinite(sinkhorn(100 * SCORES, 0.05)).all()


def test_assignments_with_a_small_epsilon_do_not_underflow():
    scores = torch.tensor([[0.9, -0.9, -0.8], [-0.9, 0.8, -0.9], [-0.8, -0.9, 0.2]])
    q = sinkhorn(scores, 0.01)
    close(q.sum(1), [1.0, 1.0, 1.0])
    wanted = ((scores.double() - scores.max()) / 0.01).exp()
    for _ in range(3):
        wanted = wanted / wanted.sum(0) / 3
        wanted = wanted / wanted.sum(1, keepdim=True) / 3
    close(q, (3 * wanted).tolist())
    # Two rows that are far below the largest score: in plain exponentials both are rows of zeros.
    low = sinkhorn(torch.tensor([[1.0, 0.9], [-1.0, -0.9], [-1.0, -0.5]]), 0.01)
    close(low.sum(1), [1.0, 1.0, 1.0])


def test_prototypes_stay_of_length_one_and_wait_for_their_first_step(begun):
    method = SwAV(3, small=0, frozen=1, queue=2, queue_from=0.0)
    net, batch = begun(method)
    before = method.centres.detach().clone()
    for moved in (False, True):
        method.zero_grad()
        method.loss([net], batch).loss.backward()
        method.after_backward([net])
        method.centres.data.sub_(method.centres.grad)
        method.after_step([net])
        assert torch.allclose(method.centres.detach(), before) is not moved
        close(method.centres.norm(dim=1), [1.0] * 3)
    close(method.banks[1].keys, unit(K).tolist())


def test_the_crops_of_swav():
    large, _, *small = SwAV(small=3).augments(ImageViews(32))
    assert (large.side, large.scale) == (32, (0.14, 1.0))
    assert [(view.side, view.scale) for view in small] == [(16, (0.05, 0.14))] * 3


def test_concentration_of_clusters():
    distance = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.4, 0.5])
    cluster = torch.tensor([0, 0, 0, 1, 1, 2])
    raw = [0.2 / math.log(13), 0.4 / math.log(12)]
    assert raw == pytest.approx([0.077974, 0.160972], abs=1e-6)
    low = torch.tensor([raw[0], raw[1], raw[1]]).quantile(0.1)
    assert low.item() == pytest.approx(0.094574, abs=1e-6)
    close(concentration(distance, cluster, 3, 0.2), [0.136235, 0.231882, 0.231882])
    assert torch.isfinite(concentration(torch.zeros(4), torch.tensor([0, 0, 1, 2]), 3, 0.2)).all()


def test_pcl_adds_the_mean_of_its_clusterings(begun):
    method = PCL((2, 2), 5, groups=1)
    net, batch = begun(method)
    close(method.loss([net], batch).loss, 0.180159)
    centres = unit(torch.tensor([[1.0, 0.2], [0.1, 1.0]]))
    method._sizes = [2, 2]
    for m, cluster in enumerate(([0, 1], [1, 1])):
        for name, value in (("centres", centres), ("concentration", [0.3, 0.6]), ("cluster", cluster)):
            method.register_buffer(f"{name}{m}", torch.as_tensor(value))
    method.ready.fill_(True)
    total = 0.180159
    for cluster in ([0, 1], [1, 1]):
        for i in range(2):
            logits = centres @ unit(Q)[i] / torch.tensor([0.3, 0.6])
            total -= torch.log_softmax(logits, 0)[cluster[i]].item() / 4
    close(method.loss([net], batch).loss, total, atol=5e-6)


def test_clusters_are_found():
    points = torch.cat([torch.randn(30, 2) * 0.1, torch.randn(30, 2) * 0.1 + 5])
    centres, cluster = k_means(points, 2, 0)
    assert len(set(cluster[:30].tolist())) == len(set(cluster[30:].tolist())) == 1
    torch.testing.assert_close(centres[cluster[0]], points[:30].mean(0))

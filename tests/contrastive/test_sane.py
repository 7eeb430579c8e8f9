import math

import pytest
import torch
from torch import nn

from contrastive.specification import K, Q, close, unit
from holdfast import Rows
from holdfast.contrastive import MULTI, SANE, ImageViews, MoCo, MomentumMixup, VanillaMixup, label_quality
from holdfast.contrastive import sane as module
from holdfast.contrastive.mixup import blend, draw_mix
from holdfast.contrastive.pretrain import pretrain
from holdfast.contrastive.quality import true_labels
from holdfast.contrastive.sane import label_losses, mixture_weights, mu_at, own_losses, refined_labels

SETTING = {"temperature": 0.2, "sharpness": 0.8}
LABELS = [[0.722487, 0.192550, 0.000044, 0.084919], [0.315017, 0.665501, 0.019251, 0.000232]]


@pytest.fixture
def parts(k, bank):
    """p and q of the specification, from its own definition."""
    logits = k @ torch.cat([k, bank]).T / 0.16
    p = logits.softmax(1)
    without = logits.clone()
    without[0, 0] = without[1, 1] = -torch.inf
    return p, without.softmax(1)


def test_one_hot_losses(q, k, bank):
    keys = torch.cat([k, bank])
    close(own_losses(q, keys, 0.2), [0.338939, 1.476223])
    assert own_losses(q, keys, 0.2).mean().item() == pytest.approx(0.907581, abs=2e-6)
    assert own_losses(q, -keys, 0.2).mean().item() == pytest.approx(8.289994, abs=2e-5)
    onehot = torch.eye(4)[:2]
    torch.testing.assert_close(label_losses(q, keys, onehot, 0.2), own_losses(q, keys, 0.2))


def test_what_keys_are_similar_to(parts, k, bank):
    p, q = parts
    close(p, [[0.956454, 0.030214, 0.000007, 0.013325], [0.030565, 0.967545, 0.001868, 0.000022]])
    close(q, [[0, 0.693842, 0.000158, 0.305999], [0.941757, 0, 0.057550, 0.000693]])
    only_p = refined_labels(k, bank, mu=1.0, others=False, **SETTING)
    alpha, beta = mixture_weights(p, q, 1.0, 0.0)
    torch.testing.assert_close(only_p, (1 - alpha)[:, None] * torch.eye(4)[:2] + alpha[:, None] * p)
    assert beta.tolist() == [0, 0]
    only_q = refined_labels(k, bank, mu=1.0, positive=False, **SETTING)
    alpha, beta = mixture_weights(p, q, 0.0, 1.0)
    torch.testing.assert_close(only_q, (1 - beta)[:, None] * torch.eye(4)[:2] + beta[:, None] * q)


@pytest.mark.parametrize(
    ("mu", "alpha", "beta"),
    [
        (1.0, [0.360886, 0.332570], [0.261798, 0.323705]),
        (0.5, [0.262021, 0.247498], [0.190078, 0.240901]),
        (0.0, [0.0, 0.0], [0.0, 0.0]),
    ],
)
def test_weights_of_the_mixture(parts, mu, alpha, beta):
    got = mixture_weights(*parts, mu, mu)
    close(got[0], alpha)
    close(got[1], beta)


def test_refined_labels(k, bank):
    labels = refined_labels(k, bank, mu=1.0, **SETTING)
    close(labels, LABELS)
    close(labels.sum(1), [1.0, 1.0])
    assert torch.equal(refined_labels(k, bank, mu=0.0, **SETTING), torch.eye(4)[:2])
    assert not labels.requires_grad


def test_mixed_labels_queries_and_losses(k, bank):
    keys, labels = torch.cat([k, bank]), refined_labels(k, bank, mu=1.0, **SETTING)
    share, partner = torch.tensor([0.7, 0.7]), torch.tensor([1, 0])
    mixed = blend(labels, labels[partner], share)
    close(mixed, [[0.600246, 0.334436, 0.005806, 0.059513], [0.437258, 0.523616, 0.013489, 0.025638]])
    query = unit(blend(Q, K[partner], share))
    close(query, [[0.919145, 0.393919], [0.792624, 0.609711]])
    close(label_losses(query, keys, mixed, 0.2), [1.341083, 1.359584])
    assert label_losses(query, keys, mixed, 0.2).mean().item() == pytest.approx(1.350333, abs=2e-6)


@pytest.fixture
def swapped(monkeypatch):
    """Chance: a share of 0.7, and the other row for a partner."""
    monkeypatch.setattr(module, "draw_mix", lambda count, kappa: (torch.full((count,), 0.7), torch.tensor([1, 0])))


def test_the_whole_loss(begun, swapped):
    method = SANE(mu=(1.0, 1.0), groups=1)
    net, batch = begun(method)
    assert method.loss([net], batch).loss.item() == pytest.approx(1.128957, abs=2e-6)


@pytest.mark.parametrize(("weight", "loss"), [(0.0, 0.907581), (0.25, 1.018269), (1.0, 1.350333)])
def test_lambda_weighs_the_two_terms(begun, swapped, weight, loss):
    method = SANE(weight, mu=(1.0, 1.0), groups=1)
    net, batch = begun(method)
    assert method.loss([net], batch).loss.item() == pytest.approx(loss, abs=2e-6)


def test_each_module_switches_off_on_its_own(begun, swapped, q, k, bank):
    keys = torch.cat([k, bank])

    def loss(**settings):
        method = SANE(1.0, mu=(1.0, 1.0), groups=1, **settings)
        net, batch = begun(method)
        return method.loss([net], batch).loss.item()

    plain = loss(mixup=None)
    assert plain == pytest.approx(label_losses(q, keys, torch.tensor(LABELS), 0.2).mean().item(), abs=1e-5)
    onehot = loss(positive=False, others=False, mixup=None)
    assert onehot == pytest.approx(0.907581, abs=2e-6)
    share, partner = torch.tensor([0.7, 0.7]), torch.tensor([1, 0])
    labels = blend(torch.tensor(LABELS), torch.tensor(LABELS)[partner], share)
    vanilla = label_losses(unit(blend(Q, Q[partner], share)), keys, labels, 0.2).mean()
    assert loss(mixup=VanillaMixup()) == pytest.approx(vanilla.item(), abs=1e-5)
    found = [plain, onehot, loss(), loss(positive=False), loss(others=False), loss(mixup=VanillaMixup())]
    assert len({round(value, 5) for value in found}) == 6


def test_the_gradient_is_that_of_both_terms(begun, swapped, k, bank):
    method = SANE(mu=(1.0, 1.0), groups=1)
    net, batch = begun(method)
    method.loss([net], batch).loss.backward()
    weight = torch.eye(2, requires_grad=True)
    keys, labels, partner = torch.cat([k, bank]), torch.tensor(LABELS), torch.tensor([1, 0])
    total = 0.0
    for i in range(2):
        views = (
            (Q[i], torch.eye(4)[i]),
            (0.7 * Q[i] + 0.3 * K[partner[i]], 0.7 * labels[i] + 0.3 * labels[partner[i]]),
        )
        for x, y in views:
            z = weight @ x
            log = torch.log_softmax(keys @ (z / z.norm()) / 0.2, 0)
            total = total - 0.5 * (y * log).sum() / 2
    total.backward()
    torch.testing.assert_close(net.weight.grad, weight.grad, atol=1e-5, rtol=0)


def test_strong_and_sized_views_are_what_is_mixed(begun, swapped):
    strong = torch.tensor([[0.0, -1.0], [-1.0, 0.5]])

    def loss(views, **settings):
        method = SANE(1.0, mu=(1.0, 1.0), groups=1, **settings)
        assert method.views == len(views)
        net, batch = begun(method, views)
        return method.loss([net], batch).loss.item(), method

    share, partner = torch.tensor([0.7, 0.7]), torch.tensor([1, 0])

    def wanted(x, method):
        key = unit(K)
        labels = method.labels(key, method.bank.keys)
        mixed = blend(labels, labels[partner], share) if method.mixup else labels
        return label_losses(unit(x), torch.cat([key, method.bank.keys]), mixed, 0.2).mean().item()

    got, method = loss((Q, K, strong), strong=True)
    assert got == pytest.approx(wanted(blend(Q, strong[partner], share), method), abs=1e-6)
    got, method = loss((Q, K, strong), strong=True, mixup=VanillaMixup())
    assert got == pytest.approx(wanted(blend(strong, strong[partner], share), method), abs=1e-6)
    got, method = loss((Q, K, strong), strong=True, mixup=None)
    assert got == pytest.approx(wanted(strong, method), abs=1e-6)
    other = torch.tensor([[2.0, 1.0], [0.3, 0.1]])
    got, method = loss((Q, K, strong, other, other, Q), sizes=(0.5, 1.0))
    both = [wanted(blend(a, b[partner], share), method) for a, b in ((strong, other), (other, Q))]
    assert got == pytest.approx(sum(both) / 2, abs=1e-6)


def test_augmentations_have_the_kinds_and_sizes_asked_for():
    recipe = ImageViews(32)
    assert SANE().augments(recipe) == (recipe.weak(), recipe.weak())
    assert SANE(strong=True).augments(recipe) == (recipe.weak(), recipe.weak(), recipe.strong())
    sides = [view.side for view in SANE(sizes=MULTI).augments(ImageViews(224))]
    assert sides == [224, 224, 224, 224, 192, 192, 160, 160, 128, 128, 96, 96]
    small = SANE(sizes=(96 / 224,), strong=True).augments(ImageViews(224))[2].first
    assert small.side == 96
    assert small.scale == pytest.approx((0.086, 0.429), abs=5e-4)


def test_mu_rises_along_half_a_cosine_and_follows_the_steps(begun):
    assert mu_at(0.25, 0.0, 1.0) == pytest.approx(0.146447, abs=1e-6)
    assert (mu_at(0.0, 0.5, 10.0), mu_at(1.0, 0.5, 10.0)) == (0.5, 10.0)
    seen = []
    method = SANE(queue=30)
    rows = Rows(torch.randn(40, 3), torch.zeros(40, 0))
    kept = method.labels
    method.labels = lambda key, bank: (seen.append(method.share), kept(key, bank))[1]
    pretrain(rows, method, nn.Linear(3, 4), epochs=3, batch_size=10)
    assert seen == pytest.approx([step / 12 for step in range(12)])


def test_mixing_shares_follow_the_beta_distribution_for_each_row():
    torch.manual_seed(0)
    share, partner = draw_mix(4000, 2.0)
    assert sorted(partner.tolist()) == list(range(4000))
    assert share.mean().item() == pytest.approx(0.5, abs=0.02)
    assert share.std().item() == pytest.approx(math.sqrt(1 / 20), abs=0.01)
    assert (share < 0.5).float().mean() > 0.4


def test_no_refined_label_and_no_mix_is_momentum_contrast_over_all_keys(begun):
    plain, own = SANE(0.0, groups=1), MoCo(groups=1)
    net, batch = begun(plain)
    other, _ = begun(own)
    assert plain.loss([net], batch).loss > own.loss([other], batch).loss


def test_refined_labels_come_nearer_to_those_of_classes():
    torch.manual_seed(0)
    truth = torch.arange(160) % 4
    rows = Rows(4 * torch.eye(4)[truth] + 0.3 * torch.randn(160, 4), truth, tuple("abcd"))
    method = SANE(queue=80)
    pretrain(rows, method, "mlp", epochs=20, batch_size=40, device="cpu")
    found = label_quality(method, rows, batch=40, keys=120)
    assert found["refined"] < found["onehot"] - 0.1
    assert found["right"] > 0.9
    each = true_labels(truth[:40], truth)
    assert found["onehot"] == pytest.approx((torch.eye(160)[:40] - each).norm(dim=1).mean().item(), abs=0.01)
    flipped = Rows(rows.x, (truth + 1) % 4, tuple("abcd"), truth=truth)
    assert label_quality(method, flipped, batch=40, keys=120) == found
    method.mixup = MomentumMixup()

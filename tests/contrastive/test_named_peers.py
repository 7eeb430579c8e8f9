"""Oracles in plain loops for the methods that SANE's ImageNet table names: banks, tiles, clusters, own labels."""

import math

import pytest
import torch
from torch import nn

from contrastive.specification import BANK, K, Q, close, unit
from holdfast import HoldfastError, Rows
from holdfast.contrastive import CMC, CPC, LARS, PIRL, ImageViews, InfoMin, InstDisc, LocalAgg, SeLa, pretrain
from holdfast.contrastive.cmc import parts_of
from holdfast.contrastive.cpc import Context, cpc_losses
from holdfast.contrastive.images import Tile
from holdfast.contrastive.inst_disc import nce_losses
from holdfast.contrastive.jigsaw import JigsawHead
from holdfast.contrastive.local_agg import local_losses
from holdfast.contrastive.sela import assigned_at, even_labels
from holdfast.feed import Feed


def dot(a, b):
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def normal(row):
    length = math.sqrt(dot(row, row)) or 1.0
    return [float(x) / length for x in row]


def cross_entropy(found, own, others, temperature):
    """InfoNCE of one embedding."""
    right, *wrong = (math.exp(dot(found, each) / temperature) for each in (own, *others))
    return -math.log(right / (right + sum(wrong)))


def drawn(bank, rows):
    bank.draw = lambda count: rows


def test_inst_disc(begun):
    method = InstDisc(2, temperature=0.5, proximal=0.5)
    net, batch = begun(method, (Q,))
    batch = batch._replace(x=Q)
    method.memory.kept.copy_(unit(K))
    drawn(method.memory, unit(BANK))
    f, v, others = ([normal(row) for row in rows] for rows in (Q, K, BANK))
    # Two rows, two negatives: n times the mean, and m / n is one.
    constant = 2 * sum(math.exp(dot(a, b) / 0.5) for a in f for b in others) / 4
    total = 0.0
    for i in range(2):
        p = math.exp(dot(f[i], v[i]) / 0.5) / constant
        total -= math.log(p / (p + 1))
        for other in others:
            p = math.exp(dot(f[i], other) / 0.5) / constant
            total -= math.log(1 - p / (p + 1))
        total += 0.5 * sum((a - b) ** 2 for a, b in zip(f[i], v[i], strict=True))
    close(method.loss([net], batch).loss, total / 2)
    assert method.constant.item() == pytest.approx(constant)
    method.after_step([net])
    wanted = [normal([(a + b) / 2 for a, b in zip(*rows, strict=True)]) for rows in zip(f, v, strict=True)]
    close(method.memory.kept, wanted)
    net.weight.data.mul_(-1)  # the constant is that of the first batch
    method.loss([net], batch)
    assert method.constant.item() == pytest.approx(constant)


def test_inst_disc_among_all_rows(begun):
    method = InstDisc(temperature=0.5)
    net, batch = begun(method, (Q,))
    method.memory.kept.copy_(unit(K))
    total = sum(cross_entropy(normal(Q[i]), normal(K[i]), [normal(K[1 - i])], 0.5) for i in range(2))
    close(method.loss([net], batch._replace(x=Q)).loss, total / 2)


def test_nce_with_a_share_of_negatives_and_with_large_scores(q, k, bank):
    losses = nce_losses(q, k, bank, torch.tensor(3.0), 10, 0.2)
    for i in range(2):
        p = [math.exp(dot(q[i], each) / 0.2) / 3.0 for each in (k[i], *bank)]
        h = [each / (each + 2 / 10) for each in p]
        assert losses[i].item() == pytest.approx(-math.log(h[0]) - sum(math.log(1 - each) for each in h[1:]), rel=1e-5)
    assert torch.isfinite(nce_losses(q, k, bank, torch.tensor(3.0), 10, 1e-3)).all()


def test_pirl(begun):
    tile = torch.tensor([[1.0, 0.5], [0.2, 1.0]])
    method = PIRL(0.25, grid=1, negatives=2, temperature=0.5)
    net, batch = begun(method, (Q, tile))
    method.memory.kept.copy_(unit(K))
    drawn(method.memory, unit(BANK))
    method.jigsaw.join.weight.data.copy_(torch.eye(2))
    method.jigsaw.join.bias.data.zero_()
    others, total = [normal(row) for row in BANK], 0.0
    for i in range(2):
        own = normal(K[i])
        total += 0.25 * cross_entropy(normal(tile[i]), own, others, 0.5) / 2
        total += 0.75 * cross_entropy(normal(Q[i]), own, others, 0.5) / 2
    close(method.loss([net], batch).loss, total)
    method.after_step([net])  # the bank follows the image, not the puzzle
    close(method.memory.kept, unit((unit(Q) + unit(K)) / 2).tolist())


def test_a_puzzle_is_shuffled_for_each_example():
    head = JigsawHead(1, 4)
    head.join.weight.data.copy_(torch.tensor([[1.0, 10.0, 100.0, 1000.0]]))
    head.join.bias.data.zero_()
    tiles = [torch.full((64, 1), float(k)) for k in range(4)]
    found = head(nn.Identity(), tiles)[:, 0].round().int().tolist()
    orders = {tuple(sorted(f"{value:04d}")) for value in found}
    assert orders == {("0", "1", "2", "3")}
    assert len(set(found)) > 10


def test_info_min(begun):
    tile = torch.tensor([[1.0, 0.5], [0.2, 1.0]])
    method = InfoMin(0.25, grid=1, groups=1)
    net, batch = begun(method, (Q, K, tile))
    method.jigsaw.join.weight.data.copy_(torch.eye(2))
    method.jigsaw.join.bias.data.zero_()
    others = [normal(row) for row in BANK]
    puzzle = sum(cross_entropy(normal(tile[i]), normal(K[i]), others, 0.2) for i in range(2)) / 2
    close(method.loss([net], batch).loss, 0.75 * 0.180159 + 0.25 * puzzle)


def test_cmc(begun):
    method = CMC(2, temperature=0.5)
    x = torch.tensor([[2.0, -1.0], [1.0, 3.0]])
    net, batch = begun(method, (x,))
    batch = batch._replace(x=x)
    net.weight.data.copy_(torch.tensor([[1.0, 0.5], [-0.3, 1.0]]))
    banks = {"first": (unit(K), unit(BANK)), "second": (unit(Q), unit(-K))}
    for name, (kept, others) in banks.items():
        getattr(method, name).kept.copy_(kept)
        drawn(getattr(method, name), others)
    total, seen = 0.0, {"first": [], "second": []}
    for i in range(2):
        one = normal([float(x[i, 0]), -0.3 * float(x[i, 0])])
        two = normal([0.5 * float(x[i, 1]), float(x[i, 1])])
        for found, name in ((one, "second"), (two, "first")):
            kept, others = banks[name]
            total += cross_entropy(found, kept[i], others, 0.5) / 2
        seen["first"].append(one)
        seen["second"].append(two)
    close(method.loss([net], batch).loss, total)
    method.after_step([net])
    for name, rows in seen.items():
        close(getattr(method, name).kept, unit((torch.tensor(rows) + banks[name][0]) / 2).tolist())


def test_brightness_and_colours():
    x = torch.rand(4, 3, 5, 5)
    grey, colours = parts_of(x)
    torch.testing.assert_close(grey + colours - 0.5, x)
    for channel in range(3):
        torch.testing.assert_close(grey[:, channel], 0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2])
    bright = 0.299 * colours[:, 0] + 0.587 * colours[:, 1] + 0.114 * colours[:, 2]
    torch.testing.assert_close(bright, torch.full_like(bright, 0.5))


def test_cpc_finds_the_tile_some_rows_below():
    torch.manual_seed(0)
    foretold, targets = torch.randn(2, 4, 3, 5), torch.randn(2, 4, 3, 5)
    for step in (1, 2, 3):
        losses = cpc_losses(foretold, targets, step)
        for b in range(2):
            total = 0.0
            for r in range(4 - step):
                for c in range(3):
                    every = [math.exp(dot(foretold[b, r, c], each)) for each in targets.reshape(-1, 5)]
                    total -= math.log(math.exp(dot(foretold[b, r, c], targets[b, r + step, c])) / sum(every))
            assert losses[b].item() == pytest.approx(total / (3 * (4 - step)), rel=1e-5)


def test_cpc_predicts_from_four_sides(begun):
    torch.manual_seed(0)
    method = CPC(3, skipped=0, blocks=1)
    tiles = [torch.randn(2, 2) for _ in range(9)]
    net, batch = begun(method, tiles)
    grid = torch.stack(tiles).view(3, 3, 2, 2).permute(2, 0, 1, 3)
    sides = (
        grid, grid.transpose(1, 2).flip(1), grid.flip(1).flip(2), grid.transpose(1, 2).flip(2),
    )  # fmt: skip
    total = 0.0
    for side, turned in enumerate(sides):
        context = method.contexts[side](turned)
        for step in (1, 2):
            ahead = 0.1 * method.foretell[2 * side + step - 1](context)
            total = total + cpc_losses(ahead, method.aim(turned), step).mean() / 4
    torch.testing.assert_close(method.loss([net], batch).loss, total)
    assert len(CPC(4, skipped=1).augments(ImageViews(32))) == 16


def test_a_context_does_not_see_what_it_foretells():
    torch.manual_seed(0)
    context, x = Context(4, 2), torch.randn(1, 5, 3, 4)
    other = x.clone()
    other[:, 3:] += 1
    before, after = context(x), context(other)
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert (before[:, 3:] - after[:, 3:]).abs().max() > 0.01
    assert (context(x)[:, 0] != context(torch.randn(1, 5, 3, 4))[:, 0]).any()


def test_local_aggregation():
    torch.manual_seed(0)
    rows = Rows(torch.randn(8, 3), torch.zeros(8, 0))
    method = LocalAgg(4, (3, 2), temperature=0.5)
    net = nn.Identity()
    method.begin([net], Feed(rows, batch_size=8))
    method.memory.kept.copy_(unit(torch.randn(8, 3)))
    method.cluster.copy_(torch.tensor([[0, 0, 1, 1, 2, 2, 0, 1], [0, 1, 0, 1, 0, 1, 0, 1]]))
    method.ready.fill_(True)
    found, taken = unit(torch.randn(8, 3)), torch.tensor([5, 2, 7, 0, 1, 3, 6, 4])
    got = method.discriminate(found, taken)
    forced = 0
    for i, own in enumerate(taken.tolist()):
        scores = [dot(found[i], kept) for kept in method.memory.kept]
        near = sorted(range(8), key=lambda j: -scores[j])[:4]
        if own not in near:
            near[-1] = own
            forced += 1
        shared = [j for j in near if any(c[j] == c[own] for c in method.cluster.tolist())]
        odds = {j: math.exp(scores[j] / 0.5) for j in near}
        assert got[i].item() == pytest.approx(-math.log(sum(odds[j] for j in shared) / sum(odds.values())), abs=1e-5)
    assert forced
    assert local_losses(torch.randn(2, 3), torch.ones(2, 3, dtype=torch.bool)).tolist() == [0, 0]


def test_local_aggregation_begins_with_instances_and_then_clusters(blobs):
    method = LocalAgg(20, (3,), warmup=0.5)
    seen = []

    def watch(epoch, net):
        seen.append((bool(method.ready), len(method.cluster.unique())))
        return {}

    pretrain(blobs, method, nn.Linear(2, 4), epochs=4, batch_size=40, watch=watch)
    assert [ready for ready, _ in seen] == [False, False, True, True]
    assert seen[-1][1] == 3


def test_even_labels_by_plain_scaling():
    torch.manual_seed(0)
    p = torch.randn(12, 3).double().softmax(1)
    matrix = p**25.0
    for _ in range(5000):
        matrix = matrix / matrix.sum(0) / 3
        matrix = matrix / matrix.sum(1, keepdim=True) / 12
    labels = even_labels(p.log(), 25.0)
    assert torch.equal(labels, matrix.argmax(1))
    # Each row by itself would fill them unevenly.
    assert p.argmax(1).bincount(minlength=3).tolist() != [4, 4, 4]
    assert max(labels.bincount(minlength=3)) - min(labels.bincount(minlength=3)) <= 2
    one_sided = torch.tensor([[0.0, -3.0, -9.0]]).expand(9, 3) + 0.01 * torch.randn(9, 3)
    assert even_labels(one_sided.log_softmax(1), 25.0).bincount(minlength=3).min() >= 2
    assert torch.isfinite(even_labels(1000 * torch.randn(6, 2), 25.0).float()).all()


def test_sela(begun):
    method = SeLa(2, 2)
    net, batch = begun(method, (torch.cat([Q, K]),))
    batch = batch._replace(x=batch.x[0])
    method.labels.copy_(torch.tensor([[0, 1, 1, 0], [1, 1, 0, 0]]))
    total = 0.0
    for own, layer in zip(method.labels, method.score, strict=True):
        for i, row in enumerate(batch.x):
            scores = [math.exp(value) for value in (layer.weight @ row + layer.bias).tolist()]
            total -= math.log(scores[own[i]] / sum(scores)) / 8
    close(method.loss([net], batch).loss, total)


def test_labels_are_found_anew_more_often_at_first():
    assert sorted(assigned_at(4, 16)) == [0, 1, 4, 9]
    assert assigned_at(80, 3) == {0, 1, 2}
    assert assigned_at(1, 100) == {0}


def test_labels_of_sela_come_from_the_network(begun):
    method = SeLa(2, 1, assignments=1)
    net, _ = begun(method, (torch.cat([Q, -Q]),))
    method.score[0].weight.data.copy_(torch.eye(2))
    method.score[0].bias.data.zero_()
    feed = Feed(Rows(torch.tensor([[3.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 1.0]]), torch.zeros(4, 0)), batch_size=4)
    method.before_epoch([net], feed, 0, 10)
    assert method.labels.tolist() == [[0, 0, 1, 1]]
    net.weight.data.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    method.before_epoch([net], feed, 1, 10)
    assert method.labels.tolist() == [[0, 0, 1, 1]]


def test_lars():
    weight, bias = nn.Parameter(torch.tensor([[3.0, 4.0]])), nn.Parameter(torch.tensor([2.0]))
    made = LARS([weight, bias], lr=0.5, momentum=0.9, weight_decay=0.1, trust=0.01)
    w, b, kept_w, kept_b = [3.0, 4.0], 2.0, [0.0, 0.0], 0.0
    for grad, slope in (([0.6, -0.8], 0.5), ([-1.0, 0.2], 0.25)):
        weight.grad, bias.grad = torch.tensor([grad]), torch.tensor([slope])
        made.step()
        full = [g + 0.1 * x for g, x in zip(grad, w, strict=True)]
        ratio = 0.01 * math.hypot(*w) / math.hypot(*full)
        kept_w = [0.9 * k + 0.5 * ratio * f for k, f in zip(kept_w, full, strict=True)]
        kept_b = 0.9 * kept_b + 0.5 * slope
        w = [x - k for x, k in zip(w, kept_w, strict=True)]
        b -= kept_b
        close(weight, [w])
        close(bias, [b])
    still = nn.Parameter(torch.zeros(2, 2))
    still.grad = torch.ones(2, 2)
    LARS([still], lr=0.1).step()
    close(still, [[-0.1, -0.1], [-0.1, -0.1]])


def test_a_tile_shows_its_own_cell():
    x = torch.zeros(1, 1, 30, 30)
    for row in range(3):
        for column in range(3):
            x[:, :, 10 * row : 10 * row + 10, 10 * column : 10 * column + 10] = (3 * row + column) / 10
    generator = torch.Generator().manual_seed(0)
    for number in range(9):
        tile = Tile(10, (0.5, 1.0), jittered=0.0, grey=0.0, blur=0.0, number=number)
        close(tile(x.expand(16, -1, -1, -1), generator), torch.full((16, 1, 10, 10), number / 10).tolist(), atol=1e-5)
    shared = Tile(15, (1.0, 1.0), jittered=0.0, blur=0.0, number=4, across=3, overlap=0.5)
    top, left, tall, wide = shared.boxes(1, 30, 30, generator)
    # The cell in the middle starts at seven and a half, rounded to an even number.
    assert 8 <= top.item() <= top.item() + tall.item() <= 23
    assert 8 <= left.item() <= left.item() + wide.item() <= 23
    assert ImageViews(32).tile(0, 3).side == 11
    with pytest.raises(HoldfastError, match="coarser grid"):
        ImageViews(12).tile(0, 3)


def test_a_plain_view_keeps_colours():
    x = torch.tensor([0.2, 0.5, 0.9])[None, :, None, None].expand(32, -1, 16, 16)
    seen = ImageViews(16).plain()(x, torch.Generator().manual_seed(0))
    torch.testing.assert_close(seen, x, atol=1e-5, rtol=0)


@pytest.mark.parametrize("method", [PIRL(grid=2), InfoMin(grid=2), CMC(), CPC(3)], ids=repr)
def test_images_are_pre_trained(method, stripes):
    large = Rows(stripes.x.repeat(1, 1, 2, 2)[:24], stripes.y[:24], stripes.classes)
    run = pretrain(large, method, "cnn4", epochs=2, batch_size=12, device="cpu")
    assert run.history["loss"].notna().all()

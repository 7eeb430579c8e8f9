import pytest
import torch

from holdfast.contract import check_method
from holdfast.functional import keep_smallest
from holdfast.methods import PRLL, SPL


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("method", [PRLL(), PRLL(0.45, ramp=0), PRLL(0.2, ramp=0)], ids=repr)
def test_the_contract_holds(method, regression):
    check_method(method, neutral=PRLL(0.0), regression=regression)


def test_numbers_of_the_specification(on_tables, logits, labels):
    method = PRLL(0.25)
    nets, batch = on_tables(method, [logits], labels)
    step = method.loss(nets, batch)
    assert step.loss.item() == pytest.approx(0.499083, abs=1e-5)
    assert step.weight.tolist() == [1, 0, 1, 1]
    norms = method.task.gradients(logits, labels).norm(dim=1)
    torch.testing.assert_close(norms, torch.tensor([0.279688, 0.878189, 0.361445, 0.781428]), atol=1e-5, rtol=0)


def test_ranks_otherwise_than_spl_where_the_rest_of_the_probability_is_gathered(on_tables):
    p = torch.tensor([[0.4, 0.6, 1e-9], [0.35, 0.325, 0.325], [0.7, 0.2, 0.1], [0.9, 0.05, 0.05]])
    y = torch.zeros(4, dtype=torch.int64)
    for make, kept, loss in ((SPL, [1, 0, 1, 1], 0.459442), (PRLL, [0, 1, 1, 1], 0.503953)):
        method = make(0.25)
        nets, batch = on_tables(method, [p.log()], y)
        step = method.loss(nets, batch)
        assert step.weight.tolist() == kept
        assert step.loss.item() == pytest.approx(loss, abs=1e-5)


def test_regression_keeps_small_residuals(on_tables):
    output = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    y = torch.tensor([[1.5], [2.0], [6.0], [3.0]])
    method = PRLL(0.25)
    nets, batch = on_tables(method, [output], y)
    step = method.loss(nets, batch)
    assert step.weight.tolist() == [1, 1, 0, 1]
    assert step.loss.item() == pytest.approx(0.416667, abs=1e-5)


def test_against_a_loop_with_both_ways_forward(on_tables, trained):
    source = torch.Generator().manual_seed(1)
    table, y = 2 * torch.randn(40, 5, generator=source), torch.randint(0, 5, (40,), generator=source)
    p = table.softmax(1)
    score = []
    for i in range(40):
        score.append(sum((p[i, c].item() - float(c == y[i])) ** 2 for c in range(5)) ** 0.5)
    kept = sorted(range(40), key=lambda i: score[i])[:22]
    for forwards in ("one", "two", "auto"):
        method = PRLL(0.45, ramp=0, forwards=forwards)
        nets, batch = on_tables(method, [table], y, epoch=0)
        step, (grad,) = trained(method, nets, batch)
        assert step.weight.nonzero()[:, 0].tolist() == sorted(kept)
        for i in range(40):
            expected = (p[i] - torch.eye(5)[y[i]]) / 22 if i in kept else torch.zeros(5)
            torch.testing.assert_close(grad[i], expected)
        assert torch.equal(step.output, table)


class Counting(torch.nn.Linear):
    rows = 0

    def forward(self, x):
        if torch.is_grad_enabled():
            Counting.rows += len(x)
        return super().forward(x)


def test_only_what_is_kept_goes_through_the_trained_pass(blobs):
    from holdfast.feed import Feed

    net, feed = Counting(2, 3), Feed(blobs, batch_size=100)
    for rate, rows in ((0.45, 55), (0.2, 100)):
        method = PRLL(rate, ramp=0)
        method.begin([net], feed)
        Counting.rows = 0
        method.loss([net], next(iter(feed.batches()))).loss.backward()
        assert Counting.rows == rows


def test_the_rank_condition_of_the_paper():
    """A higher label probability has the larger norm iff the variances differ by enough."""
    source = torch.Generator().manual_seed(2)
    classes = 4
    p = torch.rand(200, classes, generator=source, dtype=torch.float64)
    p /= p.sum(1, keepdim=True)
    norm = (p - torch.eye(classes, dtype=torch.float64)[0]).norm(dim=1)
    variance = p[:, 1:].var(1, correction=0)
    larger = 0
    for a in range(200):
        for b in range(200):
            if p[a, 0] > p[b, 0]:
                gap = classes / (classes - 1) ** 2 * (p[a, 0] - p[b, 0]) * (2 - p[a, 0] - p[b, 0])
                assert (norm[a] >= norm[b]) == (variance[a] - variance[b] >= gap)
                larger += int(norm[a] >= norm[b])
    assert larger > 100
    assert keep_smallest(norm, 0.5).sum() == 100

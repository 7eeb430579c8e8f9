import numpy as np
import pytest
import torch
from torch import nn

from holdfast import HoldfastError, Method, Rows, Stack, fit
from holdfast.contract import check_method
from holdfast.feed import Feed
from holdfast.method import Weigh
from holdfast.methods import GCE, SCE, NormClip, TRevision
from holdfast.types import Batch, Plan, Stage


def begun(method, rows, batch_size=20):
    torch.manual_seed(0)
    feed = Feed(rows, batch_size=batch_size)
    nets = [nn.Linear(2, 3) for _ in range(method.networks)]
    method.begin(nets, feed)
    return nets, feed


def test_ordinary_loss_is_the_mean_cross_entropy(blobs, logits, labels):
    method = Method()
    begun(method, blobs)
    step = method.loss([nn.Identity()], Batch(logits, labels, torch.arange(4), torch.ones(4)))
    assert step.loss.item() == pytest.approx(0.669380, abs=1e-5)
    weighted = method.loss([nn.Identity()], Batch(logits, labels, torch.arange(4), torch.tensor([1.0, 0, 0, 3])))
    assert weighted.loss.item() == pytest.approx((0.241311 + 3 * 0.913862) / 4, abs=1e-5)


def test_a_method_that_has_not_begun_says_so():
    with pytest.raises(HoldfastError, match="call begin"):
        Method().loss(
            [nn.Identity()], Batch(torch.zeros(1, 2), torch.zeros(1).long(), torch.zeros(1).long(), torch.ones(1))
        )


def test_the_number_of_networks_is_checked(blobs):
    with pytest.raises(HoldfastError, match="trains 1 network"):
        Method().begin([nn.Linear(2, 3)] * 2, Feed(blobs))


class Halves(Weigh):
    """Two networks, one trained on even rows and the other on odd ones."""

    networks = 2

    def weigh(self, outputs, batch):
        first = batch.index % 2 == 0
        return [first.float(), (~first).float()]


def test_weigh_gives_each_network_its_own_gradient(blobs):
    method = Halves()
    nets, feed = begun(method, blobs)
    batch = next(iter(feed.batches()))
    step = method.loss(nets, batch)
    step.loss.backward()
    even = batch.index % 2 == 0
    alone = nn.functional.cross_entropy(nets[0](batch.x[even]), batch.y[even])
    (grad,) = torch.autograd.grad(alone, nets[0].weight)
    torch.testing.assert_close(nets[0].weight.grad, grad)
    assert step.weight.tolist() == [0.5] * 20


class Planner(Method):
    def plan(self, nets, data):
        return Plan(torch.arange(5))


class Counter(Method):
    def __init__(self, start=0):
        super().__init__()
        self.start = start
        self.register_buffer("steps", torch.tensor(start))

    def after_step(self, nets):
        self.steps += 1


def test_a_stack_composes_and_clashes_raise(blobs):
    stack = Stack(Planner(), Counter(2))
    nets, feed = begun(stack, blobs)
    assert stack.plan(nets, feed).index.tolist() == [0, 1, 2, 3, 4]
    stack.after_step(nets)
    assert int(stack.parts()[1].steps) == 3
    assert repr(stack) == "Stack(Planner(), Counter(start=2))"
    with pytest.raises(HoldfastError, match="both define plan"):
        Stack(Planner(), Planner())
    with pytest.raises(HoldfastError, match="both define loss"):
        Stack(Halves(), Halves())
    with pytest.raises(HoldfastError, match="both define loss"):
        Stack(GCE(), SCE())  # each has losses of its own


def test_a_stack_among_the_members_stands_for_its_own():
    inner = Stack(Planner(), Counter(1))
    outer = Stack(inner, Counter(4))
    assert repr(outer) == "Stack(Planner(), Counter(start=1), Counter(start=4))"
    with pytest.raises(HoldfastError, match="both define plan"):
        Stack(inner, Planner())


@pytest.mark.parametrize(
    "method", [Method(), Stack(Planner(), Counter(5)), Stack(Stack(Counter()), Planner())], ids=repr
)
@pytest.mark.parametrize("regression", [False, True])
def test_the_contract_holds(method, regression):
    check_method(method, regression=regression)


def test_the_contract_holds_for_two_networks():
    check_method(Halves())


class Detached(Method):
    """Trains nothing, as a published regulariser once did."""

    def loss(self, nets, batch):
        step = super().loss(nets, batch)
        return step._replace(loss=step.loss.detach().requires_grad_())


class Meddler(Method):
    def loss(self, nets, batch):
        batch.y.fill_(0)
        return super().loss(nets, batch)


class FirstRow(Method):
    def loss(self, nets, batch):
        weight = torch.zeros(len(batch.y))
        weight[0] = 1
        return super().loss(nets, batch._replace(weight=weight))


class Forgetful(Method):
    calls = 0

    def loss(self, nets, batch):
        self.calls += 1
        step = super().loss(nets, batch)
        return step._replace(loss=step.loss * self.calls)


class Divides(Method):
    def loss(self, nets, batch):
        step = super().loss(nets, batch)
        return step._replace(loss=step.loss / batch.weight.sum())


class IgnoresWeight(Method):
    def loss(self, nets, batch):
        return super().loss(nets, batch._replace(weight=torch.ones_like(batch.weight)))


class IgnoresWeightLater(Method):
    epoch = 0

    def before_epoch(self, nets, data, epoch, epochs):
        self.epoch = epoch

    def loss(self, nets, batch):
        weight = batch.weight if self.epoch < 2 else torch.ones_like(batch.weight)
        return super().loss(nets, batch._replace(weight=weight))


class Misspelt(Method):
    def befor_epoch(self, nets, data, epoch, epochs):
        raise AssertionError("never called")


class Reseeds(Method):
    def plan(self, nets, data):
        torch.manual_seed(0)
        return Plan(torch.randperm(len(data)))


class ReseedsNumpy(Method):
    def before_epoch(self, nets, data, epoch, epochs):
        np.random.seed(epoch)  # noqa: NPY002


class WeighsInVain(Method):
    def weigh(self, outputs, batch):
        return [torch.zeros(len(batch.y))]


class Renames(Method):
    def __init__(self, rate=0.2):
        super().__init__()
        self._rate = rate


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Detached(), "no gradient"),
        (Meddler(), "changes y of the batch"),
        (FirstRow(), "order of the rows"),
        (Forgetful(), "saved and loaded"),
        (Divides(), "nothing counts"),
        (IgnoresWeight(), "ignores batch.weight"),
        (IgnoresWeightLater(), "ignores batch.weight"),
        (Misspelt(), "befor_epoch is no hook.*did you mean before_epoch"),
        (Reseeds(), "changes the global random state"),
        (ReseedsNumpy(), "changes the global random state"),
        (WeighsInVain(), "derive from Weigh"),
        (Renames(), "takes 'rate' and keeps it under another name"),
    ],
)
def test_the_check_finds_what_is_broken(broken, words):
    with pytest.raises(AssertionError, match=words):
        check_method(broken)


def test_the_check_finds_a_neutral_setting_that_is_not():
    with pytest.raises(AssertionError, match="should equal ordinary training"):
        check_method(Method(), neutral=Planner())


def test_rows_name_what_is_wrong():
    with pytest.raises(HoldfastError, match=r"2 rows \(1, 2\) hold NaN or infinite"):
        Rows(torch.tensor([[0.0], [torch.nan], [torch.inf]]), torch.tensor([0, 1, 0]), ("a", "b"))


def trained_by_hand(method, rows, epochs=6, rate=0.1):
    """A loop of one's own."""
    torch.manual_seed(0)
    net, feed = nn.Linear(2, 3), Feed(rows, batch_size=40)
    method.begin([net], feed)
    optimizer = torch.optim.SGD([*net.parameters(), *method.parameters()], lr=rate)
    for epoch in range(epochs):
        for batch in method.batches([net], feed, optimizer, epoch, epochs):
            method.step([net], batch, optimizer)
    return net


@pytest.mark.parametrize("make", [lambda: NormClip(1e-6), lambda: Stack(NormClip(1e-6))])
def test_no_hook_goes_missing_in_a_loop_of_ones_own(blobs, make):
    clipped, ordinary = trained_by_hand(make(), blobs), trained_by_hand(Method(), blobs)
    torch.manual_seed(0)
    start = nn.Linear(2, 3)
    assert (clipped.weight - start.weight).norm() < 1e-4 < (ordinary.weight - start.weight).norm()


def test_a_loop_of_ones_own_trains_what_fit_trains(blobs):
    def optimizer(parameters):
        return torch.optim.SGD(parameters, lr=0.1)

    for make in (Method, lambda: TRevision(estimate=2, pace=0.5), lambda: GCE(truncate=0.4, start=2, every=1)):
        torch.manual_seed(0)
        net = nn.Linear(2, 3)
        run = fit(
            blobs, make(), net, epochs=6, batch_size=40, optimizer=optimizer, schedule=lambda share: 1.0, device="cpu"
        )
        by_hand = trained_by_hand(make(), blobs)
        torch.testing.assert_close(by_hand.weight, run.net.weight)


def test_parameters_of_a_methods_own_must_be_optimised(blobs):
    method, net, feed = TRevision(), nn.Linear(2, 3), Feed(blobs, batch_size=40)
    method.begin([net], feed)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(HoldfastError, match=r"\(change\) that the optimizer does not have.*\*method.parameters"):
        method.step([net], next(iter(feed.batches())), optimizer)


class TwoStages(Method):
    """Ordinary training that starts anew in the third epoch, at a tenth of the rate."""

    def stages(self, epochs):
        return (Stage(0), Stage(2, 0.1))


def test_a_stage_starts_schedule_and_optimizer_anew():
    seen = []

    class Spy(torch.optim.SGD):
        def step(self, closure=None):
            momentum = [self.state[p].get("momentum_buffer") is not None for p in self.param_groups[0]["params"]]
            seen.append((self.param_groups[0]["lr"], any(momentum)))
            return super().step(closure)

    def halves(share):
        return 1.0 if share < 0.5 else 0.5

    rows = Rows(torch.randn(20, 2), torch.arange(20) % 2, ("a", "b"))
    fit(
        rows, TwoStages(), torch.nn.Linear(2, 2), epochs=6, batch_size=20, schedule=halves,
        optimizer=lambda parameters: Spy(parameters, lr=1.0, momentum=0.9),
    )  # fmt: skip
    rates = [rate for rate, _ in seen]
    assert rates == pytest.approx([1, 0.5, 0.1, 0.1, 0.05, 0.05])
    assert [remembers for _, remembers in seen] == [False, True, False, True, True, True]
    assert Stack(TwoStages(), Counter()).stages(6) == (Stage(0), Stage(2, 0.1))
    with pytest.raises(HoldfastError, match="both define stages"):
        Stack(TwoStages(), TwoStages())

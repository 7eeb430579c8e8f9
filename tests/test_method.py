import pytest
import torch
from torch import nn

from holdfast import Feed, HoldfastError, Method, Plan, Rows, Stack, Stage, Weigh, check_method, fit
from holdfast.method import Batch, Epoch, Verdict


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


class Stopper(Method):
    def __init__(self, after=1):
        super().__init__()
        self.after = after
        self.register_buffer("ended", torch.zeros(()))

    def judge(self, epoch):
        self.ended += 1
        return Verdict(bool(self.ended == 1), "enough" if self.ended >= self.after else "")


def test_a_stack_composes_and_clashes_raise(blobs):
    stack = Stack(Planner(), Stopper(2))
    nets, feed = begun(stack, blobs)
    assert stack.plan(nets, feed).index.tolist() == [0, 1, 2, 3, 4]
    epoch = Epoch(0, 10, nets[0], feed, 0.5, 0.5, 1.0)
    assert stack.judge(epoch) == Verdict(True, "")
    assert stack.judge(epoch) == Verdict(False, "enough")
    assert repr(stack) == "Stack(Planner(), Stopper(after=2))"
    with pytest.raises(HoldfastError, match="both define plan"):
        Stack(Planner(), Planner())
    with pytest.raises(HoldfastError, match="both define loss"):
        Stack(Halves(), Halves())


@pytest.mark.parametrize("method", [Method(), Stack(Planner(), Stopper(5)), Stopper(3)], ids=repr)
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


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Detached(), "no gradient"),
        (Meddler(), "changes y of the batch"),
        (FirstRow(), "order of the rows"),
        (Forgetful(), "saved and loaded"),
        (Divides(), "nothing counts"),
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
    assert Stack(TwoStages(), Stopper(99)).stages(6) == (Stage(0), Stage(2, 0.1))
    with pytest.raises(HoldfastError, match="both define stages"):
        Stack(TwoStages(), TwoStages())

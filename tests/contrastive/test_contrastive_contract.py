"""What every contrastive method must do."""

import copy

import pytest
import torch
from torch import nn

from holdfast import HoldfastError, Method, Rows, fit
from holdfast.contract import check_method
from holdfast.contrastive import (
    CLSA,
    CMC,
    CONTRASTIVE,
    CPC,
    MULTI,
    PCL,
    PIRL,
    SANE,
    InfoMin,
    InstDisc,
    LocalAgg,
    MomentumMixup,
    SeLa,
    SwAV,
    TableViews,
    VanillaMixup,
)
from holdfast.contrastive.pretrain import pretrain
from holdfast.feed import Feed
from holdfast.methods import Crust
from holdfast.types import Step

VARIANTS = [
    SANE(0.0),
    SANE(1.0),
    SANE(positive=False),
    SANE(others=False, mixup=None),
    SANE(mixup=None, strong=True),
    SANE(mixup=VanillaMixup(), strong=True),
    SANE(sizes=MULTI),
    SANE(1.0, sizes=(0.43,), mixup=MomentumMixup(0.1), mu=(0.5, 10.0)),
    CLSA(MULTI, MULTI),
    SwAV(8, small=2, queue=24, queue_from=0.0, frozen=1),
    PCL((4, 8), 3, warmup=0.0),
    LocalAgg(9, (4, 8), warmup=0.0),
    InstDisc(7, proximal=30.0),
    PIRL(grid=1),
    SeLa(4, 2, assignments=1),
]
WITHOUT_CROPS = {"swav": {"small": 0}, "pirl": {"grid": 1}, "info-min": {"grid": 1}}
"""Settings for rows of a table."""


def test_the_names_of_the_command_line():
    names = [
        "byol", "clsa", "cmc", "co2", "cpc", "dacl", "i-mix", "info-min", "inst-disc", "local-agg", "mixco", "moco",
        "pcl", "pirl", "sane", "sela", "simclr", "simsiam", "swav",
    ]  # fmt: skip
    assert sorted(CONTRASTIVE) == sorted([*names, "sane-strong"])
    assert [CONTRASTIVE[name].name for name in names] == names
    assert repr(CONTRASTIVE["sane-strong"]()) == "SANE(strong=True)"


@pytest.mark.parametrize("name", CONTRASTIVE)
def test_the_contract_holds(name):
    check_method(CONTRASTIVE[name](), unlabelled=True)


@pytest.mark.parametrize("method", VARIANTS, ids=repr)
def test_the_contract_holds_with_other_settings(method):
    check_method(method, unlabelled=True)


class Detached(SANE):
    """A method that trains nothing."""

    def contrast(self, net, batch, key):
        return super().contrast(net, batch, key).detach().requires_grad_()


def test_a_method_whose_gradient_reaches_no_network_is_found_out():
    with pytest.raises(AssertionError, match="no gradient"):
        check_method(Detached(), unlabelled=True)


@pytest.mark.parametrize("name", [name for name in CONTRASTIVE if name != "cpc"])
def test_steps_lower_the_loss_and_change_the_network(name, blobs):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
    before = copy.deepcopy(net)
    method = CONTRASTIVE[name](**WITHOUT_CROPS.get(name, {}))
    run = pretrain(blobs, method, net, epochs=8, batch_size=40)
    assert run.history["loss"].iloc[-1] < run.history["loss"].iloc[1]
    assert all(not torch.equal(a, b) for a, b in zip(net.parameters(), before.parameters(), strict=True))


@pytest.mark.parametrize("name", CONTRASTIVE)
def test_no_method_takes_rows_with_labels(name, blobs):
    with pytest.raises(HoldfastError, match="learns without labels"):
        CONTRASTIVE[name]().begin([nn.Linear(2, 4)], Feed(blobs))


def test_every_method_says_as_many_augmentations_as_it_has_views():
    for method in [*(make() for make in CONTRASTIVE.values()), *VARIANTS]:
        recipe = Recorded()
        assert len(method.augments(recipe)) == method.views


class Recorded(TableViews):
    def weak(self, size=1.0, scale=None):
        return lambda x, generator: x

    def strong(self, size=1.0):
        return lambda x, generator: x

    def tile(self, number, across, overlap=0.0):
        return lambda x, generator: x


def test_labels_cannot_reach_a_method(blobs):
    seen = []

    class Curious(Method):
        def loss(self, nets, batch):
            seen.append(batch.y)
            return Step(nets[0](batch.x).square().mean())

    run = fit(blobs.without_labels(), Curious(), nn.Linear(2, 3), epochs=1, batch_size=40)
    assert all(y.shape == (40, 0) for y in seen)
    assert run.rows.truth is None
    assert run.rows.classes is None
    assert run.history["train"].isna().all()
    assert (run.ledger["trained"] == 1).all()


def test_mistakes_are_named(blobs):
    bare = blobs.without_labels()
    with pytest.raises(HoldfastError, match="no test score"):
        fit(bare, SANE(), nn.Linear(2, 3), test=bare)
    with pytest.raises(HoldfastError, match="no labels to learn from"):
        fit(bare, Method(), nn.Linear(2, 3), epochs=1)
    with pytest.raises(HoldfastError, match="no labels to learn from; pre-train"):
        fit(bare, epochs=1)
    with pytest.raises(HoldfastError, match="needs labels; pre-training takes"):
        pretrain(blobs, Crust())
    with pytest.raises(HoldfastError, match="1 augmentations for 2 view"):
        fit(bare, SANE(), nn.Linear(2, 3), augment=[lambda x, generator: x])
    with pytest.raises(HoldfastError, match="no crops"):
        pretrain(blobs, SANE(sizes=MULTI))
    with pytest.raises(HoldfastError, match="no tiles"):
        pretrain(blobs, CPC())
    with pytest.raises(HoldfastError, match="have one alone"):
        pretrain(Rows(torch.rand(8, 1, 12, 12), torch.zeros(8, 0)), CMC(), "cnn4", epochs=1, batch_size=4, device="cpu")
    for make, words in (
        (lambda: SANE(1.5), "weight of refined labels"),
        (lambda: SANE(mu=(-1.0, 1.0)), "mu must be"),
        (lambda: SANE(sizes=(2.0,)), "shares of the side"),
        (lambda: SANE(sharpness=0.0), "temperature must be positive"),
        (lambda: SANE(momentum=1.0), "momentum must lie"),
        (lambda: SANE(queue=0), "at least 1"),
        (lambda: MomentumMixup(0.0), "kappa"),
        (lambda: CLSA(()), "one at least"),
        (lambda: SwAV(1), "two prototypes"),
        (lambda: PCL((1,)), "two or more"),
        (lambda: InstDisc(-1), "negatives are at least 0"),
        (lambda: CMC(0), "negatives must be at least 1"),
        (lambda: InstDisc(proximal=-1.0), "proximal"),
        (lambda: CMC(momentum=1.0), "momentum must lie"),
        (lambda: PIRL(2.0), "weight of puzzles"),
        (lambda: PIRL(grid=0), "one tile"),
        (lambda: InfoMin(weight=-1.0), "weight of puzzles"),
        (lambda: CPC(2), "0 to 0 steps"),
        (lambda: CPC(blocks=0), "one block"),
        (lambda: LocalAgg(1), "two neighbours"),
        (lambda: LocalAgg(warmup=2.0), "share of the training"),
        (lambda: SeLa(1), "two clusters"),
        (lambda: SeLa(sharpness=0.0), "sharpness"),
    ):
        with pytest.raises(HoldfastError, match=words):
            make()

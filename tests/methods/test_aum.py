import pytest
import torch
from sklearn.datasets import load_digits

from holdfast import HoldfastError, Rows, fit
from holdfast.compare import corrupted
from holdfast.contract import check_method
from holdfast.methods import AUM
from holdfast.methods.aum import flagged
from holdfast.types import Batch


def test_the_contract_holds():
    check_method(AUM(), neutral=AUM(each=0))


def test_margins_of_the_specification(on_tables):
    method = AUM(each=40)
    nets, batch = on_tables(method, [torch.tensor([[2.0, 0.5, -1.0], [0.0, 1.0, 0.5]])], torch.tensor([0, 2]), epoch=0)
    method.loss(nets, batch)
    with torch.no_grad():
        nets[0].table.copy_(torch.tensor([[3.0, 1.0, 0.0], [0.5, 2.0, 0.2]]))
    method.loss(nets, Batch(*batch))
    torch.testing.assert_close(method.areas()[0], torch.tensor([1.75, -1.15]).double(), atol=1e-6, rtol=0)


def test_rows_below_the_threshold_rows_are_flagged():
    areas = torch.tensor([[3.0, -2.0, -1.0, 1.0], [2.0, -2.5, 0.5, -0.5]])
    fake = torch.tensor([[False, False, True, False], [False, False, False, True]])
    assert flagged(areas, fake, 0.99).tolist() == [False, True, False, False]


def test_wrong_labels_have_small_areas(flipped):
    rows, method = flipped(1200, wrong=0.2), AUM(each=5)
    fit(rows, method, "mlp", epochs=14, batch_size=40)
    right = rows.y == rows.truth
    assert right[method.kept].double().mean() > 0.97
    assert method.scores()[right].median() > method.scores()[~right].quantile(0.9)
    assert not (method.fake[0] & method.fake[1]).any()


def test_rows_of_the_additional_class_learn_it_and_are_not_trusted(on_tables, trained):
    method = AUM(each=40)
    nets, batch = on_tables(
        method, [torch.tensor([[2.0, 0.5], [0.0, 1.0], [1.0, -1.0]])], torch.tensor([0, 1, 0]), epoch=0
    )
    assert method.fake.sum(1).tolist() == [1, 1]
    fake = method.fake[0]
    step, (gradient,) = trained(method, nets, batch)
    wider = torch.cat([nets[0].table.detach(), torch.zeros(3, 1)], dim=1)
    label = torch.where(fake, 2, batch.y)
    torch.testing.assert_close(step.loss.detach(), torch.nn.functional.cross_entropy(wider, label))
    assert (gradient[fake] > 0).all()
    assert step.weight.tolist() == (~fake).float().tolist()
    margin = -wider[fake, :2].amax()
    assert method.areas()[0][fake].item() == pytest.approx(margin.item())


def test_of_labels_half_of_which_are_wrong_the_right_ones_are_kept():
    # Threshold rows with a random other label would be right by chance in one of eighteen, and set the bar too high.
    x, y = load_digits(return_X_y=True)
    rows = corrupted(Rows(torch.tensor(x).float() / 16, torch.tensor(y), tuple("0123456789")), "symmetric", 0.5, 0)
    method = AUM(each=15)
    fit(rows, method, "mlp", epochs=31, batch_size=40)
    right = rows.y == rows.truth
    assert right[method.kept].double().mean() > 0.93
    assert method.kept[right].double().mean() > 0.93


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="quantile"):
        AUM(quantile=1)

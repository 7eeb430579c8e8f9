import pytest
import torch

from holdfast import AUM, HoldfastError, check_method, fit
from holdfast.method import Batch
from holdfast.methods.aum import flagged


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
    assert not ((method.fake[0] >= 0) & (method.fake[1] >= 0)).any()


def test_mistakes_are_told():
    with pytest.raises(HoldfastError, match="quantile"):
        AUM(quantile=1)

"""Jacobians and their spectra, beside explicit derivatives."""

import numpy as np
import pytest
import torch
from torch import nn

from holdfast import HoldfastError
from holdfast.nets import CNN4, ResNet
from holdfast.theory import Shallow
from holdfast.theory import jacobian as module
from holdfast.theory.jacobian import Jacobian, smoothness, spectrum, without_largest


def explicit(net, x, pick=None):
    net.eval()
    rows = []
    for i in range(len(x)):
        output = net(x[i : i + 1])[0]
        for k in range(len(output)) if pick is None else [int(pick[i])]:
            slopes = torch.autograd.grad(output[k], list(net.parameters()), retain_graph=True)
            rows.append(torch.cat([g.flatten() for g in slopes]))
    return torch.stack(rows)


NETS = {
    "mlp": lambda: nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)),
    "cnn4": lambda: CNN4(1, 3, width=(4, 4, 4, 4)),
    "resnet": lambda: ResNet(8, channels=2, outputs=3),  # changes the memory layout, which no batch of examples can
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("picked", [True, False])
def test_products_and_matrix_are_those_of_autograd(name, picked, monkeypatch):
    torch.manual_seed(0)
    net = NETS[name]().train()
    x = torch.randn(7, 6) if name == "mlp" else torch.randn(7, 2 if name == "resnet" else 1, 12, 12)
    pick = torch.arange(7) % 3 if picked else None
    want = explicit(net, x, pick)
    net.train()
    monkeypatch.setattr(module, "WORKSPACE", 2 * 64 * x[0].numel())  # two examples at a time
    found = Jacobian(net, x, pick)
    assert found.shape == tuple(want.shape)
    torch.testing.assert_close(found.dense(), want, rtol=1e-4, atol=1e-5)
    v = np.random.default_rng(0).standard_normal(want.shape[1]).astype(np.float32)
    u = np.random.default_rng(1).standard_normal(want.shape[0]).astype(np.float32)
    np.testing.assert_allclose(found.matvec(v), want.detach().numpy() @ v, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.rmatvec(u), want.detach().numpy().T @ u, rtol=1e-3, atol=1e-3)
    assert net.training


@pytest.mark.parametrize("way", ["gram", "lanczos on the matrix", "lanczos without it"])
def test_spectra_agree_however_they_are_computed(way, monkeypatch):
    torch.manual_seed(0)
    net, x = NETS["mlp"](), torch.randn(60, 6)
    want = torch.linalg.svd(explicit(net, x).double(), full_matrices=False)
    if way == "lanczos without it":
        monkeypatch.setattr(module, "FITS", 0)
    if way == "lanczos on the matrix":
        monkeypatch.setattr(module, "WHOLE", 0)
    found = spectrum(Jacobian(net, x), 8)
    torch.testing.assert_close(found.values, want.S[:8], rtol=1e-3, atol=1e-4)
    assert found.above() == min(8, int((0.1 * want.S[0] < want.S).sum()))
    v = want.U[:, 0] + want.U[:, 70]
    assert found.information(v) == pytest.approx(0.5, abs=1e-3)
    few = spectrum(Jacobian(net, x[:2]))  # six rows, fewer than are asked for
    torch.testing.assert_close(
        few.values[:5], torch.linalg.svdvals(explicit(net, x[:2]).double())[:5], rtol=1e-3, atol=1e-4
    )


def test_part_of_the_weights_and_the_closed_form_of_one_hidden_layer():
    net, x = Shallow(5, 8), torch.randn(9, 5).double()

    class Column(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            return self.net(x)[:, None]

    torch.testing.assert_close(Jacobian(Column(), x).dense(), net.jacobian(x).float())
    mlp = NETS["mlp"]()
    assert without_largest(mlp, 1) == ["0.bias", "2.weight", "2.bias"]
    assert Jacobian(mlp, torch.randn(4, 6), weights=["2.bias"]).dense().tolist() == torch.eye(3).repeat(4, 1).tolist()
    with pytest.raises(HoldfastError, match="no trained parameter"):
        Jacobian(mlp, torch.randn(4, 6), weights=["3.bias"])
    with pytest.raises(HoldfastError, match="leave out fewer"):
        without_largest(mlp, 9)


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(module, "FITS", 10)
    with pytest.raises(HoldfastError, match="does not fit"):
        Jacobian(NETS["mlp"](), torch.randn(4, 6)).dense()


def test_a_straight_network_does_not_bend():
    torch.manual_seed(0)
    x = torch.randn(12, 6)
    for net, bends in ((nn.Linear(6, 3), False), (NETS["mlp"](), True)):
        start = {name: p.detach().clone() for name, p in net.named_parameters()}
        assert smoothness(net, x, start) == 0
        with torch.no_grad():
            for p in net.parameters():
                p.add_(0.1 * torch.randn_like(p))
        assert (smoothness(net, x, start) > 1e-3) is bends

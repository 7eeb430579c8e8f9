"""Norms of single gradients against an explicit loop, for every network of the library and other layers."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from holdfast import HoldfastError
from holdfast.functional import gradient_matrix, gradient_norms, persample
from holdfast.nets import CNN4, CNN9, MLP, replace_batchnorm, resnet20, resnet32


def losses(output, y):
    return F.cross_entropy(output, y, reduction="none")


def looped(net, x, y):
    trained = [p for p in net.parameters() if p.requires_grad]
    rows = []
    for i in range(len(x)):
        loss = losses(net(x[i : i + 1]), y[i : i + 1])[0]
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, trained)]))
    return torch.stack(rows)


class Grouped(nn.Module):
    """Strides, dilation, groups and biases."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.b = nn.Conv2d(8, 12, 3, groups=4, dilation=2, padding=2)
        self.c = nn.Conv2d(12, 40, 3, padding=0, groups=2)
        self.norm = nn.LayerNorm([40, 14, 14])
        self.head = nn.Linear(40, 10)

    def forward(self, x):
        return self.head(self.norm(self.c(self.b(self.a(x)).relu())).relu().mean((2, 3)))


class Words(nn.Module):
    """Linear layers over positions, LayerNorm, and two branches from the input."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 8), nn.Linear(32, 8, bias=False)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = x.flatten(1, 2)
        return self.head(self.norm(self.a(x) * self.b(x)).mean(1))


class Attending(nn.Module):
    """Layers without a closed form here."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(32, 8)
        self.scale = nn.Parameter(torch.full((8,), 2.0))
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = self.embed(x.flatten(1, 2)) * self.scale
        return self.head((torch.softmax(x @ x.transpose(1, 2), 2) @ x).mean(1))


class Twice(nn.Module):
    """One layer used twice: its two gradients add up before the norm."""

    def __init__(self):
        super().__init__()
        self.a, self.head = nn.Linear(32, 32), nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.a(self.a(x.flatten(1, 2)).tanh()).mean(1))


class Folded(nn.Module):
    """Positions folded into the batch, so that the rows of a layer are not the examples."""

    def __init__(self):
        super().__init__()
        self.a, self.head = nn.Linear(32, 6), nn.Linear(6, 10)

    def forward(self, x):
        return self.head(self.a(x.reshape(-1, 32)).tanh().reshape(len(x), -1, 6).mean(1))


NETS = {
    "mlp": lambda: MLP(3072, 10),
    "cnn4": lambda: CNN4(3, 10, norm="group"),
    "cnn4 without norm": lambda: CNN4(3, 10, norm=None),
    "cnn4 replaced": lambda: replace_batchnorm(CNN4(3, 10)),
    "cnn9": lambda: CNN9(3, 10, norm="group", dropout=0.0),
    "resnet20": lambda: resnet20(3, 10, norm="group"),
    "resnet32": lambda: replace_batchnorm(resnet32(3, 10)),
    "grouped": Grouped,
    "words": Words,
    "attending": Attending,
    "twice": Twice,
    "folded": Folded,
    "batch norm in evaluation": lambda: CNN4(3, 10).eval(),
}


@pytest.mark.parametrize("name", NETS)
def test_norms_equal_a_loop(name):
    torch.manual_seed(0)
    net = NETS[name]().double()
    x, y = torch.rand(5, 3, 32, 32, dtype=torch.float64), torch.tensor([0, 3, 9, 3, 1])
    norms, output, each = gradient_norms(net, losses, x, y)
    torch.testing.assert_close(norms, looped(net, x, y).norm(dim=1), atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(output, net(x), atol=1e-9, rtol=1e-9)
    net.zero_grad()
    each.mean().backward()
    total = torch.cat([p.grad.flatten() for p in net.parameters()])
    torch.testing.assert_close(total, looped(net, x, y).mean(0), atol=1e-9, rtol=1e-9)


def test_frozen_parameters_do_not_count():
    net = CNN4(3, 10, norm="group")
    for name, parameter in net.named_parameters():
        parameter.requires_grad_("body.3" not in name and "head.bias" not in name)
    x, y = torch.rand(3, 3, 32, 32), torch.tensor([0, 3, 9])
    norms, _, _ = gradient_norms(net, losses, x, y)
    torch.testing.assert_close(norms, looped(net, x, y).norm(dim=1), atol=1e-5, rtol=1e-4)
    with pytest.raises(HoldfastError, match="no parameter"):
        gradient_norms(net.requires_grad_(False), losses, x, y)


def test_chunks_change_nothing(monkeypatch):
    torch.manual_seed(0)
    x, y = torch.rand(7, 3, 32, 32), torch.randint(0, 10, (7,))
    for make in (Attending, Grouped):
        net = make()
        whole, _, _ = gradient_norms(net, losses, x, y)
        matrix = gradient_matrix(net, losses, x, y)
        monkeypatch.setattr(persample, "WORKSPACE", 1)
        parts, _, _ = gradient_norms(net, losses, x, y)
        torch.testing.assert_close(whole, parts)
        torch.testing.assert_close(matrix, gradient_matrix(net, losses, x, y), atol=1e-6, rtol=1e-4)
        torch.testing.assert_close(matrix, looped(net, x, y), atol=1e-5, rtol=1e-3)
        monkeypatch.undo()


@pytest.mark.parametrize("make", [lambda: CNN4(3, 10), lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 10))])
def test_batch_norm_is_refused(make):
    with pytest.raises(HoldfastError, match="replace_batchnorm"):
        gradient_norms(make(), losses, torch.rand(3, 3, 32, 32), torch.zeros(3).long())

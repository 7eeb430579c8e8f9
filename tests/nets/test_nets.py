import copy
import sys

import pytest
import torch
from torch import nn

from holdfast.errors import HoldfastError
from holdfast.functional import output_layer, penultimate
from holdfast.nets import (
    CNN4,
    CNN9,
    MLP,
    InceptionResNetV2,
    ResNet,
    build,
    replace_batchnorm,
    reset_parameters,
    resnet20,
    resnet32,
)

TINY = {
    "mlp": (lambda: MLP(12, 3), (12,)),
    "linear": (lambda: MLP(12, 3, hidden=()), (12,)),
    "cnn4": (lambda: CNN4(3, 3), (3, 8, 11)),
    "cnn4-group": (lambda: CNN4(1, 3, norm="group"), (1, 8, 8)),
    "cnn4-bare": (lambda: CNN4(1, 3, width=(8, 8, 8, 8), norm=None), (1, 9, 8)),
    "cnn9": (lambda: CNN9(1, 3, width=8), (1, 28, 30)),
    "cnn9-group": (lambda: CNN9(3, 3, dropout=0, norm="group", width=32), (3, 36, 32)),
    "resnet8": (lambda: ResNet(8, 3, 3), (3, 9, 12)),
    "resnet20-group": (lambda: resnet20(1, 3, norm="group"), (1, 8, 8)),
}


@pytest.fixture(params=TINY)
def made(request):
    make, shape = TINY[request.param]
    torch.manual_seed(0)
    return make(), torch.randn(8, *shape)


def count(net):
    return sum(p.numel() for p in net.parameters())


def weights_equal(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_shapes_and_head(made):
    net, x = made
    net.eval()
    features = net.features(x)
    assert features.shape == (8, net.head.in_features)
    assert net(x).shape == (8, 3)
    assert isinstance(net.head, nn.Linear)
    torch.testing.assert_close(net(x), net.head(features))


def test_state_round_trip(made, tmp_path):
    net, x = made
    torch.save(net.state_dict(), tmp_path / "net.pt")
    other = reset_parameters(net)
    other.load_state_dict(torch.load(tmp_path / "net.pt"))
    torch.testing.assert_close(net.eval()(x), other.eval()(x))


def test_loss_falls_in_twenty_steps(made):
    net, x = made
    y = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    x = 0.5 * x + torch.randn(3, *x.shape[1:])[y]
    step = torch.optim.Adam(net.parameters(), lr=0.001 if isinstance(net, CNN9) else 0.01)
    losses = []
    for _ in range(20):
        loss = nn.functional.cross_entropy(net(x), y)
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())


@pytest.mark.parametrize(
    ("net", "parameters"),
    [
        (lambda: MLP(784, 10), 784 * 256 + 256 + 2570),
        (lambda: CNN4(3, 10), 159_082),
        (lambda: CNN4(3, 10, norm=None), 159_082 - 576 + 288),
        (lambda: CNN9(3, 10), 4_427_136 + 2 * 2048 + 1290),
        (lambda: resnet20(3, 10), 269_722),
        (lambda: ResNet(20, 3, 10, width=8), 68_050),
        (lambda: resnet32(3, 10), 464_154),
    ],
)
def test_parameter_counts(net, parameters):
    assert count(net()) == parameters


def test_inception_resnet_is_the_published_network():
    """55.84 million parameters for ImageNet without an auxiliary head, and its sizes at 299 pixels."""
    with torch.device("meta"):
        net = InceptionResNetV2(3, 1000)
        x, sides = torch.empty(2, 3, 299, 299), []
        for part in net.body:
            x = part(x)
            sides.append(tuple(x.shape[1:]))
        assert net(torch.empty(2, 3, 299, 299)).shape == (2, 1000)
    assert count(net) == 55_843_464
    assert sides[0] == (32, 149, 149)
    assert [sides.count(shape) for shape in ((320, 35, 35), (1088, 17, 17), (2080, 8, 8))] == [11, 21, 11]
    assert sides[-1] == (1536, 8, 8)
    assert net.head is output_layer(net)


def test_inception_resnet_adds_scaled_branches():
    net = InceptionResNetV2(1, 2, blocks=(1, 1, 2))
    blocks = [part for part in net.body if hasattr(part, "widen")]
    assert [block.scale for block in blocks] == [0.17, 0.1, 0.2, 1.0]
    for block, channels in zip(blocks, (320, 1088, 2080, 2080), strict=True):
        x = torch.randn(1, channels, 3, 4)
        y = x + block.scale * block.widen(block.eval().branches(x))
        torch.testing.assert_close(block(x), y if block is blocks[-1] else y.relu())


def test_inception_resnet_shapes_features_and_gradients():
    torch.manual_seed(0)
    net, x = InceptionResNetV2(3, 4, blocks=(1, 1, 1)), torch.randn(2, 3, 75, 80)
    nn.functional.cross_entropy(net(x), torch.tensor([0, 3])).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())
    assert not torch.equal(net(x), net(x))
    net.eval()
    with penultimate(net) as caught, torch.no_grad():
        torch.testing.assert_close(net(x), net.head(net.features(x)))
    assert caught[0].shape == (2, 1536)
    assert isinstance(build("inception-resnet-v2-group", (1, 75, 75), 2), InceptionResNetV2)
    with pytest.raises(HoldfastError, match="75x75"):
        build("inception-resnet-v2", (3, 74, 80), 2)
    with pytest.raises(HoldfastError, match="three stages"):
        InceptionResNetV2(3, 2, blocks=(1, 0, 1))


def test_mlp_flattens():
    assert MLP(12, 3)(torch.randn(2, 3, 2, 2)).shape == (2, 3)


def test_weights_lie_channels_last():
    for net in (CNN4(3, 10), CNN9(3, 10, width=8), resnet20(3, 10)):
        convolutions = [m for m in copy.deepcopy(net).modules() if isinstance(m, nn.Conv2d)]
        assert all(c.weight.is_contiguous(memory_format=torch.channels_last) for c in convolutions)


def test_cnn4_pools_before_its_norm():
    kinds = [type(m).__name__ for m in CNN4(3, 10).body]
    assert kinds == ["Conv2d", "MaxPool2d", "BatchNorm2d", "ReLU"] * 3 + ["Conv2d", "BatchNorm2d", "ReLU"]


def test_cnn9_dropout_obeys_the_mode():
    net, x = CNN9(1, 3, width=8, norm="group"), torch.randn(4, 1, 28, 28)
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))
    still = CNN9(1, 3, dropout=0, width=8, norm="group")
    assert torch.equal(still(x), still(x))


def test_resnet_shortcut_skips_pixels_and_pads_channels():
    block = next(m for m in ResNet(8, 3, 3).modules() if getattr(m, "stride", None) == 2 and hasattr(m, "branch"))
    for parameter in block.branch.parameters():
        nn.init.zeros_(parameter)
    x = torch.rand(2, 16, 5, 6)
    y = block(x)
    assert y.shape == (2, 32, 3, 3)
    assert torch.equal(y[:, 8:24], x[:, :, ::2, ::2])
    assert y[:, :8].abs().sum() == y[:, 24:].abs().sum() == 0


def test_replace_batchnorm():
    net = nn.Sequential(CNN4(3, 10), nn.BatchNorm1d(10), nn.BatchNorm1d(8, affine=False), nn.BatchNorm2d(12))
    nn.init.uniform_(net[1].weight)
    new = replace_batchnorm(net.eval())
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in new.modules())
    assert sum(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in net.modules()) == 7
    norms = [(m.num_groups, m.num_channels) for m in new.modules() if isinstance(m, nn.GroupNorm)]
    assert norms == [(8, 32), (8, 64), (8, 96), (8, 96), (2, 10), (1, 8), (4, 12)]
    assert torch.equal(new[1].weight, net[1].weight)
    assert new[1].weight is not net[1].weight
    assert not new[2].affine
    assert not any(m.training for m in new.modules())
    assert isinstance(replace_batchnorm(nn.BatchNorm2d(6), groups=3), nn.GroupNorm)


def test_replaced_norms_see_one_example():
    net, x = replace_batchnorm(resnet20(3, 4)), torch.randn(4, 3, 8, 8)
    torch.testing.assert_close(net(x)[:1], net(x[:1]), atol=1e-5, rtol=1e-4)


def test_replace_batchnorm_needs_groups():
    with pytest.raises(HoldfastError, match="at least one group"):
        replace_batchnorm(nn.BatchNorm2d(4), groups=0)


def test_reset_parameters(made):
    net, _ = made
    before = copy.deepcopy(net)
    state = torch.get_rng_state()
    a, b, c = (reset_parameters(net, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert weights_equal(a, b)
    assert not weights_equal(a, c)
    assert weights_equal(net, before)
    assert not torch.equal(a.head.weight, net.head.weight)
    assert not weights_equal(reset_parameters(net), reset_parameters(net))


def test_reset_restores_the_first_distribution():
    net = resnet20(3, 10)
    layer = reset_parameters(net).body[-1].branch[0]
    assert layer.weight.std().item() == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.05)
    attention = nn.MultiheadAttention(8, 2)
    assert not torch.equal(reset_parameters(attention).in_proj_weight, attention.in_proj_weight)


@pytest.mark.parametrize(
    ("spec", "shape", "kind"),
    [
        ("auto", (3, 32, 32), CNN4),
        ("auto", (3, 7, 32), MLP),
        ("auto", (20,), MLP),
        ("mlp", (1, 28, 28), MLP),
        ("cnn4", (1, 8, 8), CNN4),
        ("cnn9", (1, 28, 28), CNN9),
        ("resnet20", (3, 32, 32), ResNet),
        ("resnet32", (3, 32, 32), ResNet),
    ],
)
def test_build(spec, shape, kind):
    net = build(spec, shape, 4)
    assert isinstance(net, kind)
    assert net(torch.randn(2, *shape)).shape == (2, 4)


def test_build_names_mistakes():
    with pytest.raises(HoldfastError, match=r"auto, mlp, cnn4.*did you mean resnet32"):
        build("resnet-32", (3, 32, 32), 10)
    with pytest.raises(HoldfastError, match=r"cnn4 needs images.*\(20,\)"):
        build("cnn4", (20,), 2)
    with pytest.raises(HoldfastError, match="28x28"):
        build("cnn9", (3, 16, 16), 2)
    with pytest.raises(HoldfastError, match="at least 1"):
        build("mlp", (4,), 0)
    with pytest.raises(HoldfastError, match=r"6n \+ 2"):
        ResNet(18, 3, 10)
    with pytest.raises(HoldfastError, match="at least one channel"):
        ResNet(20, 3, 10, width=0)
    with pytest.raises(HoldfastError, match="'layer'"):
        CNN4(3, 10, norm="layer")


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    name = "networks_of_a_test"
    (tmp_path / f"{name}.py").write_text(
        "from torch import nn\n"
        "def good(shape, outputs):\n    return nn.Linear(shape[0], outputs)\n"
        "def bad(shape, outputs):\n    return 'net'\n"
        "number = 3\n"
    )
    (tmp_path / f"{name}_broken.py").write_text("import no_such_package_at_all\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    for module in (name, f"{name}_broken"):
        sys.modules.pop(module, None)


def test_build_calls_a_factory_of_ones_own(own_module):
    net = build(f"{own_module}:good", (5,), 2)
    assert net(torch.zeros(3, 5)).shape == (3, 2)


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        (":bad", "returned a str"),
        (":number", "number is not a function"),
        (":missing", "missing does not exist"),
        ("_broken:good", "no_such_package_at_all"),
        ("_nowhere:good", "cannot import"),
        (":", "module.path:Name"),
    ],
)
def test_factory_mistakes_are_named(own_module, ending, message):
    with pytest.raises(HoldfastError, match=message):
        build(own_module + ending, (5,), 2)

import pytest
import torch
from torch import nn

from holdfast.errors import HoldfastError
from holdfast.nets import Predictor, ProjectionHead, build, load_body, resnet18, resnet50
from holdfast.nets.heads import LoneNorm


def count(net):
    return sum(parameter.numel() for parameter in net.parameters())


def test_sizes_are_those_of_the_published_networks():
    assert count(resnet18(3, 10)) == 11_173_962
    assert count(resnet50(3, 10)) == 23_520_842
    assert resnet50(3, 10).head.in_features == 2048
    assert count(resnet18(3, 1000, large=True)) == 11_689_512
    assert count(resnet50(3, 1000, large=True)) == 25_557_032


def test_the_stem_of_imagenet_makes_images_smaller_four_times():
    net = build("resnet18-imagenet", (3, 64, 64), 5)
    assert net.body[:4](torch.rand(2, 3, 64, 64)).shape == (2, 64, 16, 16)
    assert net(torch.rand(2, 3, 64, 64)).shape == (2, 5)


@pytest.mark.parametrize("name", ["resnet18", "cnn4-wide"])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 14, 14)])
def test_images_of_any_size_go_through(name, shape):
    net = build(name, shape, 7).eval()
    with torch.no_grad():
        assert net(torch.rand(2, *shape)).shape == (2, 7)
        assert net.features(torch.rand(2, *shape)).shape == (2, net.head.in_features)


def test_a_residual_block_halves_the_image_and_adds_its_input():
    body = resnet18(3, 10).body
    x = torch.rand(1, 3, 32, 32)
    sides = []
    for layer in body.eval():
        x = layer(x)
        sides.append(x.shape[2])
    assert sides == [32] * 5 + [16] * 2 + [8] * 2 + [4] * 2
    block = resnet18(3, 10).body[3].eval()
    for parameter in block.branch.parameters():
        parameter.data.zero_()
    x = torch.rand(1, 64, 8, 8)
    assert torch.equal(block(x), x)


def test_a_spec_with_a_projection_head():
    net = build("cnn4-wide+mlp", (3, 16, 16), 64)
    layers = [type(layer).__name__ for layer in net.head]
    assert layers == ["Linear", "LoneNorm", "ReLU"] * 2 + ["Linear"]
    assert [layer.out_features for layer in net.head if isinstance(layer, nn.Linear)] == [256, 256, 64]
    assert isinstance(ProjectionHead(8)[-1], nn.Linear)
    assert [layer.out_features for layer in Predictor(8, 2) if isinstance(layer, nn.Linear)] == [2, 8]
    with pytest.raises(HoldfastError, match="no network is called 'cnn5'"):
        build("cnn5+mlp", (3, 16, 16), 64)


def test_a_lone_row_is_taken_by_running_statistics_and_many_as_ever():
    torch.manual_seed(0)
    own, usual = LoneNorm(3), nn.BatchNorm1d(3)
    x = torch.randn(6, 3)
    torch.testing.assert_close(own(x), usual(x))
    before = own.running_mean.clone()
    torch.testing.assert_close(own(x[:1]), usual.eval()(x[:1]))
    assert torch.equal(own.running_mean, before)


def test_a_body_is_loaded_and_the_head_stays():
    torch.manual_seed(0)
    source, net = build("cnn4+mlp", (3, 8, 8), 16), build("cnn4", (3, 8, 8), 5)
    source(torch.rand(9, 3, 8, 8))
    head = net.head.weight.clone()
    load_body(net, source.state_dict())
    x = torch.rand(4, 3, 8, 8)
    torch.testing.assert_close(net.eval().features(x), source.eval().features(x))
    assert torch.equal(net.head.weight, head)
    with pytest.raises(HoldfastError, match="another kind of network"):
        load_body(build("cnn4-wide", (3, 8, 8), 5), source.state_dict())

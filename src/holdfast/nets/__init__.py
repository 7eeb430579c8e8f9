"""Networks of the papers, most of a size to train on a CPU, and ways to make further ones of the same kind."""

from holdfast.nets.build import NETS, build
from holdfast.nets.cnn import CNN4, CNN9
from holdfast.nets.copies import move_towards, replace_batchnorm, reset_parameters
from holdfast.nets.inception_resnet import InceptionResNetV2
from holdfast.nets.mlp import MLP
from holdfast.nets.resnet import ResNet, resnet20, resnet32

__all__ = [
    "CNN4",
    "CNN9",
    "MLP",
    "NETS",
    "InceptionResNetV2",
    "ResNet",
    "build",
    "move_towards",
    "replace_batchnorm",
    "reset_parameters",
    "resnet20",
    "resnet32",
]

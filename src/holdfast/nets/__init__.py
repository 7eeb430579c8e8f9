"""Networks of the papers, most of a size to train on a CPU, and ways to make further ones of the same kind."""

from holdfast.nets.build import NETS, PROJECTED, build
from holdfast.nets.cnn import CNN4, CNN9
from holdfast.nets.copies import load_body, move_towards, replace_batchnorm, reset_parameters
from holdfast.nets.heads import Predictor, ProjectionHead, project
from holdfast.nets.inception_resnet import InceptionResNetV2
from holdfast.nets.mean import MeanOf, first_of
from holdfast.nets.mlp import MLP
from holdfast.nets.resnet import ResNet, resnet20, resnet32
from holdfast.nets.resnet_wide import ResNetWide, resnet18, resnet50
from holdfast.nets.trees import BoostedTrees, WithTrees, without_trees

__all__ = [
    "CNN4",
    "CNN9",
    "MLP",
    "NETS",
    "PROJECTED",
    "BoostedTrees",
    "InceptionResNetV2",
    "MeanOf",
    "Predictor",
    "ProjectionHead",
    "ResNet",
    "ResNetWide",
    "WithTrees",
    "build",
    "first_of",
    "load_body",
    "move_towards",
    "project",
    "replace_batchnorm",
    "reset_parameters",
    "resnet18",
    "resnet20",
    "resnet32",
    "resnet50",
    "without_trees",
]

"""Representations learnt without labels, one file a method: a start for training on labels that may be wrong."""

from holdfast.contrastive.base import Contrastive
from holdfast.contrastive.byol import BYOL
from holdfast.contrastive.clsa import CLSA
from holdfast.contrastive.co2 import CO2
from holdfast.contrastive.dacl import DACL
from holdfast.contrastive.evaluation import (
    Probe,
    features_of,
    fine_tune,
    knn_accuracy,
    knn_predict,
    linear_accuracy,
    transfer,
)
from holdfast.contrastive.i_mix import IMix
from holdfast.contrastive.images import ImageViews, Weak
from holdfast.contrastive.mixco import MixCo
from holdfast.contrastive.mixup import MomentumMixup, VanillaMixup
from holdfast.contrastive.mixup_noise import BinaryNoise, GeometricNoise, MixupNoise
from holdfast.contrastive.moco import MoCo
from holdfast.contrastive.pcl import PCL
from holdfast.contrastive.pretrain import CONTRASTIVE, pretrain, views_for
from holdfast.contrastive.quality import label_quality
from holdfast.contrastive.sane import MULTI, SANE
from holdfast.contrastive.simclr import SimCLR
from holdfast.contrastive.simsiam import SimSiam
from holdfast.contrastive.strong import Strong
from holdfast.contrastive.swav import SwAV
from holdfast.contrastive.tables import TableView, TableViews

__all__ = [
    "BYOL",
    "CLSA",
    "CO2",
    "CONTRASTIVE",
    "DACL",
    "MULTI",
    "PCL",
    "SANE",
    "BinaryNoise",
    "Contrastive",
    "GeometricNoise",
    "IMix",
    "ImageViews",
    "MixCo",
    "MixupNoise",
    "MoCo",
    "MomentumMixup",
    "Probe",
    "SimCLR",
    "SimSiam",
    "Strong",
    "SwAV",
    "TableView",
    "TableViews",
    "VanillaMixup",
    "Weak",
    "features_of",
    "fine_tune",
    "knn_accuracy",
    "knn_predict",
    "label_quality",
    "linear_accuracy",
    "pretrain",
    "transfer",
    "views_for",
]

"""Representations learnt without labels, one file a method. A new one needs one line here; its name on the command
line comes from the class."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from holdfast.contrastive.base import Contrastive as Contrastive
from holdfast.contrastive.byol import BYOL as BYOL
from holdfast.contrastive.clsa import CLSA as CLSA
from holdfast.contrastive.cmc import CMC as CMC
from holdfast.contrastive.co2 import CO2 as CO2
from holdfast.contrastive.cpc import CPC as CPC
from holdfast.contrastive.dacl import DACL as DACL
from holdfast.contrastive.evaluation import Probe as Probe
from holdfast.contrastive.evaluation import features_of as features_of
from holdfast.contrastive.evaluation import fine_tune as fine_tune
from holdfast.contrastive.evaluation import knn_accuracy as knn_accuracy
from holdfast.contrastive.evaluation import knn_predict as knn_predict
from holdfast.contrastive.evaluation import linear_accuracy as linear_accuracy
from holdfast.contrastive.evaluation import sgd_linear_accuracy as sgd_linear_accuracy
from holdfast.contrastive.evaluation import transfer as transfer
from holdfast.contrastive.i_mix import IMix as IMix
from holdfast.contrastive.images import ImageViews as ImageViews
from holdfast.contrastive.images import Weak as Weak
from holdfast.contrastive.info_min import InfoMin as InfoMin
from holdfast.contrastive.inst_disc import InstDisc as InstDisc
from holdfast.contrastive.lars import LARS as LARS
from holdfast.contrastive.linear_svm import voc_precision as voc_precision
from holdfast.contrastive.local_agg import LocalAgg as LocalAgg
from holdfast.contrastive.mixco import MixCo as MixCo
from holdfast.contrastive.mixup import MomentumMixup as MomentumMixup
from holdfast.contrastive.mixup import VanillaMixup as VanillaMixup
from holdfast.contrastive.mixup_noise import BinaryNoise as BinaryNoise
from holdfast.contrastive.mixup_noise import GeometricNoise as GeometricNoise
from holdfast.contrastive.mixup_noise import MixupNoise as MixupNoise
from holdfast.contrastive.moco import MoCo as MoCo
from holdfast.contrastive.pcl import PCL as PCL
from holdfast.contrastive.pirl import PIRL as PIRL
from holdfast.contrastive.pretrain import pretrain as pretrain
from holdfast.contrastive.pretrain import views_for as views_for
from holdfast.contrastive.quality import label_quality as label_quality
from holdfast.contrastive.sane import MULTI as MULTI
from holdfast.contrastive.sane import SANE as SANE
from holdfast.contrastive.sela import SeLa as SeLa
from holdfast.contrastive.simclr import SimCLR as SimCLR
from holdfast.contrastive.simsiam import SimSiam as SimSiam
from holdfast.contrastive.strong import Strong as Strong
from holdfast.contrastive.swav import SwAV as SwAV
from holdfast.contrastive.tables import TableView as TableView
from holdfast.contrastive.tables import TableViews as TableViews
from holdfast.registry import by_name

CONTRASTIVE: Mapping[str, Callable[..., Contrastive]] = MappingProxyType(
    {**by_name(Contrastive, globals()), "sane-strong": partial(SANE, strong=True)}
)
"""Methods by the name that they have on the command line; nothing else looks names up."""

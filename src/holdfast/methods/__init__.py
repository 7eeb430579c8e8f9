"""One file a method."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from holdfast.method import Method
from holdfast.methods.aum import AUM
from holdfast.methods.bootstrap import Bootstrap
from holdfast.methods.co_prl_l import CoPRLL
from holdfast.methods.co_teaching import CoTeaching
from holdfast.methods.co_teaching_plus import CoTeachingPlus
from holdfast.methods.confident_learning import ConfidentLearning
from holdfast.methods.crust import Crust
from holdfast.methods.d2l import D2L
from holdfast.methods.decoupling import Decoupling
from holdfast.methods.divide_mix import DivideMix
from holdfast.methods.elr import ELR
from holdfast.methods.elr_plus import ELRPlus
from holdfast.methods.forward import Backward, Forward
from holdfast.methods.gce import GCE
from holdfast.methods.huber import Huber
from holdfast.methods.incv import INCV
from holdfast.methods.individual_clip import IndividualClip
from holdfast.methods.jocor import JoCoR
from holdfast.methods.l_dmi import LDMI
from holdfast.methods.mentor_net import MentorNet
from holdfast.methods.min_sgd import MinSGD
from holdfast.methods.norm_clip import NormClip
from holdfast.methods.prl_g import PRLG
from holdfast.methods.prl_l import PRLL
from holdfast.methods.sce import SCE
from holdfast.methods.self_label_refinery import SelfLabelRefinery
from holdfast.methods.sever import Sever
from holdfast.methods.spl import SPL
from holdfast.methods.t_revision import TRevision

METHODS: Mapping[str, Callable[..., Method]] = MappingProxyType(
    {
        "standard": Method,
        "crust": Crust,
        "crust-paper": Crust.paper,
        "crust-authors": Crust.authors,
        "prl-l": PRLL,
        "prl-g": PRLG,
        "co-prl-l": CoPRLL,
        "spl": SPL,
        "co-teaching": CoTeaching,
        "co-teaching-plus": CoTeachingPlus,
        "decoupling": Decoupling,
        "bootstrap": Bootstrap,
        "min-sgd": MinSGD,
        "norm-clip": NormClip,
        "individual-clip": IndividualClip,
        "huber": Huber,
        "sever": Sever,
        "forward": Forward,
        "backward": Backward,
        "t-revision": TRevision,
        "l-dmi": LDMI,
        "incv": INCV,
        "aum": AUM,
        "confident-learning": ConfidentLearning,
        "gce": GCE,
        "sce": SCE,
        "elr": ELR,
        "elr-plus": ELRPlus,
        "jocor": JoCoR,
        "divide-mix": DivideMix,
        "mentor-net": MentorNet,
        "d2l": D2L,
        "self-label-refinery": SelfLabelRefinery,
    }
)
"""What the command line calls the methods; nothing else looks names up."""

__all__ = [
    "AUM",
    "D2L",
    "ELR",
    "GCE",
    "INCV",
    "LDMI",
    "METHODS",
    "PRLG",
    "PRLL",
    "SCE",
    "SPL",
    "Backward",
    "Bootstrap",
    "CoPRLL",
    "CoTeaching",
    "CoTeachingPlus",
    "ConfidentLearning",
    "Crust",
    "Decoupling",
    "DivideMix",
    "ELRPlus",
    "Forward",
    "Huber",
    "IndividualClip",
    "JoCoR",
    "MentorNet",
    "MinSGD",
    "NormClip",
    "SelfLabelRefinery",
    "Sever",
    "TRevision",
]

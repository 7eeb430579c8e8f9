"""One file a method."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from holdfast.method import Method
from holdfast.methods.bootstrap import Bootstrap
from holdfast.methods.co_prl_l import CoPRLL
from holdfast.methods.co_teaching import CoTeaching
from holdfast.methods.co_teaching_plus import CoTeachingPlus
from holdfast.methods.crust import Crust
from holdfast.methods.d2l import D2L
from holdfast.methods.decoupling import Decoupling
from holdfast.methods.divide_mix import DivideMix
from holdfast.methods.elr import ELR
from holdfast.methods.elr_plus import ELRPlus
from holdfast.methods.gce import GCE
from holdfast.methods.huber import Huber
from holdfast.methods.individual_clip import IndividualClip
from holdfast.methods.jocor import JoCoR
from holdfast.methods.mentor_net import MentorNet
from holdfast.methods.min_sgd import MinSGD
from holdfast.methods.norm_clip import NormClip
from holdfast.methods.prl_g import PRLG
from holdfast.methods.prl_l import PRLL
from holdfast.methods.sce import SCE
from holdfast.methods.sever import Sever
from holdfast.methods.spl import SPL

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
        "gce": GCE,
        "sce": SCE,
        "elr": ELR,
        "elr-plus": ELRPlus,
        "jocor": JoCoR,
        "divide-mix": DivideMix,
        "mentor-net": MentorNet,
        "d2l": D2L,
    }
)
"""What the command line calls the methods; nothing else looks names up."""

__all__ = [
    "D2L",
    "ELR",
    "GCE",
    "METHODS",
    "PRLG",
    "PRLL",
    "SCE",
    "SPL",
    "Bootstrap",
    "CoPRLL",
    "CoTeaching",
    "CoTeachingPlus",
    "Crust",
    "Decoupling",
    "DivideMix",
    "ELRPlus",
    "Huber",
    "IndividualClip",
    "JoCoR",
    "MentorNet",
    "MinSGD",
    "NormClip",
    "Sever",
]

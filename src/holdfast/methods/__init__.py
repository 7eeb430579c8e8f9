"""One file a method. A new one needs one line here; its name, its task and its table entry come from the class."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from holdfast.method import Method as Method
from holdfast.methods.apl import APL as APL
from holdfast.methods.aum import AUM as AUM
from holdfast.methods.bootstrap import Bootstrap as Bootstrap
from holdfast.methods.co_prl_l import CoPRLL as CoPRLL
from holdfast.methods.co_teaching import CoTeaching as CoTeaching
from holdfast.methods.co_teaching_plus import CoTeachingPlus as CoTeachingPlus
from holdfast.methods.confident_learning import ConfidentLearning as ConfidentLearning
from holdfast.methods.crust import Crust as Crust
from holdfast.methods.crust_authors import CrustAuthors as CrustAuthors
from holdfast.methods.d2l import D2L as D2L
from holdfast.methods.decoupling import Decoupling as Decoupling
from holdfast.methods.divide_mix import DivideMix as DivideMix
from holdfast.methods.elr import ELR as ELR
from holdfast.methods.elr_plus import ELRPlus as ELRPlus
from holdfast.methods.ema_refinement import EMARefinement as EMARefinement
from holdfast.methods.forward import Backward as Backward
from holdfast.methods.forward import Forward as Forward
from holdfast.methods.gce import GCE as GCE
from holdfast.methods.huber import Huber as Huber
from holdfast.methods.incv import INCV as INCV
from holdfast.methods.individual_clip import IndividualClip as IndividualClip
from holdfast.methods.jocor import JoCoR as JoCoR
from holdfast.methods.l_dmi import LDMI as LDMI
from holdfast.methods.mentor_net import MentorNet as MentorNet
from holdfast.methods.min_sgd import MinSGD as MinSGD
from holdfast.methods.norm_clip import NormClip as NormClip
from holdfast.methods.prl_g import PRLG as PRLG
from holdfast.methods.prl_l import PRLL as PRLL
from holdfast.methods.sce import SCE as SCE
from holdfast.methods.second_opinion import SecondOpinion as SecondOpinion
from holdfast.methods.self_label_refinery import SelfLabelRefinery as SelfLabelRefinery
from holdfast.methods.sever import Sever as Sever
from holdfast.methods.spl import SPL as SPL
from holdfast.methods.t_revision import TRevision as TRevision
from holdfast.registry import by_name

DEFAULT = SecondOpinion.name
"""What ``fit``, the command line and the estimators train with unless another method is named."""

METHODS: Mapping[str, Callable[..., Method]] = MappingProxyType(by_name(Method, globals()))
"""Methods by the name that they have on the command line; nothing else looks names up."""

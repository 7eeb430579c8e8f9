"""The diagnosis of a run: how far it went, what its Jacobian looks like, what the theorems say of it, on one page."""

from holdfast.diagnosis.diagnose import Diagnosis as Diagnosis
from holdfast.diagnosis.diagnose import diagnose as diagnose
from holdfast.diagnosis.extremes import CoresetExtremes as CoresetExtremes
from holdfast.diagnosis.extremes import extremes as extremes
from holdfast.diagnosis.page import write_page as write_page

"""Holdfast in a training of your own: the loop, the network and the optimizer stay yours."""

from holdfast.session.batch import SessionBatch
from holdfast.session.forwarding import by_structure
from holdfast.session.loader import Loader
from holdfast.session.session import Session

__all__ = ["Loader", "Session", "SessionBatch", "by_structure"]

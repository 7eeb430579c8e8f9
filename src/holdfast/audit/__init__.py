"""A check of data: one file a kind of issue."""

from holdfast.audit.check import Check, check

__all__ = ["Check", "check"]

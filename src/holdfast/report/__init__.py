"""The report of a run: one file to look at, without a network."""

from holdfast.report.page import write_report

__all__ = ["write_report"]

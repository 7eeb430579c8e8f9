"""The same data out, cleaned: labels corrected, dropped or marked in the format that the data has."""

from holdfast.clean.clean import Cleaned, clean

__all__ = ["Cleaned", "clean"]

"""Reading examples and their labels from files."""

from holdfast.data.read import read, read_inputs
from holdfast.data.rows import Rows

__all__ = ["Rows", "read", "read_inputs"]

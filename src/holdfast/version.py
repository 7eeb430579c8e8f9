"""The version of the package, where anything can read it."""

__version__ = "0.1.0"

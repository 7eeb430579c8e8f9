"""The version of the package, where anything can read it: that of the tag it was built from."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("holdfast")
except PackageNotFoundError:  # a folder of sources that nobody has installed
    __version__ = "0.0.0"

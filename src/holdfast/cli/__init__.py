"""The command line: one file a command."""

from holdfast.cli.commands import app as app
from holdfast.cli.commands import main as main

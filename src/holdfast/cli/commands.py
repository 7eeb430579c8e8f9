"""The commands together, and how a user's mistake is reported."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from holdfast.cli import mistakes
from holdfast.cli import options as o
from holdfast.cli.check import check
from holdfast.cli.clean import clean
from holdfast.cli.compare import compare
from holdfast.cli.diagnose import diagnose
from holdfast.cli.export import export
from holdfast.cli.fit import fit
from holdfast.cli.issues import issues
from holdfast.cli.methods import methods
from holdfast.cli.noise import noise
from holdfast.cli.predict import predict
from holdfast.cli.pretrain import pretrain
from holdfast.cli.report import report
from holdfast.cli.review import review
from holdfast.cli.select import select
from holdfast.cli.take_in import take_in
from holdfast.cluster import speaks
from holdfast.errors import HoldfastError
from holdfast.memory import VARIABLE as MAX_MEMORY
from holdfast.memory import as_bytes
from holdfast.version import __version__

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Train neural networks on data whose labels are partly wrong.",
    epilog="DATA is a table (CSV, Excel, JSON, Parquet, ...; plain or packed), an .npz file (x_train, y_train), a "
    "folder of images (one subfolder a class), or a folder with the published files of MNIST, CIFAR or CelebA.",
)

COMMANDS = (
    check, fit, compare, noise, predict, methods, select, issues, report, review, clean, export, diagnose, pretrain,
)  # fmt: skip
for command in COMMANDS:
    app.command()(command)
app.command("import")(take_in)


def _version(show: bool) -> None:
    if show:
        o.console.print(f"holdfast {__version__}")
        raise typer.Exit


def _max_memory(size: str | None) -> None:
    if size is not None:
        as_bytes(size)
        os.environ[MAX_MEMORY] = size


@app.callback()
def _about(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            callback=_max_memory,
            help="Memory that data may take, such as 8GB; half of what is free.",
            show_default=False,
        ),
    ] = None,
    debug: Annotated[bool, typer.Option(mistakes.DEBUG, help="Show tracebacks of errors.")] = False,
) -> None: ...


def main() -> None:
    """Run the command line; a mistake is one sentence, and a traceback only if it is asked for."""
    debug = mistakes.DEBUG in sys.argv  # before or after the command, wherever one thinks of it
    sys.argv[1:] = [argument for argument in sys.argv[1:] if argument != mistakes.DEBUG]
    try:
        app()
    except SystemExit as end:
        if end.code == mistakes.STOPPED:
            mistakes.say(mistakes.stopped(sys.argv[1:]))
        raise
    except KeyboardInterrupt:
        mistakes.say(mistakes.stopped(sys.argv[1:]))
        sys.exit(mistakes.STOPPED)
    except Exception as error:
        if debug:
            mistakes.show_where(error)
        if not isinstance(error, HoldfastError) or speaks(error):
            mistakes.say(mistakes.sentence(error))
        sys.exit(2 if isinstance(error, HoldfastError | OSError) else 1)

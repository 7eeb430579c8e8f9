"""The commands together, and how a user's mistake is reported."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

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
from holdfast.version import __version__

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
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


@app.callback()
def _about(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None: ...


def main() -> None:
    """Run the command line; a user's mistake is one sentence, not a traceback."""
    try:
        app()
    except HoldfastError as error:
        if speaks(error):
            Console(stderr=True).print(f"[bold red]holdfast:[/bold red] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped; --resume goes on from the last epoch")
        sys.exit(130)

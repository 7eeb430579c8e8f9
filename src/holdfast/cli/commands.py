"""The commands together, and how a user's mistake is reported."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from holdfast.cli import mistakes
from holdfast.cli import options as o
from holdfast.errors import HoldfastError

FILES = {
    **{name: name for name in ("check", "fit", "compare", "noise", "predict", "methods", "select", "issues", "report",
                               "review", "clean", "export", "diagnose", "pretrain")},
    "import": "take_in",
}  # fmt: skip
"""The commands in the order of the help, and the file of each, whose function has the file's name."""


class Commands(TyperGroup):
    """Commands that are made when they are called: all of them together take as long as the rest of a help text."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(FILES, TyperCommand(None))  # names, for "did you mean"

    def get_params(self, ctx: Any) -> Any:
        found = super().get_params(ctx)
        for each in found:
            each.__class__ = _AsWritten
        return found

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in FILES:
            return None
        single = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
        single.command(cmd_name)(_function(cmd_name))
        return typer.main.get_command(single)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        lines = {name: getdoc(_function(name)) for name in FILES}
        listed = TyperGroup(
            name=self.name, params=self.params, help=self.help, epilog=self.epilog,
            rich_markup_mode=self.rich_markup_mode,
            commands={name: TyperCommand(name, help=text) for name, text in lines.items()},
        )  # fmt: skip
        listed.format_help(ctx, formatter)


class _AsWritten(TyperOption):
    """A flag, or a word that needs no conversion: typer would load pydantic for it."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        return value if self.callback is None else self.callback(ctx, self, value)


def _function(command: str) -> Callable[..., None]:
    file = FILES[command]
    found: Callable[..., None] = getattr(import_module(f"holdfast.cli.{file}"), file)
    return found


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Train neural networks on data whose labels are partly wrong, and find the wrong ones.",
    epilog="DATA is a table (CSV, Excel, JSON, Parquet, ...; plain or compressed), an .npz file (x_train, y_train), a "
    "folder of images (one subfolder per class), or a folder with the published files of MNIST, CIFAR or CelebA.",
)


def _version(show: bool) -> None:
    if show:
        from holdfast.version import __version__  # what tells it takes as long to load as the rest of Holdfast

        o.console.print(f"holdfast {__version__}")
        raise typer.Exit


def _max_memory(size: str | None) -> None:
    if size is not None:
        from holdfast.memory import VARIABLE, as_bytes

        as_bytes(size)
        os.environ[VARIABLE] = size


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            callback=_max_memory,
            help="How much memory the data may use, such as 8GB; by default, half of what is free.",
            show_default=False,
        ),
    ] = None,
    debug: Annotated[bool, typer.Option(mistakes.DEBUG, help="Show the traceback of an error.")] = False,
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
        if not isinstance(error, HoldfastError) or _speaks(error):
            mistakes.say(mistakes.sentence(error))
        sys.exit(2 if isinstance(error, HoldfastError | OSError) else 1)


def _speaks(error: HoldfastError) -> bool:
    """Whether this process is the one of several that tells of an error."""
    from holdfast.cluster import speaks

    return speaks(error)

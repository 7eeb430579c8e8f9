"""The command line, with wrong words."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from enum import EnumMeta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, get_args, get_type_hints

import typer
from hostile.door import NoSentence

from holdfast.cli import commands

COMMANDS = (
    (
        6,
        [
            "fit",
            "data.csv",
            "--label",
            "label",
            "--epochs",
            "1",
            "--method",
            "standard",
            "--no-evidence",
            "--quiet",
            "--out",
            "o",
        ],
    ),
    (1, ["check", "data.csv", "--label", "label", "--net", "mlp", "--quiet", "--out", "o"]),
    (
        2,
        [
            "compare",
            "data.csv",
            "--label",
            "label",
            "--methods",
            "standard",
            "--epochs",
            "1",
            "--seeds",
            "1",
            "--net",
            "mlp",
            "--quiet",
            "--out",
            "o",
        ],
    ),
    (6, ["noise", "data.csv", "--label", "label", "--out", "o.csv"]),
    (6, ["predict", "run", "data.csv", "--out", "o.csv"]),
    (3, ["methods", "crust"]),
    (6, ["select", "points.npy", "--k", "0.1", "--out", "o.csv", "--quiet"]),
    (4, ["issues", "run", "--show", "3"]),
    (2, ["report", "run", "--top", "2"]),
    (6, ["clean", "run", "--out", "o.csv"]),
    (6, ["export", "run", "--out", "o.csv"]),
    (1, ["diagnose", "run", "--examples", "4"]),
    (4, ["pretrain", "data.csv", "--label", "label", "--epochs", "1", "--method", "simclr", "--quiet", "--out", "o"]),
    (2, ["import", "run", "data.csv"]),
    (3, ["review", "run"]),
    (1, ["--version"]),
)
LAST = {"review": ["--revoke", "nobody"]}
"""Words that end a command which would otherwise wait for somebody."""
NUMBERS = ("0", "-1", "1", "3", "1.5", "x", "", "nan", "-0", "0x10", "1e3", "99999999999999999999")
MEASURES = ("0", "-1", "1", "0.5", "nan", "inf", "-inf", "1e-300", "1e308", "x", "")
WORDS = (
    "",
    "x",
    "label",
    "age",
    "[/red]",
    "[bold]",
    "=1+1",
    "\udcff",
    "a" * 300,
    "data.csv",
    "run",
    "nope/er",
    "/dev/null",
    "/dev/null/x",
    "a:b",
    ":",
    "a=b",
    "=",
    "%s",
    "{}",
    "-",
    "é\u202e",
    "o.csv",
    "o",
    "o.npz",
    "auto",
    "mlp",
    "standard",
    "0.2",
    "csv",
    "crust",
    "rate=0.5",
    "rate=x",
    "timm:x",
    "text:",
    "image:/dev/null",
    "utf-16",
    "8GB",
    "0B",
)
LONG = ("--epochs", "--seeds", "--jobs", "--devices", "--threads", "--examples", "--watch")
"""Options whose large numbers are meant to take long."""
LARGE = ("--tune",)
"""Options that are meant to take more memory than an input may: they train a network of millions of weights."""


class CommandLine:
    """``holdfast ...`` in this process, in a fresh folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, content: bytes) -> None:
        words = json.loads(content)
        scratch = self._folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(self._folder / "run", scratch / "run")
        for name in ("data.csv", "points.npy"):
            shutil.copy(self._folder / name, scratch / name)
        before = os.getcwd()
        os.chdir(scratch)
        try:
            command(words)
        finally:
            os.chdir(before)

    def spoil(self, content: bytes, draw: Random) -> bytes:
        words, known = json.loads(content), group().commands
        for _ in range(draw.choice((1, 1, 2, 3))):
            how, at = draw.randrange(6), draw.randrange(len(words))
            if how == 0 and at > 0:
                words[at] = draw.choice(WORDS)
            elif how == 1 and at > 0:
                del words[at]
            else:
                chosen = single(words[0] if words[0] in known else "fit")
                option = draw.choice([each for each in chosen.params if not {*LARGE} & {*each.opts}])
                words += _option(option, get_type_hints(chosen.callback).get(option.name), draw)
        return json.dumps(words + LAST.get(words[0], [])).encode()


def _option(option: Any, kind: Any, draw: Random) -> list[str]:
    """An option of a command with a value, mostly of its kind."""
    if option.param_type_name == "argument":
        return [draw.choice(WORDS)]
    name = draw.choice([*option.opts, *option.secondary_opts])
    if kind is bool:
        return [name]
    pool: Sequence[str] = WORDS
    if name in LONG:
        pool = ("0", "-1", "1", "x", "")
    elif draw.randrange(5):
        kinds = (kind, *get_args(kind))
        choices = [str(each.value) for part in kinds if isinstance(part, EnumMeta) for each in part]
        pool = choices or (NUMBERS if int in kinds else MEASURES if float in kinds else WORDS)
    return [name, draw.choice(pool)]


@cache
def single(name: str) -> Any:
    """A command with its options."""
    return group().get_command(None, name)


def group() -> Any:
    """The commands, made once: it takes longer than most of them."""
    if isinstance(commands.app, typer.Typer):
        commands.app = typer.main.get_command(commands.app)  # type: ignore[assignment]
    return commands.app


def command(words: list[str]) -> None:
    """As the shell calls it: a sentence ends with 2, and anything but that and success is a traceback."""
    group()
    said = io.StringIO()
    before, limit = sys.argv, os.environ.get("HOLDFAST_MAX_MEMORY")
    sys.argv = ["holdfast", *words, "--debug"]
    try:
        with redirect_stderr(said), redirect_stdout(io.StringIO()):
            commands.main()
    except SystemExit as end:
        if end.code not in (0, 2, None):
            raise NoSentence(said.getvalue()[-1500:]) from None
    finally:
        sys.argv = before
        if limit is not None:
            os.environ["HOLDFAST_MAX_MEMORY"] = limit

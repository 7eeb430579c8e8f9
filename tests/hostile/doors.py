"""Every door through which something foreign comes in, each with valid things that come in by it, to be made wrong."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
from hostile.command_doors import COMMANDS, CommandLine, command
from hostile.door import Door, table
from hostile.page_doors import REQUESTS, Api, Page, asked_wrongly, request
from hostile.reading_doors import readers
from hostile.run_doors import run_folders

from holdfast import HoldfastError, Method, fit
from holdfast.cli.select import Way
from holdfast.data.source import Source


def prepare(folder: Path) -> None:
    """What all doors start from, made once: a table and a finished run on it, decided in part."""
    table().to_csv(folder / "data.csv", index=False)
    rows, held_out = Source.at(folder / "data.csv", "0.25", 0, label="label").load()
    run = fit(rows, Method(), "mlp", test=held_out, epochs=2, evidence=True, device="cpu", out=folder / "run")
    run.issues().to_csv(folder / "run" / "issues.csv", index=False)
    np.save(folder / "points.npy", np.random.default_rng(0).normal(size=(30, 3)))
    for way in Way:  # compiled here, once and for all processes
        command(["select", str(folder / "points.npy"), "--k", "3", "--way", way, "--out", str(folder / f"{way}.csv")])
    with closing(Api(folder / "run")) as api:
        for row in range(3):
            api(json.dumps(request("/api/decide", {"reviewer": "Ada", "row": row, "verdict": "keep"})).encode())


def doors(folder: Path) -> dict[str, Door]:
    """All doors, over what ``prepare`` has made."""
    line = CommandLine(folder)
    samples = tuple(json.dumps(words).encode() for share, words in COMMANDS for _ in range(share))
    review = folder / "reviewed"
    shutil.copytree(folder / "run", review, dirs_exist_ok=True)
    return {
        **readers(folder),
        **run_folders(folder),
        "review page": Door(tuple(json.dumps(each).encode() for each in REQUESTS), Page(review), 200, asked_wrongly),
        "command line": Door(samples, line, 10, line.spoil),
    }


def well(error: BaseException) -> bool:
    """Whether an error is a sentence."""
    return isinstance(error, HoldfastError)

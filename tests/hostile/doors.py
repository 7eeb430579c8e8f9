"""Every door through which something foreign comes in, each with valid things that come in by it, to be made wrong."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import io
import json
import os
import pickle
import shutil
import sqlite3
import struct
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from enum import EnumMeta
from pathlib import Path
from random import Random
from typing import Any, get_args, get_type_hints

import numpy as np
import pandas as pd
import typer
from hostile.damage import altered, damaged
from PIL import Image

from holdfast import HoldfastError, Method, Run, fit, read
from holdfast.cli import commands
from holdfast.data.corrected import with_corrected
from holdfast.data.opcodes import plain_values
from holdfast.data.source import Source
from holdfast.run_folder import RunFolder

Knock = Callable[[bytes], None]
ROWS = 24


@dataclass(frozen=True)
class Door:
    """Where something foreign comes in.

    Attributes
    ----------
    samples: valid ones.
    knock: lets bytes in; a sentence (``HoldfastError``) and an end without a word are both well.
    share: how often it is tried, beside others.
    spoil: makes a sample wrong.
    """

    samples: tuple[bytes, ...]
    knock: Knock
    share: int = 1
    spoil: Callable[[bytes, Random], bytes] = field(default=damaged)


class NoSentence(Exception):
    """The command line has ended with a traceback."""


def table() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": draw.normal(40, 9, ROWS).round(1),
            "town": draw.choice(["Bonn", "Köln", "Aachen"], ROWS),
            "born": pd.date_range("1990-01-01", periods=ROWS).strftime("%Y-%m-%d"),
            "note": [f"a few words of row {i}, and more" for i in range(ROWS)],
            "label": ["yes", "no"] * (ROWS // 2),
        }
    )


def prepare(folder: Path) -> None:
    """What all doors start from, made once: a table and a finished run on it, decided in part."""
    table().to_csv(folder / "data.csv", index=False)
    rows, held_out = Source.at(folder / "data.csv", "0.25", 0, label="label").load()
    run = fit(rows, Method(), "mlp", test=held_out, epochs=2, evidence=True, device="cpu", out=folder / "run")
    run.issues().to_csv(folder / "run" / "issues.csv", index=False)
    np.save(folder / "points.npy", np.random.default_rng(0).normal(size=(30, 3)))
    with closing(Api(folder / "run")) as api:
        for row in range(3):
            api(json.dumps(_request("/api/decide", {"reviewer": "Ada", "row": row, "verdict": "keep"})).encode())


def _packed(text: bytes) -> tuple[bytes, ...]:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.csv", text)
    return gzip.compress(text), bz2.compress(text), out.getvalue()


def _written(write: Callable[[Any], object]) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


def _database(folder: Path) -> bytes:
    path = folder / "sample.db"
    with closing(sqlite3.connect(path)) as made:
        table().to_sql("people", made, index=False)
    return path.read_bytes()


def _into(path: Path, then: Callable[[], object]) -> Knock:
    """Writes what comes to a path, does something, and puts back what was there."""
    before = path.read_bytes() if path.exists() else None

    def knock(content: bytes) -> None:
        path.write_bytes(content)
        try:
            then()
        finally:
            if before is not None:
                path.write_bytes(before)

    return knock


def _reading(path: Path, **options: Any) -> Callable[[], None]:
    def look() -> None:
        for rows in read(path, **options):
            if rows is not None and not hasattr(rows.x, "numpy"):
                rows.x[0]  # pictures are decoded as they are asked for

    return look


def readers(folder: Path) -> dict[str, Door]:
    """Data of every kind, read by its path."""
    frame = table()
    text = frame.to_csv(index=False).encode()
    lines = frame.to_json(orient="records", lines=True, force_ascii=False).encode()
    whole = frame.to_json(orient="records").encode()
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(ROWS, 4)), np.arange(ROWS) % 2
    pixels = draw.integers(0, 256, (ROWS, 8, 8), dtype=np.uint8)
    doors: dict[str, Door] = {}

    def add(name: str, file: str, samples: tuple[bytes, ...], share: int = 1, root: Path | None = None, **options: Any):
        place = folder / name.replace(" ", "_")
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        doors[name] = Door(samples, _into(place / file, _reading(place if root is not None else place / file, **options)),
                           share)  # fmt: skip

    add("csv", "a.csv", (text, text.replace(b",", b";"), "\ufeff".encode() + text, frame.to_csv().encode("utf-16")), 12,
        label="label")  # fmt: skip
    add("csv of numbers", "a.tsv", (frame[["age", "label"]].to_csv(index=False, sep="\t").encode(),), 4, label="age")
    add("packed csv", "a.csv.gz", _packed(text), 5, label="label")
    add("json", "a.json", (lines, whole), 8, label="label")
    add("parquet", "a.parquet", (_written(frame.to_parquet),), 6, label="label")
    add("feather", "a.feather", (_written(frame.to_feather), _written(lambda out: frame.to_feather(out, compression="lz4"))),
        4, label="label")  # fmt: skip
    add("excel", "a.xlsx", (_written(lambda out: frame.to_excel(out, index=False)),), 2, label="label")
    add("sqlite", "a.db", (_database(folder),), 4, label="label")
    arrays = {"x_train": x, "y_train": y, "x_test": x[:6], "y_test": y[:6]}
    images = {"x_train": pixels, "y_train": y, "class_names": np.array(["a", "b"])}
    add("npz", "a.npz", (_written(lambda out: np.savez(out, **arrays)), _written(lambda out: np.savez_compressed(out, **images))),
        8)  # fmt: skip
    head = struct.pack(">I", ROWS)
    idx = (
        bytes([0, 0, 8, 3]) + head + struct.pack(">II", 8, 8) + pixels.tobytes(),
        bytes([0, 0, 8, 1]) + head + bytes(y.tolist()),
    )
    for name, which in (("mnist images", 0), ("mnist labels", 1)):
        place = folder / name.replace(" ", "_")
        place.mkdir()
        (place / "train-images-idx3-ubyte").write_bytes(idx[0])
        (place / "train-labels-idx1-ubyte").write_bytes(idx[1])
        file = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")[which]
        add(name, file, (idx[which], gzip.compress(idx[which])), 2, root=place)
    batch = {b"data": draw.integers(0, 256, (3, 3072), dtype=np.uint8), b"labels": [1, 0, 2]}
    samples = tuple(pickle.dumps(batch, protocol) for protocol in (2, 4))
    small = {b"data": np.arange(64, dtype=np.uint8).reshape(2, 32), b"labels": [np.int64(3), 4]}
    place = folder / "cifar"
    place.mkdir()
    for k in range(1, 6):
        (place / f"data_batch_{k}").write_bytes(samples[0])
    (place / "test_batch").write_bytes(samples[0])
    (place / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"a", b"b", b"c"]}, 2))
    add("cifar", "data_batch_1", samples, 2, root=place)
    doors["pickled batch"] = Door(
        tuple(pickle.dumps(small, p) for p in range(6)), lambda content: plain_values(content), 14
    )
    place = folder / "images"
    for label in "ab":
        (place / label).mkdir(parents=True)
        for i in range(3):
            Image.fromarray(pixels[i]).save(place / label / f"{i}.png")
    picture = Image.fromarray(draw.integers(0, 256, (12, 10, 3), dtype=np.uint8))
    pictures = tuple(
        _written(lambda out, f=form: picture.save(out, f)) for form in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
    )
    for form in (0, 1):
        add("images" if form == 0 else "images left out", "a/0.png", pictures, 4, root=place, skip_broken=bool(form))
    shutil.copytree(place, folder / "images_left_out", dirs_exist_ok=True)
    place = folder / "coco"
    shutil.copytree(folder / "images" / "a", place / "pictures")
    document = {
        "images": [{"id": i, "file_name": f"pictures/{i}.png", "width": 8, "height": 8} for i in range(3)],
        "annotations": [{"id": i, "image_id": i, "category_id": i % 2, "bbox": [0, 0, 8, 8]} for i in range(3)],
        "categories": [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}],
    }
    add("coco", "a.json", (json.dumps(document).encode(),), 4)
    add("image table", "a.csv", (b"file,label\n" + b"".join(b"pictures/%d.png,%d\n" % (i, i % 2) for i in range(3)),), 2,
        label="label")  # fmt: skip
    shutil.copytree(folder / "images" / "a", folder / "image_table" / "pictures")
    features = folder / "features"
    features.mkdir()
    (features / "data.csv").write_bytes(text)
    look = _reading(features / "data.csv", label="label", features=features / "f.npy")
    doors["features"] = Door(
        (_written(lambda out: np.save(out, x.astype(np.float32))),), _into(features / "f.npy", look), 4
    )
    return doors


def run_folders(folder: Path) -> dict[str, Door]:
    """Files of a run, one of them wrong."""
    run, data = folder / "run", folder / "data.csv"

    def look() -> None:
        try:
            Run.records(run).issues()
        finally:
            Run.load(run).predict(read(data, label="label", recipe=Run.records(run).config.recipe)[0].x)

    def rest() -> None:
        made = Run.records(run)
        made.wrong_labels()
        made.training_rows()

    def go_on() -> None:
        saved = RunFolder(run).saved()
        if saved is None:
            return
        rows, held_out = Source.at(data, "0.25", 0, label="label").load()
        fit(rows, Method(), "mlp", test=held_out, epochs=2, evidence=True, device="cpu", out=run, resume=True)

    shares = {"run.json": (7, rest), "ledger.npz": (3, look), "history.csv": (2, rest), "model.safetensors": (2, look),
              "held_out.safetensors": (2, look), "reviews.sqlite": (2, look), "start.safetensors": (1, go_on),
              "evidence.safetensors": (1, go_on), "checkpoint/last.safetensors": (2, go_on)}  # fmt: skip
    doors = {
        f"run {name}": Door(((run / name).read_bytes(),), _into(run / name, then), share)
        for name, (share, then) in shares.items()
    }
    labels = (folder / "run" / "issues.csv").read_text().splitlines()
    corrected = "\n".join(
        ["row,given,label,reviewed", *(f"{i},{name},no,true" for i, name in enumerate(table()["label"]))]
    ).encode()
    path = folder / "corrected.csv"
    doors["corrected labels"] = Door(
        (corrected, "\n".join(labels).encode()),
        _into(path, lambda: with_corrected(read(data, label="label")[0], path)),
        2,
    )
    about = {"holdfast_row": 1, "holdfast_run": Run.records(run).config.fingerprint}
    annotation = {"completed_by": {"id": 1, "email": "a@x.org"}, "was_cancelled": False, "result": [
        {"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": ["yes"]}}]}  # fmt: skip
    studio = [{"id": 1, "data": about, "annotations": [annotation]}]
    response = {"value": "yes", "status": "submitted", "user_id": 7}
    argilla = [{"id": "a", "metadata": about, "responses": {"label": [response]}}]
    back = folder / "back.json"
    samples = tuple(json.dumps(each).encode() for each in (studio, argilla))
    doors["labels of other tools"] = Door(samples, _into(back, lambda: _command(["import", str(run), str(back)])), 2)
    options = folder / "options.yaml"
    yaml = b"epochs: 1\nlabel: label\nmethod: standard\nset: {rate: 0.5}\nmerge: ['a=b']\nout: x\n"
    words = ["noise", str(data), "--out", str(folder / "noisy.csv"), "--config", str(options)]
    noise = b"label: label\nrate: 0.3\nkind: symmetric\nset: {exact: true}\nout: n.csv\n"
    doors["options file"] = Door((yaml, noise), _into(options, lambda: _command(words)), 2)
    return doors


def _request(path: str, body: Mapping[str, Any] | None = None, **query: Any) -> dict[str, Any]:
    return {"method": "GET" if body is None else "POST", "path": path, "query": query, "body": body,
            "headers": {"host": "127.0.0.1:1", "origin": "http://127.0.0.1:1", "cookie": "holdfast_1=secret"}}  # fmt: skip


FILTER = {"given": "yes", "suggested": "no", "low": 0, "high": 1, "order": "informative", "queue": "open"}
WHO = {"reviewer": "Ada"}
REQUESTS = (
    _request("/api/next", **WHO, after="3", **FILTER), _request("/api/item/3", **WHO), _request("/api/group", **WHO),
    _request("/api/summary", **WHO), _request("/api/setup"), _request("/picture/0"), _request("/", token="secret"),
    _request("/api/decide", {**WHO, "row": 3, "verdict": "other", "label": "no", "filter": FILTER}),
    _request("/api/decide-group", {**WHO, "rows": [1, 2], "exceptions": [3], "verdict": "keep"}),
    _request("/api/undo", {**WHO, "filter": FILTER}), _request("/api/export", WHO),
)  # fmt: skip


class Api:
    """The review page of a run, asked without a socket between; anything that it raises comes through."""

    def __init__(self, run: Path) -> None:
        from holdfast.review.app import application
        from holdfast.review.end import End
        from holdfast.review.guard import local_access
        from holdfast.review.prepare import prepare as queue_of
        from holdfast.review.store import REVIEWS, Store

        made = Run.records(run)
        self._store = Store(run / REVIEWS, made.config.fingerprint)
        queue = queue_of(run, made, self._store, False, lambda text: None, lambda text: None)
        self._page = application(queue, local_access(1, "secret"), End(run, made))
        self._loop = asyncio.new_event_loop()

    def __call__(self, content: bytes) -> None:
        asked = json.loads(content)
        if not isinstance(asked, dict):
            return
        body, query, headers = asked.get("body"), asked.get("query"), asked.get("headers")
        sent = (
            b""
            if body is None
            else body.encode("utf-8", "replace")
            if isinstance(body, str)
            else json.dumps(body).encode()
        )
        pairs = query.items() if isinstance(query, dict) else []
        named = headers.items() if isinstance(headers, dict) else []
        scope = {
            "type": "http", "http_version": "1.1", "method": str(asked.get("method")), "scheme": "http",
            "path": str(asked.get("path")), "root_path": "", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1),
            "query_string": "&".join(f"{k}={v}" for k, v in pairs).encode("utf-8", "replace"),
            "headers": [(str(k).lower().encode("latin-1", "replace"), str(v).encode("latin-1", "replace")) for k, v in named],
        }  # fmt: skip
        answers: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": sent, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            answers.append(message)

        self._loop.run_until_complete(self._page(scope, receive, send))
        if answers[0]["status"] >= 500 and b"error" not in answers[-1].get("body", b""):
            raise NoSentence(f"the page has answered {answers[0]['status']} without a word")

    def close(self) -> None:
        self._store.close()
        self._loop.close()


def _asked_wrongly(content: bytes, draw: Random) -> bytes:
    """Mostly its fields, which are ours to check; seldom its form, which the server checks."""
    asked = json.loads(content)
    part = draw.choice(
        ("body", "query", "query", "headers", "path", "method")
        if asked["body"] is None
        else ("body", "body", "headers")
    )
    for _ in range(draw.choice((1, 1, 2, 3))):
        asked[part] = altered(asked[part], draw)
    if part == "body" and draw.randrange(8) == 0:
        asked["body"] = damaged(json.dumps(asked["body"]).encode(), draw).decode("utf-8", "replace")
    if part == "path":
        asked["path"] = damaged(json.loads(content)["path"].encode(), draw).decode("utf-8", "replace")
    return json.dumps(asked).encode()


class Page:
    """The review page, started when it is first asked."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._api: Api | None = None

    def __call__(self, content: bytes) -> None:
        self._api = self._api or Api(self._run)
        self._api(content)


COMMANDS = (
    (6, ["fit", "data.csv", "--label", "label", "--epochs", "1", "--method", "standard", "--no-evidence", "--quiet", "--out", "o"]),
    (1, ["check", "data.csv", "--label", "label", "--net", "mlp", "--quiet", "--out", "o"]),
    (2, ["compare", "data.csv", "--label", "label", "--methods", "standard", "--epochs", "1", "--seeds", "1", "--net", "mlp",
         "--quiet", "--out", "o"]),
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
)  # fmt: skip
LAST = {"review": ["--revoke", "nobody"]}
"""Words that end a command which would otherwise wait for somebody."""
NUMBERS = ("0", "-1", "1", "3", "1.5", "x", "", "nan", "-0", "0x10", "1e3", "99999999999999999999")
MEASURES = ("0", "-1", "1", "0.5", "nan", "inf", "-inf", "1e-300", "1e308", "x", "")
WORDS = ("", "x", "label", "age", "[/red]", "[bold]", "=1+1", "\udcff", "a" * 300, "data.csv", "run", "nope/er", "/dev/null",
         "/dev/null/x", "a:b", ":", "a=b", "=", "%s", "{}", "-", "é\u202e", "o.csv", "o", "o.npz", "auto", "mlp", "standard", "0.2",
         "csv", "crust", "rate=0.5", "rate=x", "timm:x", "text:", "image:/dev/null", "utf-16", "8GB", "0B")  # fmt: skip
LONG = ("--epochs", "--seeds", "--jobs", "--devices", "--threads", "--examples", "--watch")
"""Options whose large numbers are meant to take long."""


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
            _command(words)
        finally:
            os.chdir(before)

    def spoil(self, content: bytes, draw: Random) -> bytes:
        words = json.loads(content)
        group = _group()
        for _ in range(draw.choice((1, 1, 2, 3))):
            how, at = draw.randrange(6), draw.randrange(len(words))
            if how == 0 and at > 0:
                words[at] = draw.choice(WORDS)
            elif how == 1 and at > 0:
                del words[at]
            else:
                command = group.commands.get(words[0])
                option = draw.choice(command.params if command is not None else group.params)
                kinds = {} if command is None else get_type_hints(command.callback)
                words += _option(option, kinds.get(option.name), draw)
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


def _group() -> Any:
    """The commands, made once: it takes longer than most of them."""
    if isinstance(commands.app, typer.Typer):
        commands.app = typer.main.get_command(commands.app)  # type: ignore[assignment]
    return commands.app


def _command(words: list[str]) -> None:
    """As the shell calls it: a sentence ends with 2, and anything but that and success is a traceback."""
    _group()
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


def doors(folder: Path) -> dict[str, Door]:
    """All doors, over what ``prepare`` has made."""
    line = CommandLine(folder)
    samples = tuple(json.dumps(words).encode() for share, words in COMMANDS for _ in range(share))
    review = folder / "reviewed"
    shutil.copytree(folder / "run", review, dirs_exist_ok=True)
    return {
        **readers(folder),
        **run_folders(folder),
        "review page": Door(tuple(json.dumps(each).encode() for each in REQUESTS), Page(review), 16, _asked_wrongly),
        "command line": Door(samples, line, 5, line.spoil),
    }


def well(error: BaseException) -> bool:
    """Whether an error is a sentence."""
    return isinstance(error, HoldfastError)

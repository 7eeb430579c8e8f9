"""A million suspects under load: the first page, many reviewers at once, and what is left after kill -9.

Makes a run of small pictures of which about 1,000,000 have a doubtful label, starts ``holdfast review`` on it in a
process of its own with a link for each reviewer, and asks for the first page. Then reviewers, each on a connection of
their own in another process, answer at a fixed rate together; in the middle of it the server is killed with SIGKILL.
Counted are the answers that were acknowledged and, in the file of reviews, those of them that are stored. Times are of
the wall; the server's CPU time per answer stands beside them, since others may use the machine. The last line is one
JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import torch

from holdfast import Method, fit
from holdfast.data.source import Source

CLASSES, WRONG = 10, 0.85
TICK = os.sysconf("SC_CLK_TCK")


def make_run(folder: Path, suspects: int) -> Path:
    """A run of pictures whose labels are mostly wrong: a network of one epoch, and evidence that knows better."""
    source = np.random.default_rng(0)
    n = round(suspects / WRONG * 1.02)
    truth = source.integers(0, CLASSES, n)
    given = np.where(source.random(n) < WRONG, (truth + source.integers(1, CLASSES, n)) % CLASSES, truth)
    shapes = source.integers(40, 200, (CLASSES, 8, 8))
    pixels = np.empty((n, 8, 8), np.uint8)
    for low in range(0, n, 100_000):
        part = truth[low : low + 100_000]
        pixels[low : low + 100_000] = shapes[part] + source.integers(0, 50, (len(part), 8, 8))
    names = np.array([f"class {k}" for k in range(CLASSES)])
    np.savez(folder / "pictures.npz", x_train=pixels, y_train=given, class_names=names)
    rows, _ = Source.at(folder / "pictures.npz", "0", 0).load()
    fit(rows, Method(), "mlp", epochs=1, batch_size=4096, device="cpu", out=folder / "run")
    own = 0.6 + 0.35 * source.random(n)
    evidence = np.repeat(((1 - own) / (CLASSES - 1))[:, None], CLASSES, axis=1)
    evidence[np.arange(n), truth] = own
    with np.load(folder / "run" / "ledger.npz") as file:
        ledger = {name: file[name] for name in file.files}
    np.savez(folder / "run" / "ledger.npz", **{**ledger, "evidence": evidence.astype(np.float32)})
    return folder / "run"


class Server:
    """``holdfast review`` in a process of its own."""

    def __init__(self, run: Path, reviewers: list[str]) -> None:
        named = [word for name in reviewers for word in ("--reviewer", name)]
        command = [sys.executable, "-c", "from holdfast.cli import main; main()", "review", str(run), *named]
        start = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        lines = iter(self.process.stdout)
        self.links = [next(line for line in lines if line.startswith("http")).strip() for _ in reviewers]
        self.startup = time.perf_counter() - start

    def cpu(self) -> float:
        """Seconds of CPU time that it has used."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICK

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Connection:
    """One reviewer's connection: as little of HTTP as a browser needs here, so that the load costs little itself."""

    def __init__(self, link: str) -> None:
        parts = urlsplit(link)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._head = f"host: {parts.netloc}\r\norigin: http://{parts.netloc}\r\n"
        self._head += f"cookie: holdfast_{parts.port}={parts.query.removeprefix('token=')}\r\n"

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        start = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\n{self._head}"
        self._writer.write(f"{start}content-length: {len(content)}\r\n\r\n".encode() + content)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin1").lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        found: dict[str, Any] = json.loads(await self._reader.readexactly(length))
        if " 200 " not in head.partition("\r\n")[0]:
            raise RuntimeError(f"{head.splitlines()[0]}: {found}")
        return found


@dataclass
class Log:
    """What the reviewers have seen."""

    first: float = 0.0
    seconds: float = 0.0
    milliseconds: list[float] = field(default_factory=list)
    answered: list[tuple[str, int]] = field(default_factory=list)


async def reviewer(
    name: str, connection: Connection, row: int, every: float, late: float, begin: float, until: float, log: Log
) -> None:
    """Answer a row, and the next one that comes back, at a steady pace until the server is gone."""
    due = begin + late
    while (now := time.perf_counter()) < until:
        if due > now:
            await asyncio.sleep(due - now)
        sent = time.perf_counter()
        body = {"reviewer": name, "row": row, "verdict": "suggestion", "filter": {}}
        try:
            found = await connection.ask("/api/decide", body)
        except (OSError, EOFError):
            return
        log.answered.append((name, row))
        log.seconds = time.perf_counter() - begin
        log.milliseconds.append(1000 * (time.perf_counter() - sent))
        # Who is late answers at once, but does not make up for what was missed.
        due = max(due + every, time.perf_counter() - every)
        row = found["item"]["row"]


async def load(links: list[str], rate: float, seconds: float) -> Log:
    """The first page, then all reviewers at once."""
    log, connections = Log(), [Connection(link) for link in links]
    names = [f"reviewer {k}" for k in range(len(links))]
    rows = []
    for k, (name, connection) in enumerate(zip(names, connections, strict=True)):
        await connection.open()
        start = time.perf_counter()
        if k == 0:
            await connection.ask("/api/setup")
        query = name.replace(" ", "%20")
        rows.append((await connection.ask(f"/api/next?reviewer={query}"))["item"]["row"])
        if k == 0:
            log.first = time.perf_counter() - start
    every = len(links) / rate
    print("begin", flush=True)
    begin = time.perf_counter()
    await asyncio.gather(
        *(
            reviewer(name, connection, row, every, k * every / len(links), begin, begin + seconds, log)
            for k, (name, connection, row) in enumerate(zip(names, connections, rows, strict=True))
        )
    )
    return log


def fire(links: list[str], rate: float, seconds: float) -> None:
    """In a process of its own: what the reviewers saw, as a line of JSON."""
    print(json.dumps(asdict(asyncio.run(load(links, rate, seconds)))))


def stored(run: Path) -> set[tuple[str, int]]:
    with sqlite3.connect(run / "reviews.sqlite") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return set(database.execute("SELECT reviewer, row FROM entries WHERE undoes IS NULL"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20,000 suspects and five seconds")
    parser.add_argument("--suspects", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--rate", type=float, default=1_000.0, help="answers a second, of all connections together")
    parser.add_argument("--seconds", type=float, default=20.0, help="of load, half of them before the server is killed")
    parser.add_argument("--folder", type=Path, help="keep the run here, and use it again if it is there")
    parser.add_argument("--fire", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fire is not None:
        fire(options.fire, options.rate, options.seconds)
        return
    suspects, seconds = (20_000, 5.0) if options.quick else (options.suspects, options.seconds)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        run = folder / "run" if (folder / "run" / "run.json").exists() else make_run(folder, suspects)
        for name in ("reviews.sqlite", "reviews.sqlite-wal", "reviews.sqlite-shm", "reviews.key"):
            (run / name).unlink(missing_ok=True)
        server = Server(run, [f"reviewer {k}" for k in range(options.connections)])
        command = [sys.executable, __file__, "--fire", json.dumps(server.links), "--rate", str(options.rate)]
        client = subprocess.Popen([*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True)
        assert client.stdout is not None
        assert client.stdout.readline() == "begin\n"
        before = server.cpu()
        time.sleep(seconds / 2)
        cpu = server.cpu() - before
        server.kill()
        found = json.loads(client.communicate()[0])
        kept = stored(run)
    answered = {(name, row) for name, row in found["answered"]}
    times = np.array(found["milliseconds"])
    line = {
        "suspects": suspects,
        "startup_s": round(server.startup, 1),
        "first_page_s": round(found["first"], 3),
        "answers_per_second": round(len(times) / found["seconds"]),
        "p50_ms": round(float(np.quantile(times, 0.5)), 1),
        "p99_ms": round(float(np.quantile(times, 0.99)), 1),
        "cpu_ms_per_answer": round(1000 * cpu / max(1, len(answered)), 3),
        "acknowledged": len(answered),
        "stored": len(answered & kept),
        "twice": len(found["answered"]) - len({row for _, row in answered}),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()

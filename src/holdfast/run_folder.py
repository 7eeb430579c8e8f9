"""The folder of a run: its files, and how they are written and found again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from holdfast import checkpoint
from holdfast.config import RunConfig
from holdfast.errors import HoldfastError, check_plain, unreadable
from holdfast.files import read_tensors, write_tensors, write_text, written_aside
from holdfast.kept import Kept, packed, unpacked
from holdfast.nets.trees import BESIDE, trees_among
from holdfast.run_records import check_alike, check_arrays, read_history, read_ledger
from holdfast.types import Evidence

CONFIG = "run.json"
LOCK = ".lock"
START = "start.safetensors"
MODEL = "model.safetensors"
EVIDENCE = "evidence.safetensors"
HELD_OUT = "held_out.safetensors"
NAMES = "names"
"""The array of a ledger file, or of that of held-out rows, that holds the names of the rows."""
REVIEWERS = "reviewers"
"""The array of a ledger file that holds the names of those who reviewed rows before the run."""


@dataclass(frozen=True)
class HeldOut:
    """Test rows that are part of the same data as the training rows: judged like them, and never trained on.

    Attributes
    ----------
    arrays: given, evidence (or expected, where no other networks were asked) and what else is known of each row
        (``Rows.known``), as in the ledger.
    names: of the rows, where they have any.
    fingerprint: of the rows.
    """

    arrays: Mapping[str, Tensor]
    names: tuple[str, ...] | None
    fingerprint: str


class RunFolder:
    """The folder of a run. Every file is written aside and renamed; none is a pickle."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint" / "last.safetensors"

    def config(self) -> RunConfig:
        """What the run was made with. It is asked for before anything else of a run, so pipes are looked for here."""
        for folder in (self.path, self.checkpoint.parent):
            for entry in folder.iterdir() if folder.is_dir() else ():
                check_plain(entry)
        try:
            text = (self.path / CONFIG).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            raise HoldfastError(f"{self.path} holds no run (no run.json there)") from None
        except (OSError, UnicodeDecodeError) as error:
            raise HoldfastError(f"{self.path / CONFIG} cannot be read ({error}); train into another folder") from None
        try:
            return RunConfig.from_json(text)
        except HoldfastError as error:
            raise HoldfastError(f"{self.path / CONFIG} {error}") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """No other process trains into this folder meanwhile; a process that ends in any way lets go."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise HoldfastError(
                f"another process is training into {self.path}; wait for it, or choose another folder"
            ) from None
        try:
            yield
        finally:
            (self.path / LOCK).unlink(missing_ok=True)
            lock.release()

    def open(self, config: RunConfig, *, resume: bool) -> dict[str, Any] | None:
        """Begin here, or hand out the state to go on from; never touch another run."""
        if (self.path / CONFIG).exists() and (resume or self.begun):
            before = self.config()
            if not resume:
                raise HoldfastError(
                    f"{self.path} holds a run already ({before.call}); "
                    "pass --resume to go on with it, or another folder"
                )
            differing = list(before.differences(config))
            if differing:
                raise HoldfastError(
                    f"cannot resume: the run in {self.path} was started with {'; '.join(differing)}; "
                    "go on with the same, or train into another folder"
                )
            return self.saved()
        if self.path.is_dir() and any(
            p for p in self.path.iterdir() if not p.name.startswith(".") and p.name != CONFIG
        ):
            raise HoldfastError(f"{self.path} is not empty and holds no run; choose another folder")
        if self.path.exists() and not self.path.is_dir():
            raise HoldfastError(f"{self.path} is a file; choose a folder")
        write_text(self.path / CONFIG, config.to_json())
        return None

    def saved(self) -> dict[str, Any] | None:
        """The state to go on from, with the weights that the training began with; None where no epoch has ended."""
        if not self.checkpoint.exists():
            return None
        with unreadable(self.checkpoint, "is damaged, train into another folder"):
            return {**checkpoint.load(self.checkpoint), "start": self.start()}

    @property
    def begun(self) -> bool:
        """Whether there is anything to lose: a run that was refused has written its configuration and no more."""
        return any(
            path.exists()
            for path in (self.checkpoint, self.path / EVIDENCE, self.path / START, self.path / "ledger.npz")
        )

    def forget(self) -> None:
        """Leave nothing of a training that has come to nothing, so that the folder can take another."""
        for name in (START, EVIDENCE, CONFIG):
            (self.path / name).unlink(missing_ok=True)

    def write_evidence(self, evidence: Evidence) -> None:
        """What other networks say of each row; a run that goes on needs it again."""
        tensors = packed({k: each for k, each in evidence._asdict().items() if isinstance(each, (Tensor, Kept))})
        trees = {} if evidence.trees is None else evidence.trees.state_dict(prefix=BESIDE)
        write_tensors(self.path / EVIDENCE, tensors | trees)

    def evidence(self) -> Evidence | None:
        if not (self.path / EVIDENCE).exists():
            return None
        tensors, _ = read_tensors(self.path / EVIDENCE)
        opinions = unpacked(tensors, self.config().outputs)
        kept = {name: opinions.get(name) for name in Evidence._fields if name != "trees"}
        return Evidence(**kept, trees=trees_among(tensors))  # type: ignore[arg-type]

    def write_start(self, weights: dict[str, Tensor]) -> None:
        """The weights that training began with."""
        write_tensors(self.path / START, weights)

    def start(self) -> dict[str, Tensor]:
        return read_tensors(self.path / START)[0]

    def keep(self, state: dict[str, Any], history: list[dict[str, float]]) -> None:
        """After an epoch."""
        self._check_there()
        checkpoint.save(self.checkpoint, state)
        self._write_history(pd.DataFrame(history))

    def finish(
        self,
        weights: Mapping[str, Tensor],
        history: pd.DataFrame,
        ledger: Mapping[str, Tensor],
        names: Sequence[str] | None,
        stopped: str,
        held_out: HeldOut | None = None,
        reviewers: Sequence[str] = (),
    ) -> None:
        """At the end of the training."""
        self._check_there()
        write_tensors(self.path / MODEL, dict(weights))
        if held_out is None:
            (self.path / HELD_OUT).unlink(missing_ok=True)  # it may have gone on without the rows of that file
        else:
            packed = {} if held_out.names is None else {NAMES: torch.from_numpy(_packed(held_out.names).copy())}
            notes = {"fingerprint": held_out.fingerprint}
            write_tensors(self.path / HELD_OUT, {**held_out.arrays, **packed}, notes)
        self._write_history(history)
        if stopped:
            write_text(self.path / "stopped.txt", f"{stopped}\n")
        with written_aside(self.path / "ledger.npz") as aside, open(aside, "wb") as file:
            arrays = {name: value.cpu().numpy() for name, value in ledger.items()}
            if names is not None:
                arrays[NAMES] = _packed(names)
            if reviewers:
                arrays[REVIEWERS] = _packed(reviewers)
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    @property
    def finished(self) -> bool:
        return (self.path / "ledger.npz").exists()

    def weights(self) -> dict[str, Tensor]:
        """Of the network that predicts."""
        if not (self.path / MODEL).exists():
            raise HoldfastError(f"the run in {self.path} has not ended; go on with it (--resume) first")
        return read_tensors(self.path / MODEL)[0]

    def history(self) -> list[dict[str, float]]:
        return read_history(self.path / "history.csv")

    def ledger(self) -> tuple[dict[str, Tensor], tuple[str, ...] | None, tuple[str, ...]]:
        """The ledger, the names of the rows where they have any, and of those who reviewed rows before the run."""
        if not self.finished:
            raise HoldfastError(
                f"the run in {self.path} is not finished; pass --resume to holdfast fit to go on with it"
            )
        path, config = self.path / "ledger.npz", self.config()
        arrays = read_ledger(path, config)
        packed, reviewers = arrays.pop(NAMES, None), arrays.pop(REVIEWERS, None)
        check_arrays(arrays, config, path, config.rows)
        return arrays, _names(packed, config.rows, path), () if reviewers is None else _unpacked(reviewers)

    def held_out(self, ledger: Mapping[str, Tensor]) -> HeldOut | None:
        """Test rows that are judged beside those of the ledger, where there are such."""
        if not (self.path / HELD_OUT).exists():
            return None
        path = self.path / HELD_OUT
        arrays, notes = read_tensors(path)
        packed = arrays.pop(NAMES, None)
        check_arrays(arrays, self.config(), path, None)
        check_alike(ledger, arrays, path)
        if "fingerprint" not in notes:
            raise HoldfastError(f"{path} is damaged: it lacks a fingerprint; train again")
        return HeldOut(arrays, _names(packed, len(arrays["given"]), path), notes["fingerprint"])

    def stopped(self) -> str:
        """Why a stop rule ended the training; empty where none did."""
        try:
            return (self.path / "stopped.txt").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""

    def _check_there(self) -> None:
        """Files written into a folder that somebody has removed meanwhile would look like a run and be none."""
        if not (self.path / CONFIG).exists():
            raise HoldfastError(f"{self.path} was removed while the run was training into it; train again")

    def _write_history(self, history: pd.DataFrame) -> None:
        with written_aside(self.path / "history.csv") as aside:
            history.to_csv(aside, index=False)


def _packed(names: Sequence[str]) -> np.ndarray[Any, Any]:
    """Names as bytes, each ended by a zero: an array of strings would give all of them the room of the longest."""
    return np.frombuffer("".join(name.replace("\0", "") + "\0" for name in names).encode(), np.uint8)


def _unpacked(packed: Tensor) -> tuple[str, ...]:
    return tuple(packed.numpy().tobytes().decode(errors="replace").split("\0")[:-1])


def _names(packed: Tensor | None, rows: int, path: Path) -> tuple[str, ...] | None:
    """The names of so many rows, where they have any."""
    names = None if packed is None else _unpacked(packed)
    if names is not None and len(names) != rows:
        raise HoldfastError(f"{path} is damaged: it names {len(names)} of {rows} rows; train again")
    return names

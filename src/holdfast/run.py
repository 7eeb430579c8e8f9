"""A run: what training leaves behind, in memory and in a folder."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import holdfast
from holdfast import checkpoint
from holdfast.data.rows import Rows
from holdfast.data.scale import unscaled
from holdfast.data.source import read_again
from holdfast.errors import HoldfastError
from holdfast.feed import evaluate, inputs_of, task_for
from holdfast.issues.find import ledger_table, ranked
from holdfast.issues.noise import Noise, noise_of
from holdfast.issues.trust import label_trust
from holdfast.method import Method
from holdfast.nets import PROJECTED, build
from holdfast.task import Task, task_of

START = "start.safetensors"
LAST = 10
"""Epochs whose mean score stands for the end of a run."""
NAMES = "names"
"""The array of a ledger file that holds the names of the rows."""


class Run:
    """A trained network with the history of its epochs and the ledger of its rows.

    Attributes
    ----------
    net: the network that predicts.
    history: one line an epoch: loss, coverage of the plan, scores, seconds.
    ledger: one line a row: times seen and selected, mean trust, loss, margin and gradient norm, last prediction.
    asked: the settings, as written to ``run.json``.
    stopped: why a stop rule ended the training; empty where none did.
    """

    def __init__(
        self,
        net: nn.Module | None,
        rows: Rows | None,
        history: Sequence[Mapping[str, float]],
        ledger: Mapping[str, Tensor],
        asked: Mapping[str, Any],
        out: Path | None = None,
        names: Sequence[str] | None = None,
        stopped: str = "",
    ) -> None:
        self._net = net
        self.rows = rows
        self.names = rows.names if rows is not None else names
        self.history = pd.DataFrame(list(history))
        self.asked = dict(asked)
        self.out = out
        self.stopped = stopped
        self._ledger = dict(ledger)

    @classmethod
    def load(cls, folder: str | Path, net: nn.Module | None = None) -> Run:
        """Read a finished run from its folder; a network that was given as a module must be given again."""
        run = cls.records(folder)
        path = Path(folder)
        net = net or _rebuild(path, run.asked)
        weights, _ = checkpoint.read_tensors(path / "model.safetensors")
        net.load_state_dict(weights)
        run.net = net
        return run

    @classmethod
    def records(cls, folder: str | Path) -> Run:
        """Read what a finished run has written down: settings, history and ledger, but no network."""
        path = Path(folder)
        asked = RunFolder(path).settings()
        if not (path / "ledger.npz").exists():
            raise HoldfastError(f"the run in {path} is not finished; pass --resume to holdfast fit to go on with it")
        with np.load(path / "ledger.npz", allow_pickle=False) as file:
            ledger = {name: torch.from_numpy(file[name]) for name in file.files if name != NAMES}
            names = _unpacked(file[NAMES]) if NAMES in file.files else None
        history = pd.read_csv(path / "history.csv").to_dict("records")
        return cls(None, None, history, ledger, asked, path, names, RunFolder(path).stopped())  # type: ignore[arg-type]

    @property
    def net(self) -> nn.Module:
        if self._net is None:
            raise HoldfastError("this run was opened without its network; open it with Run.load")
        return self._net

    @net.setter
    def net(self, net: nn.Module) -> None:
        self._net = net

    def training_rows(self) -> Rows:
        """The rows that it was trained on: those it holds, or those at the place they were read from."""
        return self.rows if self.rows is not None else read_again(self.asked)

    @property
    def classes(self) -> tuple[str, ...] | None:
        names = self.asked["classes"]
        return None if names is None else tuple(names)

    @property
    def task(self) -> Task:
        count = None if self.classes is None else len(self.classes)
        return task_of(torch.empty(0, 0 if self.asked.get("unlabelled") else self.asked["outputs"]), count)

    @property
    def ledger(self) -> pd.DataFrame:
        flat = {}
        for name, value in self._ledger.items():
            columns = value.cpu().numpy()
            if columns.ndim == 1:
                flat[name] = columns
            else:
                flat |= {f"{name}_{k}": columns[:, k] for k in range(columns.shape[1])}
        return pd.DataFrame(flat)

    @property
    def last(self) -> float:
        """Mean test score of the last ten epochs."""
        return float(self._test.iloc[-LAST:].mean())

    @property
    def best(self) -> float:
        """Test score of the best epoch: chosen by looking at the test, so only for comparison with ``last``."""
        return float(self._test.max())

    @property
    def kept(self) -> int:
        """The epoch, from zero, whose network this is: the last, or the one that a stop rule held for the best."""
        judged = self.history.get("kept")
        return len(self.history) - 1 if judged is None else int(judged.to_numpy().nonzero()[0].max(initial=0))

    @property
    def score(self) -> float:
        """Test score of the network that the run returns."""
        return float(self._test.iloc[self.kept])

    @property
    def _test(self) -> pd.Series[float]:
        if "test" not in self.history:
            raise HoldfastError("this run had no test rows; pass test")
        return self.history["test"]

    def outputs(self, x: Tensor | np.ndarray[Any, Any]) -> Tensor:
        """(N, q) raw outputs of the network."""
        device = next(self.net.parameters()).device
        x = torch.as_tensor(x)
        return evaluate(self.net, inputs_of(x if x.dtype in (torch.uint8, torch.float32) else x.float(), device)).cpu()

    def probabilities(self, x: Tensor | np.ndarray[Any, Any]) -> Tensor:
        """(N, C) probabilities of the classes."""
        if self.classes is None:
            raise HoldfastError("a regression has no probabilities; use predict")
        return self.outputs(x).softmax(1)

    def predict(self, x: Tensor | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Class names, or (N, q) values in the units of the file that was read."""
        predicted = self.task.predict(self.outputs(x))
        if self.classes is None:
            return unscaled(predicted, self.asked["recipe"]).numpy()
        names: np.ndarray[Any, Any] = np.asarray(self.classes)[predicted.numpy()]
        return names

    def issues(self) -> pd.DataFrame:
        """Which labels are wrong, least trusted first.

        Returns
        -------
        DataFrame: row, name, given and suggested label, trust (the probability that the given label is right), flag
        (likelier wrong than right) and why. Of a regression the suggested value has an interval of 95 %, low and high.
        """
        return ranked(self.issue_table())

    def issue_table(self) -> pd.DataFrame:
        """The same in the order of the training rows, with the likeliest other label of each (rival)."""
        names = None if self.classes is None else list(self.classes)
        table = ledger_table(self._evidence, names, self.asked["recipe"])
        if "place" in self._ledger:
            table["row"] = self._ledger["place"].numpy()
        table.insert(1, "name", "" if self.names is None else np.asarray(self.names, dtype=object))
        if "reviewed" in self._ledger:
            settled = self._ledger["reviewed"].numpy()
            table.loc[settled, ["trust", "flag"]] = [1.0, False]
            table.loc[settled, "why"] = "reviewed"
            for name in [name for name in table.columns if name.startswith("suggested")]:
                table.loc[settled, name] = table.loc[settled, name.replace("suggested", "given")]
        return table

    def noise(self) -> Noise:
        """How many labels are wrong, in all and of each class, and how they go wrong, with bootstrap intervals."""
        if self.classes is None:
            raise HoldfastError("a regression has no transition matrix; run.issues() says which targets are wrong")
        y = self._evidence["given"]
        return noise_of(label_trust(self._evidence["expected"], y), y, self.classes)

    @property
    def _evidence(self) -> dict[str, Tensor]:
        """The ledger as it was kept on this machine, or an error where it tells too little."""
        if "expected" not in self._ledger:
            raise HoldfastError("the ledger of this run is from an older version and tells too little; train again")
        return {name: value.cpu() for name, value in self._ledger.items()}

    def __repr__(self) -> str:
        end = f", {self.task.metric} {self.last:.4f}" if "test" in self.history else ""
        return f"Run({self.asked['method']}, {len(self.history)} epochs{end})"


class RunFolder:
    """The folder of a run. Every file is written aside and renamed; none is a pickle."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint" / "last.safetensors"

    def start(self, device: torch.device | str = "cpu") -> dict[str, Tensor]:
        """The weights that training began with."""
        return {name: value.to(device) for name, value in checkpoint.read_tensors(self.path / START)[0].items()}

    def stopped(self) -> str:
        try:
            return (self.path / "stopped.txt").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""

    def settings(self) -> dict[str, Any]:
        try:
            settings: dict[str, Any] = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise HoldfastError(f"{self.path} holds no run (no run.json there)") from None
        except json.JSONDecodeError:
            raise HoldfastError(f"{self.path / 'run.json'} is damaged; train into another folder") from None
        return settings

    def open(self, asked: Mapping[str, Any], *, resume: bool) -> dict[str, Any] | None:
        """Begin here, or hand out the state to go on from; never touch another run."""
        if (self.path / "run.json").exists():
            if not resume:
                raise HoldfastError(
                    f"{self.path} holds a run already ({self.settings()['method']}); "
                    "pass --resume to go on with it, or another folder"
                )
            self._check_same(asked)
            return checkpoint.load(self.checkpoint) if self.checkpoint.exists() else None
        if self.path.is_dir() and any(p for p in self.path.iterdir() if not p.name.startswith(".")):
            raise HoldfastError(f"{self.path} is not empty and holds no run; choose another folder")
        if self.path.exists() and not self.path.is_dir():
            raise HoldfastError(f"{self.path} is a file; choose a folder")
        checkpoint.write_text(self.path / "run.json", json.dumps(asked, indent=1) + "\n")
        return None

    def _check_same(self, asked: Mapping[str, Any]) -> None:
        stands = self.settings()
        told = {"method", "net", "epochs", "batch_size", "seed", "precision", "fingerprint", "parameters"}
        for name in sorted(told):
            if stands.get(name) != asked[name]:
                what = "other data" if name == "fingerprint" else f"{name} {stands.get(name)}, not {asked[name]}"
                raise HoldfastError(f"cannot resume: the run in {self.path} was started with {what}")

    def keep(self, state: dict[str, Any], history: list[dict[str, float]]) -> None:
        """After an epoch."""
        checkpoint.save(self.checkpoint, state)
        self._write_history(history)

    def _write_history(self, history: list[dict[str, float]]) -> None:
        with checkpoint.written_aside(self.path / "history.csv") as aside:
            pd.DataFrame(history).to_csv(aside, index=False)

    def finish(self, run: Run) -> None:
        checkpoint.write_tensors(self.path / "model.safetensors", dict(run.net.state_dict()))
        self._write_history(run.history.to_dict("records"))  # type: ignore[arg-type]
        if run.stopped:
            checkpoint.write_text(self.path / "stopped.txt", f"{run.stopped}\n")
        with checkpoint.written_aside(self.path / "ledger.npz") as aside, open(aside, "wb") as file:
            arrays = {name: value.cpu().numpy() for name, value in run._ledger.items()}
            if run.names is not None:
                arrays[NAMES] = _packed(run.names)
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def describe(rows: Rows, method: Method, spec: str | None, net: nn.Module, **settings: Any) -> dict[str, Any]:
    """What was asked, as it goes to ``run.json``."""
    return {
        "method": repr(method),
        "net": spec or type(net).__name__,
        "rebuild": spec,
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "shape": list(rows.shape),
        "outputs": task_for(rows).outputs,
        "unlabelled": rows.unlabelled,
        "classes": None if rows.classes is None else list(rows.classes),
        "rows": len(rows),
        "fingerprint": rows.fingerprint,
        **settings,
        "source": dict(rows.source),
        "versions": {
            "holdfast": holdfast.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "recipe": dict(rows.recipe),
    }


def _packed(names: Sequence[str]) -> np.ndarray[Any, Any]:
    """Names as bytes, each ended by a zero: an array of strings would give all of them the room of the longest."""
    return np.frombuffer("".join(name.replace("\0", "") + "\0" for name in names).encode(), np.uint8)


def _unpacked(packed: np.ndarray[Any, Any]) -> tuple[str, ...]:
    return tuple(packed.tobytes().decode().split("\0")[:-1])


def pretrained_body(path: Path, rows: Rows) -> tuple[str | None, dict[str, Tensor]]:
    """The kind of network that a run trained, without what it has for a head, and its weights."""
    asked = RunFolder(path).settings()
    if tuple(asked["shape"]) != rows.shape:
        raise HoldfastError(f"the run in {path} saw inputs of shape {tuple(asked['shape'])}, these have {rows.shape}")
    if not (path / "model.safetensors").exists():
        raise HoldfastError(f"the run in {path} has not ended; go on with it (--resume) before training from it")
    spec = asked["rebuild"]
    return spec and spec.removesuffix(PROJECTED), checkpoint.read_tensors(path / "model.safetensors")[0]


def _rebuild(path: Path, asked: Mapping[str, Any]) -> nn.Module:
    if asked["rebuild"] is None:
        raise HoldfastError(
            f"the run in {path} trained a network of your own ({asked['net']}); pass it to Run.load, or train "
            "with a name or module.path:factory"
        )
    return build(asked["rebuild"], tuple(asked["shape"]), asked["outputs"])

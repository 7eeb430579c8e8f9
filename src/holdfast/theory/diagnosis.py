"""What the theory says about a run: how far it went, what its Jacobian looks like, and which conditions hold."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from holdfast.data.rows import Rows
from holdfast.data.source import read_again
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.run import Run, RunFolder
from holdfast.select import facility_location
from holdfast.task import Classification
from holdfast.theory.coresets import CoresetTraining, WeightedJacobian, coreset_training, weighted_jacobian
from holdfast.theory.covariance import relu_slopes, separation
from holdfast.theory.early import Condition, Setting, conditions, drift, step_size, stop_after
from holdfast.theory.jacobian import FITS, Jacobian, Spectrum, smoothness, spectrum, without_largest

GAP = 2.0
"""Labels of the theorems lie in [-1, 1]; one class against the rest makes them two apart."""


@dataclass
class Diagnosis:
    """The numbers of a diagnosis; ``page`` of ``holdfast.theory.page`` shows them."""

    run: Run
    losses: np.ndarray[tuple[int], np.dtype[np.float32]]
    """(M,) losses of some rows against their given labels, as the network is now."""
    trusted: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """(M,) whether the network leaned towards the given label on the mean of the run."""
    wrong: float
    """The share of wrong labels, estimated from the network's predictions."""
    start: Spectrum
    """Of the Jacobian where training began."""
    now: Spectrum
    weights: int
    """How many weights the Jacobian was taken by."""
    shares: pd.DataFrame
    """How much of labels and residuals is information, for all rows of the sample and for the trusted ones."""
    coreset: WeightedJacobian | None = None
    training: CoresetTraining | None = None
    clusters: Setting | None = None
    stop: float = math.nan
    """Iterations after which Theorem 2.2 stops gradient descent."""
    rate: float = math.nan
    """Its step size."""
    reach: float = math.nan
    """Its bound on the distance from the start."""
    conditions: list[Condition] = field(default_factory=list)


def diagnose(run: Run, rows: Rows | None = None, *, examples: int = 100, seed: int = 0) -> Diagnosis:
    """Hold a run against the theorems.

    Parameters
    ----------
    run: a finished run that was written to a folder, which keeps the weights that it began with.
    rows: what it was trained on; None: the rows that the run still holds, or those at the place they were read from.
    examples: how many rows the Jacobian is taken of; it has a row for each of their outputs.
    """
    rows = rows if rows is not None else run.rows
    rows = rows if rows is not None else read_again(run.asked)
    if len(rows) != len(run.ledger):
        raise HoldfastError(f"the run was trained on {len(run.ledger)} rows, and these are {len(rows)}")
    if run.out is None:
        raise HoldfastError("a diagnosis needs the weights that training began with; train with out=FOLDER")
    if examples < 2:
        raise HoldfastError(f"a diagnosis needs at least two examples, not {examples}")
    feed = Feed(rows, batch_size=min(128, len(rows)))
    start = RunFolder(run.out).start()
    task, net = feed.task, copy.deepcopy(run.net).cpu().eval().requires_grad_(True)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    some = order[: min(len(rows), 5000)].sort().values
    inputs = torch.cat([x for _, x in feed.chunks(some)])
    with torch.no_grad():
        output = torch.cat([net(part) for part in inputs.split(500)]).float()
    y = rows.y[some]
    trusted = torch.tensor(run.ledger["margin"].to_numpy()[some.numpy()] > 0)
    wrong = task.wrong(task.expected(output), y)[0]

    pick = torch.randperm(len(some), generator=torch.Generator().manual_seed(seed))[:examples]
    x, given, kept, out = inputs[pick], y[pick], trusted[pick], output[pick]
    names = _fitting(net, len(x) * task.outputs)
    now = spectrum(Jacobian(net, x, weights=names))
    begun = spectrum(Jacobian(_at(net, start), x, weights=names))
    told = Diagnosis(
        run,
        task.losses(output, y).numpy(),
        trusted.numpy(),
        wrong,
        begun,
        now,
        Jacobian(net, x[:1], weights=names).shape[1],
        _shares(net, names, x, task.encode(given), task.gradients(out, given), kept, now),
    )
    if isinstance(task, Classification):
        _coreset(told, net, names, start, x, given, task.gradients(out, given), out.argmax(1), kept)
        _clusters(told, inputs, y, task.outputs, len(rows), wrong)
    return told


def _at(net: nn.Module, start: dict[str, Tensor]) -> nn.Module:
    """The network where it began: first weights, and statistics of normalisation that have seen nothing."""
    begun = copy.deepcopy(net)
    begun.load_state_dict(start, strict=False)
    for part in begun.modules():
        if isinstance(part, _BatchNorm):
            part.reset_running_stats()
    return begun


def _fitting(net: nn.Module, rows: int) -> list[str]:
    """The weights to derive by: all, or without the largest layers until a matrix of so many rows is a gigabyte."""
    every = [name for name, p in net.named_parameters() if p.requires_grad]
    sizes = {name: p.numel() for name, p in net.named_parameters()}
    leave = 0
    while rows * sum(sizes[name] for name in every) > FITS // 4 and len(every) > 1:
        leave += 1
        every = without_largest(net, leave)
    return every


def _shares(
    net: nn.Module, names: list[str], x: Tensor, label: Tensor, residual: Tensor, kept: Tensor, now: Spectrum
) -> pd.DataFrame:
    """Information of labels and residuals, of all rows and of the trusted ones, each in its own top directions."""
    label, residual = label.double(), residual.double()
    lines = [("all rows", len(x), now.information(label.flatten()), now.information(residual.flatten()))]
    if 2 <= int(kept.sum()) < len(kept):
        inside = spectrum(Jacobian(net, x[kept], weights=names))
        lines.append(
            (
                "trusted rows",
                int(kept.sum()),
                inside.information(label[kept].flatten()),
                inside.information(residual[kept].flatten()),
            )
        )
    return pd.DataFrame(lines, columns=["rows", "examples", "labels", "residuals"])


def _coreset(
    told: Diagnosis,
    net: nn.Module,
    names: list[str],
    start: dict[str, Tensor],
    x: Tensor,
    given: Tensor,
    slope: Tensor,
    predicted: Tensor,
    kept: Tensor,
) -> None:
    """Half of the trusted rows of the sample, chosen and weighted as CRUST does, and Theorem 4.1 for them."""
    rows = kept.nonzero()[:, 0] if int(kept.sum()) >= 4 else torch.arange(len(kept))
    chosen = facility_location(slope[rows].double(), 0.5, groups=predicted[rows], threads=1)
    index = rows[chosen.index]
    told.coreset = weighted_jacobian(Jacobian(net, x, given, names).dense(), index, chosen.weight)
    # Wrong labels beyond those distrusted are among the trusted ones.
    wrong = max(0.0, told.wrong - float((~told.trusted).mean())) / max(float(told.trusted.mean()), 1e-12)
    told.training = coreset_training(
        told.coreset, n=len(x), size=len(index), wrong=max(wrong, 1 / len(told.losses)), gap=GAP,
        smooth=smoothness(net, x[index], start, given[index]),
    )  # fmt: skip


def _clusters(told: Diagnosis, inputs: Tensor, y: Tensor, classes: int, n: int, wrong: float) -> None:
    """Theorem 2.2 with each class for a cluster."""
    flat = inputs.flatten(1).double()
    flat = flat / flat.norm(dim=1, keepdim=True).clamp_min(1e-12)
    total = torch.zeros(classes, flat.shape[1], dtype=torch.float64).index_add_(0, y, flat)
    centre = total / total.norm(dim=1, keepdim=True).clamp_min(1e-12)
    size = torch.bincount(y, minlength=classes).double() * classes / len(y)
    hidden = max(p.shape[0] for p in told.run.net.parameters() if p.dim() > 1)
    at = Setting(
        n=n, d=flat.shape[1], k=hidden, clusters=classes, separation=separation(centre, relu_slopes),
        low=float(size.min()), high=float(size.max()), radius=float((flat - centre[y]).norm(dim=1).median()),
        wrong=max(wrong, 1 / n), gap=GAP,
    )  # fmt: skip
    told.clusters, told.conditions, told.rate = at, conditions(at), step_size(at)
    if at.separation.least > 0:
        told.stop = stop_after(at)
        told.reach = drift(at, told.stop)

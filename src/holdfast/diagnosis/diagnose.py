"""What the theory says about a run: how far it went, what its Jacobian looks like, and which conditions hold."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.nets import first_of, without_trees
from holdfast.run import Run
from holdfast.run_folder import RunFolder
from holdfast.select import facility_location
from holdfast.task import Classification
from holdfast.theory.coresets import (
    CoresetTraining,
    WeightedJacobian,
    coreset_training,
    main_clusters,
    weighted_jacobian,
)
from holdfast.theory.covariance import class_directions, relu_slopes, separation
from holdfast.theory.early import Condition, Setting, conditions
from holdfast.theory.jacobian import Jacobian, Spectrum, fitting, smoothness, spectrum

GAP = 2.0
"""Labels of the theorems lie in [-1, 1]; one class against the rest makes them two apart."""


@dataclass
class Diagnosis:
    """The numbers of a diagnosis; ``holdfast.diagnosis.write_page`` shows them."""

    run: Run
    losses: np.ndarray[tuple[int], np.dtype[np.float32]]
    """(M,) losses of some rows against their given labels, as the network is now."""
    trusted: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """(M,) whether the network leaned towards the given label on the mean of the run."""
    wrong: float
    """The noise rate, as ``run.wrong_labels()`` estimates it."""
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
    """What Theorem 2.2 is about, each class taken for a cluster."""

    @property
    def conditions(self) -> dict[str, list[Condition]]:
        """What each theorem asks for, and whether it is there."""
        early = {} if self.clusters is None else {"Theorem 2.2": conditions(self.clusters)}
        return early | ({} if self.training is None else {"Theorem 4.1": self.training.conditions})


def diagnose(run: Run, rows: Rows | None = None, *, examples: int = 100, seed: int = 0) -> Diagnosis:
    """Hold a run against the theorems.

    Parameters
    ----------
    run: a finished run that was written to a folder, which keeps the weights that it began with.
    rows: what it was trained on; None: the rows that the run still holds, or those at the place they were read from.
    examples: how many rows the Jacobian is taken of; it has a row for each of their outputs.
    """
    rows = run.training_rows() if rows is None else rows
    if len(rows) != len(run.ledger):
        raise HoldfastError(f"the run was trained on {len(run.ledger)} rows, and these are {len(rows)}")
    if run.out is None:
        raise HoldfastError("a diagnosis needs the weights that training began with; train with out=FOLDER")
    if examples < 2:
        raise HoldfastError(f"a diagnosis needs at least two examples, not {examples}")
    feed = Feed(rows, batch_size=min(128, len(rows)))
    start = RunFolder(run.out).start()
    task, net = feed.task, copy.deepcopy(first_of(without_trees(run.net))).cpu().eval().requires_grad_(True)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    some = order[: min(len(rows), 5000)].sort().values
    inputs = torch.cat([x for _, x in feed.chunks(some)])
    with torch.no_grad():
        output = torch.cat([net(part) for part in inputs.split(500)]).float()
    y = rows.y[some]
    trusted = torch.tensor(run.ledger["margin"].to_numpy()[some.numpy()] > 0)
    wrong = run.wrong_labels().rate

    pick = torch.randperm(len(some), generator=torch.Generator().manual_seed(seed))[:examples]
    x, given, kept, out = inputs[pick], y[pick], trusted[pick], output[pick]
    names = fitting(net, len(x) * task.outputs)
    now = spectrum(Jacobian(net, x, weights=names))
    begun = spectrum(Jacobian(_at(net, start), x, weights=names))
    diagnosis = Diagnosis(
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
        slope, predicted = task.gradients(out, given), out.argmax(1)
        index, weight = _coreset(slope, predicted, kept)
        diagnosis.coreset = weighted_jacobian(
            Jacobian(net, x, given, names).dense(), index, weight, main_clusters(slope, index, predicted)
        )
        # Wrong labels beyond those distrusted are among the trusted ones.
        left = max(0.0, wrong - float((~trusted).double().mean())) / max(float(trusted.double().mean()), 1e-12)
        diagnosis.training = coreset_training(
            diagnosis.coreset, n=len(x), size=len(index), wrong=max(left, 1 / len(y)), gap=GAP,
            smooth=smoothness(net, x[index], start, given[index]),
        )  # fmt: skip
        hidden = max(p.shape[0] for p in net.parameters() if p.dim() > 1)
        # Numbers of tokens lie near to one another without a meaning.
        lying = inputs if rows.frozen is None else rows.frozen[some]
        diagnosis.clusters = _clusters(lying, y, task.outputs, len(rows), hidden, wrong)
    return diagnosis


def _at(net: nn.Module, start: dict[str, Tensor]) -> nn.Module:
    """The network where it began: first weights, and statistics of normalisation that have seen nothing."""
    begun = copy.deepcopy(net)
    begun.load_state_dict(start, strict=False)
    for part in begun.modules():
        if isinstance(part, _BatchNorm):
            part.reset_running_stats()
    return begun


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


def _coreset(slope: Tensor, predicted: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """Half of the trusted rows of a sample, chosen and weighted as CRUST does: (k,) rows and (k,) weights."""
    rows = kept.nonzero()[:, 0] if int(kept.sum()) >= 4 else torch.arange(len(kept))
    chosen = facility_location(slope[rows].double(), 0.5, groups=predicted[rows], threads=1)
    return rows[chosen.index], chosen.weight


def _clusters(inputs: Tensor, y: Tensor, classes: int, n: int, hidden: int, wrong: float) -> Setting:
    """What the theorems are about, with each class for a cluster."""
    centre = class_directions(inputs, y, classes)
    away = nn.functional.normalize(inputs.flatten(1).double(), dim=1) - centre[y]
    size = torch.bincount(y, minlength=classes).double() * classes / len(y)
    return Setting(
        n=n, d=centre.shape[1], k=hidden, clusters=classes, separation=separation(centre, relu_slopes),
        low=float(size.min()), high=float(size.max()), radius=float(away.norm(dim=1).median()), wrong=max(wrong, 1 / n),
        gap=GAP,
    )  # fmt: skip

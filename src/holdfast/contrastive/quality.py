"""How near the labels of contrastive learning come to true ones; a measurement, the only reader of classes here."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.contrastive.base import unit
from holdfast.contrastive.sane import SANE
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.feed import evaluate, inputs_of


def true_labels(query: Tensor, keys: Tensor) -> Tensor:
    """The labels that classes would give: one over the number of keys of the query's class for each of these.

    Shape: classes (B,), (n,) -> (B, n).

    >>> true_labels(torch.tensor([1]), torch.tensor([1, 0, 1]))
    tensor([[0.5000, 0.0000, 0.5000]])
    """
    same = (query[:, None] == keys).float()
    return same / same.sum(1, keepdim=True)


def label_quality(method: SANE, rows: Rows, *, batch: int = 256, keys: int = 2048, seed: int = 0) -> dict[str, float]:
    """The mean distance of one-hot and of refined labels to the true same-class labels, for a random batch and queue.

    ``onehot`` and ``refined`` are mean Euclidean distances, the label error of the theory; ``right`` is the share of a
    refined label that falls to keys of the right class.

    Parameters
    ----------
    method: in training; its momentum encoder makes the keys.
    rows: with labels, of which the true ones count where they are known.
    """
    label = rows.y if rows.truth is None else rows.truth
    if rows.classes is None or not isinstance(rows.x, Tensor):
        raise HoldfastError("the quality of labels is measured on classes of rows in memory")
    picked = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[: batch + keys]
    device = method.bank.keys.device
    made = unit(evaluate(method.target, inputs_of(rows.x[picked], device)))
    label = label[picked].to(device)
    truth = true_labels(label[:batch], label)
    onehot = nn.functional.one_hot(torch.arange(batch), len(made)).to(made)
    refined = method.labels(made[:batch], made[batch:])
    return {
        "onehot": float((onehot - truth).norm(dim=1).mean()),
        "refined": float((refined - truth).norm(dim=1).mean()),
        "right": float((refined * (truth > 0)).sum(1).mean()),
    }

"""Pre-training: a network that has seen no label."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.optim import SGD

from holdfast.contrastive.base import Contrastive, Recipe
from holdfast.contrastive.images import ImageViews
from holdfast.contrastive.sane import SANE
from holdfast.contrastive.tables import TableViews
from holdfast.data.rows import Rows
from holdfast.data.tune import read_by_encoder, tuned_in
from holdfast.encoders import is_encoder
from holdfast.encoders.tuned import PREFIX
from holdfast.errors import HoldfastError
from holdfast.fit import Watch, fit
from holdfast.nets import PROJECTED
from holdfast.run import Run
from holdfast.usual import MakeOptimizer


def sgd(parameters: Iterable[nn.Parameter], rate: float = 0.03) -> SGD:
    """The optimizer of MoCo v2 and SANE."""
    return SGD(parameters, lr=rate, momentum=0.9, weight_decay=1e-4)


def pretrain(
    data: Rows,
    method: Contrastive | None = None,
    net: nn.Module | str = "auto",
    *,
    views: Recipe | None = None,
    epochs: int = 100,
    batch_size: int = 256,
    optimizer: MakeOptimizer = sgd,
    watch: Watch | None = None,
    **settings: Any,
) -> Run:
    """Learn features of rows without their labels.

    Parameters
    ----------
    data: rows; their labels are left out before anything is trained.
    method: a method of this package; SANE if not given.
    net: a name of ``holdfast.nets.NETS`` or ``module.path:factory``, to which a projection head is put, or a module
        whose output is the embedding. "auto" is cnn4-wide for images and mlp for anything else; of rows that were read
        to be tuned (``read(..., tune=True)``) it is their encoder, from its pre-trained weights. The name of an encoder
        is an mlp on its features.
    views: how views are drawn; ``ImageViews`` or ``TableViews`` by the shape of the rows if not given.
    watch: such as ``Probe(train, test)``, which reports the k-NN accuracy every ten epochs.
    settings: further ones of ``holdfast.fit``.

    Returns
    -------
    Run: its network has ``features``; with ``out`` the folder to start another training from
    (``fit(..., pretrained=folder)``).
    """
    method = method or SANE()
    if not isinstance(method, Contrastive):
        raise HoldfastError(f"{method!r} needs labels; pre-training takes a method of holdfast.contrastive")
    if isinstance(net, str) and is_encoder(net):
        data, net = read_by_encoder(data, net, tune=False), "auto"
    tuned = tuned_in(data.recipe)
    if tuned is not None and len(data.shape) == 1:
        raise HoldfastError(
            f"there are no views of texts for {tuned} to be tuned on; leave --tune out: what is learned then starts "
            "from its features"
        )
    if net == "auto" and tuned is not None:
        net = PREFIX + tuned
    elif net == "auto":
        net = "cnn4-wide" if len(data.shape) == 3 else "mlp"
    spec = net if isinstance(net, nn.Module) else net.removesuffix(PROJECTED) + PROJECTED
    return fit(
        data.without_labels(), method, spec, augment=method.augments(views or views_for(data)), epochs=epochs,
        batch_size=batch_size, optimizer=optimizer, watch=watch, **settings,
    )  # fmt: skip


def views_for(rows: Rows) -> Recipe:
    """The recipe of views for rows: of images or of a table."""
    if len(rows.shape) == 1:
        return TableViews()
    if len(rows.shape) == 3 and rows.shape[0] in (1, 3):
        return ImageViews(rows.shape[1])
    raise HoldfastError(
        f"there are views for images of one or three channels and for tables, not inputs of {rows.shape}"
    )

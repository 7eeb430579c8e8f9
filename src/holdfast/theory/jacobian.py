"""The Jacobian of a network, as a matrix where it fits and as an operator where it does not, and its spectrum.

A row is an output of an example, a column a weight. Networks are taken in evaluation mode, so that the rows of one
example do not depend on the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vjp, vmap

from holdfast.errors import HoldfastError

Vector = np.ndarray[Any, Any]

FITS = 2**30
"""Numbers of a Jacobian that is still made as a matrix: 4 GB."""
WORKSPACE = 2**25
"""Numbers that one chunk of rows may take up on the way."""
WHOLE = 2048
"""Rows up to which J J^T is decomposed as a whole."""


class Jacobian(LinearOperator):  # type: ignore[misc]
    """The derivatives of a network's outputs by its weights, (rows, weights), as products with vectors.

    Parameters
    ----------
    net: any network; it is used in evaluation mode and left as it was.
    x: (n, ...) inputs.
    pick: (n,) which output of each example; None: all q outputs, example by example, which makes n q rows.
    weights: names of the parameters to derive by; None: all that require a gradient.
    """

    def __init__(
        self, net: nn.Module, x: Tensor, pick: Tensor | None = None, weights: Sequence[str] | None = None
    ) -> None:
        self.net = net
        self.x = x
        self.pick = pick
        named = {name: p.detach() for name, p in net.named_parameters() if p.requires_grad}
        missing = set(weights or ()) - set(named)
        if missing:
            raise HoldfastError(f"the network has no trained parameter called {', '.join(sorted(missing))}")
        self.weights = {name: named[name] for name in (named if weights is None else weights)}
        self._rest = {name: p.detach() for name, p in net.named_parameters() if name not in self.weights}
        self._rest |= dict(net.named_buffers())
        self._chunk = max(1, WORKSPACE // max(1, 64 * x[0].numel()))
        self.outputs = self._forward(self.weights, x[:1]).shape[1]
        rows = len(x) * (1 if pick is not None else self.outputs)
        super().__init__(np.dtype(np.float32), (rows, sum(p.numel() for p in self.weights.values())))

    def _forward(self, weights: dict[str, Tensor], x: Tensor) -> Tensor:
        training = self.net.training
        self.net.eval()
        try:
            out: Tensor = functional_call(self.net, (weights, self._rest), (x,))
            return out
        finally:
            self.net.train(training)

    def _rows_of(self, part: slice) -> Callable[[dict[str, Tensor]], Tensor]:
        """The outputs of some examples, as a function of the weights."""

        def outputs(weights: dict[str, Tensor]) -> Tensor:
            out = self._forward(weights, self.x[part])
            return out.flatten() if self.pick is None else out.gather(1, self.pick[part, None])[:, 0]

        return outputs

    def _parts(self) -> list[slice]:
        return [slice(start, start + self._chunk) for start in range(0, len(self.x), self._chunk)]

    def _matvec(self, v: Vector) -> Vector:
        """J v: one pass forward with the derivative along v."""
        flat = torch.from_numpy(np.ascontiguousarray(v, dtype=np.float32)).reshape(-1)
        along, at = {}, 0
        for name, p in self.weights.items():
            along[name] = flat[at : at + p.numel()].reshape(p.shape).to(p)
            at += p.numel()
        with warnings.catch_warnings():
            # PyTorch's own rules for derivatives along vectors are still made by what it calls deprecated.
            warnings.filterwarnings("ignore", message="`torch.jit", category=DeprecationWarning)
            parts = [jvp(self._rows_of(part), (self.weights,), (along,))[1].detach() for part in self._parts()]
        return torch.cat(parts).cpu().numpy()

    def _rmatvec(self, u: Vector) -> Vector:
        """J^T u: one pass backward."""
        given = torch.from_numpy(np.ascontiguousarray(u, dtype=np.float32)).reshape(-1).to(self.x.device)
        width = 1 if self.pick is not None else self.outputs
        total = torch.zeros(self.shape[1])
        for part in self._parts():
            back = vjp(self._rows_of(part), self.weights)[1]
            (slope,) = back(given[part.start * width : part.stop * width])
            total += torch.cat([slope[name].flatten() for name in self.weights]).detach().cpu()
        return total.numpy()

    def dense(self) -> Tensor:
        """(rows, weights) the matrix itself, a few rows at a time; refused where it would not fit."""
        rows, width = self.shape
        if rows * width > FITS:
            raise HoldfastError(
                f"a Jacobian of {rows} x {width} numbers does not fit; take fewer rows or weights, or its spectrum"
            )
        out = torch.empty(rows, width)
        step = max(1, WORKSPACE // width)
        for start in range(0, rows, step):
            row = torch.arange(start, min(rows, start + step))
            example = row // self.outputs if self.pick is None else row
            k = row % self.outputs if self.pick is None else self.pick.cpu()[row]
            out[row] = self._slopes(example, k).float().cpu()
        return out

    def _slopes(self, example: Tensor, k: Tensor) -> Tensor:
        """(M, weights) gradients of one output each, of one example each."""

        def one(weights: dict[str, Tensor], x: Tensor, k: Tensor) -> Tensor:
            return self._forward(weights, x[None])[0].gather(0, k[None])[0]

        try:
            slopes = vmap(grad(one), in_dims=(None, 0, 0))(self.weights, self.x[example], k.to(self.x.device))
        except RuntimeError:
            # Some operation has no rule for batches of examples (a change of memory layout has none).
            return self._one_by_one(example, k)
        return torch.cat([slopes[name].flatten(1) for name in self.weights], 1)

    def _one_by_one(self, example: Tensor, k: Tensor) -> Tensor:
        weights = {name: p.clone().requires_grad_() for name, p in self.weights.items()}
        lines, last, output = [], -1, torch.empty(0)
        with torch.enable_grad():
            for i, number in zip(example.tolist(), k.tolist(), strict=True):
                if i != last:
                    last, output = i, self._forward(weights, self.x[i : i + 1])[0]
                slopes = torch.autograd.grad(output[number], list(weights.values()), retain_graph=True)
                lines.append(torch.cat([g.flatten() for g in slopes]))
        return torch.stack(lines)


class Spectrum(NamedTuple):
    """The largest singular values of a Jacobian, and the directions in the space of outputs that go with them."""

    values: Tensor
    """(k,) falling."""
    left: Tensor
    """(rows, k) unit vectors."""

    def above(self, share: float = 0.1) -> int:
        """How many exceed a share of the largest; as many as were computed if all do."""
        return int((self.values > share * self.values[0]).sum())

    def information(self, v: Tensor, share: float = 0.1) -> float:
        """How much of a vector lies in the directions above: ``||P v||^2 / ||v||^2``. The rest is nuisance."""
        inside = self.left[:, : self.above(share)].T @ v.to(self.left)
        return float(inside.square().sum() / v.square().sum().clamp_min(1e-300))


def spectrum(jacobian: Jacobian, k: int = 256) -> Spectrum:
    """The k largest singular values.

    Of a Jacobian with few rows from J J^T, all at once; else by Lanczos iterations on J J^T, on the matrix where it
    fits into memory and on derivatives along vectors where it does not.

    Reference: Li, Soltanolkotabi and Oymak, AISTATS 2020, Figure 5; Oymak et al., "Generalization Guarantees for
    Neural Networks via Harnessing the Low-rank Structure of the Jacobian", 2019, for information and nuisance.
    """
    rows, width = jacobian.shape
    k = min(k, rows)
    dense = jacobian.dense() if rows * width <= FITS else None
    if dense is not None and rows <= WHOLE:
        values, left = torch.linalg.eigh((dense @ dense.T).double())
        values, left = values.flip(0)[:k], left.flip(1)[:, :k]
    else:

        def product(v: Vector) -> Vector:
            if dense is None:
                whole: Vector = jacobian.matvec(jacobian.rmatvec(v))
                return whole
            given = torch.from_numpy(np.ascontiguousarray(v, dtype=np.float32)).reshape(-1)
            return (dense @ (dense.T @ given)).numpy()

        start = np.random.default_rng(0).standard_normal(rows).astype(np.float32)
        square = LinearOperator((rows, rows), matvec=product, dtype=np.dtype(np.float32))
        found, vectors = eigsh(square, k=min(k, rows - 1), v0=start, tol=1e-4)
        values = torch.from_numpy(found[::-1].copy()).double()
        left = torch.from_numpy(vectors[:, ::-1].copy()).double()
    return Spectrum(values.clamp_min(0).sqrt(), left)


def without_largest(net: nn.Module, layers: int = 5) -> list[str]:
    """Names of the trained parameters but for those of the largest layers, as the paper derives by."""
    sizes = {name: p.numel() for name, p in net.named_parameters() if p.requires_grad}
    large = sorted(sizes, key=lambda name: -sizes[name])[:layers]
    left = [name for name in sizes if name not in large]
    if not left:
        raise HoldfastError(f"the network has no more than {layers} layers; leave out fewer")
    return left


def fitting(net: nn.Module, rows: int) -> list[str]:
    """The weights to derive by: all, or without the largest layers until a matrix of so many rows is a gigabyte."""
    sizes = {name: p.numel() for name, p in net.named_parameters() if p.requires_grad}
    every, leave = list(sizes), 0
    while rows * sum(sizes[name] for name in every) > FITS // 4 and len(every) > 1:
        leave += 1
        every = without_largest(net, leave)
    return every


def smoothness(net: nn.Module, x: Tensor, start: dict[str, Tensor], pick: Tensor | None = None) -> float:
    """How fast the Jacobian has changed on the way from the start: ``||(J - J_0) u|| / (||u|| ||W - W_0||)``, u the
    direction of the way itself. A lower bound of the Lipschitz constant L of the theorems."""
    now = Jacobian(net, x, pick)
    begun = Jacobian(net, x, pick)
    begun.weights = {name: start[name].to(p) for name, p in now.weights.items()}
    way = torch.cat([(p - begun.weights[name]).flatten() for name, p in now.weights.items()])
    length = float(way.norm())
    if length == 0:
        return 0.0
    unit = (way / length).cpu().numpy()
    return float(np.linalg.norm(now.matvec(unit) - begun.matvec(unit))) / length

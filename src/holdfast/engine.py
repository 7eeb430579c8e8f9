"""The engine under a training: where networks lie, in which precision they compute, and who shares their gradients."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from holdfast.cluster import Place
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from lightning_fabric import Fabric

FULL = "32-true"
"""The precision in which there is nothing to convert."""
PRECISIONS = (FULL, "bf16-mixed", "16-mixed", "64-true", "bf16-true", "16-true")


class Engine:
    """What lightning-fabric does for a training, loaded only where there is something to do: one process in full
    precision trains the networks themselves. A wrapper would take its time at every step, and fabric seconds to import.

    Parameters
    ----------
    accelerator, precision: as lightning-fabric takes them.
    devices: how many processes train together, of which this is one.
    place: where this one stands among them, where somebody else has started them.
    """

    def __init__(self, accelerator: str, devices: int, precision: str, place: Place | None = None) -> None:
        self._fabric: Fabric | None = None
        if devices == 1 and precision == FULL:
            self.device = _device(accelerator)
            return
        from lightning_fabric import Fabric

        how: dict[str, Any] = {"accelerator": accelerator, "precision": precision}
        self._fabric = Fabric(**how, devices=1) if devices == 1 else _joined(how, devices, place)
        self.device = self._fabric.device

    def place(self, part: nn.Module) -> nn.Module:
        """Move a module to the device."""
        return part.to(self.device) if self._fabric is None else self._fabric.to_device(part)

    def networks(self, nets: list[nn.Module]) -> list[nn.Module]:
        """Networks as a training calls them."""
        fabric = self._fabric
        if fabric is None:
            return list(nets)
        wrapped: list[nn.Module] = [fabric.setup_module(net, move_to_device=False) for net in nets]
        for part in (part for net in wrapped for part in net.modules() if isinstance(part, DistributedDataParallel)):
            # Else each forward pass would wait for the others, and one process could not evaluate alone.
            part.broadcast_buffers = False
        return wrapped

    def optimizer(self, made: Optimizer) -> Optimizer:
        return made if self._fabric is None else cast(Optimizer, self._fabric.setup_optimizers(made))

    def backward(self, loss: Tensor) -> None:
        if self._fabric is None:
            loss.backward()
        else:
            self._fabric.backward(loss)


def check_available(accelerator: str, precision: str = FULL) -> None:
    """An error for a device that is not here, or a precision that is none, before anything is written."""
    there = {
        "auto": True,
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "gpu": torch.cuda.is_available(),
        "mps": bool(torch.backends.mps.is_available()),
    }
    if not there.get(accelerator, False):
        raise HoldfastError(f"--device {accelerator}: there is no such device here; take cpu, or leave it out")
    if precision not in PRECISIONS:
        raise HoldfastError(f"--precision {precision}: there is {', '.join(PRECISIONS)}")


def _device(accelerator: str) -> torch.device:
    """What lightning-fabric takes for an accelerator of one process."""
    if accelerator in ("auto", "gpu"):
        accelerator = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    return torch.device(accelerator) if accelerator == "cpu" else torch.device(accelerator, 0)


def _joined(how: dict[str, Any], devices: int, place: Place | None) -> Fabric:
    """Fabric as one of several processes."""
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment

    # Neither is news to the user: a greeting for each process that joins, and how DDP lays out a 1 x 1 gradient.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message="Grad strides do not match bucket view")
    # The environment that ``launch`` has set, or the place that is known, whatever cluster this may run on.
    environment = LightningEnvironment()
    if place is not None:
        devices = place.neighbours
        how = {**how, "num_nodes": place.hosts}
        environment = _started_elsewhere(place)
    fabric = Fabric(**how, devices=devices, strategy="ddp", plugins=[environment])
    fabric.launch()
    return fabric


def _started_elsewhere(place: Place) -> Any:
    """The place of a process as Fabric asks for it."""
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment

    class Elsewhere(LightningEnvironment):
        @property
        def creates_processes_externally(self) -> bool:
            return True

        def world_size(self) -> int:
            return place.count

        def set_world_size(self, size: int) -> None:
            pass  # hosts may have different numbers of processes

        def global_rank(self) -> int:
            return place.rank

        def set_global_rank(self, rank: int) -> None:
            pass

        def local_rank(self) -> int:
            return place.local

        def node_rank(self) -> int:
            return (place.rank - place.local) // place.neighbours

        def teardown(self) -> None:
            pass

    return Elsewhere()


def bare(net: nn.Module) -> nn.Module:
    """The network itself, without the wrapper that the engine has put around it."""
    wrappers = sys.modules.get("lightning_fabric.wrappers")  # what is not loaded has wrapped nothing
    return cast(nn.Module, net.module) if wrappers is not None and wrappers.is_wrapped(net) else net

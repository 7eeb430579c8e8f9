"""Several methods as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.method import Method
from holdfast.task import Task
from holdfast.types import Batch, Nets, Plan, Stage, Step


class Stack(Method):
    """Several methods as one: ``Stack(PRLL(), NormClip())``.

    At most one member plans, makes the loss, names the predictor or has stages; a clash raises here. The other hooks
    run in the order given. A stack among the members stands for its own members.
    """

    def __init__(self, *members: Method) -> None:
        super().__init__()
        flat = [part for member in members for part in (member.parts() if isinstance(member, Stack) else [member])]
        if not flat:
            raise HoldfastError("a stack needs at least one method")
        for member in flat:
            if not isinstance(member, Method):
                raise HoldfastError(f"{member!r} is no method; a stop rule goes to fit(..., stop=...)")
        self.members = nn.ModuleList(flat)
        self._planner = _sole(flat, "plan")
        self._loser = _sole(flat, "loss", "losses")
        self._predicting = _sole(flat, "predictor")
        self._staged = _sole(flat, "stages")
        networks = {member.networks for member in flat if member.networks > 1}
        if len(networks) > 1:
            raise HoldfastError(f"stacked methods ask for different numbers of networks: {sorted(networks)}")
        self.networks = max(member.networks for member in flat)
        self.views = max(member.views for member in flat)
        self.looks_inside = any(member.looks_inside for member in flat)
        self.uses_evidence = any(member.uses_evidence for member in flat)
        self.trees = next((member.trees for member in flat if member.trees is not None), None)

    def parts(self) -> list[Method]:
        """The members."""
        return [member for member in self.members if isinstance(member, Method)]

    def settings(self) -> dict[str, Any]:
        return {"members": self.parts()}

    def __repr__(self) -> str:
        return f"Stack({', '.join(map(repr, self.parts()))})"

    def check_task(self, task: Task) -> None:
        for member in self.parts():
            member.check_task(task)

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        for member in self.parts():
            member.begin(nets[: member.networks], data)

    def stages(self, epochs: int) -> Sequence[Stage]:
        return self.parts()[self._staged].stages(epochs)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        for member in self.parts():
            member.before_epoch(nets, data, epoch, epochs)

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        return self.parts()[self._planner].plan(nets, data)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        return self.parts()[self._loser].loss(nets, batch)

    def after_backward(self, nets: Nets) -> None:
        for member in self.parts():
            member.after_backward(nets)

    def after_step(self, nets: Nets) -> None:
        for member in self.parts():
            member.after_step(nets)

    def figures(self) -> Mapping[str, float]:
        return {name: value for member in self.parts() for name, value in member.figures().items()}

    def predictor(self, nets: Nets) -> nn.Module:
        return self.parts()[self._predicting].predictor(nets)


def _sole(members: Sequence[Method], *hooks: str) -> int:
    """Position of the one member that overrides any of the hooks (the first member where none does)."""
    own = [
        k
        for k, member in enumerate(members)
        if any(getattr(type(member), hook) is not getattr(Method, hook) for hook in hooks)
    ]
    if len(own) > 1:
        names = " and ".join(type(members[k]).__name__ for k in own)
        raise HoldfastError(f"{names} both define {hooks[0]}(); a stack takes only one of them")
    return own[0] if own else 0

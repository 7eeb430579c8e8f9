"""What a method does around a step of the optimizer, without a line in the user's loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer

Call = Callable[[], None]


def unwrapped(optimizer: Any) -> Optimizer:
    """The optimizer itself, without what a framework has put around it."""
    while isinstance(getattr(optimizer, "optimizer", None), Optimizer):
        optimizer = optimizer.optimizer
    found: Optimizer = optimizer
    return found


def around_step(optimizer: Optimizer, before: Call, after: Call) -> None:
    """Call ``before`` when gradients are ready and not yet used, and ``after`` when the optimizer has stepped.

    Some frameworks hand the forward and the backward pass to the optimizer as a closure; gradients are ready after it.
    """

    def on_step(_: Optimizer, args: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, Any] | None:
        closure = args[1] if len(args) > 1 else given.get("closure")
        if closure is None:
            before()
            return None

        def closed(*values: Any, **more: Any) -> Any:
            loss = closure(*values, **more)
            before()
            return loss

        if len(args) > 1:
            return (args[0], closed, *args[2:]), given
        return args, {**given, "closure": closed}

    optimizer.register_step_pre_hook(on_step)
    optimizer.register_step_post_hook(lambda *_: after())

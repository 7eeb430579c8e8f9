"""The networks that a training starts with: by name, given, begun elsewhere, or pre-trained."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from holdfast.data.encode import code_of
from holdfast.data.rows import Rows
from holdfast.data.tune import tuned_in
from holdfast.encoders.tuned import PREFIX, network
from holdfast.errors import HoldfastError
from holdfast.feed import task_for
from holdfast.nets import PROJECTED, load_body, reset_parameters
from holdfast.saved_networks import pretrained_body


def networks(
    net: nn.Module | str, count: int, rows: Rows, pretrained: str | Path | None
) -> tuple[str | None, list[nn.Module]]:
    """So many networks and the name of their kind; all but a given first one start from weights of their own, or all
    from those of a run."""
    tuned = tuned_in(rows.recipe)
    if tuned is not None:
        if net not in ("auto", PREFIX + tuned, PREFIX + tuned + PROJECTED):
            raise HoldfastError(
                f"these rows are read by {tuned}, which is tuned; leave out any other network (or --tune)"
            )
        net = PREFIX + tuned if net == "auto" else net
    spec, body = (None, None) if pretrained is None else pretrained_body(Path(pretrained), rows)
    if net == "auto" and spec is not None:
        if code_of({}, spec):
            raise HoldfastError(
                f"the network of the run in {pretrained} is code ({spec}); pass --net {spec} if you trust it"
            )
        net = spec
    if isinstance(net, str):
        nets = [network(net, rows.shape, task_for(rows).outputs) for _ in range(count)]
    else:
        nets = [net] + [reset_parameters(net) for _ in range(count - 1)]
    for each in nets:
        if body is not None:
            load_body(each, body)
    return net if isinstance(net, str) else None, nets

"""Networks of runs: made again from what a run says of them, and held against the weights that it has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from holdfast.config import RunConfig
from holdfast.data.rows import Rows
from holdfast.encoders.tuned import network
from holdfast.errors import HoldfastError
from holdfast.nets import PROJECTED
from holdfast.nets.mean import weights_of_each
from holdfast.nets.trees import network_weights
from holdfast.run_folder import RunFolder


def pretrained_body(path: Path, rows: Rows) -> tuple[str | None, dict[str, Tensor]]:
    """The kind of network that a run trained, without what it has for a head, and its weights."""
    config = RunFolder(path).config()
    if config.shape != rows.shape:
        raise HoldfastError(f"the run in {path} saw inputs of shape {config.shape}, these have {rows.shape}")
    return config.net and config.net.removesuffix(PROJECTED), _of_one(RunFolder(path).weights())


def rebuilt(path: Path, config: RunConfig, weights: Mapping[str, Tensor]) -> nn.Module:
    """A network of the kind that a run has trained, if the weights of the run are of its shapes."""
    if config.net is None:
        raise HoldfastError(
            f"the run in {path} trained a network of your own ({config.network}); pass it to Run.load, or train "
            "with a name or module.path:factory"
        )
    if ":" not in config.net:
        # Without memory first: the sizes that a run claims are held against the weights that it has.
        with torch.device("meta"):
            shapes = {name: value.shape for name, value in _named(path, config).state_dict().items()}
        if shapes != {name: value.shape for name, value in _of_one(weights).items()}:
            raise HoldfastError(f"the weights in {path} are not those of {config.net} for its inputs; train again")
    return _named(path, config)


def _of_one(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of one network: without trees, and of several that predict together the first."""
    return weights_of_each(network_weights(weights))[0]


def _named(path: Path, config: RunConfig) -> nn.Module:
    try:
        return network(str(config.net), config.shape, config.outputs)
    except RuntimeError as error:
        raise HoldfastError(f"the network of the run in {path} cannot be made again ({error}); train again") from None

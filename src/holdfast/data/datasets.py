"""Datasets and loaders of torch as inputs and labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)

from holdfast.errors import HoldfastError


class Inputs(Dataset[Tensor]):
    """The inputs of a map-style dataset, as one tensor a row.

    Parameters
    ----------
    dataset: yields a pair that begins with the input, a dict that holds it, or the input itself.
    key: where the input is in what is yielded; None: it is all of it.
    """

    def __init__(self, dataset: Dataset[Any], key: int | str | None) -> None:
        self.dataset = dataset
        self.key = key

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, row: int) -> Tensor:
        item = self.dataset[row]
        x = torch.as_tensor(item if self.key is None else item[self.key])
        return x if x.dtype == torch.uint8 else x.float()


def unwrapped(data: Any) -> Any:
    """The dataset of a loader, and the tensors of a ``TensorDataset`` as a pair; anything else as it is."""
    if isinstance(data, DataLoader):
        _say_ignored(data)
        data = data.dataset
    if isinstance(data, TensorDataset):
        if len(data.tensors) > 2:
            raise HoldfastError(
                f"a TensorDataset of {len(data.tensors)} tensors; training rows are two, inputs and labels"
            )
        return data.tensors if len(data.tensors) == 2 else data.tensors[0]
    return data


def batch_size_of(data: Any) -> int | None:
    """Rows in a batch of a loader, and no more than there are; None of anything else."""
    if not isinstance(data, DataLoader) or data.batch_size is None:
        return None
    return min(data.batch_size, len(data.dataset))  # type: ignore[arg-type]


def labelled(dataset: Dataset[Any], label: str | None) -> tuple[Dataset[Tensor], Any]:
    """Inputs and labels of a map-style dataset, each item of which is loaded once for its label.

    Parameters
    ----------
    label: the key of the label where items are dicts.
    """
    first = _first(dataset)
    key: int | str
    target: int | str
    if isinstance(first, Mapping):
        if label is None or label not in first:
            raise HoldfastError(f"items of the dataset are dicts; name the label (label=...), one of {_keys(first)}")
        others = [key for key in first if key != label]
        if len(others) != 1:
            raise HoldfastError(
                f"items of the dataset are dicts with {len(others)} inputs ({_keys(others)}); a network here takes one "
                "tensor a row, so let the dataset yield (tensor, label)"
            )
        key, target = others[0], label
    elif isinstance(first, (tuple, list)) and len(first) == 2:
        if label is not None:
            raise HoldfastError(f"items of the dataset are pairs and no dicts; leave label={label!r} out")
        key, target = 0, 1
    else:
        raise HoldfastError(
            f"an item of the dataset is {_described(first)}; training rows are pairs (input, label) of it"
        )
    _check_input(first[key])
    labels = [dataset[row][target] for row in range(len(dataset))]  # type: ignore[arg-type]
    if isinstance(labels[0], Tensor):
        return Inputs(dataset, key), torch.stack(labels)
    return Inputs(dataset, key), np.asarray(labels)


def inputs_alone(dataset: Dataset[Any]) -> Dataset[Tensor]:
    """The inputs of a map-style dataset to predict on, which may yield labels beside them."""
    first = _first(dataset)
    key = 0 if isinstance(first, (tuple, list)) else None
    _check_input(first if key is None else first[key])
    return Inputs(dataset, key)


def _first(dataset: Dataset[Any]) -> Any:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise HoldfastError(
            f"{type(dataset).__name__} can only be gone through; rows must be found by number (a map-style Dataset)"
        )
    if len(dataset) == 0:
        raise HoldfastError("the dataset holds no rows")
    return dataset[0]


def _check_input(x: Any) -> None:
    if isinstance(x, Mapping):
        raise HoldfastError(
            f"the inputs of the dataset are dicts ({_keys(x)}); a network here takes one tensor a row, so let the "
            "dataset join them into one"
        )
    if not isinstance(x, (Tensor, np.ndarray)):
        raise HoldfastError(
            f"the inputs of the dataset are {_described(x)}; give it a transform that makes tensors of one shape"
        )


def _say_ignored(loader: DataLoader[Any]) -> None:
    """A training shuffles by itself; what else was chosen would go missing without a word."""
    chosen = {
        "sampler": loader.batch_size is None or not isinstance(loader.sampler, (RandomSampler, SequentialSampler)),
        "collate_fn": loader.batch_size is not None and loader.collate_fn is not default_collate,
        "drop_last": loader.drop_last,
        "num_workers (pass workers=...)": loader.num_workers > 0,
    }
    ignored = [name for name, is_so in chosen.items() if is_so]
    if ignored:
        warnings.warn(
            f"of the DataLoader its dataset and its batch size are taken; ignored: {', '.join(ignored)}", stacklevel=4
        )


def _keys(item: Any) -> str:
    return ", ".join(map(str, item))


def _described(value: Any) -> str:
    kind = type(value).__name__
    return f"a {kind} of {len(value)}" if isinstance(value, (tuple, list)) else f"of the type {kind}"

"""The examples of a user's data set: labels as Holdfast needs them, inputs as the user's network takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from holdfast.data.labels import name_of
from holdfast.data.rows import Rows, as_rows
from holdfast.errors import HoldfastError
from holdfast.session.batch import fields_of

Collate = Callable[[list[Any]], Any]
Where = str | int
"""Where the label is in an item: a key, or a position."""
USUAL = ("labels", "label")
"""Keys of labels that need not be named."""


class Examples(Dataset[Any]):
    """The items of a map-style dataset, and how a list of them becomes the inputs of a batch.

    Parameters
    ----------
    dataset: yields pairs, tuples or dicts with the label among them, or inputs alone.
    label: where the label is; None: items have none.
    collate: makes a batch of items; by default that of a ``DataLoader``.
    """

    def __init__(self, dataset: Any, label: Where | None, collate: Collate | None = None) -> None:
        self.dataset = dataset
        self.label = label
        self.collate = collate or default_collate

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> Any:
        return self.dataset[row]

    def with_collate(self, collate: Collate | None) -> Examples:
        return Examples(self.dataset, self.label, collate)

    def inputs(self, items: list[Any]) -> Any:
        """A batch of items without its labels: one tensor, or ``Fields``."""
        whole = self.collate(items)
        if isinstance(whole, Tensor) or self.label is None:
            return fields_of(_plain(whole))
        if hasattr(whole, "items"):
            return fields_of({name: part for name, part in whole.items() if name not in (self.label, *USUAL)})
        at = int(self.label) % len(whole)
        left = tuple(part for k, part in enumerate(whole) if k != at)
        return left[0] if len(left) == 1 else fields_of(left)

    def load(self, picks: list[Tensor], **options: Any) -> DataLoader[Any]:
        """The inputs of rows, a batch for each pick."""
        batches = [pick.tolist() for pick in picks]
        return DataLoader(self, batch_sampler=batches, collate_fn=self.inputs, **options)


def read_examples(data: Any, label: Any, classes: Sequence[str] | None) -> tuple[Rows, Examples | None]:
    """Rows of a user's data, and its examples where inputs are not one tensor in memory.

    Parameters
    ----------
    data: ``Rows``, a pair (inputs, labels), or a map-style dataset, of torch or of Hugging Face.
    label: where the label is in an item, or the labels themselves; None: the usual places.
    classes: names of the classes; None: those the dataset has, or numbers from 0 to the largest.
    """
    if isinstance(data, Rows):
        if label is not None or classes is not None:
            raise HoldfastError("Rows have their labels and classes; leave label and classes out")
        return data, None
    if isinstance(data, (tuple, list)) and len(data) == 2:
        data = TensorDataset(*(torch.as_tensor(np.asarray(part)) for part in data))
    if isinstance(data, DataLoader):
        raise HoldfastError("pass the dataset, not the DataLoader; session.loader(...) takes the loader's place")
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise HoldfastError(
            f"{type(data).__name__} can only be gone through; rows must be found by number (a map-style dataset)"
        )
    if len(data) == 0:
        raise HoldfastError("the dataset holds no rows")
    where = _where(data[0], label)
    given = _column(data, where) if isinstance(label, (str, int, type(None))) else label
    names = classes if classes is not None else _names(data, where)
    examples = Examples(data, where)
    if isinstance(data, TensorDataset) and len(data.tensors) == 2 and where is not None:
        x: Tensor | Dataset[Any] = data.tensors[1 - int(where) % 2]
        return _rows(x, given, names), None
    return _rows(examples, given, names), examples


def _where(item: Any, label: Any) -> Where | None:
    """The place of the label in an item."""
    if hasattr(item, "keys"):
        usual = [name for name in USUAL if name in item]
        named = label if isinstance(label, str) else next(iter(usual), None)
        if isinstance(label, (str, int, type(None))) and (named is None or named not in item):
            raise HoldfastError(f"name the label of the items (label=...), one of {', '.join(map(str, item.keys()))}")
        return named
    if isinstance(item, (tuple, list)):
        place = label if isinstance(label, int) else -1
        if not -len(item) <= place < len(item):
            raise HoldfastError(f"an item has {len(item)} parts, and so no label at {place}")
        return place if len(item) > 1 else None
    if isinstance(label, (str, int, type(None))):
        raise HoldfastError("an item holds no label beside its input; pass the labels themselves (label=...)")
    return None


def _column(data: Any, where: Where | None) -> Any:
    """The labels of all rows; a table is asked for its column, of anything else each item is loaded once."""
    if isinstance(data, TensorDataset):
        return data.tensors[int(where or 0)]
    if isinstance(where, str) and where in getattr(data, "column_names", ()):
        return data[where]
    return [data[row][where] for row in range(len(data))]


def _names(data: Any, where: Where | None) -> Sequence[str] | None:
    """Class names that a dataset of Hugging Face, or of torchvision, knows."""
    feature = getattr(data, "features", {}).get(where) if hasattr(getattr(data, "features", None), "get") else None
    return getattr(feature, "names", None) or getattr(data, "classes", None)


def _rows(x: Any, given: Any, names: Sequence[str] | None) -> Rows:
    labels = _array(given)
    if len(labels) != len(x):
        raise HoldfastError(f"{len(x)} examples but {len(labels)} labels; each needs one")
    if labels.dtype.kind not in "iub":
        rows = as_rows((torch.zeros(len(labels), 1), labels))
        return Rows(x, rows.y, rows.classes if names is None or rows.classes is None else tuple(names))
    if labels.ndim != 1:
        raise HoldfastError(f"class numbers need one dimension, not the shape {labels.shape}")
    # In a loop of one's own a label is the number of an output, also where no row has some other number.
    most = int(labels.max()) + 1
    called = tuple(map(str, range(max(2, most)))) if names is None else tuple(map(name_of, names))
    return Rows(x, torch.from_numpy(labels.astype(np.int64)), called)


def _array(given: Any) -> np.ndarray[Any, Any]:
    if isinstance(given, Tensor):
        return given.detach().cpu().numpy()
    listed = given if isinstance(given, np.ndarray) else list(given)
    return np.asarray([each.item() if isinstance(each, Tensor) and each.dim() == 0 else each for each in listed])


def _plain(whole: Any) -> Any:
    """A mapping of any class, as collators of Hugging Face return it, as a dict."""
    return dict(whole.items()) if hasattr(whole, "items") else whole

"""What people hold in Python as rows: tables, paths, pairs, datasets and loaders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from torch import Tensor, nn
from torch.utils.data import Dataset

from holdfast.data.datasets import batch_size_of, inputs_alone, labelled, unwrapped
from holdfast.data.frame_rows import Columns as Columns
from holdfast.data.frame_rows import further_of_frame, inputs_of_frame, rows_of_frame
from holdfast.data.frames import as_frame, dense, is_sparse, labelled_frame
from holdfast.data.on_disk import OnDisk
from holdfast.data.read import read, read_inputs
from holdfast.data.rows import Rows, as_rows
from holdfast.data.scale import scaled_targets
from holdfast.data.source import Source
from holdfast.data.tune import network_inputs, read_by_encoder
from holdfast.encoders.named import is_encoder
from holdfast.encoders.tuned import is_tuned
from holdfast.errors import HoldfastError

UNDERSTOOD = (
    "a path, a table (pandas, polars, Arrow, a dict of columns) with label=..., a pair (inputs, labels), a Dataset "
    "of such pairs, a DataLoader, or what holdfast.read returns"
)


class Taken(NamedTuple):
    """Data as a training takes it."""

    rows: Rows
    test: Rows | None
    net: nn.Module | str
    """The network to train on these rows: "auto" where an encoder was named that has read them."""
    batch_size: int | None
    """Of a loader; None: nobody has chosen."""


def take(
    data: Any,
    test: Any = None,
    columns: Columns = Columns(),  # noqa: B008
    *,
    net: nn.Module | str = "auto",
    tune: bool = False,
    plain: bool = False,
    seed: int = 0,
) -> Taken:
    """Training rows, and test rows prepared as they are.

    Tables in memory and tables in files are encoded by the same code.

    Parameters
    ----------
    test: further data of the same kind, or the share of the rows to hold out; None: what the data ships, if any.
    net, tune: as ``fit`` takes them; the name of an encoder says what reads texts and pictures.
    plain: something else asks for the data as it is, unless an encoder is named.
    seed: of the draw of a share.
    """
    held, size = unwrapped(data), batch_size_of(data)
    named = net if isinstance(net, str) and not is_tuned(net) and is_encoder(net) else None
    encodes = tune or named is not None
    encoder = named or ("auto" if net == "auto" and not plain else None)
    frame, own = _table(held, columns, encodes), None
    if frame is not None:
        table, columns = frame
        rows = rows_of_frame(table, columns, encoder, tune)
    else:
        _check_columns(held, columns)
        if isinstance(held, str | os.PathLike):
            apart = str(test) if isinstance(test, float | str | os.PathLike) else "0"
            how = {**columns._asdict(), "encoder": encoder, "tune": tune or None}
            rows, own = Source.at(Path(held), apart, seed, **how).load()
            test = None if apart != "0" else test
        elif isinstance(held, tuple) and isinstance(held[0], Rows):
            rows = scaled_targets(held[0]) if "targets" not in held[0].recipe else held[0]
            own = None if held[1] is None else scaled_targets(held[1], rows)
        else:
            pair = _pair(held, columns.label)
            rows = read_by_encoder(pair, net, tune) if encodes else as_rows(pair)
    if isinstance(test, float):
        rows, own = rows.split(test, seed)
    elif test is not None:
        own = _further(test, rows, columns, net, tune)
    return Taken(rows, own, "auto" if encodes else net, size)


def held_inputs(x: Any, recipe: Mapping[str, Any]) -> Tensor | Dataset[Any]:
    """Inputs to predict on as the network of a run takes them: prepared by its recipe as its training rows were."""
    x = unwrapped(x)
    if isinstance(x, Rows):
        return x.x
    if isinstance(x, OnDisk):
        return x
    if isinstance(x, str | os.PathLike):
        return read_inputs(x, recipe)[0]
    if "label" in recipe:
        frame = _texts(x) if as_frame(x) is None else as_frame(x)
        if frame is not None:
            return inputs_of_frame(frame, recipe)
    elif as_frame(x) is not None:
        x = as_frame(x).to_numpy()  # type: ignore[union-attr]
    if isinstance(x, tuple):
        x = x[0]
    if isinstance(x, Dataset):
        return inputs_alone(x)
    if isinstance(x, np.ndarray):
        x = np.require(x, requirements="W")
    return network_inputs(dense(x) if is_sparse(x) else x, recipe)


def _table(held: Any, columns: Columns, encodes: bool) -> tuple[pd.DataFrame, Columns] | None:
    """The table that data is, with its labels in a column; None where it is something else."""
    frame = as_frame(held)
    if frame is not None:
        if columns.label is None:
            listed = ", ".join(map(repr, frame.columns[:30]))
            raise HoldfastError(f"name the column of the labels (label=...), one of {listed}")
        return frame, columns
    if isinstance(held, (tuple, list)) and len(held) == 2:
        # Texts that an encoder is named for are its inputs as they stand.
        inputs = as_frame(held[0])
        inputs = _texts(held[0]) if inputs is None and not encodes else inputs
        if inputs is not None:
            _check_columns(held, columns)
            table, label = labelled_frame(inputs, held[1])
            return table, columns._replace(label=label)
    return None


def _texts(x: Any) -> pd.DataFrame | None:
    """Texts as a table of one column."""
    if isinstance(x, (list, tuple, np.ndarray, pd.Series)) and np.ndim(x) == 1 and len(x):
        first = x.iloc[0] if isinstance(x, pd.Series) else x[0]
        if isinstance(first, str):
            return pd.DataFrame({"text": list(x)})
    return None


def _further(test: Any, rows: Rows, columns: Columns, net: nn.Module | str, tune: bool) -> Rows:
    """Rows to test on, prepared as the training rows were."""
    held = unwrapped(test)
    if isinstance(held, tuple) and isinstance(held[0], Rows):
        held = held[0]
    if isinstance(held, Rows):
        return held
    encodes = tune or (isinstance(net, str) and is_encoder(net))
    table = "label" in rows.recipe
    if isinstance(held, str | os.PathLike):
        further, _ = read(Path(held), recipe=dict(rows.recipe))
        return scaled_targets(further, rows)
    found = _table(held, columns if as_frame(held) is not None else Columns(), encodes and not table)
    if found is not None and table:
        frame, own = found
        given = {own.label: rows.recipe["label"]} if own.label != columns.label else {}
        return further_of_frame(frame.rename(columns=given), rows)
    pair = _pair(held, columns.label)
    further = read_by_encoder(pair, net, tune, rows) if encodes else as_rows(pair, like=rows)
    if table and further.shape != rows.shape:
        raise HoldfastError("the training rows are a table; pass the test rows as a table too, with the same columns")
    return further


def _pair(held: Any, label: str | None) -> Rows | tuple[Any, Any]:
    """Inputs and labels."""
    if isinstance(held, Rows):
        return held
    if isinstance(held, Dataset):
        return labelled(held, label)
    if isinstance(held, (tuple, list)) and len(held) == 2:
        x, y = held
        if isinstance(x, Mapping):
            raise HoldfastError(
                f"the inputs are a dict of arrays that are no columns ({', '.join(map(str, x))}); a network here takes "
                "one tensor a row, so join them into one"
            )
        return (dense(x) if is_sparse(x) else x), y
    length = f" of {len(held)}" if isinstance(held, (tuple, list)) else ""
    raise HoldfastError(f"training rows are {UNDERSTOOD}; this is a {type(held).__name__}{length}")


def _check_columns(held: Any, columns: Columns) -> None:
    """Columns are named for tables alone; a path is asked by its reader, a dataset may yield dicts."""
    named = next((value for value in columns if value is not None), None)
    if named is not None and not isinstance(held, (str, os.PathLike, Dataset)):
        raise HoldfastError(f"the data is no table with columns, so {named!r} means nothing; leave it out")

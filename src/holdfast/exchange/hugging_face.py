"""A Hugging Face dataset of the rows of a run: what they hold, their labels, and what is believed of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from holdfast.errors import HoldfastError
from holdfast.exchange.items import ROW, Item
from holdfast.run import Run

ABOUT = (ROW, "holdfast_given", "holdfast_suggested", "holdfast_trust")
"""The columns that are added."""


def save(found: Sequence[Item], run: Run, folder: Path) -> None:
    """Write a dataset for ``datasets.load_from_disk``: the columns of the table, or a picture, and what is believed."""
    try:
        from datasets import ClassLabel, Dataset, Image
    except ImportError:
        raise HoldfastError("this needs datasets: pip install 'holdfast[datasets]'") from None
    shown = _shown(found)
    taken = next((name for name in ABOUT if name in shown), None)
    if taken is not None:
        raise HoldfastError(f"the data has a column {taken!r} already; rename it")
    lines = [(item.place, item.given, item.suggested, item.trust) for item in found]
    about = pd.DataFrame(lines, columns=list(ABOUT))
    made = Dataset.from_pandas(pd.concat([shown, about], axis=1), preserve_index=False)
    for name in ABOUT[1:3] if run.classes is not None else ():
        made = made.cast_column(name, ClassLabel(names=list(run.classes or ())))
    if found[0].picture is not None:
        made = made.cast_column("image", Image())
    made.save_to_disk(str(folder))


def _shown(found: Sequence[Item]) -> pd.DataFrame:
    """What there is to see of each row: its columns, its picture, or its name."""
    if found[0].columns is not None:
        return pd.DataFrame([item.columns for item in found]).infer_objects().reset_index(drop=True)
    if found[0].picture is not None:
        return pd.DataFrame({"image": [{"bytes": item.picture, "path": None} for item in found]})
    return pd.DataFrame({"name": [item.name for item in found]})

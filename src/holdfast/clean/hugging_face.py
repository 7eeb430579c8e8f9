"""A Hugging Face dataset on disk, or one of several parts: the part that was trained on is edited, the others stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.clean.arrow_file import edited_table
from holdfast.clean.edit import SUGGESTED, TRUST, Edit


def write(path: Path, out: Path, edit: Edit) -> None:
    """Write the dataset in a folder after an edit to another folder, features and all."""
    from datasets import DatasetDict, load_from_disk  # only this format needs it

    held = load_from_disk(str(path))
    if not isinstance(held, DatasetDict):
        edited(held, edit).save_to_disk(str(out))
        return
    train = "train" if "train" in held else next(iter(held))
    DatasetDict({**held, train: edited(held[train], edit)}).save_to_disk(str(out))


def edited(held: Any, edit: Edit) -> Any:
    """A dataset after an edit."""
    from datasets import ClassLabel, Dataset, Features, Value

    held = held.flatten_indices() if held._indices is not None else held
    feature = held.features[edit.label]
    table = edited_table(held.data.table, edit, tuple(feature.names) if isinstance(feature, ClassLabel) else None)
    added = {TRUST: Value("float64"), SUGGESTED: feature} if edit.marks else {}
    features = Features({**held.features, **added})
    made = Dataset(table.replace_schema_metadata(None), split=held.split).cast(features)
    made.info.description, made.info.citation = held.info.description, held.info.citation
    made.info.homepage, made.info.license = held.info.homepage, held.info.license
    return made

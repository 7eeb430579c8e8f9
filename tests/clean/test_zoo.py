"""Every file of the zoo that can be read is written again: the same, or with one label changed."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from test_data_zoo import READ, ZOO

from holdfast.clean.edit import Edit
from holdfast.clean.files import write_table
from holdfast.data import read
from holdfast.data.formats import TEXTS, Kind, detect, opened

TABLES = [name for name, animal in READ.items() if "label" in animal.options and animal.classes is not None]


def content(path, options):
    found = detect(path, options.get("delimiter"), options.get("encoding"))
    if found.kind not in TEXTS:
        return None
    with opened(path, found) as file:
        return file.read()


@pytest.mark.parametrize("name", TABLES)
def test_it_is_written_again(name, tmp_path):
    path, options = ZOO / name, READ[name].options
    rows, _ = read(path, **options)
    place = np.arange(len(rows)) if rows.place is None else rows.place.numpy()
    y = rows.y.numpy()
    edit = Edit(str(rows.recipe["label"]), place, y, y, np.zeros(len(y), bool), rows.classes)
    kind = detect(path, options.get("delimiter"), options.get("encoding")).kind
    # Pictures are found by names that are relative to the table.
    for other in () if kind is Kind.HUGGING_FACE else path.parent.iterdir():
        if other.is_dir():
            (tmp_path / other.name).symlink_to(other)
    same = tmp_path / f"same_{path.name}"
    write_table(path, same, options, edit, force=False)
    assert content(same, options) == content(path, options)
    again, _ = read(same, **options)
    assert again.fingerprint == rows.fingerprint

    wanted = y.copy()
    wanted[len(y) // 2] = next(k for k in y if k != y[len(y) // 2])
    one = tmp_path / f"one_{path.name}"
    write_table(path, one, options, replace(edit, wanted=wanted), force=False)
    changed, _ = read(one, **options, recipe=rows.recipe)
    assert changed.y.tolist() == wanted.tolist()
    if isinstance(rows.x, torch.Tensor):
        assert torch.equal(changed.x, rows.x)

"""Excel: cells of a sheet change, in the workbook as openpyxl reads and writes it."""

from __future__ import annotations

import io
import warnings
from typing import Any

from holdfast.clean.edit import SUGGESTED, TRUST, Edit, Spelling, check_free_names
from holdfast.data.formats import FileFormat
from holdfast.errors import HoldfastError


def edited(data: bytes, found: FileFormat, edit: Edit) -> bytes:
    """The bytes of a workbook after an edit of the sheet asked for, or the first that holds rows; other sheets stay."""
    from openpyxl import load_workbook  # only this format needs it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what it cannot read it does not write either
        book = load_workbook(io.BytesIO(data), keep_vba=False)
    if found.table is not None:
        sheet = book[found.table]
    else:
        sheet = next((sheet for sheet in book.worksheets if sheet.max_row > 1), book.worksheets[0])
    names = ["" if cell.value is None else str(cell.value) for cell in sheet[1]]
    if edit.label not in names:
        raise HoldfastError(f"sheet {sheet.title!r} has no column {edit.label!r} in its first line; train again")
    check_free_names(edit, names)
    column, last = names.index(edit.label) + 1, sheet.max_row
    if any(sheet.cell(row, column).data_type == "f" for row in range(2, last + 1)):
        raise HoldfastError(f"labels in sheet {sheet.title!r} are formulas; paste them as values and train again")
    cells = [sheet.cell(row, column).value for row in range(2, last + 1)]
    spelling: Spelling[Any] = Spelling(edit, cells, lambda name: name, _number(cells))
    new, kept = spelling.new(), edit.kept(len(cells)).tolist()
    if edit.marks:
        beside = [(TRUST, SUGGESTED), *zip(edit.trusts(len(cells)), spelling.suggested(), strict=True)]
        for row, pair in enumerate(beside, start=1):
            for place, value in enumerate(pair, start=len(names) + 1):
                sheet.cell(row, place).value = value
    for at, value in new.items():
        sheet.cell(at + 2, column).value = value
    _keep(sheet, [row for row, stays in enumerate(kept, start=2) if stays])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _number(cells: list[Any]) -> Any:
    return (lambda value: round(value)) if all(isinstance(cell, int) for cell in cells if cell is not None) else float


def _keep(sheet: Any, rows: list[int]) -> None:
    """Move the rows that stay up to the first ones that go, all at once, and cut the rest off."""
    last = sheet.max_row
    for at, row in enumerate(rows, start=2):
        if at == row:
            continue
        for before in sheet[row]:
            cell = sheet.cell(at, before.column)
            cell.value, cell.hyperlink, cell.comment = before.value, before.hyperlink, before.comment
            if before.has_style:
                cell._style = before._style
        sheet.row_dimensions[at].height = sheet.row_dimensions[row].height
    if len(rows) + 1 < last:
        sheet.delete_rows(len(rows) + 2, last - len(rows) - 1)

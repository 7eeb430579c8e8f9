"""What becomes of a file: which labels change to what, which rows go, what is written beside them; in no format yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import HoldfastError

TRUST = "holdfast_trust"
SUGGESTED = "holdfast_suggested"
"""The columns that are added where rows are marked."""

Cell = TypeVar("Cell", bound=Hashable)
Array = NDArray[Any]


@dataclass(frozen=True)
class Edit:
    """What becomes of the rows of a file that a run has judged; all its other rows stay as they are.

    Parameters
    ----------
    label: the column of the labels; empty where there are no columns.
    rows: (N,) the number of each judged row in the file, from 0.
    given: (N,) the class that the file gives it; (N, q) numbers of a regression.
    wanted: the label that it is to have, of the same shape.
    dropped: (N,) whether it goes.
    classes: names of the classes; None for a regression.
    trust: (N,) to be written beside the rows; None: nothing is.
    suggested: labels to be written beside the rows whose label is likelier wrong than right, of the shape of given.
    doubted: (N,) whether the row is such.
    """

    label: str
    rows: NDArray[np.int64]
    given: Array
    wanted: Array
    dropped: NDArray[np.bool_]
    classes: tuple[str, ...] | None
    trust: NDArray[np.float64] | None = None
    suggested: Array | None = None
    doubted: NDArray[np.bool_] | None = None

    @property
    def changed(self) -> NDArray[np.bool_]:
        """(N,) whether the label of a row that stays becomes another."""
        differs: NDArray[np.bool_] = (self.given != self.wanted).any(tuple(range(1, self.given.ndim)))
        return differs & ~self.dropped

    @property
    def marks(self) -> bool:
        return self.trust is not None

    def kept(self, count: int) -> NDArray[np.bool_]:
        """(count,) which rows of the file stay."""
        stays = np.ones(count, dtype=bool)
        stays[self.rows[self.dropped]] = False
        return stays

    def trusts(self, count: int) -> list[float | None]:
        """The trust of each row of the file; None where it was not judged."""
        assert self.trust is not None
        found: list[float | None] = [None] * count
        for row, trust in zip(self.rows.tolist(), self.trust.tolist(), strict=True):
            found[row] = round(trust, 4)
        return found


class Spelling(Generic[Cell]):
    """Labels as the cells of a file have them: a class by its commonest spelling there.

    Parameters
    ----------
    edit: what becomes of the file.
    cells: the label of each row of the file as it stands there; None where it has none.
    spell: the cell of a class that no row has, from its name.
    number: the cell of a number.
    """

    def __init__(
        self,
        edit: Edit,
        cells: Sequence[Cell | None],
        spell: Callable[[str], Cell],
        number: Callable[[float], Cell],
    ) -> None:
        self._edit = edit
        self._cells = cells
        self._spell, self._number = spell, number
        if len(edit.rows) and int(edit.rows.max()) >= len(cells):
            raise _other_rows()
        self._commonest = {} if edit.classes is None else self._count()

    def _count(self) -> dict[int, Cell]:
        """The commonest cell of each class; a cell that stands for two of them shows that rows were mistaken."""
        counts: dict[int, Counter[Cell]] = {}
        owner: dict[tuple[type, Cell], int] = {}
        for row, number in zip(self._edit.rows.tolist(), self._edit.given.tolist(), strict=True):
            cell = self._cells[row]
            if cell is None or owner.setdefault((type(cell), cell), number) != number:
                raise _other_rows()
            counts.setdefault(number, Counter())[cell] += 1
        return {number: count.most_common(1)[0][0] for number, count in counts.items()}

    def new(self) -> dict[int, Cell]:
        """The cells of the rows whose label changes."""
        changed = self._edit.changed
        return self._of(self._edit.rows[changed], self._edit.wanted[changed])

    def suggested(self) -> list[Cell | None]:
        """A cell for each row of the file: what is suggested where the label is doubted, else None."""
        assert self._edit.suggested is not None
        assert self._edit.doubted is not None
        doubted = self._edit.doubted
        found = self._of(self._edit.rows[doubted], self._edit.suggested[doubted])
        return [found.get(row) for row in range(len(self._cells))]

    def _of(self, rows: Array, labels: Array) -> dict[int, Cell]:
        return {row: self._cell(label) for row, label in zip(rows.tolist(), labels.tolist(), strict=True)}

    def _cell(self, label: Any) -> Cell:
        if self._edit.classes is None:
            (value,) = label
            return self._number(value)
        if label not in self._commonest:
            self._commonest[label] = self._spell(self._edit.classes[label])
        return self._commonest[label]


def number_like(texts: Sequence[str | None]) -> Callable[[float], str]:
    """How numbers are written in a column of text: whole, or with the most decimals seen there, after point or comma.

    >>> number_like(["1.25", "3"])(2.0), number_like(["7", "12"])(3.6), number_like(["1,5"])(0.25)
    ('2.00', '4', '0,2')
    """
    cells = [text.strip(" \"'") for text in texts if text]
    comma = any("," in cell for cell in cells) and not any("." in cell for cell in cells)
    decimals = max((len(cell.replace(",", ".").partition(".")[2]) for cell in cells), default=0)
    if any("e" in cell.lower() for cell in cells):
        decimals = max(decimals, 9)

    def written(value: float) -> str:
        text = f"{value:.{min(decimals, 12)}f}"
        return text.replace(".", ",") if comma else text

    return written


def check_free_names(edit: Edit, names: Sequence[str]) -> None:
    """Columns that are to be added must not be there already."""
    taken = next((name for name in (TRUST, SUGGESTED) if name in names), None)
    if edit.marks and taken is not None:
        raise HoldfastError(f"the data has a column {taken!r} already; leave --mark out, or rename that column")


def _other_rows() -> HoldfastError:
    return HoldfastError("the rows of the file are not those that the run has judged; train again")

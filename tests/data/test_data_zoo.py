"""Files as they are found in the wild, and what must come of each: rows, classes, columns, or one sentence of error."""

import contextlib
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from holdfast.data import read, read_inputs
from holdfast.errors import HoldfastError

ZOO = Path(__file__).parent / "zoo"
BOUGHT = {"yes": 16, "no": 8}
PEOPLE = {"age": "number", "income": "number", "city": "category"}
PETS = {"dog": 4, "cat": 4}


@dataclass(frozen=True)
class Animal:
    """A file that can be read, and what must come of it.

    Parameters
    ----------
    found: what its file is said to be.
    classes: with their counts; None for a regression.
    columns: what each is taken for.
    test: test rows that come with it.
    says: passages of the summary.
    options: of the reading.
    """

    found: str
    classes: dict[str, int] | None = field(default_factory=lambda: BOUGHT)
    columns: dict[str, str] = field(default_factory=lambda: PEOPLE)
    test: int = 0
    says: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=lambda: {"label": "bought"})


def people(found: str, *says: str, **options: Any) -> Animal:
    """The same table in some format."""
    return Animal(found, says=says, options={"label": "bought", **options})


def labelled(found: str, label: str, classes: dict[str, int] | None, columns: dict[str, str], *says: str, **options):
    return Animal(found, classes, columns, says=says, options={"label": label, **options})


def labels(classes: dict[str, int], *says: str, **options: Any) -> Animal:
    """The same columns with other labels."""
    return labelled("CSV, commas, utf-8", "bought", classes, PEOPLE, *says, **options)


READ = {
    # delimiters and encodings
    "pipes.psv": people("CSV, pipes, utf-8"),
    "tabs.txt": people("CSV, tabs, utf-8"),
    "commas.tsv": people("CSV, commas, utf-8"),
    "colons.csv": people("CSV, delimiter ':', utf-8", delimiter=":"),
    "old_mac.csv": people("CSV, commas, utf-8"),
    "excel_unicode_text.txt": people("CSV, tabs, utf-16"),
    "excel_utf8_bom.csv": people("CSV, semicolons, utf-8 with BOM"),
    "utf16_no_bom.csv": people("CSV, commas, utf-16-le"),
    "one_bad_byte.csv": people("CSV, commas, cp1252", encoding="cp1252"),
    "quoted_newlines.csv": labelled("CSV, commas, utf-8", "bought", BOUGHT, {**PEOPLE, "note": "text"}),
    "windows_1252.csv": labelled(
        "CSV, commas, cp1252", "label", {"buy": 12, "sell": 12}, {"price": "number", "quote": "category"}
    ),
    # packed
    "people.csv.gz": people("CSV, commas, utf-8, gzip"),
    "people.csv.bz2": people("CSV, semicolons, latin-1, bz2"),
    "gzip_without_suffix": people("CSV, commas, utf-8, gzip"),
    "from_a_mac.zip": people("CSV, commas, utf-8, zip"),
    # other formats
    "people.json": people("JSON, utf-8"),
    "people.jsonl": people("JSON Lines, utf-8 with BOM"),
    "people.parquet": people("Parquet"),
    "parquet_inside.csv": people("Parquet"),
    "people.feather": people("Feather"),
    "people.xlsx": labelled("Excel", "bought", BOUGHT, {**PEOPLE, "when": "date"}),
    "formatted_to_row_60.xlsx": labelled("Excel", "bought", BOUGHT, {**PEOPLE, "when": "date"}),
    "people.db": people("SQLite"),
    "shop.sqlite3": people("SQLite, table 'people' of 3", table="people"),
    "sheets.xlsx": people("Excel, sheet 'Data' of 3"),
    "indexed.parquet": labelled(
        "Parquet", "bought", BOUGHT,
        {"person": "dropped", **PEOPLE, "when": "date", "size": "category", "count": "number"}, "count   number, 1 gap",
    ),
    "hugging_face": labelled("Hugging Face dataset", "label", {"neg": 10, "pos": 10}, {"text": "text"}),
    "hugging_face_parts": Animal(
        "Hugging Face dataset, rows of 'train', test rows of 'test', left out: 'unsupervised'",
        {"neg": 10, "pos": 10}, {"text": "text"}, 8, (), {"label": "label"},
    ),
    # columns
    "kunden.csv": labelled(
        "CSV, semicolons, latin-1", "Gekauft", {"Ja": 12, "Nein": 12},
        {
            "Kunde": "dropped", "Größe": "number", "Umsatz": "number", "Datum": "date", "Straße": "category",
            "Bemerkung": "dropped",
        },
        "Größe      number, decimal comma, 1 gap", "Datum      date, day.month.year", "no value in any row",
        "read as the class 'Nein': ' nein' (4)",
    ),
    "american_money.csv": labelled(
        "CSV, commas, utf-8", "sign", BOUGHT,
        {"price": "number", "change": "number", "sold": "date", "stars": "number"}, "date, month/day/year",
    ),
    "blank_numbers.csv": labelled(
        "CSV, commas, utf-8", "Churn", {"Yes": 12, "No": 12},
        {"customerID": "dropped", "tenure": "number", "TotalCharges": "number"}, "TotalCharges  number, 3 gaps",
    ),
    "month_names.csv": labelled(
        "CSV, commas, utf-8", "plan", {"basic": 12, "pro": 12}, {"joined": "date", "left": "date", "score": "number"},
        "left    date, day month year, 12 gaps",
    ),
    "swiss_and_french.csv": labelled(
        "CSV, semicolons, utf-8", "kind", {"a1": 12, "b2": 12}, {"swiss": "number", "french": "number"}
    ),
    "timestamps.jsonl": labelled(
        "JSON Lines, utf-8", "level", {"INFO": 8, "WARN": 8, "ERROR": 8}, {"at": "date", "ms": "number"}
    ),
    "zip_codes.jsonl": labelled(
        "JSON Lines, utf-8", "kind", {"flat": 12, "house": 12}, {"zip": "category", "rent": "number"}
    ),
    "targets_decimal_comma.csv": labelled(
        "CSV, semicolons, utf-8", "rent", None, {"area": "number"}, "targets: numbers from 236.28 to 771.1"
    ),
    "question_marks.csv": people("CSV, commas, utf-8", "age     number, 4 gaps"),
    "index_column.csv": labelled("CSV, commas, utf-8", "bought", BOUGHT, {"Unnamed: 0": "dropped", **PEOPLE}),
    "empty_and_constant.csv": labelled(
        "CSV, commas, utf-8", "bought", BOUGHT,
        {**PEOPLE, "nothing": "dropped", "always": "dropped", "zero": "dropped"}, "the same in every row",
    ),
    "nested.ndjson": labelled(
        "JSON Lines, utf-8", "label", {"ham": 12, "spam": 12}, {"text": "text", "meta": "dropped", "stars": "number"},
        "stars  number, 6 gaps",
    ),
    "texts.csv": labelled("CSV, commas, utf-8", "stars", {"good": 12, "bad": 12}, {"review": "text"}),
    # labels
    "yes_no.csv": labels({"Yes": 12, "no": 12}, "read as the class 'Yes': 'yes ' (4), 'YES' (4)"),
    "letters.csv": labels({"a": 6, "A": 6, "b": 6, "B": 6}),
    "genotypes.csv": labels({"AA": 8, "Aa": 8, "aa": 8}),
    "y_n.csv": labels({"y": 12, "n": 12}, "read as the class 'y': 'Y' (6)"),
    "booleans.csv": labels({"True": 12, "False": 12}),
    "floats_as_classes.csv": labels({"1": 8, "2": 8, "3": 8}),
    "one_row_class.csv": labels({"yes": 16, "no": 7, "maybe": 1}, "warning: 1 class has one row only ('maybe')"),
    "slip_of_the_pen.csv": labels(
        {"virginica": 12, "setosa": 11, "setsoa": 1},
        "may be meant as 'setosa' (11); if so, pass --merge 'setsoa=setosa'",
    ),
    "blank_labels.csv": labels(
        {"yes": 13, "no": 8}, "skipped: 3 without a label (rows 4, 13, 22)", missing_labels="drop"
    ),
    "ids_as_label.csv": labels(
        {f"u{i:03d}": 1 for i in range(24)}, "has a label of its own in 'bought', as identifiers do; name the column"
    ),
    "leak.csv": labelled(
        "CSV, commas, utf-8", "bought", BOUGHT, {**PEOPLE, "outcome": "category"},
        "column 'outcome' equals the label 'bought' in every row", "pass --ignore 'outcome'",
    ),
    "label_twice.csv": labelled(
        "CSV, commas, utf-8", "bought", {"no": 16, "yes": 8},
        {"age": "number", "income": "number", "bought.1": "dropped"}, "dropped: as asked for", ignore=["bought.1"],
    ),
    # pictures
    "photos.csv": labelled("CSV, commas, utf-8", "animal", PETS, {"file": "image", "photographer": "dropped"}),
    "photos_windows.csv": labelled("CSV, semicolons, utf-8", "animal", PETS, {"file": "image"}),
    "photo_missing.jsonl": labelled(
        "JSON Lines, utf-8", "animal", PETS, {"image": "image"},
        "skipped: 1 image that does not decode (photos/gone.png)", skip_broken=True,
    ),
    "photos_not_there.csv": labelled(
        "CSV, commas, utf-8", "animal", {"dog": 6, "cat": 6}, {"file": "dropped", "width": "number"},
        "column 'file' names images, of which none is found",
    ),
    "photos.parquet": labelled("Parquet", "animal", PETS, {"image": "image"}),
    "hugging_face_images": labelled("Hugging Face dataset", "label", PETS, {"image": "image"}),
    "splits": Animal(
        "folder of images, rows of train/, test rows of test/, left out: val", {"cat": 4, "dog": 4}, {}, 4,
        ("skipped: 1 image that does not decode (train/cat/broken.png)",), {"skip_broken": True},
    ),
}  # fmt: skip

REFUSED = {
    "empty.csv": "is empty",
    "header_only.csv": "holds no rows",
    "download_page.csv": "is a web page and not the data; download the file itself",
    "lfs_pointer.csv": "is a pointer of Git LFS and not the data; fetch it with git lfs pull",
    "paper.pdf": "is a PDF document; export its table as CSV",
    "old_excel.xls": "is an Excel file of the kind before 2007; save it as .xlsx",
    "data.db": "holds no rows",
    "people.tar.gz": "is a tar archive; unpack it and pass the file or folder that is meant",
    "two_files.zip": "packs 2 files (train.csv, test.csv); unpack it and pass the one that is meant",
    "cut_short.csv.gz": "is cut short or damaged",
    "ragged.csv": "is not a well-formed table (read as CSV, commas, utf-8)",
    "broken_line.jsonl": "line 2 is no JSON",
    "wrapped.json": "is one object (version, data) where an array of objects is needed; save what 'data' holds",
    "one_bad_byte.csv": "is UTF-8 text but for 1 byte; mend it, or pass --encoding",
    "colons.csv": "(if its fields are parted by something else, pass --delimiter)",
    "padded_header.csv": "has no column 'bought' (did you mean ' bought'?)",
    "one_class.csv": "only one class (yes); a classifier needs at least two",
    "blank_labels.csv": "has 3 missing values (rows 4, 13, 22); drop them or pass --missing drop",
    "photo_missing.jsonl": "photos/gone.png is missing; mend it or pass --skip-broken",
    "splits": "broken.png cannot be decoded: Truncated File Read; mend it or pass --skip-broken",
}


@pytest.mark.parametrize("name", READ)
def test_what_comes_of_a_file(name: str) -> None:
    animal = READ[name]
    rows, test = read(ZOO / name, **animal.options)
    assert rows.summary.found == animal.found
    assert rows.summary.rows == len(rows) == (sum(animal.classes.values()) if animal.classes else 24)
    assert (dict(rows.summary.labels) or None) == animal.classes
    assert {column.name: column.read_as for column in rows.summary.columns} == animal.columns
    assert (0 if test is None else len(test)) == animal.test
    assert isinstance(rows.x, Tensor)
    lines = list(rows.summary.lines())
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    for passage in animal.says:
        assert " ".join(passage.split()) in text


@pytest.mark.parametrize("name", READ)
def test_a_recipe_reads_it_alike(name: str) -> None:
    options = READ[name].options
    rows, test = read(ZOO / name, **options)
    recipe = json.loads(json.dumps(rows.recipe))
    again, _ = read(ZOO / name, **{**options, "recipe": recipe})
    assert again.fingerprint == rows.fingerprint
    assert torch.equal(again.x, rows.x)
    assert again.classes == rows.classes
    text = {key: options[key] for key in ("delimiter", "encoding", "table", "skip_broken") if key in options}
    x, _ = read_inputs(ZOO / name, recipe, **text)
    if "missing_labels" not in options:
        assert torch.equal(x, rows.x if test is None else test.x)


@pytest.mark.parametrize("name", REFUSED)
def test_the_one_sentence_of_the_error(name: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        read(ZOO / name, label={"photo_missing.jsonl": "animal", "splits": None}.get(name, "bought"))
    assert REFUSED[name] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_same_table_is_the_same_rows_in_every_format() -> None:
    plain, _ = read(ZOO / "pipes.psv", label="bought")
    same = [name for name, animal in READ.items() if animal.columns is PEOPLE and animal.classes is BOUGHT]
    assert len(same) > 15
    for name in same:
        if name in ("question_marks.csv", "one_bad_byte.csv"):
            continue
        rows, _ = read(ZOO / name, **READ[name].options)
        assert torch.equal(rows.x, plain.x), name
        assert torch.equal(rows.y, plain.y), name


def test_nothing_in_the_zoo_is_left_unwatched() -> None:
    there = {path.name for path in ZOO.iterdir() if not path.name.startswith(".")} - {"photos"}
    assert there == {*READ, *REFUSED}
    assert len(there) >= 40


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_never_a_traceback(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    for path in sorted(path for path in ZOO.iterdir() if path.is_file() and path.stat().st_size > 1):
        data = bytearray(path.read_bytes())
        for _ in range(draw.randrange(4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        whole = draw.random() < 0.5
        (tmp_path / path.name).write_bytes(data if whole else data[: draw.randrange(1, len(data))])
        with contextlib.suppress(HoldfastError):
            read(tmp_path / path.name, label="bought")

"""Every other format: nothing to change leaves what is there, and changes are those that were asked for."""

import io
import json

import datasets
import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from drawn_tables import drawn, edit_of
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from holdfast.clean import arrow_file, excel_file, frame, hugging_face, image_folder, json_file, npz_file
from holdfast.clean.edit import SUGGESTED, TRUST, Edit
from holdfast.clean.files import packed
from holdfast.data.formats import Compression, FileFormat, Kind, detect, opened

JSON = st.sampled_from(
    [
        (Kind.JSON_LINES, {}),
        (Kind.JSON_LINES, {"separators": (",", ":"), "ensure_ascii": False}),
        (Kind.JSON, {"indent": 2}),
        (Kind.JSON, {}),
    ]
)
WORDS = st.text(st.sampled_from('ab é0,:{}[]"\\\n'), max_size=6)
PLAIN_WORDS = st.text(st.sampled_from("ab é0,:=-"), max_size=6)


def records(table):
    """The table as objects; a label that is missing is null, or has no name at all."""
    names = list(table.columns)
    lines = [dict(zip(names, line, strict=True)) for line in table.lines]
    for row, line in enumerate(lines):
        if not line[table.label]:
            line[table.label] = None
            if row % 2:
                del line[table.label]
    return lines


def as_json(table, style):
    kind, options = style
    lines = records(table)
    text = (
        json.dumps(lines, **options) if kind is Kind.JSON else "".join(f"{json.dumps(r, **options)}\n" for r in lines)
    )
    return text.encode(), FileFormat(kind, encoding="utf-8")


def from_json(data, found):
    text = data.decode()
    return json.loads(text) if found.kind is Kind.JSON else [json.loads(line) for line in text.split("\n") if line]


@settings(max_examples=100, deadline=None)
@given(drawn(WORDS, change=False), JSON)
def test_json_without_a_change_has_the_same_bytes(table, style):
    data, found = as_json(table, style)
    assert json_file.edited(data, found, table.edit) == data


@settings(max_examples=200, deadline=None)
@given(drawn(WORDS), JSON)
def test_json_with_changes(table, style):
    data, found = as_json(table, style)
    wanted = from_json(data, found)
    for line, label in zip(wanted, table.wanted, strict=True):
        if label:
            line[table.label] = label
    kept = table.edit.kept(len(table))
    after = from_json(json_file.edited(data, found, table.edit), found)
    assert [list(line.items()) for line in after] == [list(wanted[row].items()) for row in np.flatnonzero(kept)]


@settings(max_examples=100, deadline=None)
@given(drawn(WORDS, change=False, mark=True), JSON)
def test_json_with_marks(table, style):
    data, found = as_json(table, style)
    after = from_json(json_file.edited(data, found, table.edit), found)
    assert [line.pop(TRUST) for line in after] == table.edit.trusts(len(table))
    doubted = set(table.edit.rows[table.edit.doubted].tolist())
    assert [line.pop(SUGGESTED) is not None for line in after] == [row in doubted for row in range(len(table))]
    assert after == from_json(data, found)


def arrow_of(table, kind):
    columns = {name: pa.array([value or None for value in values]) for name, values in table.columns.items()}
    known = pa.array(["unused", *dict.fromkeys(filter(None, table.columns[table.label]))])
    if kind == "categories":
        plain = columns[table.label].cast(pa.string())
        index = pa.compute.index_in(plain, known).cast(pa.int8())
        columns[table.label] = pa.DictionaryArray.from_arrays(index, known)
    return pa.table(columns).replace_schema_metadata({"note": "mine"})


@settings(max_examples=60, deadline=None)
@given(drawn(PLAIN_WORDS), st.sampled_from(["text", "categories"]), st.sampled_from(["zstd", "snappy", "none"]))
def test_parquet(table, kind, codec):
    before, out = arrow_of(table, kind), io.BytesIO()
    pq.write_table(before, out, compression=codec)
    after = pq.ParquetFile(io.BytesIO(arrow_file.edited_parquet(out.getvalue(), FileFormat(Kind.PARQUET), table.edit)))
    check_arrow(table, before, after.read())
    assert after.metadata.row_group(0).column(0).compression == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())


@settings(max_examples=60, deadline=None)
@given(drawn(PLAIN_WORDS), st.sampled_from(["text", "categories"]))
def test_feather(table, kind):
    before, out = arrow_of(table, kind), io.BytesIO()
    pa.feather.write_feather(before, out)
    data = arrow_file.edited_feather(out.getvalue(), FileFormat(Kind.FEATHER), table.edit)
    check_arrow(table, before, pa.feather.read_table(io.BytesIO(data)))


def check_arrow(table, before, after):
    assert after.schema.equals(before.schema, check_metadata=True)
    kept = table.edit.kept(len(table))
    wanted = before.to_pylist()
    for line, label in zip(wanted, table.wanted, strict=True):
        line[table.label] = label or None
    assert after.to_pylist() == [line for line, stays in zip(wanted, kept, strict=True) if stays]


@pytest.mark.parametrize("values", [[0, 1, 1], [False, True, True], [0.0, 1.0, 1.0], ["no", "yes", "yes"]])
def test_labels_of_any_type_keep_it(values):
    before = pa.table({"y": values, "x": [1, 2, 3]})
    marks = {"trust": [0.1, 1, 1], "suggested": [1, 1, 1], "doubted": [True, False, False]}
    after = arrow_file.edited_table(before, edit_of([0, 1, 2], [0, 1, 1], [1, 1, 1], **marks))
    assert after["y"].to_pylist() == [values[1]] * 3
    assert after.schema.field("y").equals(before.schema.field("y"))
    assert after[SUGGESTED].to_pylist() == [values[1], None, None]
    held = pd.DataFrame({"y": values, "x": [1, 2, 3]}, index=[7, 8, 9])
    made = frame.edited(held, edit_of([0, 1, 2], [0, 1, 1], [1, 1, 1], dropped=[2], **marks))
    assert made["y"].tolist() == [values[1]] * 2
    assert made["y"].dtype == held["y"].dtype
    assert made.index.tolist() == [7, 8]
    assert held["y"].tolist() == values


@settings(max_examples=25, deadline=None)
@given(drawn(PLAIN_WORDS))
def test_excel(table):
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(list(table.columns))
    for line in table.lines:
        sheet.append([value or None for value in line])
    sheet.cell(1, 1).font = openpyxl.styles.Font(bold=True)
    sheet.cell(2, 2).number_format = "0.00"
    sheet.column_dimensions["A"].width = 33
    book.create_sheet("notes").append(["stays"])
    out = io.BytesIO()
    book.save(out)
    after = openpyxl.load_workbook(io.BytesIO(excel_file.edited(out.getvalue(), FileFormat(Kind.EXCEL), table.edit)))
    at = list(table.columns).index(table.label)
    wanted = [[*line[:at], label, *line[at + 1 :]] for line, label in zip(table.lines, table.wanted, strict=True)]
    kept = table.edit.kept(len(table))
    found = [list(line) for line in after.worksheets[0].iter_rows(values_only=True, max_col=3, max_row=len(table) + 1)]
    assert found[0] == list(table.columns)
    wanted = [[value or None for value in line] for line, stays in zip(wanted, kept, strict=True) if stays]
    assert found[1 : len(wanted) + 1] == wanted
    assert all(line == [None] * 3 for line in found[len(wanted) + 1 :])
    assert after["notes"]["A1"].value == "stays"
    assert after.worksheets[0]["A1"].font.bold
    assert after.worksheets[0].column_dimensions["A"].width == 33


@pytest.mark.parametrize("names", [None, ["cat", "dog", "owl"]])
@pytest.mark.parametrize("kind", [np.int64, np.uint8, "<U5"])
def test_arrays(names, kind):
    y = np.array([0, 1, 1, 0, 1]).astype(kind)
    more = {} if names is None else {"class_names": np.array(names)}
    arrays = {
        "x_train": np.arange(10.0).reshape(5, 2),
        "y_train": y,
        "y_test": y[:2],
        "x_test": np.ones((2, 2)),
        **more,
    }
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    classes = tuple(names or ("0", "1", "2"))
    edit = Edit("", np.arange(5), np.array([0, 1, 1, 0, 1]), np.array([0, 1, 0, 2, 1]), np.arange(5) == 1, classes)
    after = np.load(io.BytesIO(npz_file.edited(out.getvalue(), None, edit)))
    assert list(after) == list(arrays)
    third = "owl" if names and kind == "<U5" else 2
    assert after["y_train"].tolist() == np.array([0, 0, third, 1]).astype(kind).tolist()
    assert after["y_train"].dtype == np.dtype(kind)
    assert np.array_equal(after["x_train"], arrays["x_train"][[0, 2, 3, 4]])
    assert after["y_test"].tolist() == y[:2].tolist()


def test_arrays_of_jpeg_bytes_lose_those_of_dropped_rows():
    out = io.BytesIO()
    np.savez(
        out, jpeg_train=np.arange(9, dtype=np.uint8), offsets_train=np.array([0, 2, 5, 9]), y_train=np.array([0, 1, 1])
    )
    edit = Edit("", np.arange(3), np.array([0, 1, 1]), np.array([0, 1, 1]), np.arange(3) == 1, ("0", "1"))
    after = np.load(io.BytesIO(npz_file.edited(out.getvalue(), None, edit)))
    assert after["jpeg_train"].tolist() == [0, 1, 5, 6, 7, 8]
    assert after["offsets_train"].tolist() == [0, 2, 6]


@pytest.mark.parametrize("several", [False, True])
def test_a_hugging_face_dataset(tmp_path, several):
    features = datasets.Features({"text": datasets.Value("string"), "y": datasets.ClassLabel(names=["low", "high"])})
    held = datasets.Dataset.from_dict({"text": list("abcd"), "y": [0, 1, 1, 0]}, features=features)
    whole = datasets.DatasetDict({"train": held, "test": held.select([0])}) if several else held
    whole.save_to_disk(str(tmp_path / "data"))
    edit = edit_of([0, 1, 2, 3], [0, 1, 1, 0], [0, 1, 0, 0], dropped=[1])
    hugging_face.write(tmp_path / "data", tmp_path / "out", edit)
    after = datasets.load_from_disk(str(tmp_path / "out"))
    if several:
        assert after["test"].to_dict() == {"text": ["a"], "y": [0]}
        after = after["train"]
    assert after.features == features
    assert after.to_dict() == {"text": ["a", "c", "d"], "y": [0, 0, 0]}


@pytest.mark.parametrize("root", ["", "train"])
def test_a_folder_of_images(tmp_path, root):
    for name, count in (("cat", 3), ("dog", 2)):
        (tmp_path / "photos" / root / name).mkdir(parents=True)
        for i in range(count):
            Image.new("L", (4, 4), i).save(tmp_path / "photos" / root / name / f"{i}.png")
    (tmp_path / "photos" / "README.txt").write_text("mine")
    before = {file: file.read_bytes() for file in (tmp_path / "photos").rglob("*.png")}
    # cat/0 becomes a dog, where there is a 0.png already; cat/1 goes.
    edit = Edit(
        "", np.arange(5), np.array([0, 0, 0, 1, 1]), np.array([1, 0, 0, 1, 1]), np.arange(5) == 1, ("cat", "dog")
    )
    image_folder.write(tmp_path / "photos", tmp_path / "out", edit)
    inside = tmp_path / "out" / root
    found = sorted(file.relative_to(inside).as_posix() for file in inside.rglob("*.png"))
    assert found == ["cat/2.png", "dog/0.png", "dog/0_from_cat.png", "dog/1.png"]
    assert (inside / "dog/0_from_cat.png").read_bytes() == before[tmp_path / "photos" / root / "cat" / "0.png"]
    assert (tmp_path / "out" / "README.txt").read_text() == "mine"
    assert {file: file.read_bytes() for file in (tmp_path / "photos").rglob("*.png")} == before
    listed = pd.read_csv(tmp_path / "out" / image_folder.LIST)
    under = f"{root}/" if root else ""
    assert listed.fillna("").to_numpy().tolist() == [
        [f"{under}cat/0.png", f"{under}dog/0_from_cat.png", "moved"],
        [f"{under}cat/1.png", "", "dropped"],
    ]


@pytest.mark.parametrize("packing", list(Compression))
def test_bytes_are_packed_as_they_were(tmp_path, packing):
    path = tmp_path / f"a.csv{'.zip' if packing is Compression.ZIP else ''}"
    path.write_bytes(packed(b"x,y\n1,2\n3,4\n", packing, "inner.csv"))
    found = detect(path)
    assert found.compression is packing
    with opened(path, found) as file:
        assert file.read() == b"x,y\n1,2\n3,4\n"


def test_the_sheet_that_was_asked_for_is_edited():
    book, data = openpyxl.Workbook(), io.BytesIO()
    for sheet in (book.active, book.create_sheet("asked")):
        for line in (["y"], ["low"], ["high"]):
            sheet.append(line)
    book.save(data)
    edit = edit_of([0, 1], [0, 1], [1, 1])
    after = excel_file.edited(data.getvalue(), FileFormat(Kind.EXCEL, table="asked"), edit)
    labels = [[cell.value for cell in sheet["A"]] for sheet in openpyxl.load_workbook(io.BytesIO(after)).worksheets]
    assert labels == [["y", "low", "high"], ["y", "high", "high"]]

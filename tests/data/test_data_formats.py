"""What a file on disk is, told by its content."""

import bz2
import gzip
import json
import zipfile

import pandas as pd
import pytest

from holdfast.data.formats import Compression, FileFormat, Kind, detect, opened
from holdfast.errors import HoldfastError

TABLE = "naïve;größe;label\n1,5;2;yes\n3,1;4;no\n"


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("latin-1", "latin-1"),
    ],
)
def test_encodings_are_told_apart(tmp_path, encoding, found):
    path = tmp_path / "a.csv"
    path.write_bytes(TABLE.encode(encoding))
    assert detect(path) == FileFormat(Kind.CSV, encoding=found, delimiter=";", line_end="\n")


def test_typographic_quotes_make_it_cp1252(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\n“so said”,€\n".encode("cp1252"))
    assert detect(path).encoding == "cp1252"


def test_a_letter_beyond_the_sample_decides_too(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n" * 600_000 + "ü,2\n".encode("latin-1"))
    assert detect(path).encoding == "latin-1"


def test_a_few_broken_bytes_are_an_error_and_no_other_encoding(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("größe,naïve,über\n".encode() + b"\xff,1,2\n")
    with pytest.raises(HoldfastError, match="is UTF-8 text but for 1 byte; mend it, or pass --encoding"):
        detect(path)
    assert detect(path, encoding="latin-1").encoding == "latin-1"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.unheard-of"])
def test_delimiters_are_told_by_the_content(tmp_path, name, delimiter):
    path = tmp_path / name
    path.write_text('a,b\n1,"x;y|z"\n2,"x;y\n|z"\n'.replace(",", delimiter))
    assert detect(path).delimiter == delimiter


def test_decimal_commas_do_not_pass_for_delimiters(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("height, m;weight, kg\n1,80;79,5\n1,75;68,0\n")
    assert detect(path).delimiter == ";"


def test_one_column_has_the_delimiter_of_its_name(tmp_path):
    for name, delimiter in (("a.csv", ","), ("a.tsv", "\t")):
        (tmp_path / name).write_text("a\n1\n2\n")
        assert detect(tmp_path / name).delimiter == delimiter


def test_what_is_asked_for_is_not_looked_for(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b:c\n1,2:3\n")
    assert detect(path, delimiter=":", encoding="ISO-8859-1").describe() == "CSV, delimiter ':', latin-1"
    assert detect(path, delimiter="\\t").delimiter == "\t"
    with pytest.raises(HoldfastError, match="a delimiter is one character"):
        detect(path, delimiter="::")
    with pytest.raises(HoldfastError, match="'utf-9' is no known encoding"):
        detect(path, encoding="utf-9")


def test_compression_is_told_by_the_content_and_undone(tmp_path):
    data = TABLE.encode("latin-1")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("inner.csv", data)
        archive.writestr("__MACOSX/._inner.csv", b"\0\1")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(data))
    (tmp_path / "a.csv").write_bytes(bz2.compress(data))
    for name, compression in (("a.zip", "zip"), ("a.csv.gz", "gzip"), ("a.csv", "bz2")):
        found = detect(tmp_path / name)
        assert found.describe() == f"CSV, semicolons, latin-1, {compression}"
        with opened(tmp_path / name, found) as file:
            assert file.read() == data
    assert detect(tmp_path / "a.zip").member == "inner.csv"


def test_an_archive_of_several_files_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.csv", "a,b\n")
        archive.writestr("b.csv", "a,b\n")
    with pytest.raises(HoldfastError, match=r"packs 2 files \(a.csv, b.csv\); unpack it"):
        detect(tmp_path / "a.zip")


def test_json_is_told_by_the_content(tmp_path):
    rows = [{"a": 1, "label": "x"}, {"a": 2, "label": "y"}]
    path = tmp_path / "a.txt"
    path.write_text("\r\n".join(map(json.dumps, rows)))
    assert detect(path) == FileFormat(Kind.JSON_LINES, encoding="utf-8", line_end="\r\n")
    path.write_text(json.dumps(rows, indent=1))
    assert detect(path).kind is Kind.JSON
    path.write_text("[a],b\n1,2\n")
    assert detect(path).kind is Kind.CSV


def test_binary_tables_are_told_by_the_content(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "label": ["x", "y"]})
    frame.to_parquet(tmp_path / "a")
    frame.to_feather(tmp_path / "b")
    assert detect(tmp_path / "a") == FileFormat(Kind.PARQUET)
    assert detect(tmp_path / "b") == FileFormat(Kind.FEATHER)
    assert detect(tmp_path / "a").compression is Compression.NONE


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"%PDF-1.7 ...", "a PDF document; export its table as CSV"),
        (b"<!DOCTYPE html><html>", "a web page and not the data"),
        (b"version https://git-lfs.github.com/spec/v1", "a pointer of Git LFS"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save it as .xlsx"),
        (b"\x1f\x8b\x08\x00cut", "cut short or damaged"),
        (b"a\0\1\2b\0\0c", "no text and of no kind of table"),
    ],
)
def test_what_is_no_table_is_named(tmp_path, content, words):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(HoldfastError, match=words):
        detect(path)


def test_prose_under_an_unknown_name_is_no_table(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n\nOne, two,\nthree.\n")
    with pytest.raises(HoldfastError, match="is of no kind that can be read"):
        detect(path)

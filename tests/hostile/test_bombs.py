"""Small files that would fill the memory: refused by their size, before they are read."""

import gzip
import io
import sqlite3
import struct
import time
import zipfile
from contextlib import closing

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import HoldfastError, read
from holdfast.memory import VARIABLE


@pytest.fixture(autouse=True)
def watched():
    """Nothing here may grow the process by more than a quarter of a gigabyte."""
    before = psutil.Process().memory_info().rss
    yield
    assert psutil.Process().memory_info().rss - before < 256 << 20


def csv_gz(path):
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"a,b,label\n")
        for _ in range(400):
            file.write(b"1,2,x\n" * 100_000)


def csv_zip(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.csv", "w") as member:
        member.write(b"a,b,label\n")
        for _ in range(300):
            member.write(b"1,2,x\n" * 100_000)


def npz(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x_train.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": (50_000_000,)})
        for _ in range(400):
            member.write(bytes(1_000_000))


def npz_claims(path):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (10**12, 3)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x_train.npy", head.getvalue() + b"1234")


def parquet(path):
    column = pa.array(np.zeros(5_000_000, dtype=np.int64))
    pq.write_table(pa.table({f"c{k}": column for k in range(10)} | {"label": column}), path, compression="zstd")


def idx_gz(path):
    with gzip.open(path / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(bytes([0, 0, 8, 3]) + struct.pack(">III", 400_000, 32, 32))
        for _ in range(400):
            file.write(bytes(1_024_000))
    with gzip.open(path / "train-labels-idx1-ubyte.gz", "wb") as file:
        file.write(bytes([0, 0, 8, 1]) + struct.pack(">I", 400_000) + bytes(400_000))


def endless(path, counted):
    """A view whose rows, or whose one row, take forever."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    with closing(sqlite3.connect(path)) as database:
        what = "count(*)" if counted else "i, hex(zeroblob(500))"
        database.execute(f"CREATE VIEW rows AS {numbers} SELECT {what} AS label FROM n".replace(", hex", " AS a, hex"))


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.slow
def test_a_view_without_end_is_given_up(tmp_path, counted):
    endless(tmp_path / "a.db", counted)
    began = time.process_time()
    with pytest.raises(HoldfastError, match="interrupted" if counted else "times its size on disk"):
        read(tmp_path / "a.db", label="label")
    assert time.process_time() - began < 30


@pytest.mark.parametrize(
    ("make", "name", "words"),
    [
        (csv_gz, "a.csv.gz", "times its size on disk"),
        (csv_zip, "a.csv.zip", "times its size on disk"),
        (npz, "a.npz", "times its size on disk"),
        (npz_claims, "a.npz", "claims the shape"),
        (parquet, "a.parquet", "times its size on disk"),
        (idx_gz, "", "times its size on disk"),
    ],
)
@pytest.mark.slow
def test_it_is_refused_before_it_is_read(tmp_path, make, name, words):
    make(tmp_path / name)
    with pytest.raises(HoldfastError, match=words):
        read(tmp_path / name, **({"label": "label"} if ".csv" in name or ".parquet" in name else {}))


def test_the_limit_can_be_raised_and_lowered(tmp_path, monkeypatch):
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"a,b,label\n" + b"1,2,x\n2,1,y\n" * 5000)
    monkeypatch.setenv(VARIABLE, "100K")
    with pytest.raises(HoldfastError, match="--max-memory"):
        read(path, label="label")
    monkeypatch.setenv(VARIABLE, "10M")
    assert len(read(path, label="label")[0]) == 10_000
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(HoldfastError, match="no size"):
        read(path, label="label")

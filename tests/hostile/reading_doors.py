"""Data of every kind, read by its path."""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from hostile.door import ROWS, Door, into, packed, table, written
from PIL import Image

from holdfast import read
from holdfast.data.opcodes import plain_values


def _database(folder: Path) -> bytes:
    path = folder / "sample.db"
    with closing(sqlite3.connect(path)) as made:
        table().to_sql("people", made, index=False)
    return path.read_bytes()


def _reading(path: Path, **options: Any) -> Callable[[], None]:
    def look() -> None:
        for rows in read(path, **options):
            if rows is not None and not hasattr(rows.x, "numpy"):
                rows.x[0]  # pictures are decoded as they are asked for

    return look


def readers(folder: Path) -> dict[str, Door]:
    """Data of every kind, read by its path."""
    frame = table()
    text = frame.to_csv(index=False).encode()
    lines = frame.to_json(orient="records", lines=True, force_ascii=False).encode()
    whole = frame.to_json(orient="records").encode()
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(ROWS, 4)), np.arange(ROWS) % 2
    pixels = draw.integers(0, 256, (ROWS, 8, 8), dtype=np.uint8)
    doors: dict[str, Door] = {}

    def add(name: str, file: str, samples: tuple[bytes, ...], share: int = 1, root: Path | None = None, **options: Any):
        place = folder / name.replace(" ", "_")
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        doors[name] = Door(
            samples, into(place / file, _reading(place if root is not None else place / file, **options)), share
        )

    add(
        "csv",
        "a.csv",
        (text, text.replace(b",", b";"), "\ufeff".encode() + text, frame.to_csv().encode("utf-16")),
        30,
        label="label",
    )
    add("csv of numbers", "a.tsv", (frame[["age", "label"]].to_csv(index=False, sep="\t").encode(),), 14, label="age")
    add("packed csv", "a.csv.gz", packed(text), 40, label="label")
    add("json", "a.json", (lines, whole), 40, label="label")
    add("parquet", "a.parquet", (written(frame.to_parquet),), 50, label="label")
    add(
        "feather",
        "a.feather",
        (written(frame.to_feather), written(lambda out: frame.to_feather(out, compression="lz4"))),
        12,
        label="label",
    )
    add("excel", "a.xlsx", (written(lambda out: frame.to_excel(out, index=False)),), 4, label="label")
    add("sqlite", "a.db", (_database(folder),), 12, label="label")
    arrays = {"x_train": x, "y_train": y, "x_test": x[:6], "y_test": y[:6]}
    images = {"x_train": pixels, "y_train": y, "class_names": np.array(["a", "b"])}
    add(
        "npz",
        "a.npz",
        (written(lambda out: np.savez(out, **arrays)), written(lambda out: np.savez_compressed(out, **images))),
        100,
    )
    head = struct.pack(">I", ROWS)
    idx = (
        bytes([0, 0, 8, 3]) + head + struct.pack(">II", 8, 8) + pixels.tobytes(),
        bytes([0, 0, 8, 1]) + head + bytes(y.tolist()),
    )
    for name, which in (("mnist images", 0), ("mnist labels", 1)):
        place = folder / name.replace(" ", "_")
        place.mkdir()
        (place / "train-images-idx3-ubyte").write_bytes(idx[0])
        (place / "train-labels-idx1-ubyte").write_bytes(idx[1])
        file = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")[which]
        add(name, file, (idx[which], gzip.compress(idx[which])), 40, root=place)
    batch = {b"data": draw.integers(0, 256, (3, 3072), dtype=np.uint8), b"labels": [1, 0, 2]}
    samples = tuple(pickle.dumps(batch, protocol) for protocol in (2, 4))
    small = {b"data": np.arange(64, dtype=np.uint8).reshape(2, 32), b"labels": [np.int64(3), 4]}
    place = folder / "cifar"
    place.mkdir()
    for k in range(1, 6):
        (place / f"data_batch_{k}").write_bytes(samples[0])
    (place / "test_batch").write_bytes(samples[0])
    (place / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"a", b"b", b"c"]}, 2))
    add("cifar", "data_batch_1", samples, 20, root=place)
    doors["pickled batch"] = Door(
        tuple(pickle.dumps(small, p) for p in range(6)), lambda content: plain_values(content), 240
    )
    place = folder / "images"
    for label in "ab":
        (place / label).mkdir(parents=True)
        for i in range(3):
            Image.fromarray(pixels[i]).save(place / label / f"{i}.png")
    picture = Image.fromarray(draw.integers(0, 256, (12, 10, 3), dtype=np.uint8))
    pictures = tuple(
        written(lambda out, f=form: picture.save(out, f)) for form in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
    )
    for form in (0, 1):
        add("images" if form == 0 else "images left out", "a/0.png", pictures, 20, root=place, skip_broken=bool(form))
    shutil.copytree(place, folder / "images_left_out", dirs_exist_ok=True)
    place = folder / "coco"
    shutil.copytree(folder / "images" / "a", place / "pictures")
    document = {
        "images": [{"id": i, "file_name": f"pictures/{i}.png", "width": 8, "height": 8} for i in range(3)],
        "annotations": [{"id": i, "image_id": i, "category_id": i % 2, "bbox": [0, 0, 8, 8]} for i in range(3)],
        "categories": [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}],
    }
    add("coco", "a.json", (json.dumps(document).encode(),), 60)
    add(
        "image table",
        "a.csv",
        (b"file,label\n" + b"".join(b"pictures/%d.png,%d\n" % (i, i % 2) for i in range(3)),),
        4,
        label="label",
    )
    shutil.copytree(folder / "images" / "a", folder / "image_table" / "pictures")
    features = folder / "features"
    features.mkdir()
    (features / "data.csv").write_bytes(frame[["age", "label"]].to_csv(index=False).encode())
    look = _reading(features / "data.csv", label="label", features=features / "f.npy")
    doors["features"] = Door(
        (written(lambda out: np.save(out, x.astype(np.float32))),), into(features / "f.npy", look), 8
    )
    return doors

"""Data of every kind, read by its path."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import shutil
import sqlite3
import struct
import tarfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import datasets
import numpy as np
import pandas as pd
from hostile.damage import damaged
from hostile.door import ROWS, Door, into, packed, table, written
from PIL import Image

from holdfast import read
from holdfast.data import celeba, webvision
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


def _sealed(content: bytes, draw: Random) -> bytes:
    """A tar archive made wrong, mostly with the sums of its headers right again."""
    tar = bytearray(damaged(content, draw))
    if draw.randrange(3) == 0:  # a size of chance, a sign before it, a number in base 256
        at = 512 * draw.randrange(max(1, len(tar) // 512))
        tar[at + 124 : at + 136] = draw.choice((b"-0000001000\0", b"77777777777\0", b"\x80" + draw.randbytes(11)))
    if draw.randrange(4):
        for at in range(0, len(tar) - 511, 512):
            if tar[at + 257 : at + 262] == b"ustar":
                tar[at + 148 : at + 156] = b" " * 8
                tar[at + 148 : at + 156] = b"%06o\0 " % sum(tar[at : at + 512])
    return bytes(tar)


def _tar(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def _folders(folder: Path, frame: pd.DataFrame, pictures: tuple[bytes, ...]) -> dict[str, Door]:
    """Shards, and folders of the layouts that are published."""
    doors: dict[str, Door] = {}
    members = {}
    for i in range(4):
        members |= {f"{'ü' * 60 if i else ''}{i}.png": pictures[0], f"{'ü' * 60 if i else ''}{i}.cls": b"%d" % (i % 2)}
    members |= {"9.png": pictures[0], "9.json": b'{"label": "1", "id": 3}'}
    path = folder / "shards" / "a.tar"
    path.parent.mkdir()
    doors["shards"] = Door((_tar(members),), into(path, _reading(path)), 30, _sealed)
    names = [f"{i}.png" for i in range(6)]
    faces = folder / "faces"
    (faces / celeba.IMAGES).mkdir(parents=True)
    search = folder / "search"
    (search / webvision.TEST_IMAGES).mkdir(parents=True)
    (search / "info").mkdir()
    for name in names:
        for place in (faces / celeba.IMAGES, search, search / webvision.TEST_IMAGES):
            (place / name).write_bytes(pictures[0])
    points = ["6", "a b c d e f g h i j", *(f"{name} 1 2 3 4 5 6 7 8 9 10" for name in names)]
    lists = {
        "landmarks": (faces, celeba.LANDMARKS, "\n".join(points)),
        "partition": (faces, celeba.PARTITION, "".join(f"{name} {i % 3}\n" for i, name in enumerate(names))),
        "synsets": (search, webvision.SYNSETS, "n00000001 a\nn00000002 b\nn00000003 c\n"),
        "images found": (search, webvision.TRAIN, "".join(f"{name} {i % 3}\n" for i, name in enumerate(names))),
        "images tested": (search, webvision.TEST, "".join(f"{name} {i % 3}\n" for i, name in enumerate(names))),
    }
    for root, file, text in lists.values():
        (root / file).write_text(text)
    for name, (root, file, text) in lists.items():
        look = _reading(root) if root == faces else partial(webvision.read, root, classes=3)
        doors[name] = Door((text.encode(),), into(root / file, look), 6)
    half = folder / "parquet_folder"
    half.mkdir()
    for k in (0, 1):
        frame.to_parquet(half / f"{k}.parquet")
    for on_disk in (False, True):
        doors[f"folder of parquet, {'on disk' if on_disk else 'in memory'}"] = Door(
            ((half / "1.parquet").read_bytes(),),
            into(half / "1.parquet", _reading(half, label="label", on_disk=on_disk)),
            3,
        )
    saved = folder / "hugging_face"
    datasets.Dataset.from_pandas(frame).save_to_disk(saved)
    for file in ("data-00000-of-00001.arrow", "dataset_info.json", "state.json"):
        for on_disk in (False, True):
            look = _reading(saved, label="label", on_disk=on_disk)
            name = f"hugging face {file}{', on disk' if on_disk else ''}"
            doors[name] = Door(((saved / file).read_bytes(),), into(saved / file, look), 2)
    return doors


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
    doors |= _folders(folder, frame, pictures)
    features = folder / "features"
    features.mkdir()
    (features / "data.csv").write_bytes(frame[["age", "label"]].to_csv(index=False).encode())
    look = _reading(features / "data.csv", label="label", features=features / "f.npy")
    doors["features"] = Door(
        (written(lambda out: np.save(out, x.astype(np.float32))),), into(features / "f.npy", look), 8
    )
    return doors

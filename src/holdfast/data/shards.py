"""Shards of WebDataset: tar archives of pictures and labels, read where they lie and never unpacked."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from holdfast.data import images
from holdfast.data.folders import SUFFIXES, TEST_FOLDERS, Places
from holdfast.data.hygiene import class_warnings
from holdfast.data.labels import Missing, class_numbers
from holdfast.data.on_disk import OnDisk
from holdfast.data.rows import Rows
from holdfast.data.summary import class_counts, listed, summary_of
from holdfast.digits import number_in
from holdfast.errors import HoldfastError
from holdfast.memory import SMALL

BLOCK = 512
HEADER, LABEL = 1 << 20, 1 << 16
"""Bytes that a long name, and a label, may have."""
KEYS = ("label", "class", "cls")
"""Where a label stands in a .json member, if nobody says where."""


class Member(NamedTuple):
    """A file in an archive: its name, and where its bytes are."""

    name: str
    start: int
    size: int


class Sample(NamedTuple):
    """A picture of a shard, with its label as it stands there; None: it has none."""

    key: str
    shard: int
    start: int
    size: int
    label: str | int | None


class Members(Places):
    """Pictures in archives, each read by its place when it is asked for."""

    def __init__(self, folder: Path, shards: Sequence[Path], samples: Sequence[Sample]) -> None:
        super().__init__(folder, [f"{shards[each.shard].name}/{each.key}" for each in samples])
        self._shards = list(shards)
        self._where = np.array([each[1:4] for each in samples], dtype=np.int64).reshape(-1, 3)

    def __len__(self) -> int:
        return len(self._where)

    def __getitem__(self, i: int) -> bytes:  # type: ignore[override]
        shard, start, size = self._where[i].tolist()
        try:
            with open(self._shards[shard], "rb", buffering=0) as file:
                held = os.pread(file.fileno(), size, start)
        except OSError as error:
            raise HoldfastError(f"{self._shards[shard]} cannot be read: {error.strerror}") from None
        if len(held) < size:
            raise HoldfastError(f"{self._shards[shard]} has become shorter; start again")
        return held

    def called(self, i: int) -> str:
        return self.names[i]

    def digests(self) -> tuple[bytes, bytes]:
        same = hashlib.sha256("\n".join(self.names).encode("utf-8", "surrogateescape") + self._where.tobytes())
        changed = same.copy()
        for shard in self._shards:
            changed.update(str(shard.stat().st_mtime_ns).encode())
        return same.digest(), changed.digest()


def shards_of(path: Path) -> list[Path]:
    """The archive at a path, or those in a folder that holds nothing but such, in order; none where it is neither."""
    if path.is_file():
        return [path] if path.suffix.lower() == ".tar" else []
    if not path.is_dir():
        return []
    there = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    found = [entry for entry in there if entry.suffix.lower() == ".tar" and entry.is_file() and not entry.is_symlink()]
    return found if not any(entry.is_dir() for entry in there) else []


def read(
    path: Path,
    *,
    label: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    missing: Missing = "error",
    skip_broken: bool = False,
    image_size: images.Size | None = None,
    encoder: str | None = None,
    on_disk: bool | None = None,
) -> tuple[Rows, Rows | None]:
    """The pictures of shards with their labels; shards whose names begin with test, val or the like are tested on.

    Members of one key, the name up to its first dot, belong together: ``0001.jpg`` and ``0001.cls``, which holds a
    class by its number or name, or ``0001.json``, an object with the label under a key.

    Parameters
    ----------
    label: that key; by default label, class or cls.
    missing: what to do with pictures that have no label; see ``image_folders.read`` for the others.
    """
    train, test = _parts(shards_of(path))
    samples = _labelled(train, label, missing, path)
    members = Members(_folder(path), train, samples)
    if recipe is None:
        classes, _ = class_numbers({"the shards": pd.Series([each.label for each in samples], dtype=object)})
        some = images.some_of(len(members))
        seen = images.measure(
            [members[i] for i in some], [members.called(i) for i in some], image_size, skip_broken, encoder
        )  # fmt: skip
        recipe = {**seen, "classes": list(classes)}
    rows = _rows(members, samples, recipe, skip_broken, on_disk, path)
    skipped = images.skipped_text(members.names, rows.names or ())
    warnings = class_warnings(dict(class_counts(rows.y, rows.classes)))
    found = f"{len(train)} shard{'s' if len(train) > 1 else ''} of WebDataset"
    rows = replace(rows, summary=summary_of(found, rows.y, rows.classes, skipped, warnings))
    if not test:
        return rows, None
    further = _labelled(test, label, missing, path)
    lying = isinstance(rows.x, OnDisk) if on_disk is None else on_disk
    return rows, _rows(Members(_folder(path), test, further), further, recipe, skip_broken, lying, path)


def read_inputs(
    path: Path, recipe: Mapping[str, Any], skip_broken: bool = False
) -> tuple[Tensor | images.Pictures, tuple[str, ...]]:
    """All pictures of shards, of those to test on if there are any, and their names."""
    train, test = _parts(shards_of(path))
    shards = test or train
    members = Members(_folder(path), shards, list(_samples(shards, None)))
    if not len(members):
        raise HoldfastError(f"{path} holds no images ({', '.join(SUFFIXES)})")
    x, kept = images.folder_pictures(members, recipe, skip_broken)
    return x, members.names if kept is None else tuple(members.names[i] for i in kept)


def members_of(path: Path) -> Iterator[Member]:
    """The files in a tar archive, in order, by one pass over its headers; an error where one does not make sense."""
    end = path.stat().st_size
    with open(path, "rb") as file:
        at, name, size = 0, None, None
        while True:
            file.seek(at)
            block = file.read(BLOCK)
            if len(block) < BLOCK or not any(block):
                if at and len(block) in (0, BLOCK):
                    return
                raise HoldfastError(f"{path} is cut short or no tar archive")
            own = _number(block[124:136], path, at)
            kind, start = block[156:157], at + BLOCK
            told = own if size is None or kind in b"xgLK" else size
            if _number(block[148:156], path, at) != sum(block) - sum(block[148:156]) + 8 * 32:
                raise HoldfastError(f"{path} is damaged or no tar archive (byte {at})")
            if start + told > end:
                raise HoldfastError(f"{path} is cut short or damaged (byte {at})")
            at = start + -(-told // BLOCK) * BLOCK
            if kind in (b"x", b"L"):
                if told > HEADER:
                    raise HoldfastError(f"{path} has a name of {told:,} bytes (byte {start}), as no archive has")
                held = file.read(told)
                name, size = (_text(held), size) if kind == b"L" else _extended(held, name, size)
            elif kind in (b"0", b"\0", b"7"):
                plain = _text(block[:100])
                before = _text(block[345:500]) if block[257:263] == b"ustar\0" else ""
                yield Member(name or (f"{before}/{plain}" if before else plain), start, told)
                name = size = None
            elif kind not in (b"g", b"K"):  # folders, links and devices are no pictures
                name = size = None


def _number(field: bytes, path: Path, at: int) -> int:
    """A number of a header: octal, or of large files in base 256."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.split(b"\0")[0].strip() or b"0"
    if digits.strip(b"01234567"):  # a sign among them: a size below zero leads back to where it stands
        raise HoldfastError(f"{path} is damaged or no tar archive (byte {at})")
    return int(digits, 8)


def _text(held: bytes) -> str:
    return held.split(b"\0")[0].decode("utf-8", "replace")


def _extended(held: bytes, name: str | None, size: int | None) -> tuple[str | None, int | None]:
    """Name and size in the records of an extended header, ``LENGTH KEY=VALUE`` each."""
    while held:
        digits, _, rest = held.partition(b" ")
        length = number_in(digits.decode("latin-1"))
        if length is None or not len(digits) < length <= len(held):
            break
        key, _, value = rest[: length - len(digits) - 2].partition(b"=")
        if key == b"path":
            name = _text(value)
        elif key == b"size":
            size = number_in(value.decode("latin-1"))
        held = held[length:]
    return name, size


def _samples(shards: Sequence[Path], label: str | None) -> Iterator[Sample]:
    """Pictures in order, each with the label that its key has."""
    for number, shard in enumerate(shards):
        with open(shard, "rb") as file:
            current, picture, found = "", None, None
            for member in members_of(shard):
                folder, _, base = member.name.rpartition("/")
                stem, _, ending = base.partition(".")
                key = f"{folder}/{stem}" if folder else stem
                if key != current:
                    if picture is not None:
                        yield Sample(current, number, picture.start, picture.size, found)
                    current, picture, found = key, None, None
                ending = ending.lower()
                if f".{ending}".endswith(SUFFIXES):
                    picture = picture or member
                    if member.size > SMALL:
                        raise HoldfastError(f"{shard}: {member.name} takes {member.size:,} bytes, as no picture does")
                elif ending in ("cls", "json"):
                    if member.size > LABEL:
                        raise HoldfastError(f"{shard}: {member.name} takes {member.size:,} bytes, as no label does")
                    file.seek(member.start)
                    told = file.read(member.size)
                    value = _plain(told) if ending == "cls" else _of_json(told, label, f"{shard}: {member.name}")
                    found = value if found is None else found
            if picture is not None:
                yield Sample(current, number, picture.start, picture.size, found)


def _plain(held: bytes) -> str | None:
    return held.decode("utf-8", "replace").strip() or None


def _of_json(held: bytes, label: str | None, where: str) -> str | int | None:
    try:
        value = json.loads(held)
    except (ValueError, RecursionError):
        raise HoldfastError(f"{where} is no JSON") from None
    if not isinstance(value, dict):
        return value if isinstance(value, str | int) else None
    key = label or next((name for name in KEYS if name in value), None)
    found = value.get(key)
    return found if isinstance(found, str | int) and found != "" else None


def _labelled(shards: Sequence[Path], label: str | None, missing: Missing, path: Path) -> list[Sample]:
    samples = list(_samples(shards, label))
    bare = [sample.key for sample in samples if sample.label is None]
    if not samples:
        raise HoldfastError(f"{path} holds no images ({', '.join(SUFFIXES)})")
    if len(bare) == len(samples):
        raise HoldfastError(
            f"{path} has no label for any image: a .cls or a .json beside it, with the label under one of "
            f"{', '.join(KEYS)}, or under the key that --label names"
        )
    if bare and missing == "error":
        what = "an image" if len(bare) == 1 else f"{len(bare):,} images"
        raise HoldfastError(f"{path} has {what} without a label ({listed(bare)}); label them or pass --missing drop")
    return [sample for sample in samples if sample.label is not None]


def _rows(
    members: Members,
    samples: Sequence[Sample],
    recipe: Mapping[str, Any],
    skip_broken: bool,
    on_disk: bool | None,
    path: Path,
) -> Rows:
    labels = pd.Series([each.label for each in samples], dtype=object)
    classes, numbers = class_numbers({str(path): labels}, classes=recipe["classes"])
    x, kept = images.folder_pictures(members, recipe, skip_broken, on_disk)
    rows = Rows(torch.zeros(len(members), 1), numbers[str(path)], classes, members.names, recipe=recipe)
    rows = rows if kept is None or len(kept) == len(members) else rows.take(torch.tensor(kept))
    return replace(rows, x=x)


def _parts(shards: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Shards to train on and to test on; all are trained on where nothing else would be left."""
    test = [shard for shard in shards if shard.name.lower().startswith(TEST_FOLDERS)]
    train = [shard for shard in shards if shard not in test]
    return (train, test) if train else (test, [])


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent

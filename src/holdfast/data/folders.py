"""Folders of images: which files are in them, by names and sizes alone, and which links lead out of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.data.summary import listed
from holdfast.errors import HoldfastError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
TRAIN_FOLDERS = ("train", "training")
TEST_FOLDERS = ("test", "testing", "val", "valid", "validation")
"""Folders of test images, the one that is used first."""


class Found(NamedTuple):
    """An image of a folder."""

    name: str
    """Its path, relative to the folder."""
    label: str
    """The subfolder of its class."""


class Places(Sequence[Path | bytes]):
    """Where pictures lie, in a folder or in archives."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder, self.names = folder, tuple(names)

    def called(self, i: int) -> str:
        """What errors call a picture."""
        raise NotImplementedError

    def digests(self) -> tuple[bytes, bytes]:
        """Of names and sizes; and of these with the times of the last change."""
        raise NotImplementedError


class Files(Places):
    """Files of one folder by their names, which take a tenth of the memory that paths do."""

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> Path:  # type: ignore[override]
        return self.folder / self.names[i]

    def called(self, i: int) -> str:
        return f"{self.folder}/{self.names[i]}"

    def digests(self) -> tuple[bytes, bytes]:
        same, changed = hashlib.sha256(), hashlib.sha256()
        base = str(self.folder)
        for name in self.names:
            try:
                known = os.stat(f"{base}/{name}")
            except OSError as error:
                raise HoldfastError(f"{base}/{name} cannot be read: {error.strerror}") from None
            line = f"{name}\0{known.st_size}\n".encode("utf-8", "surrogateescape")
            same.update(line)
            changed.update(line + str(known.st_mtime_ns).encode())
        return same.digest(), changed.digest()


def training_root(folder: Path) -> Path:
    """The folder whose subfolders are the training classes: the folder itself, or its `train`."""
    return splits(folder)[0]


def splits(folder: Path) -> tuple[Path, Path | None]:
    """The folders of the training and of the test classes."""
    train = next((folder / name for name in TRAIN_FOLDERS if (folder / name).is_dir()), None)
    # A class may be called 'train' too; then its folder holds images.
    if train is None or not subfolders(train) or images_in(train):
        return folder, None
    found = [folder / name for name in TEST_FOLDERS if (folder / name).is_dir()]
    return train, found[0] if found else None


def labelled_files(root: Path, folder: Path, follow_links: bool = False) -> list[Found]:
    """Each image below a root of classes, in the order of the rows.

    Parameters
    ----------
    folder: what names are relative to, and what links may lead out of.
    follow_links: read what links lead to, wherever it lies.
    """
    found = []
    for sub in subfolders(root):
        start = sub.relative_to(folder).as_posix()
        found += [Found(f"{start}/{name}", sub.name) for name in files(sub, folder, follow_links)]
    if found:
        return found
    if images_in(root):
        raise HoldfastError(f"{root} holds images but no subfolders; sort them into one folder per class")
    raise HoldfastError(f"{root} holds no images in subfolders ({', '.join(SUFFIXES)})")


def files(start: Path, folder: Path, follow_links: bool = False) -> list[str]:
    """Names of all images below a place, relative to it and sorted as paths are; those that begin with a dot are left
    out, as is what begins so above them."""
    inside, out = folder.resolve(), list[str]()
    if not is_inside(start, inside):
        out.append(start.name)
    found = [] if out and not follow_links else list(_walk(str(start), "", inside, out))
    if out and not follow_links:
        links = "a link that leads" if len(out) == 1 else f"{len(out):,} links that lead"
        raise HoldfastError(
            f"{folder} holds {links} out of it ({listed(sorted(out))}); pass --follow-links if you know where to, or "
            "put the files themselves there"
        )
    return ["/".join(parts) for parts in sorted(name.split("/") for name in found)]


def is_inside(path: Path, folder: Path) -> bool:
    """Whether what a path leads to lies in a folder, which is resolved already."""
    return path.resolve().is_relative_to(folder)


def subfolders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def images_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if _is_image(entry.name)]


def _walk(start: str, before: str, inside: Path, out: list[str]) -> Iterator[str]:
    """Names of images, and into ``out`` those of links that lead out; links to folders are not gone into."""
    try:
        with os.scandir(start) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                name = f"{before}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(entry.path, f"{name}/", inside, out)
                elif _is_image(entry.name) and not entry.is_dir():
                    if entry.is_symlink() and not is_inside(Path(entry.path), inside):
                        out.append(name)
                    yield name
    except OSError as error:
        raise HoldfastError(f"{start} cannot be read: {error.strerror}") from None


def _is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")

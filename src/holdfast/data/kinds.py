"""What kind of data lies at a path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.data import celeba, cifar, coco, folders, mnist, pickles, shards, webvision
from holdfast.data.formats import SUFFIXES, NoTable, detect, is_hugging_face
from holdfast.data.parquet_folder import parquet_files
from holdfast.errors import HoldfastError, check_plain

UNDERSTOOD = (
    "tables (.csv, .tsv, .xlsx, .json, .jsonl, .parquet, .feather, also as .gz, .bz2 or .zip; an SQLite database; a "
    "folder of Parquet files or of a Hugging Face dataset), arrays (.npz), a folder of images with one subfolder per "
    "class, COCO annotations, a folder of MNIST idx files, a folder of CIFAR-10 or CIFAR-100 python batches, a folder "
    "of CelebA or of WebVision, shards of WebDataset (.tar)"
)


def kind_of(path: Path) -> str:
    """What is found at a path, by its name and, for a folder, by the names in it."""
    try:
        if path.is_dir():
            list(path.iterdir())
            if is_hugging_face(path) or parquet_files(path):
                return "table"
            known: dict[str, Callable[[Path], bool]] = {
                "mnist": mnist.is_mnist,
                "cifar": cifar.is_cifar,
                "celeba": celeba.is_celeba,
                "webvision": webvision.is_webvision,
                "coco": coco.is_coco,
                "shards": lambda folder: bool(shards.shards_of(folder)),
            }
            return next((kind for kind, found in known.items() if found(path)), "images")
        check_plain(path)
        with path.open("rb"):
            pass
    except FileNotFoundError:
        raise HoldfastError(f"{path} does not exist") from None
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read: {error.strerror}") from None
    if ".json" in path.name.lower() and coco.is_coco(path):
        return "coco"
    suffixes = {
        "table": SUFFIXES,
        "npz": (".npz",),
        "pickle": pickles.SUFFIXES,
        "image": folders.SUFFIXES,
        "shards": (".tar",),
    }
    for kind, endings in suffixes.items():
        if path.name.lower().endswith(endings):
            return kind
    try:
        detect(path)
    except NoTable:
        raise HoldfastError(f"{path} is of no kind that can be read; understood are {UNDERSTOOD}") from None
    return "table"

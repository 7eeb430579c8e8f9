"""Images: folders with one subfolder per class, and pictures decoded from files or bytes."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from holdfast.data import folders
from holdfast.data.folders import Files, Found
from holdfast.data.hygiene import class_warnings
from holdfast.data.labels import class_numbers
from holdfast.data.on_disk import KeptPixels, OnDisk
from holdfast.data.rows import Rows
from holdfast.data.summary import class_counts, listed, summary_of
from holdfast.encoders.cache import cache_folder
from holdfast.encoders.named import picture_encoder
from holdfast.errors import HoldfastError
from holdfast.memory import SMALL

LONGEST_SIDE = 64
LONGEST_ENCODED = 256
"""Of pictures that a pre-trained network is to see: no less than the sides that it takes."""
# Pillow would also hand PostScript to an interpreter outside this process.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_GREY = {"1", "L", "LA", "La", "I", "F"}
_BATCH = 64
_THREADS = min(8, os.cpu_count() or 1)
LOOK_AT_ALL, LOOK_AT = 50_000, 5_000
"""Images up to which the size of each is looked at before one is chosen; of more, so many spread over all of them."""

Size = int | tuple[int, int]
T = TypeVar("T")


def read(
    folder: Path,
    *,
    recipe: Mapping[str, Any] | None = None,
    skip_broken: bool = False,
    image_size: Size | None = None,
    encoder: str | None = None,
    follow_links: bool = False,
    on_disk: bool | None = None,
) -> tuple[Rows, Rows | None]:
    """The images of a folder whose subfolders are classes, or that holds `train` and `test` (or `val`) so.

    Images become (N, C, H, W) bytes of one size, stretched where their sides differ. Grey if all training
    images are, else RGB. Rows are sorted by file name, which is also the name of the row.

    Parameters
    ----------
    recipe: size, channels and classes of an earlier reading, to be used again.
    skip_broken: leave out images that cannot be decoded instead of giving up.
    image_size: a side or (height, width); by default the most common size of the training images, reduced to
        64 pixels on its long side if it is larger.
    encoder: of a pre-trained network that is to see them, or "auto"; then they are not decoded yet, and keep the size
        that it takes.
    follow_links: read what links lead to outside of the folder.
    on_disk: decode images as batches ask for them; by default where their pixels would take more than 256 MB. Of these
        names and sizes alone are looked at before.
    """
    train_root, test_root = folders.splits(folder)
    train = folders.labelled_files(train_root, folder, follow_links)
    if recipe is None:
        recipe = _recipe(folder, train, image_size, skip_broken, encoder)
    rows = _rows(folder, train, recipe, skip_broken, on_disk)
    skipped = skipped_text([name for name, _ in train], rows.names or ())
    warnings = class_warnings(dict(class_counts(rows.y, rows.classes)))
    found = _found(folder, train_root, test_root)
    rows = replace(rows, summary=summary_of(found, rows.y, rows.classes, skipped, warnings))
    if test_root is None:
        return rows, None
    test = folders.labelled_files(test_root, folder, follow_links)
    return rows, _rows(folder, test, recipe, skip_broken, isinstance(rows.x, OnDisk) if on_disk is None else on_disk)


def read_inputs(
    path: Path, recipe: Mapping[str, Any], skip_broken: bool = False, follow_links: bool = False
) -> tuple[Tensor | Pictures, tuple[str, ...]]:
    """One image file, or all images of a folder (of its test set if it has one), and their names."""
    if path.is_dir():
        _, test_root = folders.splits(path)
        start = test_root or path
        before = "" if test_root is None else f"{test_root.name}/"
        names = [f"{before}{name}" for name in folders.files(start, path, follow_links)]
        files = Files(path, names)
    else:
        files, names = Files(path.parent, [path.name]), [path.name]
    if not names:
        raise HoldfastError(f"{path} holds no images ({', '.join(folders.SUFFIXES)})")
    x, kept = folder_pictures(files, recipe, skip_broken)
    return x, tuple(names) if kept is None else tuple(names[i] for i in kept)


def skipped_text(names: Sequence[str], kept: Sequence[int] | Sequence[str]) -> list[str]:
    """What is said of images that were left out, by the places or the names of the others; nothing where none was."""
    there = {names[one] if isinstance(one, int) else one for one in kept}
    gone = [name for name in names if name not in there]
    what = "image that does not decode" if len(gone) == 1 else "images that do not decode"
    return [f"{len(gone):,} {what} ({listed(gone)})"] if gone else []


def measure(
    sources: Sequence[Path | bytes],
    names: Sequence[str],
    image_size: Size | None,
    skip_broken: bool,
    encoder: str | None = None,
) -> dict[str, Any]:
    """Size and channels that suit images best, and the encoder that is to see them, as the part of a recipe."""
    seen, _ = _each(_look, sources, names, skip_broken)
    channels = 1 if all(grey for _, grey in seen) else 3
    (height, width), _ = Counter(size for size, _ in seen).most_common(1)[0]
    named = picture_encoder(encoder, height, width, channels)
    shrink = min(1.0, (LONGEST_SIDE if named is None else LONGEST_ENCODED) / max(height, width))
    size = [max(1, round(height * shrink)), max(1, round(width * shrink))]
    if image_size is not None:
        size = sides(image_size)
    found = {"kind": "image", "size": size, "channels": channels}
    return found if named is None else {**found, "encoder": {"name": named}}


def sides(image_size: Size) -> list[int]:
    """Height and width of an image size."""
    size = [image_size, image_size] if isinstance(image_size, int) else list(image_size)
    if len(size) != 2 or min(size) < 1:
        raise HoldfastError(f"an image size is a positive side or (height, width), not {image_size}")
    return size


class Pictures(OnDisk):
    """Images that are decoded when they are asked for, so that memory holds a batch and never all.

    Parameters
    ----------
    sources: files, or the bytes of such.
    recipe: size and channels, as ``decode`` takes them.
    digest: of what tells these images from others; empty where nothing does.
    kept: where their pixels are kept once they have been decoded; None: nowhere.

    Shapes
    ------
    Item i is (C, H, W) bytes.
    """

    def __init__(
        self,
        sources: Sequence[Path | bytes],
        recipe: Mapping[str, Any],
        digest: bytes = b"",
        kept: KeptPixels | None = None,
    ) -> None:
        super().__init__(len(sources), digest)
        self._sources, self.recipe, self._kept = sources, dict(recipe), kept

    @property
    def sources(self) -> Sequence[Path | bytes]:
        return self._sources if self.index is None else [self._sources[i] for i in self.index.tolist()]

    def __getitem__(self, i: int) -> Tensor:
        return self.__getitems__([i])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Tensor]:
        """What a loader asks for: several at once, decoded side by side."""
        places = [self.place(row) for row in rows]
        found = [None if self._kept is None else self._kept.get(place) for place in places]
        gone = [k for k, pixels in enumerate(found) if pixels is None]
        if gone:
            sources = [self._sources[places[k]] for k in gone]
            names = [
                str(source) if isinstance(source, Path) else f"image {places[k]}"
                for k, source in zip(gone, sources, strict=True)
            ]
            decoded, _ = _each(lambda source: _pixels(source, self.recipe), sources, names, skip_broken=False)
            for k, pixels in zip(gone, decoded, strict=True):
                found[k] = pixels
                if self._kept is not None:
                    self._kept.put(places[k], pixels)
        return [torch.from_numpy(pixels) for pixels in found if pixels is not None]


def folder_pictures(
    files: Files, recipe: Mapping[str, Any], skip_broken: bool, on_disk: bool | None = None
) -> tuple[Tensor | Pictures, list[int] | None]:
    """Images of a folder, in memory where they are few, and the places of those that are whole; None: all of them.

    Parameters
    ----------
    on_disk: leave them there; by default where they are many.
    """
    shape = (recipe["channels"], *recipe["size"])
    large = len(files) * int(np.prod(shape)) > SMALL if on_disk is None else on_disk
    if "encoder" in recipe or not large:
        return pictures(files, [str(file) for file in files], recipe, skip_broken)
    digest, changed = files.digests()
    key = hashlib.sha256(f"{files.folder.absolute()} {shape} {recipe.get('crop', False)}".encode() + changed)
    kept = KeptPixels(cache_folder() / "pixels" / key.hexdigest()[:32], len(files), shape)
    x = Pictures(files, recipe, digest, kept if kept.fits else None)
    if not skip_broken:
        return x, None
    good = whole(files, recipe)
    return (x, None) if len(good) == len(files) else (x.take(torch.tensor(good)), good)


def whole(sources: Sequence[Path | bytes], recipe: Mapping[str, Any]) -> list[int]:
    """The places of the images that can be decoded; each is decoded once and forgotten."""
    names = [str(source) if isinstance(source, Path) else f"image {i}" for i, source in enumerate(sources)]
    return _each(lambda source: bool(_pixels(source, recipe).size), sources, names, skip_broken=True)[1]


def pictures(
    sources: Sequence[Path | bytes], names: Sequence[str], recipe: Mapping[str, Any], skip_broken: bool
) -> tuple[Tensor | Pictures, list[int]]:
    """Images in memory, or where an encoder is to see them as they lie, and the places of those that are whole."""
    if "encoder" not in recipe:
        return decode(sources, names, recipe, skip_broken)
    kept = whole(sources, recipe) if skip_broken else list(range(len(sources)))
    return Pictures([sources[i] for i in kept], recipe), kept


def decode(
    sources: Sequence[Path | bytes], names: Sequence[str], recipe: Mapping[str, Any], skip_broken: bool
) -> tuple[Tensor, list[int]]:
    """Images as (N, C, H, W) bytes, and the places in `sources` of those that could be decoded."""
    pixels, kept = _each(lambda source: _pixels(source, recipe), sources, names, skip_broken)
    return torch.from_numpy(np.stack(pixels)), kept


def _each(
    work: Callable[[Path | bytes], T],
    sources: Sequence[Path | bytes],
    names: Sequence[str],
    skip_broken: bool,
) -> tuple[list[T], list[int]]:
    """The work done on each image in parallel, in order, and the places of those on which it succeeded."""

    def attempt(source: Path | bytes) -> tuple[T | None, str]:
        try:
            return work(source), ""
        # Damaged bytes make the decoders raise nearly anything.
        except Exception as error:
            return None, trouble(error)

    # Tiny images cost less than handing each to a thread would.
    batches = (range(i, min(i + _BATCH, len(sources))) for i in range(0, len(sources), _BATCH))
    results: list[T] = []
    kept: list[int] = []
    with warnings.catch_warnings(), ThreadPoolExecutor(_THREADS) as pool:
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        done = pool.map(lambda batch: [attempt(sources[i]) for i in batch], batches)
        for i, (result, problem) in enumerate(chain.from_iterable(done)):
            if result is not None:
                results.append(result)
                kept.append(i)
            elif not skip_broken:
                pool.shutdown(cancel_futures=True)
                raise HoldfastError(f"{names[i]} {problem}; mend it or pass --skip-broken")
    if not results:
        raise HoldfastError(f"none of the {len(sources)} images can be decoded (the first is {names[0]})")
    return results, kept


def trouble(error: Exception) -> str:
    """Why an image cannot be used, as the end of a sentence that its name begins."""
    if isinstance(error, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return "has too many pixels to be safe to decode"
    if isinstance(error, FileNotFoundError):
        return "is missing"
    if isinstance(error, UnidentifiedImageError):
        return "is no image of a known format"
    return f"cannot be decoded: {error}"


def open_image(source: Path | bytes) -> Image.Image:
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    return Image.open(file, formats=_FORMATS)


def size_of(source: Path | bytes) -> tuple[int, int]:
    """Height and width of an image as displayed."""
    return _look(source)[0]


def _look(source: Path | bytes) -> tuple[tuple[int, int], bool]:
    """Height and width as displayed, and whether the image is grey, from the head of the file alone."""
    with open_image(source) as image:
        turned = "exif" in image.info and image.getexif().get(0x0112, 1) >= 5
        size = (image.width, image.height) if turned else (image.height, image.width)
        return size, image.mode in _GREY or image.mode.startswith("I;16")


def _pixels(source: Path | bytes, recipe: Mapping[str, Any]) -> NDArray[np.uint8]:
    """An image as (C, height, width) bytes: stretched, or where the recipe says "crop" the middle of that shape."""
    (height, width), channels = recipe["size"], recipe["channels"]
    with open_image(source) as opened:
        # Lets JPEG decode at a fraction of its size, never below twice the size asked for.
        opened.draft(None, (2 * max(height, width),) * 2)
        turned = ImageOps.exif_transpose(opened) if "exif" in opened.info else opened
        image = _plain(turned).convert("L" if channels == 1 else "RGB")
    if recipe.get("crop"):
        image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    elif image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.array(image, dtype=np.uint8)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _plain(image: Image.Image) -> Image.Image:
    """An image in eight bits per channel and without a palette."""
    if image.mode == "P":
        return image.convert("RGBA")
    if image.mode == "I" or image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) // 256).clip(0, 255).astype(np.uint8))
    return image


def _found(folder: Path, train: Path, test: Path | None) -> str:
    """What a folder of images is, in plain words, and which of its parts are left alone."""
    if train == folder:
        return "folder of images"
    others = [sub.name for sub in folders.subfolders(folder) if sub not in (train, test)]
    parts = [f"rows of {train.name}/", *([] if test is None else [f"test rows of {test.name}/"])]
    return ", ".join(["folder of images", *parts, *([f"left out: {listed(others)}"] if others else [])])


def _recipe(
    folder: Path,
    train: Sequence[Found],
    image_size: Size | None,
    skip_broken: bool,
    encoder: str | None,
) -> dict[str, Any]:
    classes, _ = class_numbers({"the folder": pd.Series([label for _, label in train], dtype=object)})
    some = train
    if len(train) > LOOK_AT_ALL:
        some = [train[i] for i in np.linspace(0, len(train) - 1, LOOK_AT).astype(int).tolist()]
    files = Files(folder, [name for name, _ in some])
    seen = measure(files, [str(file) for file in files], image_size, skip_broken, encoder)
    return {**seen, "classes": list(classes)}


def _rows(
    folder: Path, found: Sequence[Found], recipe: Mapping[str, Any], skip_broken: bool, on_disk: bool | None
) -> Rows:
    labels = pd.Series([label for _, label in found], dtype=object)
    classes, numbers = class_numbers({str(folder): labels}, classes=recipe["classes"])
    names = tuple(name for name, _ in found)
    x, kept = folder_pictures(Files(folder, names), recipe, skip_broken, on_disk)
    y = numbers[str(folder)]
    if kept is None:
        return Rows(x, y, classes, names, recipe=recipe)
    place = torch.tensor(kept) if len(kept) < len(found) else None
    return Rows(x, y[kept], classes, tuple(names[i] for i in kept), recipe=recipe, place=place)

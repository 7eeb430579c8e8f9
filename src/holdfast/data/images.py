"""Images: decoded from files or bytes, at once or as batches need them."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from holdfast.data.folders import Places
from holdfast.data.on_disk import KeptPixels, OnDisk
from holdfast.data.summary import listed
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


class Some(Sequence[Path | bytes]):
    """Some of many sources, each asked for when it is."""

    def __init__(self, sources: Sequence[Path | bytes], index: Tensor) -> None:
        self._sources, self._index = sources, index

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, i: int) -> Path | bytes:  # type: ignore[override]
        return self._sources[int(self._index[i])]


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
        return self._sources if self.index is None else Some(self._sources, self.index)

    def __getitem__(self, i: int) -> Tensor:
        return self.__getitems__([i])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Tensor]:
        """What a loader asks for: several at once, decoded side by side."""
        places = [self.place(row) for row in rows]
        found = [None if self._kept is None else self._kept.get(place) for place in places]
        gone = [k for k, pixels in enumerate(found) if pixels is None]
        if gone:
            sources = [self._sources[places[k]] for k in gone]
            names = [_called(self._sources, places[k]) for k in gone]
            decoded, _ = _each(lambda source: _pixels(source, self.recipe), sources, names, skip_broken=False)
            for k, pixels in zip(gone, decoded, strict=True):
                found[k] = pixels
                if self._kept is not None:
                    self._kept.put(places[k], pixels)
        return [torch.from_numpy(pixels) for pixels in found if pixels is not None]


def folder_pictures(
    files: Places, recipe: Mapping[str, Any], skip_broken: bool, on_disk: bool | None = None
) -> tuple[Tensor | Pictures, list[int] | None]:
    """Images of a folder, in memory where they are few, and the places of those that are whole; None: all of them.

    Parameters
    ----------
    on_disk: leave them there; by default where they are many.
    """
    shape = (recipe["channels"], *recipe["size"])
    large = len(files) * int(np.prod(shape)) > SMALL if on_disk is None else on_disk
    if "encoder" in recipe or not large:
        return pictures(files, [files.called(i) for i in range(len(files))], recipe, skip_broken)
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
    names = [_called(sources, i) for i in range(len(sources))]
    return _each(lambda source: bool(_pixels(source, recipe).size), sources, names, skip_broken=True)[1]


def pictures(
    sources: Sequence[Path | bytes], names: Sequence[str], recipe: Mapping[str, Any], skip_broken: bool
) -> tuple[Tensor | Pictures, list[int]]:
    """Images in memory, or where an encoder is to see them as they lie, and the places of those that are whole."""
    if "encoder" not in recipe:
        return decode(sources, names, recipe, skip_broken)
    kept = whole(sources, recipe) if skip_broken else list(range(len(sources)))
    x = Pictures(sources, recipe)
    return (x if len(kept) == len(sources) else x.take(torch.tensor(kept))), kept


def decode(
    sources: Sequence[Path | bytes], names: Sequence[str], recipe: Mapping[str, Any], skip_broken: bool
) -> tuple[Tensor, list[int]]:
    """Images as (N, C, H, W) bytes, and the places in `sources` of those that could be decoded."""
    pixels, kept = _each(lambda source: _pixels(source, recipe), sources, names, skip_broken)
    return torch.from_numpy(np.stack(pixels)), kept


def _called(sources: Any, i: int) -> str:
    """What errors call a picture."""
    if hasattr(sources, "called"):
        return str(sources.called(i))
    return str(sources[i]) if isinstance(sources[i], Path) else f"image {i}"


def some_of(count: int) -> list[int]:
    """The places of the pictures whose sizes are looked at, of so many: all, or some spread over them."""
    if count <= LOOK_AT_ALL:
        return list(range(count))
    return [int(i) for i in np.linspace(0, count - 1, LOOK_AT)]


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
    if isinstance(file, Path) and not file.is_file() and file.exists():
        raise UnidentifiedImageError  # a pipe, which one would wait for, or a device
    return Image.open(file, formats=_FORMATS)


def size_of(source: Path | bytes) -> tuple[int, int]:
    """Height and width of an image as displayed."""
    return _look(source)[0]


def _look(source: Path | bytes) -> tuple[tuple[int, int], bool]:
    """Height and width as displayed, and whether the image is grey, from the head of the file alone."""
    with open_image(source) as image:
        size = (image.width, image.height) if _lies(image) else (image.height, image.width)
        return size, image.mode in _GREY or image.mode.startswith("I;16")


def _pixels(source: Path | bytes, recipe: Mapping[str, Any]) -> NDArray[np.uint8]:
    """An image as (C, height, width) bytes: stretched, or where the recipe says "crop" the middle of that shape."""
    (height, width), channels = recipe["size"], recipe["channels"]
    with open_image(source) as opened:
        opened.draft(None, _least(opened, height, width, "encoder" in recipe))
        turned = ImageOps.exif_transpose(opened) if "exif" in opened.info else opened
        image = _plain(turned).convert("L" if channels == 1 else "RGB")
    if recipe.get("crop"):
        image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    elif image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.array(image, dtype=np.uint8)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _least(opened: Image.Image, height: int, width: int, encoded: bool) -> tuple[int, int]:
    """Width and height below which JPEG must not be decoded, which it can be at a half, a quarter or an eighth.

    That is twice the size asked for; where a pre-trained network sees the picture, whose size is large, that size:
    to decode all of a photograph costs an eighth of what the network does.
    """
    if not encoded:
        return (2 * max(height, width),) * 2
    return (height, width) if _lies(opened) else (width, height)


def _lies(image: Image.Image) -> bool:
    """Whether an image is shown turned by a quarter."""
    return "exif" in image.info and bool(image.getexif().get(ExifTags.Base.Orientation, 1) >= 5)


def _plain(image: Image.Image) -> Image.Image:
    """An image in eight bits per channel and without a palette."""
    if image.mode == "P":
        return image.convert("RGBA")
    if image.mode == "I" or image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) // 256).clip(0, 255).astype(np.uint8))
    return image

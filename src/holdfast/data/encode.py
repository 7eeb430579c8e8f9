"""Texts and pictures as features of a pre-trained network, in the units in which a recipe has them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data import images
from holdfast.data.rows import Rows, as_rows
from holdfast.encoders.base import Encoder, ImageEncoder, TextEncoder
from holdfast.encoders.cache import Items, features, texts
from holdfast.encoders.named import encoder_named, picture_encoder, runs_code
from holdfast.encoders.tuned import PREFIX
from holdfast.errors import HoldfastError
from holdfast.nets import PROJECTED
from holdfast.progress import MakeProgress, silent

Block = NDArray[np.float32]
AS_NUMBERS = 10
"""Standardised numbers of a table that a block of features weighs as much as."""


def fit_block(values: Block) -> dict[str, Any]:
    """How features are centred and scaled: each around its mean, all by one factor, which keeps their proportions.

    Rows are about as long as ten numbers of a table, however many features there are. Shorter ones are learned too
    slowly from a few hundred rows, longer ones drown the words beside them: docs/encoders.md.
    """
    mean = values.mean(0, dtype=np.float64)
    spread = float(np.sqrt(values.var(0, dtype=np.float64).sum() / min(values.shape[1], AS_NUMBERS)))
    return {"mean": mean.tolist(), "scale": spread if spread > 0 else 1.0}


def scaled(values: Block, spec: Mapping[str, Any]) -> Block:
    """Features in the units of a recipe."""
    block: Block = ((values - np.asarray(spec["mean"], dtype=np.float32)) / np.float32(spec["scale"])).astype(
        np.float32
    )
    return block


def encoder_in(recipe: Mapping[str, Any]) -> str | None:
    """The name of the encoder that a recipe uses; None: none."""
    parts = [recipe, *recipe.get("columns", ())]
    return next((part["encoder"]["name"] for part in parts if "encoder" in part), None)


def code_of(recipe: Mapping[str, Any], net: str | None = None) -> list[str]:
    """Names of code of one's own that a recipe, or the name of a network or encoder, stands for.

    >>> code_of({"encoder": {"name": "mine:Encoder"}}, "cnn4"), code_of({}, "tune:mine:Encoder"), code_of({}, "mlp")
    (['mine:Encoder'], ['mine:Encoder'], [])
    """
    parts = [recipe, *recipe.get("columns", ())]
    names = [part["encoder"]["name"] for part in parts if "encoder" in part]
    names += [name for name in (recipe.get("tuned"), net) if name is not None]
    plain = [name.removeprefix(PREFIX).removesuffix(PROJECTED) for name in names]
    return [name for name in plain if runs_code(name)]


def fit_texts(names: Sequence[str], encoder: str, progress: MakeProgress = silent) -> dict[str, Any]:
    """The part of a recipe for a column of text."""
    reader = for_texts(encoder)
    found = features(reader, texts(names), progress)
    return {"name": reader.name, "size": found.shape[1], **fit_block(found)}


def encode_texts(names: Sequence[str], spec: Mapping[str, Any], progress: MakeProgress = silent) -> Block:
    """(N, size) features of texts by such a part."""
    return scaled(features(for_texts(spec["name"]), texts(names), progress), spec)


def for_texts(name: str) -> TextEncoder:
    """The encoder of a name, which must be one of texts."""
    encoder = encoder_named(name)
    if not isinstance(encoder, TextEncoder):
        raise HoldfastError(f"{name} encodes {encoder.unit}, and these rows have text")
    return encoder


def encode_pictures(
    rows: Rows, others: Rows | None, choice: str | None, progress: MakeProgress = silent
) -> tuple[Rows, Rows | None]:
    """Training rows, and perhaps test rows, of pictures as features; as they are where no encoder is chosen.

    Parameters
    ----------
    choice: the name of an encoder, "auto" or None; what the recipe of the rows says comes first.
    """
    recipe = dict(rows.recipe)
    if "encoder" not in recipe:
        wanted = None if choice == "auto" and rows.classes is None else choice
        name = picture_encoder(wanted, recipe["size"][0], recipe["size"][1], recipe["channels"])
        if name is None:
            return rows, others
        recipe["encoder"] = {"name": name}
    encoder = for_pictures(recipe["encoder"]["name"])
    if "mean" not in recipe["encoder"]:
        found = features(encoder, items(rows.x, recipe, encoder.side), progress)
        recipe["encoder"] = {"name": encoder.name, **fit_block(found)}
    made = [_encoded(each, encoder, recipe, progress) for each in (rows, others) if each is not None]
    return made[0], made[1] if others is not None else None


def encode_inputs(x: Any, recipe: Mapping[str, Any], progress: MakeProgress = silent) -> Tensor:
    """(N, size) features of further pictures."""
    encoder = for_pictures(recipe["encoder"]["name"])
    return torch.from_numpy(scaled(features(encoder, items(x, recipe, encoder.side), progress), recipe["encoder"]))


def encode_data(
    data: Rows | tuple[Any, Any], name: str, like: Rows | None = None, progress: MakeProgress = silent
) -> Rows:
    """Texts or pictures in memory, with their labels, as rows of features.

    Parameters
    ----------
    data: rows of pictures, or a pair of texts or pictures and labels.
    like: the training rows, where these are further ones.
    """
    x = data.x if isinstance(data, Rows) else data[0]
    if not is_raw(x):
        raise HoldfastError(f"{name} encodes texts or images (bytes), and these rows are neither")
    encoder = encoder_named(_named_for(x, name) if like is None else like.recipe["encoder"]["name"])
    given = _raw_items(x, encoder)
    found = features(encoder, given, progress)
    spec = {"name": encoder.name, **fit_block(found)} if like is None else like.recipe["encoder"]
    made, content = torch.from_numpy(scaled(found, spec)), contents(encoder, given.digests)
    if isinstance(data, Rows):
        return replace(data, x=made, content=content, recipe={**data.recipe, "encoder": spec})
    return replace(as_rows((made, data[1]), like), content=content, recipe={"encoder": spec})


def as_inputs(x: Any, recipe: Mapping[str, Any]) -> Tensor:
    """Inputs as a network takes them: texts and pictures by the encoder of a recipe, anything else as it is."""
    if "encoder" not in recipe or not is_raw(x):
        return torch.as_tensor(x)
    encoder = encoder_named(recipe["encoder"]["name"])
    return torch.from_numpy(scaled(features(encoder, _raw_items(x, encoder)), recipe["encoder"]))


def is_raw(x: Any) -> bool:
    """Whether inputs are texts or pictures, which an encoder can read."""
    if isinstance(x, (Tensor, np.ndarray)) and x.ndim == 4:
        return x.dtype in (torch.uint8, np.uint8)
    return isinstance(x, images.Pictures) or (not isinstance(x, Tensor) and len(x) > 0 and isinstance(x[0], str))


def _named_for(x: Any, name: str) -> str:
    if isinstance(x, (Tensor, np.ndarray)) and x.ndim == 4:
        return picture_encoder(name, x.shape[2], x.shape[3], x.shape[1]) or name
    return name


def _raw_items(x: Any, encoder: Encoder) -> Items:
    held = isinstance(x, (Tensor, images.Pictures)) or (isinstance(x, np.ndarray) and x.ndim == 4)
    if held != isinstance(encoder, ImageEncoder):
        raise HoldfastError(
            f"{encoder.name} encodes {encoder.unit}, and these rows are {'images' if held else 'texts'}"
        )
    if isinstance(x, images.Pictures):
        return items(x, x.recipe, encoder.side if isinstance(encoder, ImageEncoder) else None)
    return items(torch.as_tensor(x), {}) if held else texts([str(text) for text in x])


def for_pictures(name: str) -> ImageEncoder:
    encoder = encoder_named(name)
    if not isinstance(encoder, ImageEncoder):
        raise HoldfastError(f"{name} encodes {encoder.unit}, and these rows are images")
    return encoder


def _encoded(rows: Rows, encoder: ImageEncoder, recipe: dict[str, Any], progress: MakeProgress) -> Rows:
    given = items(rows.x, recipe, encoder.side)
    x = torch.from_numpy(scaled(features(encoder, given, progress), recipe["encoder"]))
    return replace(rows, x=x, recipe=recipe, content=contents(encoder, given.digests))


def contents(encoder: Encoder, digests: Sequence[bytes]) -> Tensor:
    """(N, 32) digests of what each row of features is made of, and by what."""
    whole = b"".join(hashlib.sha256(encoder.identity.encode() + each).digest() for each in digests)
    return torch.frombuffer(bytearray(whole), dtype=torch.uint8).reshape(-1, 32)


def items(x: Any, recipe: Mapping[str, Any], side: int | None = None) -> Items:
    """Pictures in memory or in files, as the cache takes them.

    Parameters
    ----------
    side: of the squares that an encoder makes of them: pictures in files that are larger become such at once, which
        spares it the work of doing so.
    """
    if isinstance(x, images.Pictures):
        if side is not None and max(recipe["size"]) > side and not recipe.get("crop", False):
            recipe = {**recipe, "size": [side, side]}
        # Pictures that are decoded in another way have other digests, so that features of both are not mixed.
        shape = f"{recipe['size']} {recipe['channels']} {recipe.get('crop', False)} reduced".encode()
        sources = x.sources
        digests = [hashlib.sha256(shape + _bytes(source)).digest() for source in sources]

        def load(rows: Sequence[int]) -> Tensor:
            some = [sources[i] for i in rows]
            named = zip(rows, some, strict=True)
            names = [str(source) if isinstance(source, Path) else f"image {i}" for i, source in named]
            return images.decode(some, names, recipe, False)[0]

        return Items(digests, [1] * len(digests), load)
    pixels = x.numpy()
    digests = [hashlib.sha256(str(image.shape).encode() + image.tobytes()).digest() for image in pixels]
    return Items(digests, [1] * len(digests), lambda rows: x[list(rows)])


def _bytes(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.read_bytes()

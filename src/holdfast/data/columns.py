"""Columns of a table as numbers a network can read: fitted once, then applied to any further rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.encode import contents, encode_texts, fit_block, fit_texts, scaled
from holdfast.data.labels import rows_text, to_names
from holdfast.data.notation import Notation, is_gap, notation_of, parsed
from holdfast.encoders.named import encoder_named
from holdfast.errors import HoldfastError
from holdfast.progress import MakeProgress, silent
from holdfast.registry import columns_near

MOST_CATEGORIES = 64
MOST_WORDS = 2048
TEXT_FROM_WORDS = 3.0
ID_FROM_SHARE = 0.9
ID_FROM_ROWS = 10

_INDEX_NAME = re.compile(r"unnamed: \d+|id|index|row", re.IGNORECASE)
NESTED = (list, tuple, np.ndarray, dict, set, bytes)
"""What is no number and no word."""
IGNORED = "as asked for"
CONSTANT = "the same in every row"
_WHAT = {True: "dates", False: "numbers"}
FitText = Callable[[list[str], list[str]], dict[str, Any] | str]
"""How a column of text is encoded: of the text of each row, and of each text once."""
_NUMBER_KINDS = {"decimal", "integer", "floating", "mixed-integer-float"}


def fit(
    frame: pd.DataFrame, encoder: str | None = None, progress: MakeProgress = silent, fewest: int = 2
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """How each column is encoded, as plain JSON values, and why the others are dropped.

    Parameters
    ----------
    encoder: of a pre-trained network that reads text besides its words; None: words alone.
    fewest: rows in which a word of a text must occur to be read.
    """
    fitted: list[dict[str, Any]] = []
    dropped: dict[str, str] = {}
    fit_text = partial(_fit_text, encoder=encoder, progress=progress, fewest=fewest)
    for name in frame.columns:
        spec = _fit_column(frame[name], str(name), fit_text)
        if isinstance(spec, str):
            dropped[str(name)] = spec
        else:
            fitted.append({"name": str(name), **spec})
    return fitted, dropped


def encode(
    frame: pd.DataFrame, fitted: Sequence[Mapping[str, Any]], progress: MakeProgress = silent
) -> NDArray[np.float32]:
    """The (N, D) features of a table by a fitted encoding; columns it does not name are left alone."""
    gone = [spec["name"] for spec in fitted if spec["name"] not in frame.columns]
    if gone:
        more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
        raise HoldfastError(f"the table lacks the column {gone[0]!r}{more}; {columns_near(gone[0], frame)}")
    encoders: dict[str, Callable[[pd.Series[Any], Mapping[str, Any]], NDArray[np.float32]]] = {
        "number": _encode_number,
        "category": _encode_category,
        "text": partial(_encode_text, progress=progress),
        "vector": _encode_vector,
    }
    blocks = [encoders[spec["as"]](frame[spec["name"]], spec) for spec in fitted]
    return np.concatenate(blocks, axis=1, dtype=np.float32)


def content(frame: pd.DataFrame, fitted: Sequence[Mapping[str, Any]]) -> Tensor | None:
    """(N, 32) digests of what each row holds, where a pre-trained network reads some of it; None where none does."""
    named = [spec["encoder"]["name"] for spec in fitted if "encoder" in spec]
    if not named:
        return None
    columns = [frame[spec["name"]].map(_bytes) for spec in fitted]
    return contents(encoder_named(named[0]), [b"\x1f".join(values) for values in zip(*columns, strict=True)])


def _bytes(value: object) -> bytes:
    """A value of a table, whole: the text of a long array would leave out its middle."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return str(value).encode("utf-8", "surrogatepass")


def _fit_column(values: pd.Series[Any], name: str, fit_text: FitText) -> dict[str, Any] | str:
    if values.isna().all():
        return "no value in any row"
    if _is_numeric(values):
        return _fit_number(values, name)
    held = values.dropna()
    first = held.iloc[0]
    nested = _are_nested(held)
    if nested.any() and not nested.all():
        return "it mixes lists or objects with other values"
    if isinstance(first, list | tuple | np.ndarray):
        if held.map(_holds_words).any():
            return "it holds lists of something else than numbers"
        vectors = _vectors(values, name, len(first))
        return {"as": "vector", "size": vectors.shape[1], **fit_block(vectors)}
    if isinstance(first, dict | set | bytes):
        return f"it holds {type(first).__name__} values, and not numbers, words or text"
    written = notation_of(values)
    if written is None:
        return _fit_words(values, fit_text)
    spec = _fit_number(values, name, written)
    return spec if isinstance(spec, str) else {**spec, "written": written}


def _holds_words(value: Any) -> bool:
    """Whether a list holds anything but numbers; an array of numbers is not gone through."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return False
    return any(isinstance(item, str | dict | list) for item in value)


def _are_nested(values: pd.Series[Any]) -> NDArray[np.bool_]:
    if not pd.api.types.is_object_dtype(values):
        return np.zeros(len(values), dtype=bool)
    return values.map(lambda value: isinstance(value, NESTED)).to_numpy(dtype=bool)


def _vectors(values: pd.Series[Any], name: str, size: int) -> NDArray[np.float32]:
    """A column of lists, all of one length, as an array."""
    gaps = values.index[np.flatnonzero(values.isna().to_numpy(dtype=bool))]
    if len(gaps):
        raise HoldfastError(f"column {name!r} holds lists, but none in {rows_text(gaps)}")
    lengths = values.map(len).to_numpy()
    other = values.index[np.flatnonzero(lengths != size)]
    if len(other):
        raise HoldfastError(f"column {name!r} holds lists of {size} values, but not in {rows_text(other)}")
    try:
        found = np.stack([np.asarray(value, dtype=np.float32) for value in values])
    except (ValueError, TypeError):
        raise HoldfastError(f"column {name!r} holds lists of something else than numbers") from None
    if found.ndim != 2 or not size:
        raise HoldfastError(f"column {name!r} holds lists of shape {found.shape[1:]}; features are flat")
    endless = values.index[np.flatnonzero(~np.isfinite(found).all(1))]
    if len(endless):
        raise HoldfastError(f"column {name!r} holds NaN or infinite values in {rows_text(endless)}")
    return found


def _encode_vector(values: pd.Series[Any], spec: Mapping[str, Any]) -> NDArray[np.float32]:
    held = values.dropna()
    if len(held) and not isinstance(held.iloc[0], list | tuple | np.ndarray):
        raise HoldfastError(f"column {spec['name']!r} held lists in the training data, but holds {held.iloc[0]!r} here")
    return scaled(_vectors(values, spec["name"], spec["size"]), spec)


def _is_numeric(values: pd.Series[Any]) -> bool:
    types = pd.api.types
    if types.is_bool_dtype(values):
        return False
    if types.is_numeric_dtype(values) or types.is_datetime64_any_dtype(values):
        return True
    if types.is_timedelta64_dtype(values):
        return True
    kind = types.infer_dtype(values, skipna=True)
    return kind in _NUMBER_KINDS or kind in {"date", "datetime"}


def _numbers(values: pd.Series[Any], name: str, written: Notation | None = None) -> NDArray[np.float64]:
    """A column as floats, NaN where missing; dates count seconds since 1970, those in words days."""
    missing = values.isna().to_numpy(dtype=bool)
    if written is None and not _is_numeric(values):
        written = notation_of(values)  # as 1,200 may be where the training data stayed below a thousand
        written = None if written is not None and "date" in written else written
    if written is not None and not pd.api.types.is_numeric_dtype(values):
        parsed_values: Any = parsed(values, written)
        missing = is_gap(values)
    elif pd.api.types.infer_dtype(values, skipna=True) in {"date", "datetime", "datetime64"}:
        parsed_values = _seconds(values)
    elif pd.api.types.is_timedelta64_dtype(values):
        parsed_values = _plain(values.dt.total_seconds())
    else:
        try:
            parsed_values = _plain(pd.to_numeric(values, errors="coerce"))
        except OverflowError:
            raise HoldfastError(f"column {name!r} holds numbers beyond all bounds") from None
    numbers: NDArray[np.float64] = parsed_values
    wrong = values[np.isnan(numbers) & ~missing]
    if len(wrong):
        raise HoldfastError(
            f"column {name!r} held {_WHAT[written is not None and 'date' in written]} in the training data but not in "
            f"{rows_text(wrong.index)} here "
            f"(row {wrong.index[0]}: {wrong.iloc[0]!r})"
        )
    endless = values.index[np.isinf(numbers)]
    if len(endless):
        raise HoldfastError(f"column {name!r} is infinite in {rows_text(endless)}; fill these in or drop those rows")
    return numbers


def _seconds(values: pd.Series[Any]) -> NDArray[np.float64]:
    """Seconds since 1970 of dates, NaN where there is none; of any year that a calendar has."""
    try:
        return _plain((pd.to_datetime(values, utc=True) - pd.Timestamp(0, tz="UTC")).dt.total_seconds())
    except (pd.errors.OutOfBoundsDatetime, OverflowError):
        # Nanoseconds do not reach back to the Romans.
        whole = [None if missing else value for value, missing in zip(values, values.isna(), strict=True)]
        moments = [np.datetime64("NaT", "s") if v is None else np.datetime64(v.isoformat()[:19], "s") for v in whole]
        counted = np.array(moments, dtype="datetime64[s]")
        return np.where(np.isnat(counted), np.nan, counted.astype(np.int64).astype(np.float64))


def _plain(values: Any) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = values.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers


def _fit_number(values: pd.Series[Any], name: str, written: Notation | None = None) -> dict[str, Any] | str:
    numbers = _numbers(values, name, written)
    known = numbers[~np.isnan(numbers)]
    steps = np.diff(numbers)
    if _INDEX_NAME.fullmatch(name) and len(numbers) >= ID_FROM_ROWS and bool((steps == 1).all()):
        return "it counts the rows"
    if len(numbers) > 1 and len(known) == len(numbers) and bool((known == known[0]).all()):
        return CONSTANT
    median = float(np.median(known))
    filled = np.where(np.isnan(numbers), median, numbers)
    constant = bool(known.min() == known.max())
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = float(filled.mean()), float(filled.std())
    if not np.isfinite([mean, scale]).all():
        raise HoldfastError(f"column {name!r} spans too wide a range (up to {np.abs(known).max():g})")
    return {
        "as": "number",
        "median": median,
        "mean": median if constant else mean,
        "scale": 0.0 if constant else scale,
        "gaps": len(known) < len(numbers),
    }


def _encode_number(values: pd.Series[Any], spec: Mapping[str, Any]) -> NDArray[np.float32]:
    numbers = _numbers(values, spec["name"], spec.get("written"))
    gaps = np.isnan(numbers)
    filled = np.where(gaps, spec["median"], numbers)
    # A column that was constant says nothing, whatever it holds now.
    with np.errstate(over="ignore"):
        scaled = (filled - spec["mean"]) / spec["scale"] if spec["scale"] else np.zeros_like(filled)
        block = np.stack([scaled, gaps] if spec["gaps"] else [scaled], axis=1).astype(np.float32)
    wild = np.flatnonzero(~np.isfinite(block[:, 0]))
    if len(wild):
        raise HoldfastError(f"column {spec['name']!r} is beyond all bounds in {rows_text(values.index[wild])}")
    return block


def _fit_words(values: pd.Series[Any], fit_text: FitText) -> dict[str, Any] | str:
    codes, names = to_names(values)
    known = codes[codes >= 0]
    if len(known) == len(codes) > len(names) == 1:
        return CONSTANT
    share = len(names) / len(known)
    words = float(np.array([len(name.split()) for name in names])[known].mean())
    if words >= TEXT_FROM_WORDS and (len(names) > MOST_CATEGORIES or share > 0.5):
        return fit_text([names[code] for code in known], names)
    if share > ID_FROM_SHARE and len(known) >= ID_FROM_ROWS:
        return "almost every row has its own value"
    counts = np.bincount(known, minlength=len(names))
    common = sorted(range(len(names)), key=lambda i: (-counts[i], names[i]))
    capped = len(names) > MOST_CATEGORIES
    kept = common[: MOST_CATEGORIES - 1] if capped else common
    return {
        "as": "category",
        "values": sorted(names[i] for i in kept),
        "other": capped,
        "missing": len(known) < len(codes),
    }


def _encode_category(values: pd.Series[Any], spec: Mapping[str, Any]) -> NDArray[np.float32]:
    """One-hot; an unlisted value is 'other' where training had such, else all zero."""
    codes, names = to_names(values)
    width = len(spec["values"])
    place = {name: i for i, name in enumerate(spec["values"])}
    elsewhere = width if spec["other"] else -1
    absent = width + int(spec["other"]) if spec["missing"] else -1
    column = np.array([*(place.get(name, elsewhere) for name in names), absent])[codes]
    block = np.zeros((len(codes), width + int(spec["other"]) + int(spec["missing"])), dtype=np.float32)
    hit = column >= 0
    block[np.flatnonzero(hit), column[hit]] = 1
    return block


def _fit_text(
    texts: list[str], distinct: list[str], *, encoder: str | None, progress: MakeProgress, fewest: int
) -> dict[str, Any] | str:
    counter = _vectorizer(min_df=fewest, max_features=MOST_WORDS)
    try:
        counter.fit(texts)
        words, idf = counter.get_feature_names_out().tolist(), counter.idf_.astype(float).tolist()
    except ValueError:
        if encoder is None:
            return "text in which no word occurs in two rows"
        words, idf = [], []
    spec = {"as": "text", "words": words, "idf": idf}
    return spec if encoder is None else {**spec, "encoder": fit_texts(distinct, encoder, progress)}


def _encode_text(
    values: pd.Series[Any], spec: Mapping[str, Any], progress: MakeProgress = silent
) -> NDArray[np.float32]:
    codes, names = to_names(values)
    blocks = []
    if spec["words"]:
        counter = _vectorizer(vocabulary=spec["words"])
        counter.idf_ = np.asarray(spec["idf"], dtype=np.float32)
        blocks.append(counter.transform(np.array([*names, ""], dtype=object)[codes]).toarray())
    if "encoder" in spec:
        # The last row answers for -1, the code of a missing text: the mean of all, which says nothing.
        block = np.zeros((len(names) + 1, spec["encoder"]["size"]), dtype=np.float32)
        if names:
            block[:-1] = encode_texts(names, spec["encoder"], progress)
        blocks.append(block[codes])
    return np.concatenate(blocks, axis=1, dtype=np.float32)


def _vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to import, and only text needs it

    return TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **options)

"""Text files as text and back to the same bytes."""

from __future__ import annotations

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from dataclasses import dataclass

from holdfast.errors import HoldfastError

_MARKED = (
    ("utf-8-sig", BOM_UTF8, "utf-8"),
    ("utf-16", BOM_UTF16_LE, "utf-16-le"),
    ("utf-16", BOM_UTF16_BE, "utf-16-be"),
)
"""Encodings that are announced by a mark: its bytes, and the codec of what follows."""


@dataclass(frozen=True)
class Text:
    """A text apart from the mark that it begins with."""

    mark: bytes
    body: str
    codec: str

    @classmethod
    def decoded(cls, data: bytes, encoding: str) -> Text:
        found = ((mark, codec) for name, mark, codec in _MARKED if name == encoding and data.startswith(mark))
        mark, codec = next(found, (b"", encoding))
        text = cls(mark, data[len(mark) :].decode(codec), codec)
        if text.encoded(text.body) != data:
            raise HoldfastError(f"the file cannot be written as it is in {encoding}; save it as UTF-8 and train again")
        return text

    def encoded(self, body: str) -> bytes:
        return self.mark + body.encode(self.codec)

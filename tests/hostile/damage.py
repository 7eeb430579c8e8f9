"""Valid files and requests made wrong: by their bytes, inside of what they are packed in, and by their structure."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
import zlib
from random import Random
from typing import Any

TOKENS = (
    b"\0",
    b"\xff" * 8,
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x80\0\0\0",
    b"-1",
    b"0",
    b"9" * 400,
    b"NaN",
    b"1e999",
    b"-inf",
    b'"',
    b"'",
    b"\n",
    b"\r\n",
    b",",
    b";",
    b"\t",
    b"[",
    b"]",
    b"{",
    b"}",
    b"null",
    b"true",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"[/red]",
    b"=1+1",
    b"../../etc/passwd",
    b"<script>",
    b"%00",
    b"\\u0000",
    b"9999-12-31",
    b"0001-01-01",
    b"99999999999999999999",
    b"a" * 3000,
    b"7" * 5000,
)
"""What parsers stumble over."""
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    10**6,
    2**31,
    2**63,
    -(2**63),
    10**400,
    0.5,
    -0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "a",
    "label",
    "0",
    "-1",
    "nan",
    "\0",
    "\ud800",
    "[/red]",
    "../..",
    "/etc/passwd",
    "os:system",
    "a" * 5000,
    [],
    {},
    [[]],
    [None],
    [0],
    [[[[[[]]]]]],
    {"": ""},
    {"name": "evil", "settings": {}},
)
"""What stands in the place of another value."""
DEEP = 3000
"""Brackets within brackets, more than a recursion bears."""


def damaged(content: bytes, draw: Random) -> bytes:
    """Bytes that were valid, after one to four changes."""
    for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 4))):
        content = draw.choice((_bytes, _bytes, _unpacked, _structure))(content, draw)
    return content


def _bytes(content: bytes, draw: Random) -> bytes:
    data, size = bytearray(content), len(content)
    at = draw.randrange(size + 1)
    end = min(size, at + draw.choice((1, 1, 2, 4, 8, 64, 1000)))
    how = draw.randrange(8)
    if how == 0 and at < size:
        data[at] ^= 1 << draw.randrange(8)
    elif how == 1:
        data[at:end] = draw.randbytes(end - at)
    elif how == 2:
        del data[at:end]
    elif how == 3:
        data[at:at] = data[at:end] * draw.choice((1, 1, 2, 50))
    elif how == 4:
        data[at:at] = draw.choice(TOKENS)
    elif how == 5:
        token = draw.choice(TOKENS)
        data[at : at + len(token)] = token
    elif how == 6:
        del data[at:]
    else:
        data[at:end] = bytes(end - at)
    return bytes(data)


def _unpacked(content: bytes, draw: Random) -> bytes:
    """Damage inside of a packed file, so that its sums of digits are right."""
    try:
        if content.startswith(b"\x1f\x8b"):
            return gzip.compress(_bytes(gzip.decompress(content), draw), 1)
        if content.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = {name: archive.read(name) for name in archive.namelist()}
            name = draw.choice(list(members))
            members[name] = _bytes(members[name], draw)
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w") as archive:
                for each, data in members.items():
                    archive.writestr(each, data)
            return out.getvalue()
    except (
        OSError,
        ValueError,
        EOFError,
        KeyError,
        IndexError,
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
        RuntimeError,
    ):
        pass  # a change before has broken the packing itself
    return _bytes(content, draw)


def _structure(content: bytes, draw: Random) -> bytes:
    """JSON, or the JSON head of safetensors, with a value changed, gone, twice or nested too deeply."""
    head, body = content, b""
    safetensors = content[8:9] == b"{"
    if safetensors:
        length = int.from_bytes(content[:8], "little")
        head, body = content[8 : 8 + length], content[8 + length :]
    try:
        tree = json.loads(head)
    except (ValueError, RecursionError):
        return _bytes(content, draw)
    if draw.randrange(40) == 0:
        text = json.dumps(tree).encode().replace(b"null", b"[" * DEEP + b"]" * DEEP, 1)
    else:
        text = json.dumps(altered(tree, draw)).encode()
    return len(text).to_bytes(8, "little") + text + body if safetensors else text


def altered(tree: Any, draw: Random) -> Any:
    """A tree of JSON with one place changed."""
    if not isinstance(tree, list | dict) or not tree or draw.randrange(6) == 0:
        return draw.choice(VALUES)
    key = draw.choice(list(tree)) if isinstance(tree, dict) else draw.randrange(len(tree))
    how = draw.randrange(8)
    made = dict(tree) if isinstance(tree, dict) else list(tree)
    if how == 0:
        del made[key]
    elif how == 1 and isinstance(made, list):
        made.insert(key, made[key])
    elif how == 1 and isinstance(made, dict):
        made[str(draw.choice(VALUES))] = made[key]
    elif how == 2:
        made[key] = draw.choice(VALUES)
    else:
        made[key] = altered(tree[key], draw)
    return made

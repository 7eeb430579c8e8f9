"""Plain values and whole-number arrays out of a pickle, read as data: nothing that it names is looked up or called.

A pickle is a program for a machine with a stack. This one knows the few instructions that write dicts, lists, tuples,
numbers, texts and arrays. Names of functions stay names; the only ones it understands are those that NumPy writes for
an array, and arrays are built here, from bytes of the size that their shape asks for.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import HoldfastError

INTEGERS = frozenset("biu")
"""Kinds of arrays that are read: truth values and whole numbers."""
LARGEST = 2**31
"""Bytes of an array, or of any other value; a batch of CIFAR-10 has thirty million."""


class Name(NamedTuple):
    """A function or class that the pickle asks for."""

    module: str
    name: str


class Kind(NamedTuple):
    """A type of numbers, such as u1."""

    text: str


class Unbuilt:
    """An array whose shape and bytes are not known yet."""

    def __init__(self) -> None:
        self.made: NDArray[Any] | None = None


_MARK = object()
_PLAIN = frozenset(
    [
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    ]
)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def plain_values(content: bytes) -> Any:
    """The value that a pickle of plain values and arrays writes down.

    >>> import pickle
    >>> plain_values(pickle.dumps({"labels": [1, 2], "data": np.arange(3, dtype=np.uint8)}))
    {'labels': [1, 2], 'data': array([0, 1, 2], dtype=uint8)}
    """
    machine = _Machine()
    try:
        for operation, argument, _ in pickletools.genops(content):
            if operation.name == "STOP":
                return machine.end()
            machine.run(operation.name, argument)
    except HoldfastError:
        raise
    # Damaged bytes are instructions too, and may fail in any way.
    except Exception as error:
        raise HoldfastError(f"is empty, cut short or damaged ({error})") from None
    raise HoldfastError("is cut short")


class _Machine:
    """The stack, what was set aside for later, and what each instruction does."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def end(self) -> Any:
        if len(self.stack) != 1:
            raise HoldfastError("is damaged (it ends in the middle of a value)")
        return _built(self.stack[0])

    def run(self, name: str, argument: Any) -> None:
        if name in ("PROTO", "FRAME"):
            return
        if name in _PLAIN:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self.stack.append(_EMPTY[name]())
        elif name == "MARK":
            self.stack.append(_MARK)
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[argument] = self.stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            self.stack.append(self.memo[argument])
        elif name == "GLOBAL":
            self.stack.append(Name(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            module, attribute = self._pop(2)
            self.stack.append(Name(str(module), str(attribute)))
        elif name in _TUPLES:
            self.stack.append(tuple(self._pop(_TUPLES[name])))
        elif name in _STEPS:
            _STEPS[name](self)
        else:
            raise HoldfastError(f"is a pickle with the instruction {name}, which plain arrays do not have")

    def _pop(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise HoldfastError("is damaged (a value is missing)")
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        if any(value is _MARK for value in taken):
            raise HoldfastError("is damaged (a value is missing)")
        return taken

    def _to_mark(self) -> list[Any]:
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                taken = self.stack[place + 1 :]
                del self.stack[place:]
                return taken
        raise HoldfastError("is damaged (a value is missing)")

    def tuple_(self) -> None:
        self.stack.append(tuple(self._to_mark()))

    def list_(self) -> None:
        self.stack.append([_built(value) for value in self._to_mark()])

    def dict_(self) -> None:
        self.stack.append(_pairs(self._to_mark()))

    def append(self) -> None:
        (value,) = self._pop(1)
        self._top(list).append(_built(value))

    def appends(self) -> None:
        values = self._to_mark()
        self._top(list).extend(map(_built, values))

    def set_item(self) -> None:
        pair = self._pop(2)
        self._top(dict).update(_pairs(pair))

    def set_items(self) -> None:
        values = self._to_mark()
        self._top(dict).update(_pairs(values))

    def reduce(self) -> None:
        called, given = self._pop(2)
        self.stack.append(_called(called, given))

    def build(self) -> None:
        (state,) = self._pop(1)
        top = self._top((Unbuilt, Kind))
        if isinstance(top, Unbuilt):
            top.made = _array(state)
        # The state of a kind has nothing that whole numbers need: those of one byte order are told by their name.
        elif not (isinstance(state, tuple) and len(state) > 1 and state[1] in ("|", b"|", "<", b"<")):
            raise HoldfastError("holds numbers in an unusual byte order")

    def _top(self, kind: Any) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise HoldfastError("is damaged (a value is of the wrong kind)")
        return self.stack[-1]


_STEPS: dict[str, Callable[[_Machine], None]] = {
    "TUPLE": _Machine.tuple_, "LIST": _Machine.list_, "DICT": _Machine.dict_, "APPEND": _Machine.append,
    "APPENDS": _Machine.appends, "SETITEM": _Machine.set_item, "SETITEMS": _Machine.set_items,
    "REDUCE": _Machine.reduce, "BUILD": _Machine.build,
}  # fmt: skip


def _pairs(values: list[Any]) -> dict[Any, Any]:
    keys = values[::2]
    if len(values) % 2 or not all(isinstance(key, str | bytes | int) for key in keys):
        raise HoldfastError("is damaged (a key is of the wrong kind)")
    return dict(zip(keys, map(_built, values[1::2]), strict=True))


def _called(called: Any, given: Any) -> Any:
    """What a call would make, for the few that are known."""
    if not isinstance(called, Name) or not isinstance(given, tuple):
        raise HoldfastError("is damaged (a call of nothing)")
    core = called.module in ("numpy.core.multiarray", "numpy._core.multiarray")
    if core and called.name == "_reconstruct":
        return Unbuilt()
    if called == Name("numpy", "dtype") and given and isinstance(given[0], str | bytes):
        return Kind(_text(given[0]))
    if core and called.name == "scalar" and len(given) == 2:
        return _array((1, (), given[0], False, given[1])).item()
    if called.module.endswith("core.numeric") and called.name == "_frombuffer" and len(given) == 4:
        return _array((1, given[2], given[1], given[3] == "F", given[0]))
    if called == Name("_codecs", "encode") and len(given) == 2 and _text(given[1]) in ("latin1", "latin-1"):
        return _latin1(given[0])
    raise HoldfastError(f"is a pickle that asks for {called.module}.{called.name}, which was not run")


def _array(state: Any) -> NDArray[Any]:
    """An array from what NumPy writes of one: version, shape, kind, order of the axes, bytes."""
    if not (isinstance(state, tuple) and len(state) == 5 and isinstance(state[2], Kind)):
        raise HoldfastError("is damaged (an array without shape or kind)")
    _, shape, kind, by_column, content = state
    # The kind comes from a text of our own choosing and never from the file's state of one.
    if not (len(kind.text) == 2 and kind.text[0] in INTEGERS and kind.text[1] in "1248"):
        raise HoldfastError(f"holds an array of {kind.text}, and not of whole numbers")
    if not isinstance(shape, tuple) or not all(type(size) is int and 0 <= size <= LARGEST for size in shape):
        raise HoldfastError("is damaged (the shape of an array)")
    content = _latin1(content) if isinstance(content, str) else content
    number = np.dtype(kind.text).newbyteorder("<")
    if not isinstance(content, bytes | bytearray) or len(content) != math.prod(shape) * number.itemsize:
        raise HoldfastError("is damaged (the bytes of an array are not those of its shape)")
    flat = np.frombuffer(content, dtype=number)
    return flat.reshape(shape, order="F" if by_column is True else "C").copy()


def _built(value: Any) -> Any:
    """A value that is whole, or an error."""
    if isinstance(value, Unbuilt):
        if value.made is None:
            raise HoldfastError("is damaged (an array without content)")
        return value.made
    if isinstance(value, Name):
        raise HoldfastError(f"is a pickle that asks for {value.module}.{value.name}, which was not run")
    if isinstance(value, Kind) or value is _MARK:
        raise HoldfastError("is damaged (a value is of the wrong kind)")
    return value


def _text(value: str | bytes) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _latin1(text: Any) -> bytes:
    if not isinstance(text, str):
        raise HoldfastError("is damaged (a text is of the wrong kind)")
    return text.encode("latin1")

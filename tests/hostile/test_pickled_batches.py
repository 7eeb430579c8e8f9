"""Damaged and hostile pickles of arrays: a value or a sentence, and never an instruction that is run."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from holdfast.data.opcodes import plain_values
from holdfast.errors import HoldfastError

BATCH = {b"data": np.arange(6144, dtype=np.uint8).reshape(2, 3072), b"labels": [np.int64(3), 4]}
DAMAGE = """
import pickle, sys
import numpy as np
from holdfast.data.opcodes import plain_values
from holdfast.errors import HoldfastError

draw, ended = np.random.default_rng(int(sys.argv[1])), 0
for protocol in range(6):
    whole = pickle.dumps({b"data": np.arange(64, dtype=np.uint8).reshape(2, 32), b"labels": [np.int64(3), 4]}, protocol)
    for _ in range(1500):
        changed = bytearray(whole)
        for _ in range(int(draw.integers(1, 4))):
            place, how = int(draw.integers(len(changed))), int(draw.integers(3))
            if how == 0:
                del changed[place : place + int(draw.integers(1, 4))]
            else:
                changed[place : place + how - 1] = bytes([int(draw.integers(256))])
        try:
            plain_values(bytes(changed))
        except HoldfastError:
            pass
        ended += 1
print(ended)
"""


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_come_back_as_they_were(protocol: int) -> None:
    found = plain_values(pickle.dumps(BATCH, protocol))
    assert np.array_equal(found[b"data"], BATCH[b"data"])
    assert found[b"labels"] == [3, 4]
    turned = np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert np.array_equal(plain_values(pickle.dumps(turned, protocol)), turned)


@pytest.mark.slow
def test_damaged_bytes_are_a_sentence_and_never_a_crash() -> None:
    """In a process of its own: two bytes less once ended it with a segmentation fault."""
    done = subprocess.run([sys.executable, "-c", DAMAGE, "0"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "9000"), done.stderr[-500:]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (pickle.dumps(np.array([Path]), 2), "which was not run|array of O8"),
        (pickle.dumps(np.zeros(3), 2), "array of f8"),
        (pickle.dumps(np.arange(3, dtype=">i4"), 2), "byte order"),
        (pickle.dumps(slice(3), 2), "builtins.slice|__builtin__"),
        (
            pickle.dumps(np.arange(3, dtype=np.uint8), 2).replace(b"K\x03\x85", b"K\x04\x85", 1),
            "not those of its shape",
        ),
        (b"\x80\x02}(X\x01\x00\x00\x00aU\x01", "cut short or damaged"),
        (b"\x80\x02(.", "wrong kind"),
        (b"\x80\x02b.", "value is missing"),
        (b"\x80\x02}]s.", "value is missing|wrong kind"),
        (b"", "is empty"),
        (b"\x80\x02B\xff\xff\xff\x7fabc.", "cut short or damaged"),
    ],
)
def test_what_is_no_plain_value_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(HoldfastError, match=words):
        plain_values(content)

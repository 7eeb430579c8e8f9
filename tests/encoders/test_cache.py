"""Features are computed once, kept by what they were made of, and survive a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from own_encoders import ALPHABET, Letters

from holdfast import HoldfastError
from holdfast.encoders import cache_folder
from holdfast.encoders.cache import PART, features, texts

WORDS = [f"{'ab' * (i % 7)} {chr(97 + i % 26) * (i % 5)}" for i in range(100)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LETTERS_LOG", str(tmp_path / "log"))
    return tmp_path


def encoded(folder: Path) -> int:
    """Rows that were encoded so far."""
    log = folder / "log"
    return sum(map(int, log.read_text().split())) if log.exists() else 0


def counts(values):
    found = np.array([[text.count(letter) for letter in ALPHABET] for text in values], dtype=np.float32)
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)


def test_features_are_computed_once_and_in_the_order_of_the_rows(own_cache):
    first = features(Letters(), texts(WORDS))
    assert np.allclose(first, counts(WORDS), atol=1e-6)
    assert encoded(own_cache) == len(WORDS)
    again = features(Letters(), texts(WORDS))
    assert np.array_equal(again, first)
    assert isinstance(again, np.memmap)
    assert encoded(own_cache) == len(WORDS)


def test_other_content_and_another_encoder_have_features_of_their_own(own_cache):
    features(Letters(), texts(WORDS))
    other = features(Letters(), texts([*WORDS[:-1], "zzz"]))
    assert other[-1, 25] == 1
    renamed = Letters()
    renamed.name = "another"
    features(renamed, texts(WORDS))
    assert encoded(own_cache) == 3 * len(WORDS)


def test_nothing_but_features_is_left_behind(own_cache):
    features(Letters(), texts(WORDS))
    left = list((own_cache / "cache" / "features").iterdir())
    assert [path.suffix for path in left] == [".npy"]


def test_a_damaged_file_is_made_again(own_cache):
    features(Letters(), texts(WORDS))
    (kept,) = (own_cache / "cache" / "features").glob("*.npy")
    kept.write_bytes(kept.read_bytes()[:50])
    assert np.allclose(features(Letters(), texts(WORDS)), counts(WORDS), atol=1e-6)
    assert encoded(own_cache) == 2 * len(WORDS)


@pytest.mark.slow
def test_a_killed_process_loses_a_part_at_most(own_cache):
    many = [f"{word} {chr(97 + i % 26)}" for i in range(40) for word in WORDS]
    code = (
        "from own_encoders import Letters\nfrom holdfast.encoders.cache import features, texts\n"
        "words = [f\"{'ab' * (i % 7)} {chr(97 + i % 26) * (i % 5)}\" for i in range(100)]\n"
        "features(Letters(), texts([f'{word} {chr(97 + i % 26)}' for i in range(40) for word in words]))\n"
    )
    environment = {**os.environ, "LETTERS_SLEEP": "0.05", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    until = time.monotonic() + 120
    while not list((own_cache / "cache" / "features").glob("*.parts/00000[1-9].npy")):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not list((own_cache / "cache" / "features").glob("*.npy"))
    done = len(list((own_cache / "cache" / "features").glob("*.parts/0*.npy"))) * PART
    before = encoded(own_cache)
    assert 0 < done < len(many)
    assert np.allclose(features(Letters(), texts(many)), counts(many), atol=1e-6)
    assert encoded(own_cache) - before == len(many) - done
    assert not list((own_cache / "cache" / "features").glob("*.parts"))


def test_the_cache_lies_where_the_environment_says(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("HOLDFAST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "holdfast"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "holdfast"


def test_a_cache_that_cannot_be_written_is_one_sentence(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "file"))
    with pytest.raises(HoldfastError, match="HOLDFAST_CACHE"):
        features(Letters(), texts(WORDS))


def test_features_that_are_no_numbers_are_refused():
    broken = Letters()
    broken.noise = float("nan")
    with pytest.raises(HoldfastError, match="no numbers"):
        features(broken, texts(WORDS))

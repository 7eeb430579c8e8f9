import random

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from holdfast import HoldfastError, checkpoint
from holdfast.files import read_tensors, write_tensors, written_aside


def test_a_tree_comes_back_as_it_was(tmp_path):
    shared = torch.randn(3)
    state = {
        "nets": [{"w": shared, "tied": shared}],
        "optimizer": {
            "state": {0: {"step": torch.tensor(3.0)}, 1: {}},
            "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "on": None}],
        },
        "history": [{"epoch": 0.0, "test": float("nan")}],
        "stopped": False,
        "bits": torch.tensor([True, False]),
        "bytes": torch.get_rng_state(),
    }
    path = tmp_path / "sub" / "c.safetensors"
    checkpoint.save(path, state)
    back = checkpoint.load(path)
    assert torch.equal(back["nets"][0]["tied"], shared)
    assert list(back["optimizer"]["state"]) == [0, 1]
    assert back["optimizer"]["param_groups"] == [{"lr": 0.1, "betas": [0.9, 0.99], "on": None}]
    assert np.isnan(back["history"][0]["test"])
    assert back["bits"].dtype == torch.bool
    assert torch.equal(back["bytes"], state["bytes"])
    assert [p.name for p in path.parent.iterdir()] == ["c.safetensors"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "c.safetensors"
    checkpoint.save(path, {"a": 1})
    with pytest.raises(HoldfastError, match="cannot checkpoint /b: object"):
        checkpoint.save(path, {"b": object()})
    with pytest.raises(RuntimeError, match="in the middle"), written_aside(path) as aside:  # noqa: PT012
        aside.write_text("half")
        raise RuntimeError("in the middle")
    assert checkpoint.load(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["c.safetensors"]


def test_damaged_and_foreign_files_are_named(tmp_path):
    path = tmp_path / "c.safetensors"
    checkpoint.save(path, {"a": torch.ones(100)})
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(HoldfastError, match="is damaged"):
        checkpoint.load(path)
    write_tensors(path, {"w": torch.ones(1)})
    with pytest.raises(HoldfastError, match="not a checkpoint"):
        checkpoint.load(path)
    with pytest.raises(HoldfastError, match="is missing"):
        checkpoint.load(tmp_path / "none.safetensors")


def test_a_flipped_byte_is_never_accepted(tmp_path):
    """Anywhere in the file: in its head, its names, its notes or its tensors."""
    path = tmp_path / "c.safetensors"
    checkpoint.save(path, {"a": torch.arange(40.0), "b": {"c": torch.tensor([True, False])}, "n": 3})
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            back = checkpoint.load(path)
        except HoldfastError as error:
            assert "damaged" in str(error) or "not a checkpoint" in str(error)  # noqa: PT017
        else:  # spaces that fill up the head mean nothing
            assert whole[place : place + 1] == b" "
            assert torch.equal(back["a"], torch.arange(40.0))


def test_a_file_of_another_program_needs_no_checksum(tmp_path):
    save_file({"w": torch.ones(2)}, tmp_path / "w.safetensors")
    tensors, notes = read_tensors(tmp_path / "w.safetensors")
    assert torch.equal(tensors["w"], torch.ones(2))
    assert notes == {}


def test_checkpoints_wait_until_they_are_a_small_share_of_the_time(monkeypatch):
    clock = iter([0.0, 1.0, 1.0, 2.0, 3.0, 40.0])
    monkeypatch.setattr(checkpoint.time, "perf_counter", lambda: next(clock))
    pace = checkpoint.Pace()
    assert pace.due()  # the first costs nothing that is known
    with pace.writing():  # one second
        pass
    assert not pace.due()
    assert pace.due()


def test_every_random_state_comes_back(tmp_path):
    def draw():
        return torch.rand(2).tolist(), random.random(), np.random.rand(2).tolist()  # noqa: NPY002

    checkpoint.save(tmp_path / "r.safetensors", checkpoint.random_state())
    first = draw()
    assert draw() != first
    checkpoint.set_random_state(checkpoint.load(tmp_path / "r.safetensors"))
    assert draw() == first

import random

import numpy as np
import pytest
import torch

from holdfast import HoldfastError, checkpoint
from holdfast.files import write_tensors, written_aside


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


def test_every_random_state_comes_back(tmp_path):
    def draw():
        return torch.rand(2).tolist(), random.random(), np.random.rand(2).tolist()  # noqa: NPY002

    checkpoint.save(tmp_path / "r.safetensors", checkpoint.random_state())
    first = draw()
    assert draw() != first
    checkpoint.set_random_state(checkpoint.load(tmp_path / "r.safetensors"))
    assert draw() == first

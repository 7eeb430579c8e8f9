"""A diagnosis of real runs, and the page that shows it."""

import re

import pytest
import torch
from torch import nn

from holdfast import PRLL, Crust, HoldfastError, Method, Run, fit
from holdfast.theory import diagnose, write_page


@pytest.fixture(scope="module")
def told(blobs, tmp_path_factory):
    out = tmp_path_factory.mktemp("diagnosis") / "run"
    run = fit(blobs, Crust(warmup=1), "mlp", epochs=6, batch_size=40, device="cpu", out=out)
    return diagnose(run, examples=30)


def test_numbers_of_a_diagnosis(told, blobs):
    assert len(told.losses) == len(told.trusted) == 240
    assert 0.5 < told.trusted.mean() < 0.98
    assert 0 < told.wrong < 0.5
    assert told.shares["examples"].tolist()[0] == 30
    assert ((told.shares["labels"] >= 0) & (told.shares["labels"] <= 1 + 1e-6)).all()
    # Labels that were chosen are easier to reach than all of them.
    assert told.shares["labels"][1] > told.shares["labels"][0]
    assert told.start.values[0] != told.now.values[0]
    assert told.weights == sum(p.numel() for p in told.run.net.parameters())
    assert told.coreset.alpha <= float(told.coreset.values[-1]) + 1e-6
    assert {name: len(lines) for name, lines in told.conditions.items()} == {"Theorem 2.2": 3, "Theorem 4.1": 3}
    # The classes of the blobs: three directions in the plane, none of them a mixture of the others' rows.
    assert told.clusters.clusters == 3
    assert told.clusters.n == 240
    assert 0 < told.clusters.radius < 1


def test_the_page_stands_alone_and_says_each_thing_once(told, tmp_path):
    path = tmp_path / "diagnosis.html"
    write_page(told, path)
    page = path.read_text()
    assert page.count("<section>") == page.count("data:image/png;base64,") == 6
    assert "http" not in re.sub(r"data:[^\"]*", "", page)
    assert page.count("fails by a factor") + page.count("holds, with a factor") == 6
    for word in ("Distance from the start", "Information and nuisance", "Theorem 2.2", "Theorem 4.1"):
        assert word in page
    assert "nan" not in re.sub(r"data:[^\"]*", "", page)


def test_a_run_read_from_its_folder_says_the_same(told, blobs):
    again = diagnose(Run.load(told.run.out), blobs, examples=30)
    torch.testing.assert_close(again.now.values, told.now.values)
    torch.testing.assert_close(again.start.values, told.start.values)


def test_numbers_to_predict_leave_out_what_is_about_classes(line, tmp_path):
    run = fit(line, PRLL(0.1), "mlp", epochs=3, batch_size=40, device="cpu", out=tmp_path / "run")
    told = diagnose(run, examples=20)
    assert told.coreset is None
    write_page(told, tmp_path / "d.html")
    page = (tmp_path / "d.html").read_text()
    assert page.count("<section>") == 5
    assert "theorems are about classes" in page


def test_mistakes_are_told(blobs, told, tmp_path):
    run = fit(blobs, Method(), nn.Linear(2, 3), epochs=1, device="cpu")
    with pytest.raises(HoldfastError, match="train with out"):
        diagnose(run)
    with pytest.raises(HoldfastError, match="rows in memory"):
        diagnose(Run.load(told.run.out))
    with pytest.raises(HoldfastError, match="these are 5"):
        diagnose(told.run, blobs.take(torch.arange(5)))
    with pytest.raises(HoldfastError, match="two examples"):
        diagnose(told.run, examples=1)

"""A diagnosis of real runs, and the page that shows it."""

import re

import pytest
import torch
from torch import nn

from holdfast import HoldfastError, Method, Run, fit
from holdfast.diagnosis import diagnose, write_page
from holdfast.methods import PRLL, EMARefinement


@pytest.fixture(scope="module")
def found(blobs, tmp_path_factory):
    out = tmp_path_factory.mktemp("diagnosis") / "run"
    run = fit(blobs, EMARefinement(warmup=1), "mlp", epochs=6, batch_size=40, device="cpu", out=out)
    return diagnose(run, examples=30)


def test_numbers_of_a_diagnosis(found, blobs):
    assert len(found.losses) == len(found.trusted) == 240
    assert 0.5 < found.trusted.mean() < 0.98
    assert 0 < found.wrong < 0.5
    assert found.shares["examples"].tolist()[0] == 30
    assert ((found.shares["labels"] >= 0) & (found.shares["labels"] <= 1 + 1e-6)).all()
    # Labels that were chosen are easier to reach than all of them.
    assert found.shares["labels"][1] > found.shares["labels"][0]
    assert found.start.values[0] != found.now.values[0]
    assert found.weights == sum(p.numel() for p in found.run.net.parameters())
    assert found.coreset.alpha <= float(found.coreset.values[-1]) + 1e-6
    assert {name: len(lines) for name, lines in found.conditions.items()} == {"Theorem 2.2": 3, "Theorem 4.1": 3}
    # The classes of the blobs: three directions in the plane, none of them a mixture of the others' rows.
    assert found.clusters.clusters == 3
    assert found.clusters.n == 240
    assert 0 < found.clusters.radius < 1


def test_the_page_stands_alone_and_says_each_thing_once(found, tmp_path):
    path = tmp_path / "diagnosis.html"
    write_page(found, path)
    page = path.read_text()
    assert page.count("<section>") == page.count("data:image/png;base64,") == 6
    assert "on mlp, 6 epochs</h1>" in page
    assert "http" not in re.sub(r"data:[^\"]*", "", page)
    assert page.count("fails by a factor") + page.count("holds, with a factor") == 6
    for word in ("Distance from the start", "Information and nuisance", "Theorem 2.2", "Theorem 4.1"):
        assert word in page
    assert "nan" not in re.sub(r"data:[^\"]*", "", page)


def test_a_run_read_from_its_folder_says_the_same(found, blobs):
    again = diagnose(Run.load(found.run.out), blobs, examples=30)
    torch.testing.assert_close(again.now.values, found.now.values)
    torch.testing.assert_close(again.start.values, found.start.values)


def test_numbers_to_predict_leave_out_what_is_about_classes(line, tmp_path):
    run = fit(line, PRLL(0.1), "mlp", epochs=3, batch_size=40, device="cpu", out=tmp_path / "run")
    found = diagnose(run, examples=20)
    assert found.coreset is None
    write_page(found, tmp_path / "d.html")
    page = (tmp_path / "d.html").read_text()
    assert page.count("<section>") == 5
    assert "theorems are about classes" in page


def test_mistakes_are_named(blobs, found, tmp_path):
    run = fit(blobs, Method(), nn.Linear(2, 3), epochs=1, device="cpu")
    with pytest.raises(HoldfastError, match="train with out"):
        diagnose(run)
    with pytest.raises(HoldfastError, match="rows in memory"):
        diagnose(Run.load(found.run.out))
    with pytest.raises(HoldfastError, match="these are 5"):
        diagnose(found.run, blobs.take(torch.arange(5)))
    with pytest.raises(HoldfastError, match="two examples"):
        diagnose(found.run, examples=1)

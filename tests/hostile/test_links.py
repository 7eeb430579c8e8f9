"""Links out of a folder of images: read and shown only to who asks for it, whatever a run says."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from holdfast import HoldfastError, Run, read
from holdfast.cli import app
from holdfast.data import read_inputs
from holdfast.data.display import Display

SECRET = (7, 99, 201)


def picture(path: Path, colour) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), colour, dtype=np.uint8)).save(path)


@pytest.fixture
def folder(tmp_path) -> Path:
    for k in range(12):
        picture(tmp_path / f"data/red/{k:02}.png", (200 + k, 0, 0))
        picture(tmp_path / f"data/blue/{k:02}.png", (0, 0, 200 + k))
    picture(tmp_path / "private/secret.png", SECRET)
    return tmp_path / "data"


@pytest.fixture
def linked(folder) -> Path:
    (folder / "red/99.png").symlink_to(folder.parent / "private/secret.png")
    return folder


def call(*command: object):
    return CliRunner().invoke(app, [str(part) for part in command], catch_exceptions=True)


def fitted(folder: Path, *more: object) -> Path:
    out = folder.parent / "run"
    done = call("fit", folder, "--out", out, "--epochs", "1", "--net", "mlp", "--quiet", "--no-evidence", *more)
    assert done.exit_code == 0, (done.output, done.exception)
    return out


def test_a_link_to_a_file_outside_is_not_read(linked):
    with pytest.raises(HoldfastError, match=r"a link that leads out of it \(99.png\); pass --follow-links"):
        read(linked)
    for command in (("fit", linked, "--out", linked.parent / "run"), ("check", linked, "--out", linked.parent / "c")):
        assert isinstance(call(*command).exception, HoldfastError)


def test_nor_is_a_link_to_a_folder_outside_that_stands_for_a_class(folder):
    (folder / "green").symlink_to(folder.parent / "private")
    with pytest.raises(HoldfastError, match="leads out of it"):
        read(folder)
    rows, _ = read(folder, follow_links=True)
    assert rows.classes == ("blue", "green", "red")


def test_a_link_that_stays_inside_is_read(folder):
    (folder / "red/99.png").symlink_to(folder / "red/00.png")
    assert len(read(folder)[0]) == 25


def test_who_asks_for_it_gets_it(linked):
    rows, _ = read(linked, follow_links=True)
    assert rows.x[rows.names.index("red/99.png")][:, 0, 0].tolist() == list(SECRET)


def test_predict_does_not_follow_links_either(linked):
    out = fitted(linked, "--follow-links")
    recipe = Run.load(out).config.recipe
    with pytest.raises(HoldfastError, match="leads out of it"):
        read_inputs(linked, recipe)
    assert isinstance(call("predict", out, linked).exception, HoldfastError)
    assert call("predict", out, linked, "--follow-links").exit_code == 0


def test_a_run_does_not_switch_it_on_by_itself(linked):
    out = fitted(linked, "--follow-links")
    assert json.loads((out / "run.json").read_text())["source"]["reading"]["follow_links"] is True
    with pytest.raises(HoldfastError, match="pass --follow-links"):
        Run.load(out).read_again()
    assert len(Run.load(out, trust=["links"]).read_again()) == 25
    again = call("fit", "--config", out / "run.json", "--out", out.parent / "again")
    assert isinstance(again.exception, HoldfastError)
    assert "--follow-links" in str(again.exception)


def test_a_file_that_becomes_a_link_after_training_is_not_served(folder):
    out = fitted(folder, "--test", "0")
    rows = Run.load(out).read_again()
    display, row = Display(rows), rows.names.index("red/03.png")
    served = display.png(row)
    os.remove(folder / "red/03.png")
    (folder / "red/03.png").symlink_to(folder.parent / "private/secret.png")
    assert display._file(row) is None
    assert display.png(row) == served  # what the network saw: the pixels that were read


def test_a_folder_that_leads_back_into_itself_ends(folder):
    (folder / "red/loop").symlink_to(folder)
    assert len(read(folder)[0]) == 24

"""Tables with a picture in each row: read, trained on, shown and predicted."""

import io
import json

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import holdfast
from holdfast.cli import app
from holdfast.data import images, read, read_inputs
from holdfast.data.display import Display
from holdfast.errors import HoldfastError
from holdfast.run import Run


def picture(colour: int, seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 120, (12, 12, 3), dtype=np.uint8)
    pixels[..., colour] += 100
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def album(tmp_path):
    """A folder of sixty pictures, red and green, and the table that names them."""
    (tmp_path / "pics").mkdir()
    lines = []
    for i in range(60):
        name = f"pics/{i:02d}.png"
        (tmp_path / name).write_bytes(picture(i % 2, i))
        lines.append({"file": name, "taken": f"{i % 28 + 1:02d}.05.2020", "colour": ["Red", "green"][i % 2]})
    return tmp_path, pd.DataFrame(lines)


def test_a_table_that_names_files_is_the_folder_of_them(album):
    folder, frame = album
    frame.to_csv(folder / "a.csv", index=False)
    rows, _ = read(folder / "a.csv", label="colour")
    whole, _ = images.decode([folder / name for name in frame["file"]], list(frame["file"]), rows.recipe, False)
    assert torch.equal(rows.x, whole)
    assert rows.names == tuple(frame["file"])
    assert rows.classes == ("Red", "green")
    recipe = json.loads(json.dumps(rows.recipe))
    x, names = read_inputs(folder / "pics", recipe)
    assert torch.equal(x, rows.x)
    assert names[0] == "00.png"
    frame[["file"]].tail(3).to_json(folder / "b.jsonl", orient="records", lines=True)
    assert torch.equal(read_inputs(folder / "b.jsonl", recipe)[0], rows.x[-3:])
    frame[["taken"]].to_csv(folder / "c.csv", index=False)
    with pytest.raises(HoldfastError, match="no column of images, but the model was fitted on rows of kind 'image'"):
        read_inputs(folder / "c.csv", recipe)


def test_bytes_in_a_table_are_the_same_pictures(album):
    folder, frame = album
    frame.to_csv(folder / "a.csv", index=False)
    rows, _ = read(folder / "a.csv", label="colour")
    held = [(folder / name).read_bytes() for name in frame["file"]]
    frame.assign(file=held).to_parquet(folder / "a.parquet")
    inside, _ = read(folder / "a.parquet", label="colour")
    assert torch.equal(inside.x, rows.x)
    assert torch.equal(inside.y, rows.y)


def test_gaps_and_other_things_than_pictures(album):
    folder, frame = album
    frame.loc[3, "file"] = None
    (folder / "pics" / "05.png").write_bytes(b"junk")
    frame.to_csv(folder / "a.csv", index=False)
    with pytest.raises(HoldfastError, match=r"row 3 is no image .*--skip-broken"):
        read(folder / "a.csv", label="colour")
    rows, _ = read(folder / "a.csv", label="colour", skip_broken=True)
    assert len(rows) == 58
    assert rows.summary.skipped == ("2 images that do not decode (row 3, pics/05.png)",)
    frame.loc[30, "file"] = "see the other folder"
    frame.to_csv(folder / "b.csv", index=False)
    with pytest.raises(HoldfastError, match="column 'file' holds images, but something else in row 30"):
        read(folder / "b.csv", label="colour")


def test_a_number_may_be_told_of_pictures(album):
    folder, frame = album
    frame.assign(colour=[f"{i / 7:.2f}".replace(".", ",") for i in range(60)]).to_csv(folder / "a.csv", index=False)
    rows, _ = read(folder / "a.csv", label="colour", encoder="auto")
    assert rows.classes is None
    assert rows.y[7].item() == pytest.approx(1.0)


def test_from_a_table_to_pages_that_show_its_pictures(album):
    folder, frame = album
    frame.to_excel(folder / "a.xlsx", index=False)
    words = ["fit", folder / "a.xlsx", "--label", "colour", "--out", folder / "run", "--epochs", 1, "--net", "cnn4"]
    result = CliRunner().invoke(app, [str(word) for word in [*words, "--quiet", "--no-evidence"]])
    assert result.exit_code == 0, result.output
    assert "data: Excel; 60 rows" in result.output
    rows = Run.load(folder / "run").judged_rows()
    seen = np.asarray(Image.open(io.BytesIO(Display(rows).png(0))))
    assert (seen == np.asarray(Image.open(folder / rows.names[0]))).all()
    found = holdfast.check(folder / "a.xlsx", label="colour", encoder=None)
    assert found.subject.pictures
    assert found.subject.rows.summary.found == "Excel"

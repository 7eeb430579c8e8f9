"""COCO annotations as images with a class each: every layout, what is left out, and files that are not well formed."""

import gzip
import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

import holdfast
from holdfast.cli import app
from holdfast.data import read, read_inputs
from holdfast.data.display import Display
from holdfast.data.kinds import kind_of
from holdfast.errors import HoldfastError
from holdfast.run import Run

NAMES = {7: "Red", "g": "green", 40: "never seen"}
"""Categories by ids that are neither contiguous nor all numbers."""


def draw(path, colour, seed):
    pixels = np.random.default_rng(seed).integers(0, 120, (12, 12, 3), dtype=np.uint8)
    pixels[..., colour] += 100
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def document(count=12, prefix="", seed=0):
    """Images by turns red and green, every third annotated twice."""
    images = [{"id": f"i{i}", "file_name": f"{prefix}{i:02d}.png", "width": 12, "height": 12} for i in range(count)]
    annotations = []
    for i in range(count):
        for _ in range(2 if i % 3 == 0 else 1):
            box = {"bbox": [0, 0, 12, 12], "area": 144, "iscrowd": 0}
            category = [7, "g"][(i + seed) % 2]
            annotations.append({"id": len(annotations), "image_id": f"i{i}", "category_id": category, **box})
    categories = [{"id": key, "name": name, "supercategory": "colour"} for key, name in NAMES.items()]
    return {"info": {"year": 2024}, "images": images, "annotations": annotations, "categories": categories}


def drawn(folder, held, seed=0):
    for i, image in enumerate(held["images"]):
        draw(folder / image["file_name"], (i + seed) % 2, i)


def wrote(path, held):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(held))
    return path


@pytest.mark.parametrize(
    ("file", "pictures"),
    [
        ("annotations.json", "."),
        ("_annotations.coco.json", "."),
        ("annotations.json", "images"),
        ("annotations/instances_train.json", "images"),
        ("annotations/instances_train2017.json", "train2017"),
        ("annotations/instances_default.json", "images/default"),
        ("annotations/instances_all.json", "."),
    ],
)
def test_a_file_or_its_folder_wherever_the_images_lie(tmp_path, file, pictures):
    held = document()
    drawn(tmp_path / pictures, held)
    rows, test = read(wrote(tmp_path / file, held))
    assert test is None
    assert kind_of(tmp_path) == "coco"
    whole, _ = read(tmp_path)
    assert rows.classes == whole.classes == ("Red", "green")
    assert rows.y.tolist() == [i % 2 for i in range(12)]
    assert rows.x[0, 0].float().mean() > rows.x[0, 1].float().mean()
    assert torch.equal(rows.x, whole.x)
    assert [name.rpartition("/")[2] for name in rows.names] == [f"{i:02d}.png" for i in range(12)]
    assert (tmp_path / whole.names[3]).is_file()
    assert next(iter(whole.summary.lines())) == "data: COCO; 12 rows"
    x, names = read_inputs(tmp_path, json.loads(json.dumps(rows.recipe)))
    assert torch.equal(x, rows.x)
    assert names == whole.names


def test_split_folders_are_training_and_test_rows(tmp_path):
    for seed, part in enumerate(("train", "valid", "test")):
        held = document(12 - 2 * seed, seed=seed)
        drawn(tmp_path / part, held, seed)
        if part == "test":
            held["annotations"].append({"id": 99, "image_id": "i0", "category_id": "g"})
        wrote(tmp_path / part / "_annotations.coco.json", held)
    rows, test = read(tmp_path)
    assert (len(rows), len(test)) == (12, 7)
    assert test.names[0] == "test/01.png"
    assert test.y.tolist() == [(i + 2) % 2 for i in range(1, 8)]
    text = " ".join(rows.summary.lines(1000))
    assert "rows of train/_annotations.coco.json, test rows of test/_annotations.coco.json" in text
    assert "left out: valid/_annotations.coco.json" in text
    assert "1 image with annotations of several categories (00.png) in test/_annotations.coco.json" in text
    assert len(read_inputs(tmp_path, rows.recipe)[0]) == 8
    shutil.rmtree(tmp_path / "test")
    assert read(tmp_path)[1].names[0] == "valid/00.png"


def test_several_files_need_one_training_set(tmp_path):
    held = document()
    drawn(tmp_path / "images", held)
    for name in ("train2017", "val2017"):
        wrote(tmp_path / "annotations" / f"instances_{name}.json", held)
    rows, test = read(tmp_path)
    assert len(rows) == len(test) == 12
    wrote(tmp_path / "annotations" / "instances_train2014.json", held)
    with pytest.raises(HoldfastError, match="not one training set; pass the file that is meant"):
        read(tmp_path)


def test_images_of_several_categories_and_of_none(tmp_path):
    held = document()
    drawn(tmp_path, held)
    held["annotations"] += [{"id": 90 + i, "image_id": f"i{i}", "category_id": 40} for i in (2, 5)]
    held["annotations"] = [each for each in held["annotations"] if each["image_id"] not in ("i3", "i8")]
    path = wrote(tmp_path / "a.json", held)
    with pytest.raises(HoldfastError, match=r"2 images without an annotation \(03.png, 08.png\).*--missing drop"):
        read(path)
    rows, _ = read(path, missing_labels="drop")
    assert rows.names == tuple(f"{i:02d}.png" for i in (0, 1, 4, 6, 7, 9, 10, 11))
    assert rows.y.tolist() == [0, 1, 0, 0, 1, 1, 0, 1]
    without, several = rows.summary.skipped
    assert without.startswith("2 without a label")
    assert several == "2 images with annotations of several categories (02.png, 05.png) in a.json"


def test_images_that_are_not_there(tmp_path):
    held = document()
    drawn(tmp_path, held)
    path = wrote(tmp_path / "a.json", held)
    (tmp_path / "04.png").unlink()
    with pytest.raises(HoldfastError, match=r"04.png is missing; mend it or pass --skip-broken"):
        read(path)
    rows, _ = read(path, skip_broken=True)
    assert len(rows) == 11
    assert "04.png" in rows.summary.skipped[0]


def test_packed_and_beside_tables(tmp_path):
    held = document()
    drawn(tmp_path, held)
    plain, _ = read(wrote(tmp_path / "a.json", held))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress((tmp_path / "a.json").read_bytes()))
    assert torch.equal(read(tmp_path / "a.json.gz")[0].x, plain.x)
    table = [{"images": f"{i:02d}.png", "annotations": "ab"[i % 2]} for i in range(12)]
    wrote(tmp_path / "table.json", table)
    assert kind_of(tmp_path / "table.json") == "table"
    with pytest.raises(HoldfastError, match="no columns"):
        read(tmp_path / "a.json", label="category_id")
    with pytest.raises(HoldfastError, match="holds classes"):
        read(tmp_path / "a.json", task="regression")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda held: held.pop("categories"), "no list 'categories'"),
        (lambda held: held.pop("annotations"), "no list 'annotations'"),
        (lambda held: held.update(images=[]), "lists no images"),
        (lambda held: held.update(images={"a": 1}), "no list 'images'"),
        (lambda held: held["images"].append(3), "item 12 of 'images' is no object"),
        (lambda held: held["images"][1].update(id="i0"), "image 1 has the id 'i0', as another has"),
        (lambda held: held["images"][1].update(file_name="a.txt"), "names no image file"),
        (lambda held: held["images"][1].update(file_name="\ud800.png"), "names no image file"),
        (lambda held: held["annotations"][1].pop("category_id"), "annotation 1 has the category_id None"),
        (lambda held: held["annotations"][0].update(image_id=5), "the image 5, which 'images' does not list"),
        (lambda held: held["annotations"][0].update(category_id="7"), "the category '7', which 'categories'"),
        (lambda held: held["annotations"].clear(), "no image with annotations of exactly one category"),
        (lambda held: held["categories"][0].update(name=" "), "category 0 has the name ' '"),
        (lambda held: held["categories"][0].update(id=True), "category 0 has the id True"),
    ],
)
def test_files_that_are_not_well_formed(tmp_path, change, message):
    held = document()
    drawn(tmp_path, held)
    change(held)
    with pytest.raises(HoldfastError, match=message) as error:
        read(wrote(tmp_path / "a.json", held))
    assert "\n" not in str(error.value)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just("i0"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "name", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_junk_in_any_place_is_read_or_one_sentence(tmp_path, data):
    held = document(4)
    drawn(tmp_path, held)
    part = data.draw(st.sampled_from(["images", "annotations", "categories"]))
    if data.draw(st.booleans()):
        each = data.draw(st.sampled_from(held[part]))
        each[data.draw(st.sampled_from(sorted(each)))] = data.draw(JUNK)
    else:
        held[part] = data.draw(JUNK)
    text = json.dumps(held)
    text = text[: data.draw(st.sampled_from([len(text), len(text) - 1, len(text) // 2]))]
    (tmp_path / "a.json").write_text(text)
    try:
        rows, _ = read(tmp_path / "a.json", missing_labels="drop", skip_broken=True)
        sentence = ""
    except HoldfastError as error:
        rows, sentence = (), str(error)
    assert "\n" not in sentence
    assert bool(sentence) != (0 < len(rows) <= 4)


@pytest.mark.slow
def test_from_annotations_to_predictions_and_back(tmp_path):
    held = document(40)
    drawn(tmp_path / "images", held)
    path = wrote(tmp_path / "annotations" / "instances_train.json", held)

    def said(*words):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.output

    how = ("--out", tmp_path / "run", "--epochs", 1, "--net", "cnn4", "--quiet", "--no-evidence")
    assert "data: COCO; 40 rows" in said("fit", path, *how)
    said("fit", path, *how, "--resume")
    said("fit", "--config", tmp_path / "run" / "run.json", "--out", tmp_path / "again", "--quiet")
    first, second = (Run.load(tmp_path / name).issue_table() for name in ("run", "again"))
    pd.testing.assert_frame_equal(first, second)
    said("predict", tmp_path / "run", path, "--out", tmp_path / "predicted.csv")
    assert len(pd.read_csv(tmp_path / "predicted.csv")) == 40
    refused = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), str(path), "--keep", "id"])
    assert "is no table, so it has no columns to keep" in str(refused.exception)
    rows = Run.load(tmp_path / "run").judged_rows()
    assert Display(rows)._file(0).samefile(tmp_path / "annotations" / rows.names[0])
    assert holdfast.check(path, encoder=None).subject.pictures

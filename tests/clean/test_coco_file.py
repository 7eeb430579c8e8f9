"""COCO annotations: the same document but for the categories that change and the images that go."""

import copy
import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from holdfast import HoldfastError, Method, fit
from holdfast.clean import clean, coco_file
from holdfast.clean.edit import SUGGESTED, TRUST, Edit
from holdfast.cli import app
from holdfast.data.formats import detect
from holdfast.data.source import Source

DARK, LIGHT = "d", 90


def document(count):
    """Images of two categories, each seventh wrong and annotated twice; 1 has no annotation, 2 both categories."""
    images, annotations = [], []
    for i in range(count):
        images.append({"file_name": f"{i:03d}.png", "id": 1000 - i, "été": ["ü", None, 0.1]})
        wrong = i % 7 == 0
        category = [DARK, LIGHT][(i + wrong) % 2]
        for extra in range(0 if i == 1 else 1 + wrong):
            box = {"bbox": [0.5, 1e-7, 3, 4], "segmentation": [[1, 2.25]]}
            annotations.append({"category_id": category, "image_id": 1000 - i, "id": f"{i}-{extra}", **box})
    annotations.append({"category_id": LIGHT, "image_id": 998, "id": "more"})
    categories = [{"id": LIGHT, "name": "light"}, {"id": DARK, "name": "dark"}]
    return {"annotations": annotations, "licenses": [], "categories": categories, "images": images, "info": {"x": 1}}


def judged(rows, given, wanted, dropped=(), **marks):
    gone = np.isin(rows, dropped)
    return Edit("label", np.array(rows), np.array(given), np.array(wanted), gone, ("dark", "light"), **marks)


def edited(tmp_path, text, edit, encoding="utf-8"):
    path = tmp_path / "a.json"
    path.write_bytes(text.encode(encoding))
    return coco_file.edited(path.read_bytes(), detect(path), edit).decode(encoding)


STYLES = [
    {}, {"indent": 2}, {"indent": "\t", "ensure_ascii": False}, {"separators": (",", ":"), "ensure_ascii": False},
]  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_nothing_to_change_gives_the_same_text(tmp_path, style, encoding):
    text = json.dumps(document(8), **style) + "\n"
    # Rows are images with one category or none: of the first four, 1 has none and 2 is no row.
    same = judged([0, 2, 3], [1, 1, 0], [1, 1, 0])
    assert edited(tmp_path, text, same, encoding) == text
    assert edited(tmp_path, text.replace("\n", "\r\n"), same, encoding) == text.replace("\n", "\r\n")


def test_categories_change_and_images_go(tmp_path):
    before = document(8)
    after = json.loads(edited(tmp_path, json.dumps(before), judged([0, 2, 3], [1, 1, 0], [0, 1, 0], dropped=[2])))
    wanted = copy.deepcopy(before)
    wanted["images"] = [image for image in wanted["images"] if image["id"] != 997]
    wanted["annotations"] = [each for each in wanted["annotations"] if each["image_id"] != 997]
    for each in wanted["annotations"]:
        if each["image_id"] == 1000:
            each["category_id"] = DARK
    assert sum(each["image_id"] == 1000 for each in wanted["annotations"]) == 2
    assert json.dumps(after) == json.dumps(wanted)  # in the same order too


def test_images_are_marked(tmp_path):
    before = document(8)
    marks = {"trust": np.array([0.25, 0.9]), "suggested": np.array([0, 1]), "doubted": np.array([True, False])}
    edit = judged([0, 2], [1, 1], [1, 1], **marks)
    after = json.loads(edited(tmp_path, json.dumps(before), edit))
    seen = [(image.pop(TRUST), image.pop(SUGGESTED)) for image in after["images"]]
    assert seen == [(0.25, DARK), (None, None), (None, None), (0.9, None)] + [(None, None)] * 4
    assert after == before
    before["images"][5][TRUST] = 1
    with pytest.raises(HoldfastError, match="has a column 'holdfast_trust' already"):
        edited(tmp_path, json.dumps(before), edit)


def test_rows_of_another_file_are_refused(tmp_path):
    with pytest.raises(HoldfastError, match="not those that the run has judged"):
        edited(tmp_path, json.dumps(document(8)), judged([0, 1], [1, 0], [0, 0]))


@pytest.fixture(scope="module")
def shades(tmp_path_factory):
    """A run on 120 images of two shades, of which one in seven is annotated wrong; one image is broken."""
    folder = tmp_path_factory.mktemp("shades")
    rng = np.random.default_rng(0)
    for i in range(120):
        shade = rng.integers(0, 90, (12, 12, 3)) + 160 * (i % 2)
        Image.fromarray(shade.astype(np.uint8)).save(folder / f"{i:03d}.png")
    (folder / "005.png").write_bytes(b"junk")
    (folder / "_annotations.coco.json").write_text(json.dumps(document(120), indent=1))
    how = {"missing_labels": "drop", "skip_broken": True}
    rows, held_out = Source.at(folder, "0.2", 0, **how).load()
    fit(rows, Method(), "mlp", test=held_out, epochs=12, batch_size=8, device="cpu", out=folder / "run")
    return folder


def test_from_a_run_to_the_same_file(shades):
    before = json.loads((shades / "_annotations.coco.json").read_text())
    done = clean(shades / "run", shades / "cleaned.json", correct=0.5)
    after = json.loads((shades / "cleaned.json").read_text())
    both = list(zip(before["annotations"], after["annotations"], strict=True))
    changed = {old["image_id"] for old, new in both if old != new}
    truly = {image["id"] for i, image in enumerate(before["images"]) if i % 7 == 0}
    assert done.changed == len(changed)
    assert len(changed & truly) >= 14
    assert len(changed - truly) <= 4
    rest = [{**each, "category_id": None} for each in before["annotations"]]
    assert rest == [{**each, "category_id": None} for each in after["annotations"]]
    assert {**after, "annotations": 0} == {**before, "annotations": 0}
    rows, _ = Source.at(shades / "cleaned.json", "0", 0, missing_labels="drop", skip_broken=True).load()
    light = [rows.classes[number] == "light" for number in rows.y.tolist()]
    assert sum(is_so != int(name[:3]) % 2 for name, is_so in zip(rows.names, light, strict=True)) <= 4


def test_on_the_command_line(shades):
    words = ["clean", str(shades / "run"), "--out"]
    dropped = CliRunner().invoke(app, [*words, str(shades / "dropped.json"), "--drop", ".5"])
    assert dropped.exit_code == 0, dropped.output
    after = json.loads((shades / "dropped.json").read_text())
    assert 95 <= len(after["images"]) <= 110
    assert {each["image_id"] for each in after["annotations"]} == {image["id"] for image in after["images"]} - {999}
    marked = CliRunner().invoke(app, [*words, str(shades / "marked.json"), "--mark"])
    assert marked.exit_code == 0, marked.output
    images = json.loads((shades / "marked.json").read_text())["images"]
    assert [i for i, image in enumerate(images) if image[TRUST] is None] == [1, 2, 5]
    assert images[0][SUGGESTED] == DARK
    with pytest.raises(HoldfastError, match="never changed"):
        clean(shades / "run", shades / "_annotations.coco.json", force=True)
    with pytest.raises(HoldfastError, match=r"is JSON and stays so; let a.csv end in .json"):
        clean(shades / "run", shades / "a.csv")


def test_test_rows_of_the_same_folder_are_never_written_over(shades, tmp_path):
    for part in ("train", "test"):
        (tmp_path / "data" / part).mkdir(parents=True)
        for file in (*shades.glob("*.png"), shades / "_annotations.coco.json"):
            (tmp_path / "data" / part / file.name).write_bytes(file.read_bytes())
    rows, test = Source.at(tmp_path / "data", "0", 0, missing_labels="drop", skip_broken=True).load()
    run = fit(rows, Method(), "mlp", test=test, epochs=1, batch_size=8, device="cpu", out=tmp_path / "run")
    with pytest.raises(HoldfastError, match="never changed"):
        clean(run, tmp_path / "data" / "test" / "_annotations.coco.json", force=True)
    clean(run, tmp_path / "data" / "train" / "cleaned.json")
    before = json.loads((shades / "_annotations.coco.json").read_text())
    assert json.loads((tmp_path / "data" / "train" / "cleaned.json").read_text())["images"] == before["images"]

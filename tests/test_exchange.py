"""Rows to the tools that people label with, and their decisions back into training and cleaning."""

import json
from xml.etree import ElementTree

import datasets
import pandas as pd
import pytest
from finished_runs import SCRIPT, digits_run, people_run, prices_run
from typer.testing import CliRunner

from holdfast import HoldfastError, Run
from holdfast.cli import app
from holdfast.data.source import Source
from holdfast.review.store import REVIEWS


def command(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    if isinstance(done.exception, HoldfastError):
        raise done.exception
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


@pytest.fixture
def people(tmp_path):
    people_run(tmp_path)
    return tmp_path


def annotated(tasks, answers):
    """Tasks as Label Studio exports them once people have answered: by place, (who, label)."""
    for number, task in enumerate(tasks):
        task["id"] = number
        task["annotations"] = [
            {"completed_by": {"id": 1, "email": who}, "was_cancelled": False, "result": [
                {"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": [label]}}]}
            for who, label in answers.get(number, [])
        ]  # fmt: skip
    return tasks


def test_label_studio_there_and_back(people):
    command("export", people / "run", "--to", "label-studio", "--out", people / "tasks.json")
    tasks = json.loads((people / "tasks.json").read_text())
    table = Run.records(people / "run").issue_table()
    flagged = table[table["flag"]].sort_values("trust", kind="stable")
    assert [task["data"]["holdfast_row"] for task in tasks] == flagged.index.tolist()
    first = tasks[0]["predictions"][0]
    assert first["result"][0]["value"]["choices"] == [flagged["suggested"].iloc[0]]
    assert first["score"] == pytest.approx(1 - flagged["trust"].iloc[0], abs=1e-4)
    assert set(tasks[0]["data"]["item"]) == {"age", f"town {SCRIPT}", "note"}
    page = ElementTree.fromstring((people / "tasks.xml").read_text())
    assert [choice.get("value") for choice in page.iter("Choice")] == [SCRIPT, "low"]
    assert {node.get("toName") for node in page.iter("Choices")} == {node.get("name") for node in page.iter("Table")}

    given = [task["data"]["given"] for task in tasks]
    answers = {0: [("ada@x.org", given[0])], 1: [("ada@x.org", SCRIPT if given[1] == "low" else "low")], 2: []}
    (people / "back.json").write_text(json.dumps(annotated(tasks, answers)))
    assert "2 decisions, 2 of them new" in command("import", people / "run", people / "back.json")
    assert "2 decisions, 0 of them new" in command("import", people / "run", people / "back.json")
    command("export", people / "run", "--out", people / "cleaned.csv")
    cleaned = pd.read_csv(people / "cleaned.csv")
    assert cleaned["reviewed"].sum() == 2
    assert set(cleaned.loc[cleaned["reviewed"], "reviewers"]) == {"ada@x.org"}
    rows, held_out = Source.at(people / "people.csv", "0.2", 0, people / "cleaned.csv", label="income").load()
    assert int(rows.reviewed.sum()) + int(held_out.reviewed.sum()) == 2
    command("clean", people / "run", "--out", people / "clean.csv", "--correct", "0")
    changed = pd.read_csv(people / "people.csv")["income"] != pd.read_csv(people / "clean.csv")["income"]
    assert changed.to_numpy().nonzero()[0].tolist() == [table["row"][tasks[1]["data"]["holdfast_row"]]]


def test_argilla_there_and_back(people):
    for name in ("records.json", "records.jsonl"):
        command("export", people / "run", "--to", "argilla", "--out", people / name, "--all")
    records = json.loads((people / "records.json").read_text())
    lines = [json.loads(line) for line in (people / "records.jsonl").read_text().splitlines()]
    assert records == lines
    assert len(records) == 240
    assert records[0]["suggestions"]["label"].keys() == {"value", "score", "agent"}
    assert f"town {SCRIPT}: " in records[0]["fields"]["item"]
    records[3]["responses"] = {"label": [{"value": "low", "user_id": "7"}, {"value": None, "user_id": "8"}]}
    records[4]["responses"] = {"label": [{"value": "low", "user_id": "7", "status": "draft"}]}
    (people / "back.json").write_text(json.dumps(records))
    assert "1 decisions, 1 of them new" in command("import", people / "run", people / "back.json")


def test_a_hugging_face_dataset(people, tmp_path):
    command("export", people / "run", "--to", "hugging-face", "--out", people / "held", "--all")
    held = datasets.load_from_disk(str(people / "held"))
    given = pd.read_csv(people / "people.csv")
    assert held.column_names[:4] == list(given)
    assert held.features["age"].dtype == "float64"
    assert held.features["holdfast_suggested"].names == [SCRIPT, "low"]
    table = Run.records(people / "run").issue_table()
    places = held["holdfast_row"]
    assert held["age"][:5] == given["age"].iloc[table["row"].iloc[list(places)[:5]]].tolist()


def test_pictures_and_numbers(tmp_path):
    for name, make in (("digits", digits_run), ("prices", prices_run)):
        (tmp_path / name).mkdir()
        make(tmp_path / name)
    command("export", tmp_path / "digits/run", "--to", "label-studio", "--out", tmp_path / "tasks.json")
    assert json.loads((tmp_path / "tasks.json").read_text())[0]["data"]["item"].startswith(
        "data:image/png;base64,iVBOR"
    )
    assert "<Image " in (tmp_path / "tasks.xml").read_text()
    command("export", tmp_path / "digits/run", "--to", "hugging-face", "--out", tmp_path / "held")
    assert datasets.load_from_disk(str(tmp_path / "held"))[0]["image"].size == (8, 8)
    command("export", tmp_path / "prices/run", "--to", "label-studio", "--out", tmp_path / "prices.json")
    task = json.loads((tmp_path / "prices.json").read_text())[0]
    result = task["predictions"][0]["result"][0]
    assert result["value"]["number"] == pytest.approx(
        Run.records(tmp_path / "prices/run").issue_table()["suggested"][task["data"]["holdfast_row"]]
    )
    task["annotations"] = [{"completed_by": 4, "result": [{**result, "value": {"number": 123}}]}]
    (tmp_path / "back.json").write_text(json.dumps([task]))
    assert "1 decisions" in command("import", tmp_path / "prices/run", tmp_path / "back.json")
    with pytest.raises(HoldfastError, match="no question about numbers"):
        command("export", tmp_path / "prices/run", "--to", "argilla", "--out", tmp_path / "a.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tasks: [{**tasks[0], "data": {**tasks[0]["data"], "holdfast_run": "other"}}], "not made for this run"),
        (lambda tasks: annotated(tasks[:1], {0: [("ada", "owl")]}), "'owl', which is none of the 2 classes"),
        (lambda tasks: {"a": 1}, "no JSON export of Label Studio"),
        (lambda tasks: [{**tasks[0], "annotations": [{"result": [{"from_name": "label"}]}]}], "not as the tool"),
        (lambda tasks: [{**tasks[0], "data": {**tasks[0]["data"], "holdfast_row": 999},
                         "annotations": annotated(tasks[:1], {0: [("ada", "low")]})[0]["annotations"]}], "row 999"),
    ],
)  # fmt: skip
def test_files_that_do_not_belong_are_refused(people, change, message):
    command("export", people / "run", "--to", "label-studio", "--out", people / "tasks.json")
    tasks = annotated(json.loads((people / "tasks.json").read_text()), {})
    (people / "back.json").write_text(json.dumps(change(tasks)))
    with pytest.raises(HoldfastError, match=message):
        command("import", people / "run", people / "back.json")


def test_without_a_review_export_points_to_clean(people):
    with pytest.raises(HoldfastError, match=r"nothing is reviewed .* holdfast clean .*run --out FILE"):
        command("export", people / "run", "--out", people / "cleaned.csv")
    assert not (people / "run" / REVIEWS).exists()
    (people / "tasks.json").write_text("mine")
    with pytest.raises(HoldfastError, match="exists"):
        command("export", people / "run", "--to", "label-studio", "--out", people / "tasks.json")

"""Three commands, from a file as people have it to the same file cleaned: every format, spellings and all."""

import bz2
import io
import json

import datasets
import numpy as np
import openpyxl
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from holdfast import Run
from holdfast.cli import app
from holdfast.data import tables

FIT = ("--epochs", "8", "--batch-size", "16", "--quiet", "--device", "cpu", "--missing", "drop", "--method", "standard",
       "--no-evidence", "--net", "mlp")  # fmt: skip


def messy():
    """People with gaps, dates, text, and labels spelt as they come; one in ten is wrong, some are missing."""
    rng = np.random.default_rng(1)
    rich = rng.random(200) < 0.5
    says = rich ^ (np.arange(200) % 10 == 0)
    spelt = [rng.choice(["Yes", "yes ", "YES", "Yes"]) if yes else rng.choice(["no", " no", "no"]) for yes in says]
    table = pd.DataFrame(
        {
            "Name": [f"Zoë {i}" for i in range(200)],
            "age": np.where(rich, 55, 30) + rng.normal(0, 3, 200).round(1),
            "since": [f"2020-01-{1 + i % 28:02d}" for i in range(200)],
            "note": [f"{'golf; yacht' if yes else 'rent, bus'} day" for yes in rich],
            "income": spelt,
        }
    )
    table.loc[::9, "age"] = np.nan
    table.loc[[5, 77], "income"] = None
    return table


def semicolons(table, folder):
    path = folder / "people.csv"
    text = table.to_csv(index=False, sep=";", lineterminator="\r\n", decimal=",")
    path.write_bytes(text.encode("latin-1"))
    return path


def excel(table, folder):
    path = folder / "people.xlsx"
    table.to_excel(path, index=False)
    return path


def json_lines(table, folder):
    path = folder / "people.jsonl"
    table.to_json(path, orient="records", lines=True, force_ascii=False)
    return path


def json_array(table, folder):
    path = folder / "people.json"
    path.write_text(json.dumps(json.loads(table.to_json(orient="records")), indent=1))
    return path


def feather(table, folder):
    path = folder / "people.feather"
    table.to_feather(path)
    return path


def packed(table, folder):
    path = folder / "people.tsv.bz2"
    path.write_bytes(bz2.compress(table.to_csv(index=False, sep="\t").encode("utf-16")))
    return path


def zipped(table, folder):
    path = folder / "people.zip"
    table.to_csv(path, index=False, compression={"method": "zip", "archive_name": "people.csv"})
    return path


def pictures(table, folder):
    path = folder / "people.csv"
    for i, age in enumerate(table["age"].fillna(40)):
        Image.new("L", (8, 8), int(age * 3)).save(folder / f"{i}.png")
    table.assign(file=[f"{i}.png" for i in range(len(table))]).to_csv(path, index=False)
    return path


def hugging_face(table, folder):
    path = folder / "people"
    datasets.Dataset.from_pandas(table, preserve_index=False).save_to_disk(str(path))
    return path


def command(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


@pytest.mark.parametrize(
    "write", [semicolons, excel, json_lines, json_array, feather, packed, zipped, pictures, hugging_face]
)
def test_from_a_file_to_the_file_cleaned(write, tmp_path):
    path = write(messy(), tmp_path)
    out = path.with_name(f"clean_{path.name}")
    command("fit", path, "--label", "income", "--out", tmp_path / "run", *FIT)
    command("issues", tmp_path / "run")
    said = command("clean", tmp_path / "run", "--out", out)
    before, after = tables.load(path), tables.load(out)
    pd.testing.assert_frame_equal(before.drop(columns="income"), after.drop(columns="income"))
    table = Run.records(tmp_path / "run").issue_table().set_index("row").sort_index()
    given = before["income"].dropna()
    now = after["income"].loc[given.index]
    assert after["income"].isna().sum() == 2
    corrected = table["flag"].to_numpy()
    # Labels that stand keep their spelling; a corrected one has the commonest.
    assert now[~corrected].tolist() == given[~corrected].tolist()
    assert set(now[corrected]) <= {"Yes", "no"}
    assert (now[corrected].str.strip().str.lower() == table["suggested"][corrected].str.lower().to_numpy()).all()
    assert corrected.sum() >= 10
    assert f"{corrected.sum()} of 198 labels changed" in said
    assert str(path) not in said


def test_what_excel_shows_stays(tmp_path):
    path = excel(messy(), tmp_path)
    book = openpyxl.load_workbook(path)
    book.active["B2"].number_format = "0.000"
    book.active.freeze_panes = "A2"
    book.create_sheet("Notes")["A1"] = "mine"
    book.save(path)
    command("fit", path, "--label", "income", "--out", tmp_path / "run", *FIT)
    command("clean", tmp_path / "run", "--out", tmp_path / "fewer.xlsx", "--drop", "0.5")
    after = openpyxl.load_workbook(tmp_path / "fewer.xlsx")
    assert after["Notes"]["A1"].value == "mine"
    assert after.worksheets[0].freeze_panes == "A2"
    dropped = (Run.records(tmp_path / "run").issue_table()["trust"] < 0.5).sum()
    assert after.worksheets[0].max_row == 201 - dropped


def test_bytes_of_a_latin_1_file(tmp_path):
    path = semicolons(messy(), tmp_path)
    command("fit", path, "--label", "income", "--out", tmp_path / "run", *FIT)
    command("clean", tmp_path / "run", "--out", tmp_path / "same.csv", "--correct", "0")
    assert (tmp_path / "same.csv").read_bytes() == path.read_bytes()
    command("clean", tmp_path / "run", "--out", tmp_path / "marked.csv", "--mark")
    lines = (tmp_path / "marked.csv").read_bytes().split(b"\r\n")
    given = path.read_bytes().split(b"\r\n")
    assert [line.rsplit(b";", 2)[0] for line in lines[:-1]] == given[:-1]
    marked = pd.read_csv(io.BytesIO((tmp_path / "marked.csv").read_bytes()), sep=";", encoding="latin-1")
    assert marked["holdfast_trust"].between(0, 1).sum() == 198

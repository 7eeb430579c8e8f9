"""Settings: what each part has, mistakes in them, files of options, and the noise that is planted by them."""

import inspect
import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from holdfast import HoldfastError, Rows, read
from holdfast.cli import app
from holdfast.contrastive import CONTRASTIVE
from holdfast.methods import METHODS, Crust
from holdfast.noise import KINDS, TARGET_KINDS, corrupt, derangement, symmetric
from holdfast.registry import lookup
from holdfast.settings import PYTHON, settings_of
from holdfast.stop import STOPS

PARTS = {**TARGET_KINDS, **KINDS, **CONTRASTIVE, **STOPS, **METHODS}


def run(*words, ok=True, columns="80"):
    done = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": columns})
    if ok:
        assert done.exit_code == 0, done.output + repr(done.exception)
        return done.output
    assert isinstance(done.exception, HoldfastError), done.output + repr(done.exception)
    return str(done.exception)


@pytest.mark.parametrize("name", PARTS)
def test_every_setting_has_a_type_a_default_and_a_line(name):
    for each in settings_of(PARTS[name]).values():
        assert each.default is not inspect.Parameter.empty, each
        assert each.about, each
        assert each.kind != PYTHON or each.name in ("mixup",), each


def test_settings_are_those_of_the_call():
    crust = settings_of(Crust)
    assert set(crust) == set(Crust().settings())
    assert crust["fraction"].kind == "a number or a list"
    assert crust["weighted"].default is True
    assert settings_of(partial(Crust, fraction=0.1))["fraction"].default == 0.1
    assert settings_of(METHODS["jocor"])["rate"].about.startswith("noise rate, in [0, 1)")
    assert list(settings_of(KINDS["symmetric"])) == ["including", "exact"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["fractoin=0.3"], r"crust has no setting 'fractoin' \(it has fraction, .*\); did you mean fraction\?"),
        (["fraction=half"], "crust: fraction is a number or a list, not 'half'"),
        (["bins=2.5"], "crust: bins is a whole number, not 2.5"),
        (["weighted=1"], "crust: weighted is true or false, not 1"),
        (["select=fast"], "crust: select is exact or stochastic or .* not 'fast'"),
        (["fraction=2"], r"must lie in \(0, 1\]"),
        (["fraction"], "--set takes name=value"),
    ],
)
def test_mistakes_in_settings(options, words):
    with pytest.raises(HoldfastError, match=words):
        lookup("method", "crust", METHODS, options)


def test_values_are_written_as_people_write_them():
    made = lookup("method", "crust", METHODS, ["weighted=false", "fraction=[0.2, 0.5]", "select=central"])()
    assert (made.weighted, made.fraction, made.select) == (False, [0.2, 0.5], "central")
    assert lookup("method", "forward", METHODS, ["quantile=none"])().quantile is None
    with pytest.raises(HoldfastError, match=r"standard has no setting 'rate' \(it has none\)"):
        lookup("method", "standard", METHODS, ["rate=0.2"])


def test_methods_lists_settings_in_eighty_columns():
    text = run("methods", "crust")
    assert max(map(len, text.splitlines())) <= 80
    for words in ("fraction", "a number or a list", "0.5", "share of each class", "true or false"):
        assert words in text
    assert "patience" in run("methods", "distance")
    assert "exact" in run("methods", "symmetric")
    assert "lightgbm" in run("methods", "second-opinion")
    assert "has no settings" in run("methods", "standard")
    assert "did you mean crust?" in run("methods", "crst", ok=False)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    rich = rng.random(200) < 0.5
    frame = pd.DataFrame(
        {
            "age": np.where(rich, 50, 30) + rng.normal(0, 5, 200).round(2),
            "town": rng.choice(["Bath", "Hull, east", "?"], 200),
            "income": np.where(rich, "high", "low"),
        }
    )
    path = tmp_path_factory.mktemp("settings") / "people.csv"
    frame.to_csv(path, index=False)
    return path


FAST = ("--epochs", 1, "--batch-size", 40, "--quiet", "--device", "cpu", "--net", "mlp")


def config_of(folder):
    return json.loads((Path(folder) / "run.json").read_text())


def test_a_stop_rule_and_an_optimizer_are_set(table, tmp_path):
    fit = ("fit", table, "--label", "income", *FAST)
    more = ("--optimizer", "sgd", "--momentum", 0.5, "--no-nesterov", "--weight-decay", 0.01)
    run(*fit, "--out", tmp_path / "a", "--stop", "distance", "--set", "stop.patience=7", *more, "--method", "standard")
    config = config_of(tmp_path / "a")
    assert config["stop"] == {"name": "DistanceStop", "settings": {"patience": 7}}
    settings = config["optimizer"]["settings"]
    assert (settings["momentum"], settings["nesterov"], settings["weight_decay"]) == (0.5, False, 0.01)
    again = ("--out", tmp_path / "a", "--stop", "distance", "--resume", "--method", "standard", "--optimizer", "sgd")
    told = run(*fit, *again, "--set", "stop.patience=6", "--momentum", 0.5, ok=False)
    for words in ("stop patience 7, not 6", "optimizer nesterov False, not True", "weight decay 0.01, not 0.0005"):
        assert words in told
    for words, message in (
        (("--set", "stop.patience=7"), "there is no stop rule; pass --stop"),
        (("--stop", "distance", "--set", "stop.patiense=7"), "did you mean patience?"),
        (("--set", "stp.patience=7"), "did you mean stop.patience?"),
        (("--set", "crust.fraction=0.2"), "a setting of second-opinion has no prefix"),
        (("--momentum", 0.5), "pass --optimizer sgd"),
        (("--optimizer", "sgd", "--momentum", 1), "lies in [0, 1), not 1"),
        (("--optimizer", "sgd", "--momentum", 0, "--nesterov"), "pass --momentum above 0"),
        (("--weight-decay", -1), "at least 0, not -1"),
    ):
        assert message in run(*fit, "--out", tmp_path / "b", *words, ok=False)
    run(*fit, "--out", tmp_path / "c", "--weight-decay", 0.02)
    assert config_of(tmp_path / "c")["optimizer"]["settings"]["weight_decay"] == 0.02


def test_a_comparison_sets_each_method(table, tmp_path):
    compare = ("compare", table, "--label", "income", *FAST, "--seeds", 1, "--methods", "standard,crust")
    settings = ("--set", "crust.fraction=0.3", "--set", "noise.exact=true", "--noise", "symmetric", "--rate", 0.25)
    run(*compare, *settings, "--out", tmp_path / "c")
    assert config_of(tmp_path / "c" / "crust-0")["method"]["settings"]["fraction"] == 0.3
    assert "say whose setting it is, such as standard.fraction=0.3" in run(*compare, "--set", "fraction=0.3", ok=False)
    assert "did you mean crust.fraction?" in run(*compare, "--set", "crst.fraction=0.3", ok=False)


def test_a_method_for_numbers_is_told_its_rate_in_a_comparison(tmp_path):
    path = tmp_path / "houses.csv"
    path.write_text("size,price\n" + "".join(f"{k},{2.5 * k}\n" for k in range(80)))
    compare = ("compare", path, "--label", "price", *FAST, "--seeds", 1, "--methods", "standard,co-prl-l")
    noise = ("--noise", "linadv", "--rate", 0.3, "--set", "co-prl-l.rate=0.3", "--batch-size", 20)
    run(*compare, *noise, "--out", tmp_path / "c")
    assert config_of(tmp_path / "c" / "co-prl-l-0")["method"]["settings"]["rate"] == 0.3


YAML = """
data: {data}
label: income
out: {out}
method: crust
epochs: 1
batch-size: 40
optimizer: sgd
nesterov: false
stop: validation
evidence: false
device: cpu
net: mlp
quiet: true
test: 0.25
set:
  fraction: 0.4
  weighted: false
  warmup: 0
  stop: {{patience: 2, share: 0.2}}
"""


def test_a_file_says_it_all(table, tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text(YAML.format(data=table, out=tmp_path / "a"))
    run("fit", "--config", file)
    config = config_of(tmp_path / "a")
    assert config["method"]["settings"]["fraction"] == 0.4
    assert config["method"]["settings"]["weighted"] is False
    assert config["stop"]["settings"] == {"share": 0.2, "patience": 2}
    assert config["optimizer"]["settings"]["nesterov"] is False
    assert (config["batch_size"], config["evidence"], config["source"]["test"]) == (40, False, "0.25")
    # What is typed comes before what the file says, setting by setting.
    run("fit", "--config", file, "--out", tmp_path / "b", "--set", "fraction=0.7", "--batch-size", 20)
    other = config_of(tmp_path / "b")
    assert (other["method"]["settings"]["fraction"], other["batch_size"]) == (0.7, 20)
    assert other["method"]["settings"]["warmup"] == 0
    # A run goes on by its file, and says what differs.
    run("fit", "--config", file, "--resume")
    file.write_text(YAML.format(data=table, out=tmp_path / "a").replace("fraction: 0.4", "fraction: 0.6"))
    assert "method fraction 0.4, not 0.6" in run("fit", "--config", file, "--resume", ok=False)


def test_files_for_other_commands(table, tmp_path):
    file = tmp_path / "options.yml"
    file.write_text(f"data: {table}\nlabel: income\nkind: symmetric\nset: {{exact: true}}\nrate: 0.25\n")
    assert "25.0% of the labels wrong" in run("noise", "--config", file, "--out", tmp_path / "noisy.csv")
    file.write_text(
        f"data: {table}\nlabel: income\nmethods: standard,crust\nset: {{crust: {{fraction: 0.3}}}}\nepochs: 1\n"
        f"seeds: 1\nquiet: true\nnet: mlp\nout: {tmp_path / 'c'}\n"
    )
    run("compare", "--config", file)
    assert config_of(tmp_path / "c" / "crust-0")["method"]["settings"]["fraction"] == 0.3
    assert "must end in .yaml or .yml" in run("compare", table, "--config", tmp_path / "run.json", ok=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch: 3", "fit has no option 'epoch'; did you mean epochs?"),
        ("epochs: [1", "is no YAML (line 1)"),
        ("just words", "must hold options, one a line"),
        ("set: 3", "set holds names and values"),
        ("epochs: {a: 1}", "epochs takes one value"),
        ("a: !!python/object/apply:os.system [touch pwned]", "is no YAML"),
        ("config: other.yaml", "has no option 'config'"),
    ],
)
def test_files_that_say_something_else(tmp_path, text, message):
    file = tmp_path / "options.yaml"
    file.write_text(text)
    assert message in run("fit", "--config", file, ok=False)
    assert not Path("pwned").exists()
    assert "cannot be read" in run("fit", "--config", tmp_path / "none.yaml", ok=False)


def test_all_kinds_of_noise_by_name(blobs):
    exact = corrupt("symmetric", blobs, 0.3, 1, exact=True, including=True)
    assert torch.equal(exact.labels, symmetric(blobs.y, 0.3, 3, exact=True, including=True, seed=1).labels)
    turned = corrupt("derangement", blobs, 0.3, 1)
    assert torch.equal(turned.labels, derangement(blobs.y, 0.3, 3, seed=1).labels)
    numbers = Rows(blobs.x, blobs.x.clone())
    spread = [float(corrupt("linadv", numbers, 0.5, 1, ratio=ratio).labels.std()) for ratio in (2.0, 30.0)]
    assert spread[1] > 5 * spread[0]
    with pytest.raises(HoldfastError, match=r"symmetric has no setting 'exakt' .* did you mean exact\?"):
        corrupt("symmetric", blobs, 0.3, 1, exakt=True)
    with pytest.raises(HoldfastError, match="pairflip has no setting 'exact'"):
        corrupt("pairflip", blobs, 0.3, 1, exact=True)


@pytest.mark.parametrize(
    "ending", [".csv", ".tsv", ".csv.gz", ".parquet", ".feather", ".jsonl", ".json", ".xlsx", "_semicolons.csv"]
)
def test_noise_writes_the_format_that_it_read(table, tmp_path, ending):
    frame = pd.read_csv(table, keep_default_na=False).replace({"town": {"Bath": "Zürich"}})
    path, out = tmp_path / f"people{ending}", tmp_path / f"noisy{ending}"
    text = {"sep": "\t" if "tsv" in ending else ";" if "semi" in ending else ","}
    text["encoding"] = "latin-1" if "semi" in ending else "utf-8"
    write, read_back = {
        ".parquet": (frame.astype({"income": "category"}).to_parquet, pd.read_parquet),
        ".feather": (frame.to_feather, pd.read_feather),
        ".jsonl": (partial(frame.to_json, orient="records", lines=True), partial(pd.read_json, lines=True)),
        ".json": (partial(frame.to_json, orient="records"), pd.read_json),
        ".xlsx": (partial(frame.to_excel, index=False), partial(pd.read_excel, keep_default_na=False)),
    }.get(ending, (partial(frame.to_csv, index=False, **text), partial(pd.read_csv, keep_default_na=False, **text)))
    write(path)
    run("noise", path, "--label", "income", "--kind", "symmetric", "--set", "exact=true", "--rate", 0.2, "--out", out)
    found, before = read_back(out), read_back(path)
    assert found.columns.tolist() == ["age", "town", "income", "income_true"]
    assert (found["income"].astype(str) != found["income_true"].astype(str)).sum() == 40
    pd.testing.assert_frame_equal(found[["age", "town"]], before[["age", "town"]])
    assert found["income_true"].tolist() == before["income"].tolist()
    assert found["income"].dtype == before["income"].dtype
    done = run("fit", out, "--label", "income", "--truth", "income_true", *FAST, "--out", tmp_path / "run")
    assert "by true labels" in " ".join(done.split())


def test_noise_keeps_rows_without_a_label_and_the_spelling_of_labels(tmp_path):
    lines = ["a,y", *(f"{k},{'01.0' if k % 2 else '2'}" for k in range(40)), "40,"]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    words = ("--label", "y", "--missing", "drop", "--rate", 0.5, "--set", "exact=true", "--out", tmp_path / "z.csv")
    run("noise", tmp_path / "x.csv", *words)
    found = pd.read_csv(tmp_path / "z.csv", dtype=str, keep_default_na=False)
    assert len(found) == 41
    assert found["y"].iloc[40] == ""
    assert (found["y"] != found["y_true"]).sum() == 20


def test_noise_in_a_folder_of_images(tmp_path):
    rng = np.random.default_rng(0)
    for split, count in (("train", 20), ("test", 4)):
        for name, level in (("dark", 60), ("light", 190)):
            (tmp_path / "img" / split / name).mkdir(parents=True)
            for k in range(count):
                pixels = np.clip(rng.normal(level, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(tmp_path / "img" / split / name / f"{k}.png")
    run("noise", tmp_path / "img", "--rate", 0.25, "--set", "exact=true", "--out", tmp_path / "noisy")
    rows, test = read(tmp_path / "noisy")
    clean, clean_test = read(tmp_path / "img")
    truth = pd.read_csv(tmp_path / "noisy" / "truth.csv").set_index("name")["truth"]
    given = [rows.classes[k] for k in rows.y.tolist()]
    assert (np.array(given) != truth[list(rows.names)].to_numpy()).sum() == 10
    assert sorted(x.sum().item() for x in rows.x) == sorted(x.sum().item() for x in clean.x)
    assert torch.equal(test.x, clean_test.x)


def test_noise_refuses_to_change_the_format(table, tmp_path):
    words = ("noise", table, "--label", "income", "--out")
    assert "let" in run(*words, tmp_path / "x.parquet", ok=False)
    assert "exists" in run(*words, table, ok=False)
    run(*words, tmp_path / "x.npz")
    np.savez(tmp_path / "a.npz", x=np.zeros((10, 2)), y=np.arange(10) % 2)
    assert "becomes arrays; let" in run("noise", tmp_path / "a.npz", "--out", tmp_path / "a.csv", ok=False)

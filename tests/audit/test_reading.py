"""A check whose texts and pictures a pre-trained network reads."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.metrics import f1_score
from typer.testing import CliRunner

import holdfast
from holdfast import HoldfastError
from holdfast.audit import reading
from holdfast.cli import app

TEXTS, IMAGES = "own_encoders:Letters", "own_encoders:Colours"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Texts whose words say nothing, being used once, and whose letters tell the label; a fifth of the labels wrong."""
    draw = np.random.default_rng(0)
    truth = draw.integers(0, 2, 300)
    lines = [
        "they say "
        + " ".join("".join(draw.choice(list("bcdfgh"), 7)) + "xz"[k] * int(draw.integers(1, 4)) for _ in "four")
        for k in truth
    ]
    wrong = draw.random(300) < 0.2
    path = tmp_path_factory.mktemp("texts") / "texts.csv"
    pd.DataFrame({"text": lines, "label": np.where(wrong, 1 - truth, truth)}).to_csv(path, index=False)
    return path, wrong


def learned(found):
    """Whether models, and not near rows alone, have read what tells the label."""
    return min(each.loss for each in found.judged.opinions.held_out.values()) < 0.6


def f1(found, wrong):
    return f1_score(wrong, found.issues[found.issues["kind"] == "label"].sort_values("row")["flag"].to_numpy(bool))


def test_texts_are_judged_by_what_the_encoder_reads(texts):
    path, wrong = texts
    found = holdfast.check(path, label="label", encoder=TEXTS)
    assert f1(found, wrong) > 0.95
    assert learned(found)
    assert f1(holdfast.check(path, label="label", encoder=None), wrong) < 0.5
    assert f"texts are read by {TEXTS}, a pre-trained network, beside their words" in found.findings[0].sentence


def test_texts_without_a_word_in_common_are_judged_all_the_same(texts):
    path, wrong = texts
    frame = pd.read_csv(path)
    words = pd.Series([word for line in frame["text"] for word in set(line.lower().split())]).value_counts()
    frame["text"] = [" ".join(w for w in line.split() if words[w.lower()] == 1) for line in frame["text"]]
    assert f1(holdfast.check(frame, label="label", encoder=TEXTS), wrong) > 0.9


def test_words_are_still_heard_beside_the_encoder():
    draw = np.random.default_rng(1)
    truth = draw.integers(0, 2, 300)
    # An anagram for each word: letters say nothing.
    lines = [" ".join(draw.choice([["stop", "tale", "save"], ["post", "late", "vase"]][k], 4)) for k in truth]
    lines = [f"{line} {k}" for k, line in enumerate(lines)]
    wrong = draw.random(300) < 0.2
    frame = pd.DataFrame({"text": lines, "label": np.where(wrong, 1 - truth, truth)})
    assert f1(holdfast.check(frame, label="label", encoder=TEXTS), wrong) > 0.9


def test_fit_finds_the_features_that_a_check_has_made(texts, tmp_path, monkeypatch):
    log = tmp_path / "log"
    monkeypatch.setenv("LETTERS_LOG", str(log))
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    holdfast.check(texts[0], label="label", encoder=TEXTS)
    made = log.read_text()
    assert made
    holdfast.read(texts[0], label="label", encoder=TEXTS)
    assert log.read_text() == made


def test_what_nobody_asked_for_is_given_up_where_it_would_take_long(texts, tmp_path, monkeypatch):
    monkeypatch.setenv("LETTERS_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("LETTERS_SLEEP", "0.05")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(reading, "usual_for_texts", lambda: TEXTS)
    monkeypatch.setattr(reading, "LOOK", 0.01)
    monkeypatch.setattr(reading, "LONGEST", 0.1)
    found = holdfast.check(texts[0], label="label")
    assert found.subject.reading.features is None
    assert "would need about" in found.findings[0].sentence
    assert f"--net {TEXTS} waits for it" in found.findings[0].sentence
    assert holdfast.check(texts[0], label="label", encoder=TEXTS).subject.reading.features is not None
    # By now they are kept, and cost nothing.
    assert holdfast.check(texts[0], label="label").subject.reading.features is not None


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Noise whose mean colour tells the label; a fifth of the labels wrong."""
    draw, root = np.random.default_rng(0), tmp_path_factory.mktemp("photographs")
    wrong = []
    for i in range(120):
        colour, given = i % 2, (i % 2) ^ int(draw.random() < 0.2)
        pixels = draw.integers(0, 230, (40, 40, 3)).astype(np.uint8)
        pixels[..., 2 * colour] += 25
        place = root / ("blue", "red")[1 - given]
        place.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(place / f"{i:03d}.png")
        wrong.append((f"{i:03d}.png", colour != given))
    return root, dict(wrong)


def test_pictures_are_judged_by_what_the_encoder_reads_and_shown_as_they_are(photographs, tmp_path):
    folder, wrong = photographs
    found = holdfast.check(folder, encoder=IMAGES)
    named = [wrong[name.rsplit("/")[-1]] for name in found.subject.rows.names]
    assert f1(found, named) > 0.95
    assert learned(found)
    assert f"pictures are read by {IMAGES}" in found.findings[0].sentence
    found.write(tmp_path)
    assert "data:image/png" in (tmp_path / "check.html").read_text()
    rows = found.subject.rows
    assert f1(holdfast.check((rows.x, rows.y), encoder=IMAGES), named) > 0.95


def test_features_of_a_file_are_judged_by_alone(texts, tmp_path):
    path, wrong = texts
    frame = pd.read_csv(path)
    letters = np.array([[text.count(letter) for letter in "xz"] for text in frame["text"]], dtype=np.float32)
    np.save(tmp_path / "own.npy", letters)
    found = holdfast.check(path, label="label", features=tmp_path / "own.npy")
    assert f1(found, wrong) > 0.95
    assert learned(found)
    assert f"the features in {tmp_path / 'own.npy'}" in found.findings[0].sentence
    np.save(tmp_path / "short.npy", letters[:10])
    with pytest.raises(HoldfastError, match="10 rows of features"):
        holdfast.check(path, label="label", features=tmp_path / "short.npy")


def test_the_command_takes_an_encoder_or_goes_without(texts, tmp_path):
    def run(*more):
        asked = ["check", str(texts[0]), "--label", "label", "--out", str(tmp_path / "out"), "--quiet", *more]
        return CliRunner().invoke(app, asked)

    assert f"texts are read by {TEXTS}" in " ".join(run("--net", TEXTS).output.split())
    assert "pre-trained" not in run("--net", "mlp").output
    assert isinstance(run("--net", "cnn9").exception, HoldfastError)


def test_an_encoder_without_anything_to_read_is_a_mistake():
    x = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(HoldfastError, match="neither texts nor pictures"):
        holdfast.check((x, (x[:, 0] > 0).astype(int)), encoder=TEXTS)

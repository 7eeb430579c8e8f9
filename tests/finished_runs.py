"""Small finished runs on real files, for the tests of what comes after training."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from PIL import Image
from sklearn.datasets import load_digits

from holdfast import Method, Run, fit
from holdfast.data.rows import Rows
from holdfast.data.source import Source
from holdfast.methods import CoPRLL
from holdfast.noise import MNIST_PAIRS, asymmetric, symmetric

SCRIPT = "<img src=x onerror=window.hacked=1>"
"""What a browser would run if it were ever taken for markup."""


def digits_run(folder) -> tuple[Run, np.ndarray]:
    """Digits as an npz file, a quarter of the labels wrong; the run and which are."""
    x, truth = load_digits(return_X_y=True)
    given = symmetric(torch.from_numpy(truth), 0.25, 10, seed=1).labels.numpy()
    rows = _digits(folder, x, given)
    run = fit(rows, CoPRLL(), "mlp", epochs=12, batch_size=64, device="cpu", out=folder / "run")
    return run, given != truth


def digits_alike_run(folder) -> np.ndarray:
    """Digits of which a third is mistaken for the one that looks like it, so that suspects come in pairs; the truth."""
    x, truth = load_digits(return_X_y=True)
    given = asymmetric(torch.from_numpy(truth), 0.35, MNIST_PAIRS, classes=10, seed=1).labels.numpy()
    fit(_digits(folder, x, given), Method(), "mlp", epochs=6, batch_size=64, device="cpu", out=folder / "run")
    return np.array([f"digit {k}" for k in truth])


def _digits(folder, x, given) -> Rows:
    names = np.array([f"digit {k}" for k in range(10)])
    pixels = (x.reshape(-1, 8, 8) * 15).astype(np.uint8)
    np.savez(folder / "digits.npz", x_train=pixels, y_train=given, class_names=names)
    rows, _ = Source.at(folder / "digits.npz", "0", 0).load()
    return rows


def photos_run(folder) -> Run:
    """A folder of images whose class and file names are markup."""
    rng = np.random.default_rng(0)
    for k, name in enumerate((SCRIPT, "'; DROP TABLE entries; --")):
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(20):
            shade = rng.integers(0, 90, (40, 40, 3)) + 160 * ((i < 18) ^ k)
            Image.fromarray(shade.astype(np.uint8)).save(folder / "photos" / name / f"{i:02d} {SCRIPT}.png")
    rows, _ = Source.at(folder / "photos", "0", 0, image_size=12).load()
    return fit(rows, Method(), "mlp", epochs=8, batch_size=8, device="cpu", out=folder / "run")


def people_run(folder) -> Run:
    """A table with numbers, categories and text, in all of which there is markup; a row in eight is labelled wrong."""
    rng = np.random.default_rng(0)
    n = 240
    rich = rng.random(n) < 0.5
    words = np.where(rich, "golf yacht board meeting", "rent bus night shift")
    frame = pd.DataFrame(
        {
            "age": np.where(rich, 55, 30) + rng.normal(0, 4, n),
            f"town {SCRIPT}": rng.choice(["A", SCRIPT, "C"], n),
            "note": [f"{w} {SCRIPT} day {i}" for i, w in enumerate(words)],
            "income": np.where(rich ^ (np.arange(n) % 8 == 0), SCRIPT, "low"),
        }
    )
    frame.to_csv(folder / "people.csv", index=False)
    rows, held_out = Source.at(folder / "people.csv", "0.2", 0, label="income").load()
    return fit(rows, Method(), "mlp", test=held_out, epochs=8, batch_size=16, device="cpu", out=folder / "run")


def notes_run(folder) -> Run:
    """Nothing but short texts, a row in eight labelled wrong."""
    rng = np.random.default_rng(0)
    sport = rng.random(160) < 0.5
    words = {True: ["match", "team", "goal", "coach"], False: ["shares", "bank", "profit", "market"]}
    notes = [f"\U0001f600 On day {i} the {' and the '.join(rng.choice(words[bool(s)], 3))} were talked about, {SCRIPT}."
             for i, s in enumerate(sport)]  # fmt: skip
    about = np.where(sport ^ (np.arange(160) % 8 == 0), "Sport", "Business")
    pd.DataFrame({"note": notes, "about": about}).to_csv(folder / "notes.csv", index=False)
    rows, _ = Source.at(folder / "notes.csv", "0", 0, label="about").load()
    return fit(rows, Method(), "mlp", epochs=8, batch_size=16, device="cpu", out=folder / "run")


def wide_run(folder) -> Run:
    """A table of fifteen columns with long names, a row in eight labelled wrong."""
    rng = np.random.default_rng(0)
    ill = rng.random(240) < 0.5
    frame = pd.DataFrame(
        {f"measurement number {k} of the patient": ill * 2.0 + rng.normal(size=240) for k in range(15)}
    )
    frame["state"] = np.where(ill ^ (np.arange(240) % 8 == 0), "seen again", "sent home")
    frame.to_csv(folder / "patients.csv", index=False)
    rows, _ = Source.at(folder / "patients.csv", "0", 0, label="state").load()
    return fit(rows, Method(), "mlp", epochs=8, batch_size=16, device="cpu", out=folder / "run")


def prices_run(folder) -> Run:
    """A regression: a linear price, one in ten far off."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    price = 1000 + x @ [200.0, -100.0] + rng.normal(0, 10, 400)
    price[::10] += rng.choice([-1, 1], 40) * 900
    pd.DataFrame({"size": x[:, 0], "age": x[:, 1], "price": price}).to_csv(folder / "prices.csv", index=False)
    rows, _ = Source.at(folder / "prices.csv", "0", 0, label="price").load()
    return fit(rows, CoPRLL(), "mlp", epochs=40, batch_size=32, device="cpu", out=folder / "run")

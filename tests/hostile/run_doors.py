"""Files of a run, one of them wrong, and files that are taken into a run."""

from __future__ import annotations

import json
from pathlib import Path

from hostile.command_doors import command
from hostile.door import Door, into, table

from holdfast import Method, Run, fit, read
from holdfast.data.corrected import with_corrected
from holdfast.data.source import Source
from holdfast.run_folder import RunFolder


def run_folders(folder: Path) -> dict[str, Door]:
    """Files of a run, one of them wrong."""
    run, data = folder / "run", folder / "data.csv"

    def look() -> None:
        try:
            Run.records(run).issues()
        finally:
            Run.load(run).predict(read(data, label="label", recipe=Run.records(run).config.recipe)[0].x)

    def rest() -> None:
        made = Run.records(run)
        made.wrong_labels()
        made.training_rows()

    def go_on() -> None:
        saved = RunFolder(run).saved()
        if saved is None:
            return
        rows, held_out = Source.at(data, "0.25", 0, label="label").load()
        fit(rows, Method(), "mlp", test=held_out, epochs=2, evidence=True, device="cpu", out=run, resume=True)

    shares = {"run.json": (30, rest), "ledger.npz": (6, look), "history.csv": (3, rest), "model.safetensors": (2, look),
              "held_out.safetensors": (3, look), "reviews.sqlite": (2, look), "start.safetensors": (1, go_on),
              "evidence.safetensors": (1, go_on), "checkpoint/last.safetensors": (2, go_on)}  # fmt: skip
    doors = {
        f"run {name}": Door(((run / name).read_bytes(),), into(run / name, then), share)
        for name, (share, then) in shares.items()
    }
    labels = (folder / "run" / "issues.csv").read_text().splitlines()
    corrected = "\n".join(
        ["row,given,label,reviewed", *(f"{i},{name},no,true" for i, name in enumerate(table()["label"]))]
    ).encode()
    path = folder / "corrected.csv"
    doors["corrected labels"] = Door(
        (corrected, "\n".join(labels).encode()),
        into(path, lambda: with_corrected(read(data, label="label")[0], path)),
        1,
    )
    about = {"holdfast_row": 1, "holdfast_run": Run.records(run).config.fingerprint}
    annotation = {"completed_by": {"id": 1, "email": "a@x.org"}, "was_cancelled": False, "result": [
        {"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": ["yes"]}}]}  # fmt: skip
    studio = [{"id": 1, "data": about, "annotations": [annotation]}]
    response = {"value": "yes", "status": "submitted", "user_id": 7}
    argilla = [{"id": "a", "metadata": about, "responses": {"label": [response]}}]
    back = folder / "back.json"
    samples = tuple(json.dumps(each).encode() for each in (studio, argilla))
    doors["labels of other tools"] = Door(samples, into(back, lambda: command(["import", str(run), str(back)])), 2)
    options = folder / "options.yaml"
    yaml = b"epochs: 1\nlabel: label\nmethod: standard\nset: {rate: 0.5}\nmerge: ['a=b']\nout: x\n"
    words = ["noise", str(data), "--out", str(folder / "noisy.csv"), "--config", str(options)]
    noise = b"label: label\nrate: 0.3\nkind: symmetric\nset: {exact: true}\nout: n.csv\n"
    doors["options file"] = Door((yaml, noise), into(options, lambda: command(words)), 8)
    return doors

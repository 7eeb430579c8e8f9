"""From a CSV file to a trained model and its predictions, in Python; the command line does the same."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sklearn.datasets import load_wine

import holdfast

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
wine = load_wine(as_frame=True)
wine.frame.assign(target=wine.target.map(dict(enumerate(wine.target_names)))).to_csv(folder / "wine.csv", index=False)

rows, _ = holdfast.read(folder / "wine.csv", label="target")
train, test = rows.split(0.25, seed=0)
run = holdfast.fit(train, net="mlp", test=test, epochs=40, out=folder / "run")
print(run)
print(run.predict(test.x[:5]))
print(run.ledger.sort_values("margin").head())

again = holdfast.load(folder / "run")
assert (again.predict(test.x) == run.predict(test.x)).all()

"""Draws ``results/scale.png`` from what ``scale.py`` has measured: what finding wrong labels takes, beside cleanlab.

python benchmarks/scale_picture.py
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from protocol import RESULTS

from holdfast.plots import COLOURS, save, tidy

CASES = {
    "issues_1m_10": "1,000,000 rows\n10 classes",
    "issues_100k_1000": "100,000 rows\n1,000 classes",
    "issues_1m_1000": "1,000,000 rows\n1,000 classes",
}
PANELS = {"cpu": "CPU seconds", "mb": "MB of memory beside the probabilities"}
WAYS = {"": "Holdfast", "cleanlab_": "cleanlab 2.9.0"}
THICK = 0.38


def main() -> None:
    table = pd.read_csv(RESULTS / "scale.csv").drop_duplicates(["what", "rows"], keep="last")
    table = table.sort_values("rows").drop_duplicates("what", keep="last").set_index("what")
    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    axes = figure.subplots(1, len(PANELS), sharey=True)
    for axis, (column, title) in zip(axes, PANELS.items(), strict=True):
        for number, (prefix, name) in enumerate(WAYS.items()):
            values = table.loc[list(CASES), prefix + column]
            places = [place + (number - 0.5) * THICK for place in range(len(CASES))]
            axis.barh(places, values.fillna(0), THICK, color=COLOURS[number], label=name)
            for place, value in zip(places, values, strict=True):
                text = "not run" if pd.isna(value) else f"{value:.2f}" if column == "cpu" else f"{value:,.0f}"
                axis.annotate(text, (0 if pd.isna(value) else value, place), (3, 0), textcoords="offset points",
                              va="center", fontsize=9)  # fmt: skip
        axis.set(xlabel=title, yticks=range(len(CASES)), yticklabels=CASES.values())
        axis.margins(x=0.14)
        axis.set_axisbelow(True)
        tidy(axis)
    axes[0].invert_yaxis()
    axes[0].legend(frameon=False)
    save(figure, RESULTS / "scale.png")


if __name__ == "__main__":
    main()

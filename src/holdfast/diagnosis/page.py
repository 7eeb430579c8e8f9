"""A diagnosis as a page: a picture and a sentence for each thing that was looked at."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from holdfast.diagnosis.diagnose import Diagnosis
from holdfast.files import write_text
from holdfast.plots import COLOURS, tidy
from holdfast.theory.early import Condition, Setting, drift, step_size, stop_after

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN = COLOURS[:3]


class Panel(NamedTuple):
    """One picture and what it says."""

    title: str
    sentence: str
    draw: Callable[[Axes], None]


def write_page(diagnosis: Diagnosis, path: Path) -> None:
    """One HTML file that needs nothing else."""
    parts = [
        f'<section><h2>{panel.title}</h2><img alt="{html.escape(panel.sentence)}" src="{_picture(panel)}">'
        f"<p>{html.escape(panel.sentence)}</p></section>"
        for panel in panels(diagnosis)
    ]
    config = diagnosis.run.config
    run = html.escape(f"{config.call} on {config.net or config.network}, {len(diagnosis.run.history)} epochs")
    write_text(path, _PAGE.format(run=run, parts="\n".join(parts), conditions=_conditions(diagnosis)))


def panels(diagnosis: Diagnosis) -> Iterator[Panel]:
    """What there is to look at, in the order of the page."""
    history = diagnosis.run.history
    distance = history["distance"].to_numpy()
    gone = f"The weights have moved {distance[-1]:.2f} times the length they began with"
    near = "" if len(distance) < 4 else f", half of that by epoch {int(np.argmax(distance > distance[-1] / 2)) + 1}"
    yield Panel(
        "Distance from the start",
        f"{gone}{near}. True labels lie near the start, wrong ones far away.",
        lambda axis: _line(axis, np.arange(1, len(distance) + 1), distance, "epoch", "distance / length at the start"),
    )
    agreement, right = history["train"].to_numpy(), 1 - diagnosis.wrong
    yield Panel(
        "What distance buys",
        f"{_percent(agreement[-1])} of the given labels are met in the end, and about {_percent(right)} are "
        f"thought to be right{_excess(agreement[-1], right)}",
        lambda axis: _line(axis, distance, agreement, "distance / length at the start", "agreement with given labels"),
    )
    yield Panel(
        "Losses of trusted and distrusted labels",
        f"{_percent(diagnosis.trusted.mean())} of the rows leaned towards their given label over the run. The less the "
        "two heaps overlap, the better a loss alone tells right from wrong.",
        lambda axis: _losses(axis, diagnosis.losses, diagnosis.trusted),
    )
    then, now = (f"{found.above()} of {len(found.values)}" for found in (diagnosis.start, diagnosis.now))
    yield Panel(
        "Singular values of the Jacobian",
        f"{then} that were computed exceeded a tenth of the largest at the start, {now} do now, by "
        f"{diagnosis.weights:,} weights. Few large ones and many small ones: what the large ones span is learnt at "
        "once, the rest only by going far.",
        lambda axis: _spectra(axis, diagnosis),
    )
    yield Panel(
        "Information and nuisance",
        _information(diagnosis),
        lambda axis: _shares(axis, diagnosis),
    )
    if diagnosis.coreset is not None and diagnosis.training is not None:
        found, theorem = diagnosis.coreset, diagnosis.training
        yield Panel(
            "The Jacobian of a coreset",
            "Half of the trusted rows of the sample, chosen and weighted as CRUST does: "
            f"alpha {found.alpha:.3g}, beta {found.beta:.3g}, epsilon {found.epsilon:.3g}. "
            f"Theorem 4.1 asks for steps of {theorem.rate:.2g} and {theorem.iterations:.2g} of them.",
            lambda axis: _coreset(axis, diagnosis),
        )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _excess(met: float, right: float) -> str:
    """Whether more labels are met than are right: the others are memorised."""
    if met > right + 0.01:
        return f": at least {_percent(met - right)} of all labels are wrong and memorised."
    return ": nothing says that wrong ones were memorised."


def _information(diagnosis: Diagnosis) -> str:
    labels, residuals = diagnosis.shares["labels"].tolist(), diagnosis.shares["residuals"].tolist()
    sentence = (
        f"{_percent(labels[0])} of the labels and {_percent(residuals[0])} of the residuals lie in the directions of "
        "the large values"
    )
    if len(labels) == 1:
        return f"{sentence}. No row is distrusted, so there is nothing to compare with."
    after = f"{_percent(labels[1])} and {_percent(residuals[1])}"
    return f"{sentence}; of the trusted rows alone {after}. What lies outside can only be fitted by memorising."


def _line(axis: Axes, x: np.ndarray, y: np.ndarray, xlabel: str, ylabel: str) -> None:
    axis.plot(x, y, color=BLUE, marker="o", markersize=3, linewidth=1.6)
    axis.set(xlabel=xlabel, ylabel=ylabel)


def _losses(axis: Axes, losses: np.ndarray, trusted: np.ndarray) -> None:
    top = float(np.quantile(losses, 0.995)) or 1.0
    bins = np.linspace(0, top, 50).tolist()
    for which, colour, name in ((trusted, BLUE, "trusted"), (~trusted, ORANGE, "distrusted")):
        if which.any():
            axis.hist(losses[which].clip(0, top), bins, color=colour, alpha=0.65, label=name)
    axis.set(xlabel="loss against the given label", ylabel="rows")
    axis.legend(frameon=False)


def _spectra(axis: Axes, diagnosis: Diagnosis) -> None:
    for found, colour, name in ((diagnosis.start, ORANGE, "at the start"), (diagnosis.now, BLUE, "now")):
        values = found.values.numpy()
        axis.semilogy(np.arange(1, len(values) + 1), np.maximum(values, 1e-12), color=colour, label=name, linewidth=1.8)
        axis.axhline(values[0] / 10, color=colour, linewidth=0.8, linestyle=":")
    axis.set(xlabel="number", ylabel="singular value", title="dotted: a tenth of the largest")
    axis.title.set_fontsize(9)
    axis.legend(frameon=False)


def _shares(axis: Axes, diagnosis: Diagnosis) -> None:
    at = np.arange(len(diagnosis.shares))
    for offset, column, colour in ((-0.18, "labels", BLUE), (0.18, "residuals", ORANGE)):
        bars = axis.bar(at + offset, diagnosis.shares[column], 0.34, color=colour, label=column)
        axis.bar_label(bars, fmt="%.2f", size=8)
    axis.set(ylabel="share that is information", ylim=(0, 1.12))
    axis.set_xticks(at, [f"{line.rows} ({line.examples})" for line in diagnosis.shares.itertuples()])
    axis.legend(frameon=False, loc="upper right")


def _coreset(axis: Axes, diagnosis: Diagnosis) -> None:
    assert diagnosis.coreset is not None
    values = diagnosis.coreset.values.numpy()
    axis.semilogy(np.arange(1, len(values) + 1), np.maximum(values, 1e-12), color=GREEN, linewidth=1.8)
    for height, name in ((diagnosis.coreset.alpha, "alpha"), (diagnosis.coreset.beta, "beta")):
        axis.axhline(max(height, 1e-12), color="black", linewidth=0.8, linestyle=":")
        axis.text(len(values), max(height, 1e-12), name, ha="right", va="bottom", size=9)
    axis.set(xlabel="number", ylabel="singular value of the weighted coreset")


def _picture(panel: Panel) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 3.4), layout="constrained")
    axis = figure.subplots()
    panel.draw(axis)
    tidy(axis)
    file = io.BytesIO()
    figure.savefig(file, dpi=120, format="png", facecolor="white")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _conditions(diagnosis: Diagnosis) -> str:
    """What the theorems ask for, and by how much it is there or not."""
    if not diagnosis.conditions:
        return "<p>The theorems are about classes; for numbers to predict there is nothing to hold against them.</p>"
    titles = {"Theorem 4.1": "CRUST, Theorem 4.1, for the coreset above"}
    if diagnosis.clusters is not None:
        titles["Theorem 2.2"] = _stopping(diagnosis.clusters)
    return "\n".join(
        f"<h3>{html.escape(titles[name])}</h3>{_table(lines)}" for name, lines in diagnosis.conditions.items()
    )


def _stopping(at: Setting) -> str:
    title = f"Early stopping, Theorem 2.2, each class a cluster (lambda {at.separation.least:.2g}): "
    if at.separation.least <= 0:
        return f"{title}the centres of the classes are not apart, so it says nothing"
    stop = stop_after(at)
    return (
        f"{title}steps of {step_size(at):.2g} on the summed loss, stop after {stop:.3g} of them, "
        f"at a distance of at most {drift(at, stop):.3g}"
    )


def _table(lines: list[Condition]) -> str:
    cells = []
    for line in lines:
        if line.holds:
            verdict = f'<td class="good">holds, with a factor of {line.factor:.3g} to spare</td>'
        else:
            verdict = f'<td class="bad">fails by a factor of {1 / max(line.factor, 1e-300):.3g}</td>'
        cells.append(
            f"<tr><td>{html.escape(line.what)}</td><td>{line.required:.3g}</td><td>{line.found:.3g}</td>{verdict}"
        )
    head = "<tr><th>condition</th><th>asked</th><th>found</th><th></th></tr>"
    return f'<div class="wide"><table>{head}{"</tr>".join(cells)}</tr></table></div>'


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Diagnosis: {run}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; }}
main {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1.5rem; }}
section img {{ width: 100%; border-radius: 6px; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.1rem; margin: 0 0 .4rem; }} h3 {{ font-size: 1rem; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .3rem .8rem .3rem 0; text-align: left; }}
.wide {{ overflow-x: auto; }}
.good {{ color: light-dark(#00664a, #4cd6a8); }} .bad {{ color: light-dark(#a83c00, #ff9d66); }}
</style>
<h1>Diagnosis: {run}</h1>
<main>
{parts}
</main>
<h2>What the theorems ask for</h2>
<p>Their constants are not known and are set to one, and networks of use are far from the width they ask for: read the
factors as distances, not as verdicts.</p>
{conditions}
</html>
"""

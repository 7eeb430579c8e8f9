"""Which labels are wrong: a ranked table with a suggestion, a calibrated trust and the reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from holdfast.data.scale import unscaled
from holdfast.functional.label_trust import Trust, label_trust, trust_in
from holdfast.functional.target_trust import TargetTrust, target_trust
from holdfast.issues.scorers import probabilities
from holdfast.kept import of_labels, rows_of, unpacked

FLAGGED = 0.5
"""Labels that are likelier wrong than right are flagged."""

REVIEWED = "reviewed"
"""Why a row is trusted, or not, that a person has settled."""

Array = NDArray[Any]


def find_label_issues(labels: ArrayLike, pred_probs: ArrayLike, classes: Sequence[str] | None = None) -> pd.DataFrame:
    """Rank given labels, least trusted first, by out-of-sample probabilities from any model.

    Parameters
    ----------
    labels: (N,) class numbers from 0.
    pred_probs: (N, C) probabilities of the classes, best from a model that has not seen the row's label.
    classes: their names; numbers if not given.

    Returns
    -------
    DataFrame: row, given and suggested label, trust (the probability that the given label is right), flag, why.

    >>> int(find_label_issues([0] * 20 + [1] * 20 + [0], [[0.9, 0.1]] * 20 + [[0.1, 0.9]] * 21)["row"][0])
    40
    """
    y, expected = probabilities(labels, pred_probs)
    names = [str(k) for k in range(expected.shape[1])] if classes is None else list(classes)
    trust = label_trust(expected, y)
    right = trust.right(y)
    order = _least_first(right)
    y, right = y[order], right[order]
    doubted = order[: int((right < FLAGGED).sum())]
    wrong, rival = y[: len(doubted)], y.clone()
    rival[: len(doubted)] = trust._replace(posterior=rows_of(trust.posterior, doubted)).rival(wrong)
    del trust
    table = _class_columns(y, right, rival, names).drop(columns="rival").assign(row=order.numpy())
    some = rows_of(expected, doubted)
    table["why"] = _against(of_labels(some, rival[: len(doubted)]), of_labels(some, wrong), len(y))
    return table


def _least_first(values: Tensor) -> Tensor:
    """The order of numbers from 0 on, of equal ones the first first; as whole numbers, whose lower half is the row,
    they are sorted several times as fast.

    >>> _least_first(torch.tensor([0.5, 0.0, 0.5, 0.25]))
    tensor([1, 3, 0, 2])
    """
    if values.dtype != torch.float32:
        return values.argsort(stable=True)
    keys = (values.numpy().view(np.int32).astype(np.int64) << 32) | np.arange(len(values))
    keys.sort()
    return torch.from_numpy(keys & 0xFFFFFFFF)


def _against(expected: Tensor, given: Tensor, rows: int) -> Any:
    """What is expected against what is given, for the first of so many rows: words for each pair of per cents, and
    none for the rest."""
    first, second = (each.double().mul(100).round().long().numpy() for each in (expected, given))
    pairs, place = np.unique(first * 1000 + second, return_inverse=True)
    words = ["", *(f"expected {pair // 1000}% against {pair % 1000}%" for pair in pairs.tolist())]
    which = np.zeros(rows, dtype=np.int64)
    which[: len(first)] = place + 1
    return _called(words, which)


def _called(words: Sequence[str], which: Array) -> Any:
    """The words of some numbers; taken from a column of words, which pandas need not look through again."""
    return pd.Series(list(words)).array.take(which)


def class_table(trust: Trust, y: Tensor, names: Sequence[str]) -> pd.DataFrame:
    """One line a row, in the order of the rows: given, rival and suggested label, trust, flag."""
    return _class_columns(y, trust.right(y), trust.rival(y), names)


def _class_columns(y: Tensor, right: Tensor, rival: Tensor, names: Sequence[str]) -> pd.DataFrame:
    flag = right < FLAGGED
    return pd.DataFrame(
        {
            "row": np.arange(len(y)),
            "given": _called(names, y.numpy()),
            "suggested": _called(names, torch.where(flag, rival, y).numpy()),
            "rival": _called(names, rival.numpy()),
            "trust": right.double().clamp(0, 1).numpy(),
            "flag": flag.numpy(),
        }
    )


def with_held_out(ledger: Mapping[str, Tensor], held_out: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The ledger with further rows after its own that training has never seen; ``held_out`` marks them."""
    size, more = len(ledger["given"]), len(held_out.get("given", ()))
    joined = {"held_out": torch.arange(size + more) >= size}
    for name in {**ledger, **held_out}:
        either = ledger[name] if name in ledger else held_out[name]
        parts = [
            table.get(name, either.new_zeros(count, *either.shape[1:])).to(either.dtype)
            for table, count in ((ledger, size), (held_out, more))
        ]
        joined[name] = torch.cat(parts)
    return joined


def ledger_trust(ledger: Mapping[str, Tensor], classes: int) -> Trust:
    """How far each label of a run can be trusted: by networks that have never seen it where they were asked, else by
    what the network expected on average while it was trained on it. A reviewed label is right."""
    y, reviewed, opinions = ledger["given"], ledger.get("reviewed"), unpacked(ledger, classes)
    if "evidence" in opinions:
        return trust_in(opinions["evidence"], y, reviewed)
    return label_trust(opinions["expected"], y, reviewed)


def ledger_table(
    ledger: Mapping[str, Tensor], names: Sequence[str] | None, recipe: Mapping[str, Any], trust: Trust | None = None
) -> pd.DataFrame:
    """One line a row, in the order of the rows, from the ledger of a run; numbers have an interval beside them.

    The ledger may hold rows that were held out (``with_held_out``); the table marks them. ``trust`` is that of
    ``ledger_trust`` where it is known already.
    """
    y, expected = ledger["given"], ledger.get("evidence", ledger["expected"])
    if names is not None:
        table = class_table(ledger_trust(ledger, len(names)) if trust is None else trust, y, names)
    else:
        table = _target_table(target_trust(expected, y, ledger.get("reviewed")), y, expected, recipe)
    table["held_out"] = ledger["held_out"].numpy() if "held_out" in ledger else False
    suggested = None if names is None else table["suggested"].to_numpy()
    table["why"] = reasons(ledger, suggested, table["flag"].to_numpy())
    return table


def answered(table: pd.DataFrame, trust: Array, rows: Array, labels: Sequence[str | list[float]]) -> pd.DataFrame:
    """A table of issues after a review: trust as it is by now, and labels that reviewers have settled.

    Parameters
    ----------
    table: one line a row, with the rivals of the labels.
    trust: (N,) the probability that each label is right by now.
    rows, labels: where reviewers agree on a label, and on which.
    """
    flag, reviewed = trust < FLAGGED, np.zeros(len(table), dtype=bool)
    reviewed[rows] = True
    after = table.assign(trust=trust, flag=flag)
    for name in [name for name in table.columns if name.startswith("suggested")]:
        given, rival = (table[name.replace("suggested", which)].to_numpy(copy=True) for which in ("given", "rival"))
        values = np.where(flag, rival, given)
        after[name] = values.astype(np.float64) if values.dtype.kind == "f" else values
        number = int(name.rpartition("_")[2]) if "_" in name else 0
        after.loc[reviewed, name] = [each if isinstance(each, str) else each[number] for each in labels]
    why = np.where(flag & ~table["flag"], "as many like it were found wrong by reviewers", table["why"])
    after["why"] = np.where(reviewed, REVIEWED, np.where(flag, why, ""))
    return after


def _target_table(trust: TargetTrust, y: Tensor, expected: Tensor, recipe: Mapping[str, Any]) -> pd.DataFrame:
    flag = trust.right < FLAGGED
    suggested = torch.where(flag[:, None], expected, y)
    margin = trust.margin.to(expected)
    columns: dict[str, Array] = {"row": np.arange(len(y))}
    parts = {
        "given": y,
        "suggested": suggested,
        "rival": expected,
        "low": expected - margin,
        "high": expected + margin,
    }
    for name, scaled in parts.items():
        values = unscaled(scaled, recipe).numpy()
        for k in range(values.shape[1]):
            columns[name if values.shape[1] == 1 else f"{name}_{k}"] = values[:, k]
    return pd.DataFrame({**columns, "trust": trust.right.clamp(0, 1).numpy(), "flag": flag.numpy()})


def reasons(ledger: Mapping[str, Tensor], suggested: Array | None, flag: Array) -> Array:
    """Why each flagged row is suspect, in words; empty for the others."""
    why = np.full(len(flag), "", dtype=object)
    rows = np.flatnonzero(flag)
    counts = {name: ledger[name].numpy()[rows] for name in ("seen", "trained", "selected", "against", "changed")}
    against = counts["against"] / np.maximum(counts["seen"], 1)
    selected = counts["selected"] / np.maximum(counts["trained"], 1)
    held_out = ledger["held_out"].numpy() if "held_out" in ledger else np.zeros(len(flag), dtype=bool)
    stability = 1 - counts["changed"] / np.maximum(counts["seen"] - 1, 1)
    for k, row in enumerate(rows):
        if "evidence" in ledger and suggested is not None:
            why[row] = f"networks that never saw the label expect {suggested[row]}"
            continue
        if held_out[row]:
            what = "otherwise" if suggested is None else suggested[row]
            why[row] = f"expected {what} without having seen the label"
            continue
        parts = []
        if counts["trained"][k] and selected[k] < 0.5:
            parts.append(f"label selected in {selected[k]:.0%} of its batches")
        if against[k] >= 0.5:
            parts.append(f"gradient large in {against[k]:.0%} of the run")
        if suggested is not None and stability[k] >= 0.8:
            parts.append(f"predicted {suggested[row]} steadily")
        why[row] = "; ".join(parts) or "expected otherwise on average over the run"
    return why


def ranked(table: pd.DataFrame) -> pd.DataFrame:
    """Least trusted first, without the rivals of labels that stand."""
    rivals = [name for name in table.columns if name.startswith("rival")]
    return table.drop(columns=rivals).sort_values("trust", kind="stable", ignore_index=True)

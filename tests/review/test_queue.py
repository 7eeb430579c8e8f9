"""The queue without a server: who is asked about what, in which order, and counts that follow each answer."""

import numpy as np
import pandas as pd
import pytest
import torch

from holdfast import HoldfastError
from holdfast.review.assign import HELD, Assignments
from holdfast.review.calibrate import calibrate
from holdfast.review.end import sampled, summary
from holdfast.review.groups import number_kinds
from holdfast.review.order import Order
from holdfast.review.queue import Filter, Queue, ReviewQueue
from holdfast.review.store import Answer, Store

NAMES = ["cat", "dog", "owl", "elk"]


def table_of(n=300, seed=0, doubtful=0.9):
    rng = np.random.default_rng(seed)
    given, away = rng.integers(0, 4, n), rng.integers(1, 4, n)
    names = np.array(NAMES, dtype=object)
    trust = rng.random(n) * doubtful
    return pd.DataFrame(
        {"row": np.arange(n), "name": "", "given": names[given], "suggested": names[given],
         "rival": names[(given + away) % 4], "trust": trust, "flag": trust < 0.5, "why": ""}
    )  # fmt: skip


@pytest.fixture
def make(tmp_path):
    opened = []

    def made(table=None, **more):
        store = Store(tmp_path / "reviews.sqlite", "f")
        opened.append(store)
        return ReviewQueue(table_of() if table is None else table, NAMES, None, None, store, **more)

    yield made
    for store in opened:
        store.close()


def decide(queue, row, reviewer, verdict=Answer.keep, label=None):
    queue.store.stroke(reviewer, [queue.said(row, verdict, label)])
    queue.catch_up()


def walk(queue, reviewer, wanted=None, verdict=Answer.keep):
    """Decide what is asked until nothing is."""
    wanted, rows = wanted or Filter(), []
    while (row := queue.next(reviewer, wanted)) is not None:
        rows.append(row)
        decide(queue, row, reviewer, verdict)
    return rows


def test_orders(make):
    queue, table = make(table_of(doubtful=1.0)), table_of(doubtful=1.0)
    suspects = table[table["trust"] < 0.9]
    by_trust = walk(queue, "Ada", Filter(order=Order.trust, high=0.3))
    assert by_trust == suspects[suspects["trust"] <= 0.3].sort_values("trust").index.tolist()
    by_class = walk(queue, "Ada", Filter(order=Order.by_class, high=0.6))
    lines = table.loc[by_class]
    codes = lines["given"].map({name: k for k, name in enumerate(NAMES)}).to_numpy()
    assert (np.diff(codes) >= 0).all()
    assert all(part["trust"].is_monotonic_increasing for _, part in lines.groupby("given"))
    sample = walk(queue, "Ada", Filter(order=Order.sample))
    assert sorted(by_trust + by_class + sample) == list(range(300)), "the sample is of all rows, trusted ones too"
    assert table.loc[sample, "trust"].max() > 0.9


def test_filters_by_both_labels(make):
    queue, table = make(), table_of()
    found = walk(queue, "Ada", Filter(given="cat", suggested="owl", low=0.2))
    match = (table["given"] == "cat") & (table["rival"] == "owl") & (table["trust"] >= 0.2)
    assert sorted(found) == table.index[match].tolist()
    assert found


def test_two_reviewers_get_different_rows_until_one_goes_away(make):
    queue = make()
    first, second = queue.next("Ada", Filter()), queue.next("Bob", Filter())
    assert first != second
    assert queue.next("Ada", Filter()) == first, "who asks again gets the same"
    decide(queue, first, "Ada")
    third = queue.next("Ada", Filter())
    assert third not in (first, second)
    for _ in range(120):
        a, b = queue.next("Ada", Filter()), queue.next("Bob", Filter())
        assert a != b
        decide(queue, a, "Ada")
        decide(queue, b, "Bob")
    now = [0.0]
    assigned, seven = Assignments(8, lambda: now[0]), np.array([7])
    assigned.hand_out("Ada", [7])
    assert not assigned.free(seven, "Bob")
    assert assigned.free(seven, "Ada")
    now[0] = HELD + 1
    assert assigned.free(seven, "Bob")
    assigned.hand_out("Bob", [7])
    assigned.take_back("Ada")
    assert not assigned.free(seven, "Ada"), "what Ada had is Bob's by now"


def test_paging_with_arrows(make):
    queue = make()
    first = queue.next("Ada", Filter())
    second = queue.next("Ada", Filter(), beyond=first)
    third = queue.next("Ada", Filter(), beyond=second)
    assert len({first, second, third}) == 3
    assert queue.next("Ada", Filter(), beyond=third, back=True) == second
    assert queue.next("Ada", Filter(), beyond=second, back=True) == first
    assert queue.next("Ada", Filter(), beyond=first, back=True) is None
    decide(queue, second, "Ada")
    assert queue.next("Ada", Filter(), beyond=first) == third
    with pytest.raises(HoldfastError, match="no row"):
        queue.next("Ada", Filter(), beyond=300)


def test_second_looks_are_at_what_others_decided(make):
    queue = make()
    rows = [queue.next("Ada", Filter())]
    decide(queue, rows[0], "Ada")
    wanted = Filter(queue=Queue.second)
    assert queue.next("Ada", wanted) is None
    assert queue.progress("Bob", wanted)["open"] == 1
    assert walk(queue, "Bob", wanted) == rows
    more = [queue.next("Ada", Filter())]
    decide(queue, more[0], "Ada")
    earlier = queue.next("Ada", Filter(order=Order.trust))
    decide(queue, earlier, "Ada")
    assert sorted(walk(queue, "Bob", wanted)) == sorted([*more, earlier]), "also rows before the last one asked about"
    queue.store.undo("Bob")
    queue.catch_up()
    assert queue.progress("Bob", wanted)["open"] == 1
    assert len(walk(queue, "Bob", wanted)) == 1


def test_disputes_are_asked_of_everybody_once(make):
    queue, wanted = make(), Filter(queue=Queue.disputes)
    for row in (1, 2, 3):
        decide(queue, row, "Ada")
        decide(queue, row, "Bob", Answer.keep if row == 3 else Answer.suggestion)
    assert summary(queue)["disputed"] == 2
    assert queue.progress("Cleo", wanted)["open"] == 2
    assert sorted(walk(queue, "Ada", wanted)) == [1, 2], "Ada stays with what she said, and is not asked again"
    assert queue.next("Ada", wanted) is None
    row = queue.next("Cleo", wanted)
    decide(queue, row, "Cleo", Answer.suggestion)
    assert summary(queue)["disputed"] == 1
    assert queue.standing.decisions.settled(row).label == queue.shown.label(row, "suggested")
    other = 3 - row
    assert queue.next("Bob", wanted) == other
    decide(queue, other, "Bob", Answer.keep)
    assert summary(queue)["disputed"] == 0
    assert queue.next("Cleo", wanted) is None
    queue.store.undo("Bob")
    queue.catch_up()
    assert queue.next("Cleo", wanted) == other


def test_double_review_asks_two_about_each_row(make):
    queue = make(table_of(30), double=True)
    first = walk(queue, "Ada")
    assert len(first) == 30
    assert queue.progress("Ada", Filter())["open"] == 30, "each waits for another reviewer"
    assert sorted(walk(queue, "Bob")) == list(range(30))
    assert queue.next("Cleo", Filter()) is None
    assert queue.progress("Cleo", Filter())["open"] == 0
    assert (queue.standing.voices == 2).all()


def by_hand(queue, wanted):
    """What is open in a filter, counted anew."""
    table = table_of()
    rows = table.index[(table["trust"] >= wanted.low) & (table["trust"] <= wanted.high)]
    if wanted.given is not None:
        rows = rows[table["given"][rows] == wanted.given]
    return {row for row in rows if row not in queue.standing.decisions.by_row}


def test_counts_follow_whatever_happens(make):
    queue, other, rng = make(), make(), np.random.default_rng(1)
    filters = [Filter(), Filter(given="cat"), Filter(low=0.3, high=0.7), Filter(order=Order.trust)]
    for step in range(400):
        name, wanted = f"r{rng.integers(3)}", filters[rng.integers(len(filters))]
        writer = queue if rng.random() < 0.7 else other
        if rng.random() < 0.3:
            writer.store.undo(name)
        elif rng.random() < 0.4:
            rows = rng.choice(300, 5, replace=False).tolist()
            writer.store.stroke(name, [queue.said(row, Answer.suggestion) for row in rows])
        elif (row := queue.next(name, wanted)) is not None:
            writer.store.stroke(name, [queue.said(row, list(Answer)[rng.choice([0, 1, 3])])])
        queue.catch_up()
        if step % 7:
            continue
        for wanted in filters:
            open_rows = by_hand(queue, wanted)
            assert queue.progress(name, wanted)["open"] == len(open_rows)
            row = queue.next("somebody new", wanted)
            assert row in open_rows
            place = queue._view(wanted).place
            handed = {held[0] for held in queue._assigned._rows.values()}
            assert all(place[row] <= place[r] for r in open_rows - handed)
            second = {r for r, by in queue.standing.decisions.by_row.items() if name not in by}
            second &= set(queue._view(wanted).rows.tolist())
            assert queue.progress(name, Filter(**{**vars(wanted), "queue": Queue.second}))["open"] == len(second)
        standing = queue.standing
        left = calibrate(queue.trust, standing.reviewed, standing.wrong).left.estimate
        assert queue._tally.left() == pytest.approx(left, rel=1e-3)
        last = {row: standing.decisions.settled(row) for row in standing.decisions.by_row}
        assert standing.unsure == sum(s.label is None and not s.disputed for s in last.values())
        assert standing.disputes == {row for row, s in last.items() if s.label is None and s.disputed}
        assert standing.shared == {row for row, s in last.items() if len(s.reviewers) > 1}
    fresh = make()
    for array in ("decided", "reviewed", "wrong", "voices"):
        assert (getattr(fresh.standing, array) == getattr(queue.standing, array)).all()
    assert fresh.standing.unsure == queue.standing.unsure
    queue._counted = 0.0  # else an estimate of a moment ago would do
    assert [fresh.progress("r0", wanted) for wanted in filters] == [queue.progress("r0", wanted) for wanted in filters]


def rows_of(group):
    return [item["row"] for item in group["items"]]


def test_groups_are_the_largest_pairs_first(make):
    queue, table = make(), table_of()
    sizes = table.groupby(["given", "rival"]).size()
    group = queue.group("Ada", Filter())
    assert sizes[group["given"], group["suggested"]] == sizes.max()
    assert len(group["items"]) == min(24, sizes.max())
    assert len(group["items"]) + group["more"] == sizes.max()
    assert all((item["given"], item["suggested"]) == (group["given"], group["suggested"]) for item in group["items"])
    assert all(item["neighbours"] == [] for item in group["items"])
    seen, after = [], None
    while (group := queue.group("Ada", Filter(), after)) is not None:
        seen.append(sizes[group["given"], group["suggested"]])
        after = int(group["key"])
    assert seen == sorted(sizes, reverse=True)


def test_a_stroke_over_a_group_and_back(make):
    queue = make()
    group = queue.group("Ada", Filter())
    rows = rows_of(group)
    left, decided = rows[:2], rows[2:]
    queue.store.stroke("Ada", [queue.said(row, Answer.suggestion) for row in decided])
    queue.catch_up()
    queue.set_aside("Ada", decided, Answer.suggestion, left)
    following = queue.group("Ada", Filter(), first=int(group["key"]))
    assert not set(rows_of(following)) & set(rows), "what was taken out comes one at a time, not in a group again"
    assert following["key"] == group["key"] if group["more"] else following["key"] != group["key"]
    assert queue.progress("Ada", Filter())["open"] == 300 - len(decided)
    pair = Filter(given=group["given"], suggested=group["suggested"])
    assert set(left) <= set(queue._view(pair).rows[~queue.standing.decided[queue._view(pair).rows]].tolist())
    assert queue.store.undo("Ada") == decided
    queue.catch_up()
    assert sorted(queue.undone("Ada", decided)) == sorted(rows)
    again = queue.group("Ada", Filter(), first=int(group["key"]))
    assert set(rows_of(again)) <= set(rows) | set(rows_of(following)) | set(rows_of(again))
    assert len(again["items"]) + again["more"] == len(rows) + group["more"]


def test_what_was_taken_out_of_a_stroke_is_asked_about_next(make):
    queue = make()
    group = queue.group("Ada", Filter())
    left, decided = rows_of(group)[:3], rows_of(group)[3:]
    queue.store.stroke("Ada", [queue.said(row, Answer.suggestion) for row in decided])
    queue.catch_up()
    queue.set_aside("Ada", decided, Answer.suggestion, left)
    taken = queue.exceptions("Ada", left, Answer.suggestion, Filter())
    assert (rows_of(taken), taken["aside"], taken["more"]) == (left, "suggestion", group["more"])
    assert queue.next("Bob", Filter(given=group["given"], suggested=group["suggested"])) not in left, "Ada has them"
    following = queue.group("Ada", Filter(), first=int(taken["key"]))
    assert following["key"] == taken["key"] or not group["more"]
    assert not set(rows_of(following)) & set(left)
    queue.store.stroke("Ada", [queue.said(row, Answer.keep) for row in left[1:]])
    queue.catch_up()
    queue.set_aside("Ada", left[1:], Answer.keep, left[:1])
    for rows, aside in ((left, "suggestion"), (left + decided, None)):
        undone = queue.store.undo("Ada")
        queue.catch_up()
        shown = queue.undone("Ada", undone)
        assert set(shown) == set(rows)
        assert queue.group_of("Ada", shown, Filter())["aside"] == aside
        back = queue.group("Ada", Filter(), first=int(taken["key"]))
        assert set(left) <= set(rows_of(back)) or aside or back["more"], "no longer set aside"
    assert queue.progress("Ada", Filter())["decided"] == 0


def test_reviewers_get_different_groups(make):
    queue = make()
    ada, bob = queue.group("Ada", Filter()), queue.group("Bob", Filter())
    assert not set(rows_of(ada)) & set(rows_of(bob))
    assert queue.next("Cleo", Filter()) not in rows_of(ada) + rows_of(bob)


def test_all_suspects_are_settled_in_the_grid(make):
    queue, strokes = make(), 0
    group = queue.group("Ada", Filter())
    while group is not None:
        queue.store.stroke("Ada", [queue.said(row, Answer.suggestion) for row in rows_of(group)])
        queue.catch_up()
        strokes += 1
        group = queue.group("Ada", Filter(), first=int(group["key"]))
    assert queue.standing.decided.all()
    assert strokes <= 12 + 300 // 24


def test_groups_hold_what_looks_alike(make, tmp_path):
    table = table_of(100).assign(given="cat", suggested="cat", rival="dog")
    source = torch.Generator().manual_seed(0)
    features = torch.randn(100, 8, generator=source)
    features[::4] = torch.ones(8) + 0.1 * torch.randn(25, 8, generator=source)
    store = Store(tmp_path / "alike.sqlite", "f")
    queue = ReviewQueue(table, NAMES, features, None, store)
    group = queue.group("Ada", Filter())
    first = group["items"][0]["row"]
    unit = torch.nn.functional.normalize(features, dim=1)
    likeness = unit @ unit[first]
    shown = torch.tensor(rows_of(group))
    assert likeness[shown].min() >= likeness.sort(descending=True).values[23] - 1e-6
    store.close()


def test_numbers_are_grouped_by_direction_and_size():
    given = np.array([[10.0], [10.0], [10.0], [10.0], [10.0]])
    kinds = number_kinds(given, given + np.array([[5.0], [7.0], [-5.0], [100.0], [0.0]]))
    assert kinds.of_row[0] == kinds.of_row[1]
    assert len(set(kinds.of_row.tolist())) == 4
    assert kinds.names[kinds.of_row[0]].suggested == "higher by 4 to 8"
    assert kinds.names[kinds.of_row[2]].suggested == "lower by 4 to 8"
    assert kinds.names[kinds.of_row[4]].suggested == "the same"


def test_a_sample_estimates_the_share_of_wrong_labels(make):
    queue, wanted = make(), Filter(order=Order.sample)
    assert sampled(queue) is None
    rng = np.random.default_rng(0)
    wrong = rng.random(300) < 0.3
    for _ in range(150):
        row = queue.next("Ada", wanted)
        decide(queue, row, "Ada", Answer.suggestion if wrong[row] else Answer.keep)
    found = sampled(queue)
    assert found["rows"] == 150
    assert found["low"] <= wrong.mean() <= found["high"]
    assert 0.05 < found["high"] - found["low"] < 0.2
    gap = queue.next("Ada", wanted)
    for row in set(range(300)) - {gap}:
        decide(queue, row, "Bob", Answer.unsure if row % 2 else Answer.keep)
    assert sampled(queue)["rows"] <= 150, "nothing behind a row that nobody has decided is a random sample"


def test_a_sample_asks_about_no_row_that_was_reviewed_before_the_run(make):
    table = table_of()
    table.loc[::3, ["trust", "why"]] = [1.0, "reviewed"]
    assert sorted(walk(make(table), "Ada", Filter(order=Order.sample))) == [row for row in range(300) if row % 3]


def test_what_a_summary_counts(make):
    queue = make()
    decide(queue, 1, "Ada", Answer.keep)
    decide(queue, 2, "Ada", Answer.suggestion)
    decide(queue, 3, "Ada", Answer.unsure)
    decide(queue, 4, "Ada", Answer.keep)
    decide(queue, 4, "Bob", Answer.suggestion)
    found = summary(queue)
    assert [found[name] for name in ("kept", "corrected", "unsure", "disputed", "open")] == [1, 1, 1, 1, 296]
    assert [(line["name"], line["decided"]) for line in found["reviewers"]] == [("Ada", 4), ("Bob", 1)]
    assert found["agreement"] == [{"first": "Ada", "second": "Bob", "rows": 1, "kappa": 0.0}]

"""What labellers read: reasons, marked words, and the neighbours that they come from."""

import numpy as np
import pytest
import torch

from holdfast.review import reasons
from holdfast.review.marks import Marks
from holdfast.review.nearby import Nearby, Wanted

LINE = {"given": "Boot", "suggested": "Sneaker", "trust": 0.03, "flag": True}
JARGON = ("gradient", "batch", "epoch", "posterior", "selected", "margin", "logit")


@pytest.mark.parametrize(
    ("near", "kind", "says"),
    [
        (["Sneaker"] * 4 + ["Boot"], "picture", "Four of five similar pictures are labelled Sneaker, one Boot."),
        (["Sneaker"] * 5, "text", "All five similar texts are labelled Sneaker."),
        (["Boot"] * 5, "table", "All five similar rows are labelled Boot, as this one is."),
        (["Boot"] * 3 + ["Sneaker"] * 2, "bare", "Three of five similar rows are labelled Boot, two Sneaker."),
        (["Bag", "Coat", "Hat"], "picture", "One of three similar pictures is labelled Bag, none Boot."),
        (["Sneaker"], "picture", "The most similar picture is labelled Sneaker."),
    ],
)
def test_neighbours_in_words(near, kind, says):
    assert reasons.of_classes(LINE, [], near, kind, unseen=False)[0] == says


def test_what_the_model_gives_and_nothing_that_was_not_asked():
    likely = [("Sneaker", 0.912), ("Boot", 0.03)]
    assert reasons.of_classes(LINE, likely, [], "picture", unseen=False) == [
        "The model gives 91 % to Sneaker and 3 % to Boot."
    ]
    asked = reasons.of_classes(LINE, likely, [], "picture", unseen=True)
    assert asked[0] == "Networks that were trained without this label take it for Sneaker."
    stands = {**LINE, "trust": 0.7, "flag": False}
    kept = reasons.of_classes(stands, [("Boot", 0.7), ("Sneaker", 0.2)], [], "picture", unseen=True)
    assert kept == ["The model gives 70 % to Boot and 20 % to Sneaker."]
    assert reasons.of_classes(LINE, [], [], "picture", unseen=False) == ["The model gives 3 % to Boot."]
    every = " ".join(asked + reasons.of_numbers(1.0, 2.0, (1.5, 2.5), [2.0, 2.1])).lower()
    assert not any(word in every for word in JARGON)


def test_numbers_in_words():
    assert reasons.of_numbers(5.0, 5.0, None, []) == ["5 is expected here."]
    assert reasons.of_numbers(1.0, 3.0, None, [])[-1] == "The given value is 2 lower."


def texts(n=400, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n)
    words = [["goal", "match"], ["stock", "bank"], ["planet", "star"]]
    return [f"the {words[k][rng.integers(2)]} of day {rng.integers(9)} and more" for k in label], label


def test_words_that_speak_for_one_label_are_marked():
    passages, label = texts()
    marks = Marks(passages, label, 3)
    text = "The bank and the GOAL, a planet of more"
    found = [(text[start:end], which) for start, end, which in marks.of(text, 0, 1)]
    assert found == [("bank", "suggested"), ("GOAL", "given")], "neither small words nor those of a third class"
    assert [(text[a:b], which) for a, b, which in marks.of(text, 1, 0)] == [("bank", "given"), ("GOAL", "suggested")]
    assert marks.of("nothing known here", 0, 1) == []
    assert marks.of(text, 1, 1) == []
    assert Marks(["", "!"], np.array([0, 1]), 2).of("goal", 0, 1) == []


def test_words_that_differ_a_little_are_not_marked():
    """However surely they do: in ten thousand texts "the" is a tenth more frequent under one label."""
    label = np.repeat([0, 1], 5000)
    often = np.concatenate([np.arange(5000) % 10 < 6, np.arange(5000) % 10 < 5])
    texts = [
        f"{'the ' if has else ''}{'match' if k == 0 else 'shares'} today" for has, k in zip(often, label, strict=True)
    ]
    found = Marks(texts, label, 2).of("the match today", 0, 1)
    assert found == [(4, 9, "given")]


def test_marks_count_as_browsers_do():
    passages, label = texts()
    text = "\N{GRINNING FACE} goal"
    ((start, end, _),) = Marks(passages, label, 3).of(text, 0, 1)
    assert text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le") == "goal"


def clustered(n=3000, seed=0):
    source = torch.Generator().manual_seed(seed)
    centres = torch.randn(12, 16, generator=source)
    label = torch.randint(12, (n,), generator=source)
    points = centres[label] + 0.4 * torch.randn(n, 16, generator=source)
    given = torch.where(torch.rand(n, generator=source) < 0.2, torch.randint(12, (n,), generator=source), label)
    return torch.nn.functional.normalize(points, dim=1), given.numpy()


def test_near_rows_are_nearly_always_the_nearest():
    points, label = clustered()
    candidates = np.flatnonzero(np.arange(3000) % 3 > 0)
    nearby, hits, wanted = Nearby(points, candidates, label), 0, 0
    for row in range(0, 3000, 50):
        groups = (None, int(label[row]), 3)
        for group, found in zip(groups, nearby.nearest(row, [Wanted(5, group) for group in groups]), strict=True):
            allowed = [r for r in candidates.tolist() if r != row and (group is None or label[r] == group)]
            best = torch.tensor(allowed)[(points[allowed] @ points[row]).topk(5).indices].tolist()
            assert row not in found
            assert group is None or (label[found] == group).all()
            likeness = points[found] @ points[row]
            assert (likeness.diff() <= 0).all()
            hits, wanted = hits + len(set(found) & set(best)), wanted + 5
    assert hits / wanted > 0.9


def test_few_candidates_are_all_found():
    points, label = clustered(20)
    near, unknown = Nearby(points, np.array([3, 4, 5]), label).nearest(4, [Wanted(6), Wanted(6, 99)])
    assert (sorted(near), unknown) == ([3, 5], [])
    assert Nearby(points, np.zeros(0, dtype=np.int64), label).nearest(4, [Wanted(6)]) == [[]]
    (others,) = Nearby(points, np.arange(20), None).nearest(4, [Wanted(30)])
    assert sorted(others) == [k for k in range(20) if k != 4]

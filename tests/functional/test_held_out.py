"""Held-out opinions and nearest rows, against loops."""

import numpy as np
import torch

from holdfast.functional import nearest as module
from holdfast.functional.held_out import held_out, spread_over, stratified_folds
from holdfast.functional.nearest import nearest


class Recorder:
    """Says of each step which rows it was shown, and is best at the third."""

    seen: list = []  # noqa: RUF012

    def __init__(self):
        self.step = 0

    def advance(self, x, y):
        self.step += 1
        Recorder.seen.append((self.step, set(x[:, 0].astype(int).tolist())))

    def expected(self, x):
        sure = {1: 0.6, 2: 0.7, 3: 0.9}.get(self.step, 0.8)
        right = x[:, 0].astype(int) % 2
        return np.where(np.arange(2) == right[:, None], sure, 1 - sure)


def test_folds_stop_when_held_out_labels_become_less_likely():
    Recorder.seen = []
    x, y = np.arange(20.0)[:, None], torch.arange(20) % 2
    fold = stratified_folds(y, 4)
    found = held_out(Recorder, x, y, fold, most=9)
    assert found.steps == 3
    assert abs(found.loss + np.log(0.9)) < 1e-12
    assert max(step for step, _ in Recorder.seen) == 5
    torch.testing.assert_close(found.expected.max(1).values, torch.full((20,), 0.9, dtype=torch.float64))
    for _, rows in Recorder.seen:
        hidden = set(range(20)) - rows
        assert len({int(fold[row]) for row in hidden}) == 1
        assert len(hidden) == 5


def test_every_class_is_spread_over_the_folds():
    y = torch.tensor([0] * 40 + [1] * 10 + [2] * 5)
    fold = stratified_folds(y, 5)
    for label, each in ((0, 8), (1, 2), (2, 1)):
        assert torch.bincount(fold[y == label], minlength=5).tolist() == [each] * 5
    assert not torch.equal(fold, stratified_folds(y, 5, seed=1))


def test_classes_that_a_model_was_not_shown_are_impossible():
    whole = spread_over(np.array([[0.25, 0.75]]), np.array([0, 2]), 3)
    assert whole.tolist() == [[0.25, 0.0, 0.75]]


def test_nearest_rows_are_those_of_plain_loops(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 7)
    source = torch.Generator().manual_seed(0)
    x, label = torch.randn(40, 3, generator=source), torch.randint(2, (40,), generator=source)
    found = nearest(x, label, 4)
    for i in range(40):
        far = sorted((float((x[i] - x[j]).norm()), int(label[j])) for j in range(40) if j != i)
        torch.testing.assert_close(found.distance[i], torch.tensor([d for d, _ in far[:4]]))
        own = [d for d, its in far if its == label[i]]
        torch.testing.assert_close(found.own[i], torch.tensor(own[:4]))


def test_a_sample_stands_for_many_rows(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 50)
    x = torch.arange(1000.0)[:, None]
    found = nearest(x, torch.zeros(1000, dtype=torch.int64), 3)
    assert found.distance.shape == (1000, 3)
    assert 5 < found.distance[:, 0].median() < 20


def test_labels_without_enough_rows_are_infinitely_far():
    found = nearest(torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([0, 0, 1]), 2)
    assert found.own[2].isinf().all()
    assert found.own[0].tolist() == [1.0, torch.inf]

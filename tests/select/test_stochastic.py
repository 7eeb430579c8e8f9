import numpy as np
import pytest
import torch

from holdfast.errors import HoldfastError
from holdfast.select import facility_location
from holdfast.select.cover import Cover, Rows32, nearest_rows, selection
from holdfast.select.stochastic import stochastic_greedy


def normal(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def islands(n, seed=0):
    """Twenty clusters in eight dimensions."""
    centres = 6 * normal(20, 8, seed + 1)
    return centres[torch.arange(n) % 20] + normal(n, 8, seed)


def loss(points, index):
    p = points.double()
    return float(torch.cdist(p, p[index], compute_mode="donot_use_mm_for_euclid_dist").min(1).values.sum())


def test_all_candidates_are_exact_greedy():
    for seed in range(5):
        points = normal(150, 5, seed)
        found = stochastic_greedy(points, 40, epsilon=1e-30)
        assert found.index.tolist() == facility_location(points, 40).index.tolist()
        assert (found.gain.diff() <= 0).all()


def test_the_first_pick_is_the_best_of_its_sample():
    points = normal(400, 3)
    generator = torch.Generator().manual_seed(7)
    found = stochastic_greedy(points, 8, epsilon=0.5, generator=generator)
    draws = torch.randint(2**62, (1, 35), generator=torch.Generator().manual_seed(7))[0]  # 400 / 8 * log 2
    left = list(range(400))
    for q, draw in enumerate(draws.tolist()):
        other = q + draw % (400 - q)
        left[q], left[other] = left[other], left[q]
    total = torch.cdist(points.double(), points.double()).sum(1)
    assert int(found.index[0]) == min(left[:35], key=lambda j: float(total[j]))


def test_seeds_and_global_state():
    points = normal(600, 4)
    state = torch.get_rng_state()
    draw = [stochastic_greedy(points, 30, generator=torch.Generator().manual_seed(s)).index.tolist() for s in (1, 1, 2)]
    assert draw[0] == draw[1] != draw[2]
    assert torch.equal(state, torch.get_rng_state())


def test_value_within_the_guarantee_of_the_best():
    points = islands(500)
    far = float(torch.cdist(points, points).max())
    exact = len(points) * far - loss(points, facility_location(points, 25).index)
    values = [
        len(points) * far
        - loss(points, stochastic_greedy(points, 25, generator=torch.Generator().manual_seed(s)).index)
        for s in range(5)
    ]
    assert np.mean(values) >= (1 - 1 / np.e - 0.1) * exact
    chance = loss(points, torch.randperm(500, generator=torch.Generator().manual_seed(0))[:25])
    # F with its offset is easily within the bound; the loss tells a choice from chance.
    assert np.mean([len(points) * far - v for v in values]) < 0.8 * chance


def test_blocks_passed_over_change_nothing(monkeypatch):
    points = islands(1500)
    monkeypatch.setattr("holdfast.select.cover.CELL", 10**9)
    whole = stochastic_greedy(points, 60)
    monkeypatch.setattr("holdfast.select.cover.CELL", 64)
    cells = stochastic_greedy(points, 60)
    assert whole.index.tolist() == cells.index.tolist()


def test_near_cells_alone_lose_little(monkeypatch):
    monkeypatch.setattr("holdfast.select.cover.CELL", 32)
    points = islands(2000)
    whole = stochastic_greedy(points, 100, neighbours=None)
    near = stochastic_greedy(points, 100, neighbours=200)
    assert near.index.tolist() != whole.index.tolist()
    assert near.objective < 1.05 * whole.objective


def test_near_holds_the_points_asked_for(monkeypatch):
    monkeypatch.setattr("holdfast.select.cover.CELL", 32)
    rows = Rows32(islands(1000))
    cover = Cover(rows.values, rows.width())
    near = cover.near(100)
    assert near.diagonal().all()
    sizes = near @ cover.counts.numpy()
    assert (sizes >= 100).all()
    assert (sizes < 100 + cover.counts.max().item()).all()


def test_a_reference_is_enough():
    points = islands(2000)
    few = stochastic_greedy(points, 20, reference=1000)
    assert few.objective < 1.1 * stochastic_greedy(points, 20).objective
    assert few.objective == pytest.approx(loss(points, few.index), rel=1e-5)
    assert stochastic_greedy(points, 20, reference=2000).index.tolist() == stochastic_greedy(points, 20).index.tolist()


def test_lazy_greedy_over_candidates_is_the_textbook_greedy():
    for seed in range(4):
        points = normal(300, 3, seed)
        rows = Rows32(points)
        some = np.arange(0, 300, 3)
        picked = Cover(rows.values, rows.width()).greedy(rows.values[some], 30, alone=True)
        distance = torch.cdist(points.double(), points.double()).numpy()[some]
        best, expected = np.full(300, distance.max() * 2), []
        for _ in range(30):
            expected.append(int(np.maximum(best - distance, 0).sum(1).argmax()))
            best = np.minimum(best, distance[expected[-1]])
        assert picked.tolist() == expected
        rest = Cover(rows.values, rows.width())
        rest.serve(rows.values[some[picked[:10]]])
        assert rest.greedy(rows.values[some], 20, alone=False).tolist() == expected[10:]


def test_progress_hears_every_choice():
    class Heard:
        def __init__(self):
            self.lines = []

        def at(self, done, of):
            self.lines.append((done, of))

    heard = Heard()
    stochastic_greedy(normal(300, 2), 150, progress=heard)
    assert heard.lines[0] == (1, 150)
    assert heard.lines[-1] == (150, 150)


def test_far_from_the_origin_and_in_odd_units():
    points = normal(80, 3).double()
    plain = stochastic_greedy(points, 10)
    for moved in (points + 1e6, points * 1e25, points * 1e-25):
        found = stochastic_greedy(moved, 10)
        assert found.index.tolist() == plain.index.tolist()
        assert found.objective == pytest.approx(loss(moved, found.index), rel=1e-4)


def test_ties_go_to_the_first_in_replay():
    points = torch.tensor([[0.0], [2.0], [1.0]])
    owner, best = nearest_rows(Rows32(points).values, Rows32(points).values[:2])
    assert owner.tolist() == [0, 1, 0]
    found = selection(Rows32(points), np.array([1, 0]))
    assert found.assignment.tolist() == [1, 0, 0]
    assert found.weight.tolist() == [2, 1]
    assert best.max() > 0


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 1.0}, "epsilon"),
        ({"neighbours": 0}, "neighbours must be at least 1"),
        ({"reference": 0}, "reference must be at least 1"),
    ],
)
def test_mistakes_are_named(setting, word):
    with pytest.raises(HoldfastError, match=word):
        stochastic_greedy(normal(9, 2), 3, **setting)


def test_no_columns():
    with pytest.raises(HoldfastError, match="floats of shape"):
        stochastic_greedy(torch.zeros(3, 0), 1)

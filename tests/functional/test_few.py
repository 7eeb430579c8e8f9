"""The few classes that are kept of each row, against all of them."""

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from holdfast import HoldfastError, find_label_issues
from holdfast.functional import flips
from holdfast.functional.few import Summed, denoised, few, few_of
from holdfast.functional.flips import Columns, cells_of
from holdfast.functional.label_trust import trust_in
from holdfast.issues import label_trust, noise_of
from holdfast.kept import KEPT, Kept, mixed, packed, unpacked, with_class, written_out


def planted(rows, classes, seed=0, rate=0.2):
    """Labels of which some are wrong, and what a network that has taken over the noise expects."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=rows)
    wrong = rng.random(rows) < rate
    given = np.where(wrong, (truth + rng.integers(1, classes, size=rows)) % classes, truth)
    logits = rng.normal(size=(rows, classes))
    logits[np.arange(rows), truth] += 1.2 * np.log(classes) + 1
    sharp = np.exp(logits)
    expected = (1 - rate) * sharp / sharp.sum(1, keepdims=True) + rate / classes
    return given, truth, expected.astype(np.float32)


def test_the_largest_and_the_given_are_kept():
    given, _, expected = planted(300, 90)
    kept, wrong = few_of(expected, torch.from_numpy(given))
    assert wrong == -1
    whole = written_out(kept).numpy()
    for i in range(300):
        rest = np.delete(np.arange(90), given[i])
        best = {given[i], *rest[np.argsort(-expected[i][rest])[: KEPT - 1]]}
        assert set(np.flatnonzero(whole[i])) == best
        np.testing.assert_allclose(whole[i][list(best)], expected[i][list(best)])
    assert torch.equal(kept.largest(), torch.from_numpy(expected.argmax(1)))
    back = unpacked(packed({"x": kept}), 90)["x"]
    assert isinstance(back, Kept)
    assert back.value.dtype == torch.float16
    torch.testing.assert_close(written_out(back), written_out(kept), rtol=1e-3, atol=1e-6)


def test_pairs_find_what_all_classes_find(monkeypatch):
    """Where no more classes are kept than there are, both ways agree but for evidence that is next to none."""
    given, _, expected = planted(4_000, KEPT)
    y, evidence = torch.from_numpy(given), torch.from_numpy(expected) ** 2
    evidence /= evidence.sum(1, keepdim=True)
    kept, _ = few_of(evidence, y)
    monkeypatch.setattr(flips, "MANY_ROUNDS", 30)
    whole, few = (trust_in(each, y) for each in (evidence, kept))
    torch.testing.assert_close(few.right(y), whole.right(y), rtol=0, atol=0.02)
    assert float((few.right(y) - whole.right(y)).abs().mean()) < 2e-3
    doubted = whole.right(y) < 0.5
    assert doubted.sum() > 500
    assert (few.rival(y) == whole.rival(y))[doubted].float().mean() > 0.99
    torch.testing.assert_close(few.transition.to_dense(), whole.transition, rtol=0, atol=5e-3)


@pytest.mark.slow
def test_a_thousand_classes():
    given, truth, expected = planted(20_000, 1_000)
    table = find_label_issues(given, expected).sort_values("row")
    wrong = given != truth
    assert f1_score(wrong, table["flag"]) > 0.95
    flagged = table["flag"].to_numpy() & wrong
    assert (table["suggested"].astype(int).to_numpy() == truth)[flagged].mean() > 0.9
    y = torch.from_numpy(given)
    found = noise_of(label_trust(torch.from_numpy(expected), y), y, [str(k) for k in range(1_000)])
    low, high = found.rate[1:]
    assert low - 0.03 < wrong.mean() < high + 0.03
    assert found.transition.is_sparse
    assert found.low is None


def test_probabilities_may_lie_in_a_file(tmp_path):
    given, _, expected = planted(600, 50)
    np.save(tmp_path / "p.npy", expected.astype(np.float16))
    mapped = np.load(tmp_path / "p.npy", mmap_mode="r")
    table = find_label_issues(given, mapped)
    again = find_label_issues(given, expected.astype(np.float16).astype(np.float64))
    assert (table["row"] == again["row"]).all()
    broken = expected.copy()
    broken[17] *= 2
    with pytest.raises(HoldfastError, match="row 17 of pred_probs"):
        find_label_issues(given, broken)


def test_intervals_of_very_many_rows_are_those_of_all_rows(monkeypatch):
    """Drawn from a fifth of the rows, and made smaller."""
    from holdfast.issues import noise

    given, _, expected = planted(20_000, 5)
    y = torch.from_numpy(given)
    trust = label_trust(torch.from_numpy(expected), y)
    whole = noise_of(trust, y, list("abcde")).rate
    monkeypatch.setattr(noise, "DRAWN", 4_000)
    some = noise_of(trust, y, list("abcde")).rate
    assert some[0] == whole[0]
    assert some[1:] == pytest.approx(whole[1:], abs=0.3 * (whole[2] - whole[1]))


def test_draws_at_once_equal_draws_one_by_one():
    given, _, expected = planted(500, 4)
    y = torch.from_numpy(given)
    cells = cells_of(torch.from_numpy(expected).double(), y)
    assert isinstance(cells, Columns)
    start = cells.fit()
    weight = torch.randint(3, (6, 500), generator=torch.Generator().manual_seed(0)).double()
    wrong, tables = cells.drawn(start, weight, 3)
    for k in range(6):
        one, table = cells.drawn(start, weight[k : k + 1], 3)
        torch.testing.assert_close(one[0], wrong[k])
        torch.testing.assert_close(table[0], tables[k])


def test_what_is_summed_over_many_classes_is_what_all_of_them_give():
    rng = torch.Generator().manual_seed(0)
    y, rows = torch.arange(200) % 60, torch.randint(200, (900,), generator=rng)
    usual = 3 * torch.randn(200, 60, generator=rng)
    expected = (usual[rows] + torch.randn(900, 60, generator=rng)).softmax(1)
    some, whole = Summed(y, 60), torch.zeros(200, 60)
    for part in torch.arange(900).split(50):
        some.add(rows[part], expected[part])
        whole.index_add_(0, rows[part], expected[part])
    mean = some.mean(4.5)
    assert isinstance(mean, Kept)
    assert (written_out(mean) - whole / 4.5).abs().max() < 0.01
    torch.testing.assert_close(mean.of(y), (whole / 4.5).gather(1, y[:, None])[:, 0])
    some.add(rows, expected)
    assert not torch.equal(some.mean(4.5).value, mean.value), "a mean is a copy"


def test_the_order_of_kept_classes_says_nothing():
    given, _, expected = planted(2_000, 80)
    kept, _ = few_of(expected, torch.from_numpy(given))
    order = torch.randperm(KEPT, generator=torch.Generator().manual_seed(1))
    shuffled = Kept(kept.value[:, order], kept.number[:, order], 80)
    torch.testing.assert_close(
        written_out(denoised(shuffled, 0.2)), written_out(denoised(kept, 0.2)), rtol=1e-3, atol=1e-3
    )


def test_targets_of_many_classes_are_those_of_all():
    given, _, expected = planted(300, 70)
    y = torch.from_numpy(given)
    first, second = few(torch.from_numpy(expected), y), few(torch.from_numpy(expected).sqrt().roll(3, 0), y)
    both = mixed(first, second, 0.25)
    torch.testing.assert_close(written_out(both), torch.lerp(written_out(first), written_out(second), 0.25))
    assert torch.equal(both.largest(), written_out(both).argmax(1))
    some = torch.arange(300) < 100
    settled = written_out(with_class(both, y, some))
    assert torch.equal(settled[:100], torch.nn.functional.one_hot(y[:100], 70).float())
    assert torch.equal(settled[100:], written_out(both)[100:])


def test_few_rows_are_counted_at_once_as_many_are_label_by_label(monkeypatch):
    source = torch.Generator().manual_seed(5)
    evidence = torch.randn(300, 6, generator=source).softmax(1).double()
    y = torch.randint(6, (300,), generator=source)
    for weight in (None, torch.rand(300, generator=source).double()):
        cells = cells_of(evidence, y)
        at_once = cells.fit(weight=weight)
        likelihood = cells.likelihood(at_once)
        with monkeypatch.context() as patch:
            patch.setattr(flips, "AT_ONCE", 0)
            torch.testing.assert_close(at_once, cells.fit(weight=weight), rtol=0, atol=1e-12)
            assert likelihood == pytest.approx(cells.likelihood(at_once), abs=1e-12)

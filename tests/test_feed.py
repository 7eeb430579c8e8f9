import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from holdfast import HoldfastError, Rows
from holdfast.augment import CropFlip, PadCropFlip
from holdfast.data.rows import as_rows
from holdfast.feed import Feed, as_float, inputs_of
from holdfast.types import Plan


def numbered(n=10, width=1):
    return Rows(torch.arange(float(n))[:, None].repeat(1, width), torch.arange(n) % 2, ("even", "odd"))


class Squares(Dataset):
    """A map-style dataset that yields (input, anything)."""

    def __len__(self):
        return 10

    def __getitem__(self, i):
        return torch.tensor([float(i)]), "ignored"


def test_an_epoch_visits_every_row_once_in_a_new_order():
    feed = Feed(numbered(), batch_size=4)
    epochs = [torch.cat([batch.index for batch in feed.batches()]) for _ in range(2)]
    for order in epochs:
        assert sorted(order.tolist()) == list(range(10))
    assert epochs[0].tolist() != epochs[1].tolist()
    batch = next(iter(feed.batches()))
    assert batch.x[:, 0].tolist() == batch.index.tolist()
    assert batch.y.tolist() == [i % 2 for i in batch.index.tolist()]
    assert batch.weight.tolist() == [1] * 4


def test_a_last_batch_of_one_joins_the_one_before():
    assert [len(b.index) for b in Feed(numbered(9), batch_size=4).batches()] == [4, 5]
    assert [len(b.index) for b in Feed(numbered(10), batch_size=4).batches()] == [4, 4, 2]


def test_the_same_seed_gives_the_same_epoch():
    one, two, other = (Feed(numbered(), batch_size=3, seed=s) for s in (5, 5, 6))
    order = [[b.index.tolist() for b in feed.batches()] for feed in (one, two, other)]
    assert order[0] == order[1] != order[2]


def test_a_plan_gives_rows_weights_targets_and_partners():
    feed = Feed(numbered(), batch_size=2)
    index, partner = torch.tensor([1, 4, 7]), torch.tensor([2, 4, 0])
    plan = Plan(index, torch.tensor([1.0, 2, 3]), partner, torch.tensor([0.5, 0.25, 0.0]))
    seen = {}
    for batch in feed.batches(plan):
        for i, x, y, w in zip(
            batch.index.tolist(), batch.x[:, 0].tolist(), batch.y.tolist(), batch.weight.tolist(), strict=True
        ):
            seen[i] = (x, y, w)
    assert seen == {1: (1.5, [0.5, 0.5], 1), 4: (4.0, [1.0, 0.0], 2), 7: (7.0, [0.0, 1.0], 3)}
    target = torch.eye(2)[torch.zeros(10).long()]
    assert all(b.y.tolist() == [[1.0, 0.0]] * len(b.y) for b in feed.batches(Plan(index, target=target)))


def test_a_map_style_dataset_feeds_the_same_batches():
    y = torch.arange(10) % 2
    tensor = Feed(numbered(), batch_size=4)
    mapped = Feed(Rows(Squares(), y, ("even", "odd")), batch_size=4)
    for a, b in zip(tensor.batches(), mapped.batches(), strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.index, b.index)
    net = nn.Linear(1, 2)
    torch.testing.assert_close(tensor.outputs(net), mapped.outputs(net))


def test_outputs_are_in_order_without_dropout_and_put_the_mode_back():
    feed = Feed(numbered(), batch_size=4)
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 2)).train()
    output, features = feed.features(net)
    assert net.training
    assert not output.requires_grad
    torch.testing.assert_close(net[3](features), output)
    torch.testing.assert_close(feed.outputs(net), output)


def test_views_are_augmented_apart():
    images = Rows(torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8), torch.arange(6) % 2, ("a", "b"))
    feed = Feed(images, batch_size=6, augment=PadCropFlip(2))
    first, second = next(iter(feed.batches(views=2))).x
    assert first.shape == second.shape == (6, 3, 8, 8)
    assert not torch.equal(first, second)
    assert first.dtype == torch.float32
    assert 0 <= first.min() <= first.max() <= 1


def test_each_view_may_have_an_augmentation_of_its_own():
    rows = Rows(torch.arange(8.0)[:, None], torch.zeros(8, dtype=torch.int64), ("a", "b"))
    feed = Feed(rows, batch_size=4, augment=[lambda x, generator: x, lambda x, generator: x + 100])
    for batch in feed.batches(views=2):
        assert torch.equal(batch.x[0][:, 0], batch.index.float())
        assert torch.equal(batch.x[1], batch.x[0] + 100)
    partner = Plan(torch.arange(8), partner=torch.arange(8).roll(1), share=torch.full((8,), 0.5))
    batch = next(feed.batches(partner, 2))
    torch.testing.assert_close(batch.x[1], batch.x[0] + 100)
    with pytest.raises(HoldfastError, match=r"2 augmentations for 1 view\(s\)"):
        next(feed.batches())


def test_pad_crop_flip_against_a_loop():
    x = torch.arange(2 * 1 * 5 * 5, dtype=torch.float32).reshape(2, 1, 5, 5)
    out = PadCropFlip(1)(x, torch.Generator().manual_seed(0))
    padded = nn.functional.pad(x, (1, 1, 1, 1))
    for image, result in zip(padded, out, strict=True):
        crops = [image[:, r : r + 5, c : c + 5] for r in range(3) for c in range(3)]
        assert any(torch.equal(result, crop) or torch.equal(result, crop.flip(2)) for crop in crops)


def test_bytes_become_floats_and_floats_stay():
    assert as_float(torch.tensor([0, 255], dtype=torch.uint8)).tolist() == [0.0, 1.0]
    x = torch.tensor([3.0])
    assert as_float(x) is x


def test_more_rows_in_a_batch_than_there_are():
    with pytest.raises(HoldfastError, match="10 rows are fewer than a batch of 128; pass a batch size of at most 10"):
        Feed(numbered())


def test_pairs_become_rows():
    rows = as_rows(([[1, 2], [3, 4], [5, 6]], ["no", "yes", "no"]))
    assert rows.classes == ("no", "yes")
    assert rows.y.tolist() == [0, 1, 0]
    assert rows.x.dtype == torch.float32
    assert as_rows(([[1.0]], ["yes"]), like=rows).y.tolist() == [1]
    assert as_rows(([[1.0], [2.0]], [0.5, 1.0])).classes is None
    with pytest.raises(HoldfastError, match="outside the 2 classes"):
        as_rows(([[1.0]], ["maybe"]), like=rows)
    with pytest.raises(HoldfastError, match="only one class"):
        as_rows(([[1.0], [2.0]], ["a", "a"]))


def test_crops_lie_inside_and_half_are_mirrored():
    x = torch.arange(7 * 9).reshape(1, 1, 7, 9).expand(400, 2, 7, 9)
    generator = torch.Generator().manual_seed(0)
    seen = CropFlip(5)(x, generator)
    assert seen.shape == (400, 2, 5, 5)
    assert torch.equal(seen[:, 0], seen[:, 1])
    mirrored = seen[:, 0, 0, 0] > seen[:, 0, 0, 1]
    assert 150 < mirrored.sum() < 250
    upright = torch.where(mirrored[:, None, None], seen[:, 0].flip(2), seen[:, 0])
    corner = upright[:, 0, 0]
    assert torch.equal(upright - corner[:, None, None], x[:, 0, :5, :5])
    assert {(int(c) // 9, int(c) % 9) for c in corner} == {(i, j) for i in range(3) for j in range(5)}
    with pytest.raises(HoldfastError, match=r"7x9 pixels are too small for crops of 8"):
        CropFlip(8)(x, generator)


def test_chunks_are_small_where_inputs_are_large():
    assert [len(c) for c in inputs_of(torch.zeros(1500, 3), "meta")] == [1024, 476]
    assert [len(c) for c in inputs_of(torch.zeros(1, 1, 1).expand(130, 600, 600), "meta")] == [64, 64, 2]


def test_further_rows_are_asked_without_a_trace():
    feed, net = Feed(Rows(Squares(), torch.arange(10) % 2, ("a", "b")), batch_size=5), nn.Linear(1, 2)
    more = TensorDataset(torch.randn(7, 1))
    before = torch.get_rng_state(), feed.generator.get_state()
    expected = feed.expected_of(net, more)
    assert torch.equal(before[0], torch.get_rng_state())
    assert torch.equal(before[1], feed.generator.get_state())
    torch.testing.assert_close(expected, net(more.tensors[0]).softmax(1).detach())
    assert not expected.requires_grad
    torch.testing.assert_close(feed.expected_of(net, more.tensors[0]), expected)

import math

import pytest
import torch
from torch import nn

from holdfast import HoldfastError, Rows
from holdfast.contrastive import (
    MoCo,
    Probe,
    features_of,
    fine_tune,
    knn_accuracy,
    knn_predict,
    linear_accuracy,
    pretrain,
    transfer,
)
from holdfast.contrastive.evaluation import knn_votes
from holdfast.nets import build


def test_votes_of_the_specification():
    similarity, labels = torch.tensor([[0.95, 0.90, 0.85]]), torch.tensor([[0, 1, 1]])
    sharp = knn_votes(similarity.double(), labels, 2, 0.05)[0] * math.exp(0.95 / 0.05)
    assert sharp.tolist() == pytest.approx([1.7848e8, 0.8981e8], rel=1e-4)
    broad = knn_votes(similarity.double(), labels, 2, 0.5)[0] * math.exp(0.95 / 0.5)
    assert broad.tolist() == pytest.approx([6.685894, 11.523595], rel=1e-6)
    known = torch.stack([torch.tensor([c, math.sqrt(1 - c * c)]) for c in (0.95, 0.90, 0.85, -1.0)])
    labels, asked = torch.tensor([0, 1, 1, 0]), torch.tensor([[3.0, 0.0]])
    assert knn_predict(known, labels, asked, 2, k=3, temperature=0.05).tolist() == [0]
    assert knn_predict(known, labels, asked, 2, k=3, temperature=0.5).tolist() == [1]


def test_neighbours_by_plain_loops():
    source = torch.Generator().manual_seed(0)
    known, asked = torch.randn(60, 5, generator=source), torch.randn(20, 5, generator=source)
    labels = torch.randint(0, 3, (60,), generator=source)
    got = knn_predict(known, labels, asked, 3, k=7, temperature=0.1)
    for row, found in zip(asked, got, strict=True):
        similarity = [float(row.dot(other) / row.norm() / other.norm()) for other in known]
        votes = [0.0] * 3
        for place in sorted(range(60), key=lambda j: -similarity[j])[:7]:
            votes[int(labels[place])] += math.exp(similarity[place] / 0.1)
        assert votes.index(max(votes)) == int(found)


def test_features_are_what_the_head_sees_and_the_mode_is_put_back(stripes):
    torch.manual_seed(0)
    net = build("cnn4+mlp", stripes.shape, 16)
    for mode in (True, False):
        net.train(mode)
        found = features_of(net, stripes)
        assert net.training is mode
        assert all(part.training is mode for part in net.modules())
    assert found.shape == (96, 96)
    torch.testing.assert_close(found, net.features(stripes.x / 255).detach(), atol=1e-5, rtol=1e-4)
    with pytest.raises(HoldfastError, match=r"has no features"):
        features_of(nn.Linear(2, 2), stripes)


def clean(rows):
    return Rows(rows.x, rows.truth, rows.classes)


def test_accuracies_tell_good_features_from_bad(stripes):
    class Mean(nn.Module):
        def __init__(self, useful):
            super().__init__()
            self.useful = useful
            self.head = nn.Linear(12, 4)

        def features(self, x):
            return x.mean((1, 3)) if self.useful else torch.rand(len(x), 12)

    rows = clean(stripes)
    torch.manual_seed(0)
    train, test = rows.split(0.3, 0)
    assert knn_accuracy(Mean(True), train, test, k=5) == 1
    assert knn_accuracy(Mean(False), train, test, k=5) < 0.85
    assert linear_accuracy(Mean(True), train, test, epochs=30) == 1
    assert linear_accuracy(Mean(False), train, test, epochs=30) < 0.85


def test_a_linear_layer_draws_nothing_from_the_training_it_watches(stripes):
    rows = clean(stripes)
    net = build("cnn4+mlp", rows.shape, 16)
    state = torch.get_rng_state()
    linear_accuracy(net, rows, rows, epochs=2)
    assert torch.equal(torch.get_rng_state(), state)


def test_fine_tuning_starts_from_the_body_and_leaves_the_network_alone(stripes):
    rows = clean(stripes)
    torch.manual_seed(0)
    net = build("cnn4+mlp", rows.shape, 16)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    run = fine_tune(net, rows, rows, epochs=15, batch_size=24, device="cpu")
    assert run.net.head.weight.shape == (2, 96)
    assert run.history["test"].iloc[-1] > 0.95
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_transfer_takes_images_of_other_channels_and_sizes(stripes):
    rows = clean(stripes)
    net = build("cnn4+mlp", rows.shape, 16)
    grey = Rows(rows.x[:, :1, :, :10], rows.y, rows.classes)
    found = transfer(net, grey, grey, epochs=5)
    assert found["knn"] > 0.9
    single = build("cnn4+mlp", (1, 12, 12), 16)
    assert transfer(single, rows, rows, epochs=5)["knn"] > 0.9


def test_a_probe_looks_every_so_many_epochs(stripes):
    rows = clean(stripes)
    run = pretrain(
        rows, MoCo(queue=64), "cnn4", epochs=4, batch_size=24, device="cpu", watch=Probe(rows, rows, every=2, linear=3)
    )
    assert run.history["knn"].notna().tolist() == [False, True, False, True]
    assert run.history["knn"].iloc[-1] > 0.9
    assert run.history["linear"].iloc[-1] > 0.5
    assert 0 < run.history["spread"].iloc[-1] < 1.1
    collapsed = build("cnn4+mlp", rows.shape, 16).eval()
    for parameter in collapsed.body.parameters():
        parameter.data.zero_()
    assert Probe(rows, rows, every=1)(0, collapsed)["spread"] < 1e-3


def test_mistakes_are_named(stripes, line):
    with pytest.raises(HoldfastError, match="at least 1, not 0"):
        Probe(stripes, stripes, every=0)
    with pytest.raises(HoldfastError, match="judged by classes"):
        knn_accuracy(build("mlp", (3,), 2), line, line)

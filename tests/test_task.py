import pytest
import torch

from holdfast import HoldfastError
from holdfast.task import Classification, Regression


def test_cross_entropy_of_the_specification(logits, labels):
    task = Classification(3)
    losses = task.losses(logits, labels)
    torch.testing.assert_close(losses, torch.tensor([0.241311, 1.180270, 0.342076, 0.913862]), atol=1e-5, rtol=0)
    assert losses.mean().item() == pytest.approx(0.669380, abs=1e-5)


def test_gradient_is_softmax_less_label(logits, labels):
    task = Classification(3)
    z = logits.clone().requires_grad_()
    task.losses(z, labels).sum().backward()
    torch.testing.assert_close(task.gradients(logits, labels), z.grad)
    norms = task.gradients(logits, labels).norm(dim=1)
    torch.testing.assert_close(norms, torch.tensor([0.279688, 0.878189, 0.361445, 0.781428]), atol=1e-5, rtol=0)


def test_soft_labels_agree_with_hard_ones(logits, labels):
    task = Classification(3)
    soft = task.encode(labels)
    torch.testing.assert_close(task.losses(logits, soft), task.losses(logits, labels))
    torch.testing.assert_close(task.gradients(logits, soft), task.gradients(logits, labels))
    torch.testing.assert_close(task.margins(logits, soft), task.margins(logits, labels))


def test_margin_predictions_and_accuracy(logits, labels):
    task = Classification(3)
    torch.testing.assert_close(task.margins(logits, labels), torch.tensor([1.5, -0.5, 1.3, -0.2]))
    assert task.predict(logits).tolist() == [0, 1, 2, 0]
    assert task.score(task.predict(logits), labels) == 0.5


def test_top_k_accuracy(logits, labels):
    task = Classification(3)
    assert [task.top(logits, labels, k) for k in (1, 2, 3)] == [0.5, 1, 1]
    assert task.top(logits, labels, 1) == task.score(task.predict(logits), labels)
    assert task.top(torch.tensor([[3.0, 2.0, 1.0], [1.0, 3.0, 2.0]]), torch.tensor([2, 0]), 2) == 0
    # An output that says nothing must not count as right for every label.
    assert task.top(torch.zeros(3, 3), torch.arange(3), 2) == pytest.approx(2 / 3)
    for k in (0, 4):
        with pytest.raises(HoldfastError, match="k from 1 to 3"):
            task.top(logits, labels, k)


def test_regression_of_the_specification():
    task = Regression(1)
    output, y = torch.tensor([[1.0], [2.0], [3.0], [4.0]]), torch.tensor([[1.5], [2.0], [6.0], [3.0]])
    assert task.losses(output, y).mean().item() == pytest.approx(2.5625)
    assert task.gradients(output, y)[:, 0].tolist() == [-0.5, 0.0, -3.0, 1.0]


def test_r2_averages_over_targets():
    task = Regression(2)
    y = torch.tensor([[1.0, 0.0], [2.0, 1.0], [3.0, 5.0]])
    output = torch.tensor([[1.0, 1.0], [2.0, 1.0], [4.0, 4.0]])
    assert task.score(output, y) == pytest.approx(0.678571, abs=1e-5)
    assert task.score(y, y) == 1.0
    assert Regression(1).score(torch.ones(3, 1), torch.ones(3, 1)) == 1.0


@pytest.mark.parametrize("task", [Classification(3), Regression(3)])
def test_what_is_seen_at_once_is_what_each_question_answers(task, logits, labels):
    y = labels if isinstance(task, Classification) else logits.flip(0)
    seen = task.seen(logits, y)
    torch.testing.assert_close(seen.expected, task.expected(logits))
    assert torch.equal(seen.prediction, task.predict(logits))
    torch.testing.assert_close(seen.loss, task.losses(logits, y))
    torch.testing.assert_close(seen.margin, task.margins(logits, y))
    torch.testing.assert_close(seen.gradient, task.gradients(logits, y).norm(dim=1))

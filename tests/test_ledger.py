from itertools import pairwise

import torch

from holdfast.functional.few import few
from holdfast.kept import written_out
from holdfast.ledger import Ledger
from holdfast.task import Classification, Regression
from holdfast.types import Batch, Plan, Step


def test_the_ledger_equals_a_loop():
    source = torch.Generator().manual_seed(0)
    task, n = Classification(4), 30
    y = torch.randint(0, 4, (n,), generator=source)
    ledger = Ledger(y, task, buffer=16)
    seen = {i: [] for i in range(n)}
    trust = {i: [] for i in range(n)}
    for _ in range(12):
        index = torch.randperm(n, generator=source)[:7]
        output = torch.randn(7, 4, generator=source)
        weight = (torch.rand(7, generator=source) > 0.5).float()
        ledger.record(Batch(None, y[index], index, torch.ones(7)), Step(torch.zeros(()), weight, output))
        for k, i in enumerate(index.tolist()):
            seen[i].append(output[k])
            trust[i].append(weight[k].item())
    whole = torch.randn(n, 4, generator=source)
    ledger.plan(Plan(torch.arange(n), output=whole))
    found = ledger.arrays()
    for i in range(n):
        outputs = torch.stack([*seen[i], whole[i]])
        label = y[i].expand(len(outputs))
        assert found["seen"][i] == len(outputs)
        assert found["trained"][i] == len(trust[i])
        assert found["selected"][i] == sum(trust[i])
        assert torch.isclose(found["trust"][i], torch.tensor(sum(trust[i]) / max(1, len(trust[i]))))
        assert torch.isclose(found["loss"][i], task.losses(outputs, label).mean(), atol=1e-5)
        assert torch.isclose(found["margin"][i], task.margins(outputs, label).mean(), atol=1e-5)
        assert torch.isclose(found["gradient"][i], task.gradients(outputs, label).norm(dim=1).mean(), atol=1e-5)
        predicted = outputs.argmax(1).tolist()
        assert found["against"][i] == sum(one != y[i] for one in predicted)
        assert found["changed"][i] == sum(one != other for one, other in pairwise(predicted))
        torch.testing.assert_close(found["expected"][i], outputs.softmax(1).mean(0))


def test_it_says_what_was_expected_so_far_and_of_rows_without_output_what_it_is_given():
    for classes in (3, 40):
        output = torch.randn(4, classes, generator=torch.Generator().manual_seed(0))
        y = torch.arange(3)
        ledger = Ledger(y, Classification(classes))
        otherwise = torch.full((3, classes), 1 / classes)
        index = torch.tensor([0, 2])
        for some in (output[:2], output[2:]):
            ledger.record(Batch(None, y[index], index, torch.ones(2)), Step(torch.zeros(()), None, some))
        found = written_out(ledger.learning(few(otherwise, y)))
        torch.testing.assert_close(found[[0, 2]], output.softmax(1).reshape(2, 2, -1).mean(0), atol=0.02, rtol=0)
        torch.testing.assert_close(found[1], otherwise[1] * (torch.arange(classes) < 32), atol=0.01, rtol=0)


def test_a_row_trained_towards_another_label_has_no_trust():
    y = torch.tensor([0, 1, 1])
    ledger = Ledger(y, Classification(2))
    target = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.0, 1.0]])
    ledger.plan(Plan(torch.arange(3), target=target))
    ledger.record(Batch(None, target, torch.arange(3), torch.ones(3)), Step(torch.zeros(())))
    ledger.plan(None)
    ledger.record(Batch(None, y, torch.arange(3), torch.ones(3)), Step(torch.zeros(())))
    assert ledger.arrays()["selected"].tolist() == [2, 1, 2]
    assert ledger.arrays()["trust"].tolist() == [1, 0.5, 1]


def test_the_last_output_stays_even_when_batches_wait():
    ledger = Ledger(torch.zeros(3, dtype=torch.int64), Classification(2), buffer=1000)
    for value in (-5.0, 5.0):
        output = torch.tensor([[0.0, value]])
        ledger.record(
            Batch(None, torch.zeros(1), torch.tensor([1]), torch.ones(1)), Step(torch.zeros(()), None, output)
        )
    found = ledger.arrays()
    assert found["prediction"].tolist() == [0, 1, 0]
    assert found["probability"][1] > 0.99
    assert found["probability"][0].isnan()


def test_it_saves_and_loads():
    y = torch.randn(5, 2)
    one, two = Ledger(y, Regression(2)), Ledger(y, Regression(2))
    one.record(Batch(None, y, torch.arange(5), torch.ones(5)), Step(torch.zeros(()), None, y + 1))
    two.load_state_dict(one.state_dict())
    for name, value in one.arrays().items():
        torch.testing.assert_close(two.arrays()[name], value, equal_nan=True)
    torch.testing.assert_close(two.arrays()["prediction"], y + 1)

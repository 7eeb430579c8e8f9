"""A session that is told what models say which have never seen a label."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from torch import nn
from torch.optim import Adam

from holdfast import HoldfastError, Run, Session
from holdfast.issues.find import find_label_issues

EPOCHS = 20


@pytest.fixture(scope="module")
def planted():
    """Three clouds, three labels in ten wrong; the rows, which labels are wrong, and out-of-fold probabilities."""
    source = np.random.default_rng(0)
    true = source.integers(0, 3, 600)
    x = np.eye(3)[true] @ source.normal(size=(3, 20)) + 0.7 * source.normal(size=(600, 20))
    wrong = source.random(600) < 0.3
    y = np.where(wrong, (true + source.integers(1, 3, 600)) % 3, true)
    opinion = cross_val_predict(LogisticRegression(), x, y, cv=5, method="predict_proba")
    return (torch.from_numpy(x).float(), torch.from_numpy(y)), true, wrong, opinion


def trained(rows, method, **settings):
    """A network large enough to learn every label by heart, and time to do so."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, 3))
    session = Session(rows, method, epochs=EPOCHS, **settings)
    loader, optimizer = session.loader(50), Adam(net.parameters(), 0.01)
    session.begin(net, optimizer)
    for _ in range(EPOCHS):
        for batch in loader:
            optimizer.zero_grad()
            session.loss(net(batch.x), batch).backward()
            optimizer.step()
    return session


@pytest.fixture(scope="module")
def alone(planted):
    """The same without what others say."""
    return trained(planted[0], "standard")


def found(session, wrong):
    return average_precision_score(wrong, 1 - session.issues().sort_values("row")["trust"])


def test_the_list_rests_on_what_others_say(planted, alone, tmp_path):
    rows, _, wrong, opinion = planted
    told = trained(rows, "standard", evidence=opinion)
    assert found(told, wrong) > max(0.95, found(alone, wrong) + 0.02)
    judged = find_label_issues(rows[1].numpy(), opinion).sort_values("row")["trust"]
    own = told.issues().sort_values("row")["trust"]
    assert np.corrcoef(own.rank(), judged.rank())[0, 1] > 0.95
    told.save(tmp_path / "run")
    kept = Run.records(tmp_path / "run")
    assert kept.config.evidence
    assert kept.issues()["trust"].to_numpy() == pytest.approx(told.issues()["trust"].to_numpy())


def test_the_default_of_fit_trains_by_it(planted, alone):
    rows, true, wrong, opinion = planted

    def right(session):
        return float((session.net()(rows[0]).argmax(1).numpy() == true).mean())

    second = trained(rows, "second-opinion", evidence=opinion)
    assert right(second) > 0.95 > right(alone) + 0.1
    assert found(second, wrong) > 0.9


def test_numbers_have_opinions_too():
    source = np.random.default_rng(0)
    x = source.normal(size=(300, 3)).astype(np.float32)
    clean = x @ np.array([1.0, 2.0, -1.0], dtype=np.float32)
    wrong = source.random(300) < 0.1
    session = Session((x, clean + 20.0 * wrong), "second-opinion", epochs=1, evidence=clean[:, None])
    loader, net = session.loader(50), nn.Linear(3, 1)
    optimizer = Adam(net.parameters(), 0.01)
    session.begin(net, optimizer)
    for batch in loader:
        session.loss(net(batch.x), batch).backward()
        optimizer.step()
    assert found(session, wrong) > 0.99


def test_what_does_not_fit_is_refused(planted):
    rows, _, _, opinion = planted
    with pytest.raises(HoldfastError, match="pass their out-of-fold probabilities"):
        Session(rows, "second-opinion", epochs=1)
    holes = opinion.copy()
    holes[3] = np.nan
    for evidence, says in (
        (opinion[:-1], "a line for each row"),
        (opinion[:, :2], "a line for each row"),
        (holes, "no numbers"),
        (3 * opinion, "row 0 does not add up to one"),
    ):
        session = Session(rows, "standard", epochs=1, evidence=evidence)
        session.loader(50)
        net = nn.Linear(20, 3)
        with pytest.raises(HoldfastError, match=says):
            session.begin(net, Adam(net.parameters()))

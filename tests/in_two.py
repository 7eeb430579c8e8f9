"""Trainings in two real processes, several in one launch, as starting processes takes longer than training."""

import sys

import pytest
import torch

from holdfast import fit
from holdfast.fit import _fit_as_rank
from holdfast.progress import Silent


def job_for_two(*given, **named):
    """The job that fit would hand to two processes."""
    caught = []

    def catching(job, *_):
        caught.append(job)
        raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["holdfast.fit"], "_fit_in_several", catching)
        with pytest.raises(InterruptedError):
            fit(*given, devices=2, **named)
    caught[0].random = torch.get_rng_state()
    return caught[0]


def train_all(jobs, progress):
    """In each of two processes: one training after the other; of each its weights, method, ledger and losses."""
    done = {}
    for name, each in jobs.items():
        found = _fit_as_rank(each, Silent())
        if found is not None:
            run, _, method = found
            done[name] = (run.net.state_dict(), method, run.ledger, run.history["loss"].tolist())
    return done or None

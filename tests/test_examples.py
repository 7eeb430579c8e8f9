"""Every example runs as a person would run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(name, folder):
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


ELSEWHERE = {"demo.py", "lightning_module.py", "hf_trainer.py", "accelerate_loop.py", "skorch_net.py"}
"""The demo has a test of its own below; those of frameworks are trained in tests/session/test_frameworks.py."""


SLOW = {"dataset.py", "estimator.py"}


def examples():
    names = sorted({path.name for path in (ROOT / "examples").glob("*.py")} - ELSEWHERE)
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names]


@pytest.mark.parametrize("name", examples())
@pytest.mark.slow
def test_it_runs(name, tmp_path):
    assert run(name, tmp_path)


@pytest.mark.slow
def test_the_demo_shows_the_default_ahead(tmp_path):
    said = run("demo.py", tmp_path)
    assert "standard" in said
    (out,) = (tmp_path / "runs").iterdir()
    assert said.endswith((out / "report.html").as_uri())
    assert (out / "report.html").read_text().count("<img") >= 20  # the suspects are digits to look at
    assert (out / "curves.png").stat().st_size > 10_000
    import pandas as pd

    summary = pd.read_csv(out / "summary.csv", index_col="method")
    assert summary.loc["second-opinion", "last10"] > summary.loc["standard", "last10"] + 0.05

"""A real server in a process of its own, as ``holdfast review`` starts it."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pandas as pd
import pytest
from browsing import ARGUMENTS, CHROMIUM
from finished_runs import digits_alike_run, digits_run, notes_run, people_run, photos_run, prices_run, wide_run
from typer.testing import CliRunner

from holdfast.cli import app


class Server:
    def __init__(self, run):
        self.run = run
        self.start()

    def start(self):
        command = [sys.executable, "-c", "from holdfast.cli import main; main()", "review", str(self.run)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.link = next(line.strip() for line in self.process.stdout if line.startswith("http"))
        self.home = "http://" + urlsplit(self.link).netloc
        self.token = self.link.partition("token=")[2]
        self.port = urlsplit(self.link).port

    def end(self, how=signal.SIGTERM):
        os.kill(self.process.pid, how)
        self.process.wait()
        self.process.stdout.close()

    def exported(self, out):
        """The labels as ``holdfast export`` writes them, a line for each row."""
        done = CliRunner().invoke(app, ["export", str(self.run), "--out", str(out)])
        assert done.exit_code == 0, done.output
        return pd.read_csv(out).set_index("row")

    @contextmanager
    def client(self):
        """A browser's stand-in that has opened the link."""
        with httpx.Client(base_url=self.home, headers={"origin": self.home}) as session:
            assert session.get(self.link, follow_redirects=True).status_code == 200
            yield session


def served(make, folder):
    made = make(folder)
    server = Server(folder / "run")
    server.folder, server.made = folder, made
    yield server
    server.end()


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    yield from served(digits_run, tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    yield from served(photos_run, tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    yield from served(people_run, tmp_path_factory.mktemp("people"))


@pytest.fixture(scope="module")
def digits_alike(tmp_path_factory):
    yield from served(digits_alike_run, tmp_path_factory.mktemp("digits_alike"))


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    yield from served(notes_run, tmp_path_factory.mktemp("notes"))


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    yield from served(prices_run, tmp_path_factory.mktemp("prices"))


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    yield from served(wide_run, tmp_path_factory.mktemp("wide"))


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright, which drives the browser")
    if CHROMIUM is None:
        pytest.skip("no chromium here; apt-get install chromium")
    with playwright.sync_playwright() as made:
        chromium = made.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()

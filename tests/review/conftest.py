"""Real servers, as ``holdfast review`` starts them, and a real browser."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from itertools import islice
from urllib.parse import urlsplit

import httpx
import pandas as pd
import pytest
from browsing import ARGUMENTS, CHROMIUM
from finished_runs import digits_alike_run, digits_run, notes_run, people_run, photos_run, prices_run, wide_run
from typer.testing import CliRunner

from holdfast.cli import app


class Reviewed:
    """A run and the link to its page."""

    def at(self, link):
        self.link = link.strip()
        self.home = self.link.partition("/?")[0]
        self.token = self.link.partition("token=")[2]
        self.port = urlsplit(self.link).port

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


class Server(Reviewed):
    """A server of its own, which can be killed."""

    def __init__(self, run, *words, environment=None):
        self.run = run
        self.words = words
        self.environment = environment
        self.start()

    def start(self):
        words = ["-c", "from holdfast.cli import main; main()", "review", str(self.run), *self.words]
        environment = None if self.environment is None else {**os.environ, **self.environment}
        self.process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True, env=environment)
        lines = (line.strip() for line in self.process.stdout if line.startswith("http"))
        self.links = list(islice(lines, max(1, self.words.count("--reviewer"))))
        self.at(self.links[0])

    def end(self, how=signal.SIGTERM):
        os.kill(self.process.pid, how)
        self.process.wait()
        self.process.stdout.close()


HOUSE = """
import sys, threading
from holdfast.cli import app
for line in sys.stdin:
    words = ["review", line.strip()]
    threading.Thread(target=app, args=[words], kwargs={"standalone_mode": False}, daemon=True).start()
"""
"""One process in which many pages are at home: to start, it takes far longer than they do."""


class Guest(Reviewed):
    """A page at home in a process with others, which has ``made`` something as it trained."""

    def __init__(self, house, run, made):
        self.run, self.made = run, made
        print(run, file=house.stdin, flush=True)
        self.at(next(line for line in house.stdout if line.startswith("http")))


@pytest.fixture(scope="session")
def house():
    command = [sys.executable, "-c", HOUSE]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def guest(make):
    """A fixture: the page of a run, trained and started once for all tests."""

    @pytest.fixture(scope="session")
    def page(house, tmp_path_factory):
        folder = tmp_path_factory.mktemp(make.__name__)
        return Guest(house, folder / "run", make(folder))

    return page


digits_alike, notes, prices, wide = guest(digits_alike_run), guest(notes_run), guest(prices_run), guest(wide_run)
hosted_photos, hosted_people = guest(photos_run), guest(people_run)


def served(make, folder):
    make(folder)
    server = Server(folder / "run")
    server.folder = folder
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
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright, which drives the browser")
    if CHROMIUM is None:
        pytest.skip("no chromium here; apt-get install chromium")
    with playwright.sync_playwright() as made:
        chromium = made.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()

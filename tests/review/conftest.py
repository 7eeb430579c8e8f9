"""A real server in a process of its own, as ``holdfast review`` starts it."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from itertools import islice
from urllib.parse import urlsplit

import httpx
import pytest
from finished_runs import digits_run, people_run, photos_run


class Server:
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
        self.link = self.links[0]
        self.home = self.link.partition("/?")[0]
        self.token = self.link.partition("token=")[2]
        self.port = urlsplit(self.link).port

    def end(self, how=signal.SIGTERM):
        os.kill(self.process.pid, how)
        self.process.wait()
        self.process.stdout.close()

    @contextmanager
    def client(self):
        """A browser's stand-in that has opened the link."""
        with httpx.Client(base_url=self.home, headers={"origin": self.home}) as session:
            assert session.get(self.link, follow_redirects=True).status_code == 200
            yield session


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

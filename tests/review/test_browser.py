"""The page in a real browser: a killed server, markup in the data, a hundred thousand suspects, a thousand classes."""

import signal
import subprocess
import sys
import time

from browsing import opened, press, row, until
from finished_runs import SCRIPT

def test_twenty_suspects_with_keys_and_a_killed_server(browser, digits, tmp_path):
    page, reviewed = opened(browser, digits.link), []
    keys = ["k", "s", "u", "s", "k"] * 4
    for step, key in enumerate(keys):
        if step == 9:
            digits.end(signal.SIGKILL)
            page.keyboard.press("s")
            page.wait_for_selector("#notice:not([hidden])")
            assert "start holdfast review again" in page.text_content("#notice")
            digits.start()
            page = opened(browser, digits.link)
        reviewed.append((row(page), key, page.text_content("#label-given"), page.text_content("#label-suggested")))
        press(page, key)
    taken_back = reviewed.pop()
    press(page, "z")
    assert row(page) == taken_back[0]
    page.keyboard.press("o")
    page.keyboard.type("digit 7")
    page.keyboard.press("Enter")
    until(page, lambda: row(page) != taken_back[0])
    assert len({line[0] for line in reviewed}) == 19
    assert "20 decided" in page.text_content("#progress")
    assert page.problems == []
    page.context.close()

    table = digits.exported(tmp_path / "cleaned.csv")
    for title, key, given, suggested in reviewed:
        line = table.loc[int(title.split()[1])]
        assert line["given"] == given
        assert line["label"] == (suggested if key == "s" else given)
        assert line["reviewed"] == (key != "u")
        assert line["reviewers"] == "Ada"
    assert table.loc[int(taken_back[0].split()[1]), "label"] == "digit 7"
    assert table["reviewed"].sum() == 16


def test_without_a_name_nothing_is_decided(browser, digits):
    page = browser.new_page()
    page.goto(digits.link)
    page.wait_for_selector("#notice:not([hidden])")
    assert "who you are" in page.text_content("#notice")
    assert page.is_hidden("#suspect")
    page.context.close()


def test_markup_in_names_is_text(browser, photos):
    page = opened(browser, photos.link, SCRIPT)
    until(page, lambda: page.evaluate("document.getElementById('picture').naturalWidth") > 0)
    for _ in range(3):
        assert SCRIPT in page.text_content("body")
        press(page, "u")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src=x]").count() == 0
    assert page.problems == []
    page.context.close()


def test_markup_in_texts_is_text(browser, people):
    page = opened(browser, people.link)
    assert SCRIPT in page.text_content("#texts")
    assert SCRIPT in page.text_content("#fields")
    assert page.evaluate("window.hacked") is None
    assert page.problems == []
    page.context.close()


def test_an_injected_script_would_not_run(browser, digits):
    page = opened(browser, digits.link)
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=1\">')")
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    page.context.close()


MANY = """
import numpy as np, pandas as pd, torch, uvicorn
from pathlib import Path
from holdfast.review.app import application
from holdfast.review.guard import local_access
from holdfast.review.serving import listening
from holdfast.review.queue import ReviewQueue
from holdfast.review.store import Store
rng, n = np.random.default_rng(0), 100_000
names = np.array([f"class {k}" for k in range(20)], dtype=object)
given, rival = rng.integers(0, 20, n), rng.integers(1, 20, n)
table = pd.DataFrame({"row": np.arange(n), "name": "", "given": names[given], "suggested": names[(given + rival) % 20],
                      "trust": rng.random(n) * 0.89, "flag": True, "why": ""})
table["rival"] = table["suggested"]
features = torch.from_numpy(rng.normal(size=(n, 64)).astype(np.float32))
queue = ReviewQueue(table, list(names), features, None, Store(Path("reviews.sqlite"), "f"))
waiting = listening(0)
port = waiting.getsockname()[1]
print(f"http://127.0.0.1:{port}/?token=t", flush=True)
page = application(queue, local_access(port, "t"))
uvicorn.Server(uvicorn.Config(page, log_level="warning", access_log=False)).run([waiting])
"""


def test_a_hundred_thousand_suspects(browser, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", MANY], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    link = next(process.stdout).strip()
    try:
        page = opened(browser, link)
        assert "100,000 open" in page.text_content("#progress")
        start = time.perf_counter()
        page.goto(link)
        page.wait_for_selector("#suspect:not([hidden])")
        assert time.perf_counter() - start < 1
        steps = []
        for key in "ksu" * 5:
            start = time.perf_counter()
            press(page, key)
            steps.append(time.perf_counter() - start)
        assert sorted(steps)[len(steps) // 2] < 0.3
        page.context.close()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()

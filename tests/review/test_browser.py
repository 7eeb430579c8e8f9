"""The page in a real browser: a killed server, markup in the data, a hundred thousand suspects, a thousand classes."""

import signal
import socket
import threading
import time
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import torch
import uvicorn
from browsing import opened, press, row, until
from finished_runs import SCRIPT

from holdfast.review.app import application
from holdfast.review.guard import local_access
from holdfast.review.links import Links
from holdfast.review.queue import ReviewQueue
from holdfast.review.store import Store


@pytest.mark.slow
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


def test_markup_in_names_is_text(browser, hosted_photos):
    page = opened(browser, hosted_photos.link, SCRIPT)
    until(page, lambda: page.evaluate("document.getElementById('picture').naturalWidth") > 0)
    for _ in range(3):
        assert SCRIPT in page.text_content("body")
        press(page, "u")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src=x]").count() == 0
    assert page.problems == []
    page.context.close()


def test_markup_in_texts_is_text(browser, hosted_people):
    page = opened(browser, hosted_people.link)
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


def many(folder, rows, classes):
    """A queue of nothing but suspects, without anything to see of them."""
    rng = np.random.default_rng(0)
    names = np.array([f"class {k}" for k in range(classes)], dtype=object)
    given, apart = rng.integers(0, classes, rows), rng.integers(1, classes, rows)
    suggested = names[(given + apart) % classes]
    table = pd.DataFrame({"row": np.arange(rows), "name": "", "given": names[given], "suggested": suggested,
                          "rival": suggested, "trust": rng.random(rows) * 0.89, "flag": True, "why": ""})  # fmt: skip
    features = torch.from_numpy(rng.normal(size=(rows, 64)).astype(np.float32))
    return ReviewQueue(table, list(names), features, None, Store(folder / "reviews.sqlite", "f"))


@contextmanager
def serving(queue, links=None):
    """The address of a page that is served from here."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        page = application(queue, local_access(port, "t", links))
        server = uvicorn.Server(uvicorn.Config(page, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """The link to a page of a hundred thousand suspects in a thousand classes."""
    with serving(many(tmp_path_factory.mktemp("crowd"), 100_000, 1000)) as home:
        yield f"{home}/?token=t"


def test_a_link_of_ones_own_says_who_one_is(browser, tmp_path):
    queue = many(tmp_path, 60, 3)
    links = Links(queue.store, tmp_path / "key")
    token = links.make("Grace")
    with serving(queue, links) as home:
        page = browser.new_context().new_page()
        page.goto(f"{home}/?token={token}")
        page.wait_for_selector("#suspect:not([hidden])")
        assert page.input_value("#reviewer") == "Grace"
        assert page.get_attribute("#reviewer", "readonly") is not None
        number = row(page).split()[1]
        press(page, "k")
        answer = page.request.get(f"{home}/api/item/{number}").json()
        assert answer["item"]["decisions"] == ["Grace: keep"]
        page.context.close()


def test_a_hundred_thousand_suspects(browser, crowd):
    page = opened(browser, crowd)
    assert "100,000 open" in page.text_content("#progress")
    start = time.perf_counter()
    page.goto(crowd)
    page.wait_for_selector("#suspect:not([hidden])")
    assert time.perf_counter() - start < 1
    steps = []
    for key in "ksu" * 5:
        start = time.perf_counter()
        press(page, key)
        steps.append(time.perf_counter() - start)
    assert sorted(steps)[len(steps) // 2] < 0.3
    page.context.close()


def test_one_class_out_of_a_thousand_by_its_name(browser, crowd):
    page = opened(browser, crowd, "Ben")
    number = row(page).split()[1]
    page.keyboard.press("/")
    assert "of 1,000" in page.text_content("#picker-note")
    page.keyboard.type("ss 77")
    options = page.locator("#picker-list li").all_text_contents()
    assert options == ["class 77", *(f"class 77{k}" for k in range(10))]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert page.text_content("#picker-list [aria-selected=true]") == "class 770"
    assert page.get_attribute("#picker-text", "aria-activedescendant") == "option-1"
    page.keyboard.press("Enter")
    until(page, lambda: row(page).split()[1] != number)
    answer = page.request.get(f"{page.url}api/item/{number}", params={"reviewer": "Ben"}).json()
    assert answer["item"]["decisions"] == ["Ben: other"]
    page.keyboard.press("/")
    page.keyboard.type("no such class")
    page.keyboard.press("Enter")
    assert page.is_visible("#picker")
    assert "No class is called that" in page.text_content("#picker-note")
    page.context.close()

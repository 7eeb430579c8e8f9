"""A person at the review page, in a real browser: opening it, pressing keys, waiting for what comes of them."""

import shutil
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]  # fmt: skip
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


def opened(browser, link, reviewer="Ada", viewport=DESKTOP, **options):
    """The page behind a link, in a context of its own; what goes wrong in it is in ``page.problems``."""
    page = browser.new_context(viewport=viewport, **options).new_page()
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.goto(link)
    page.fill("#reviewer", reviewer)
    page.keyboard.press("Enter")
    page.wait_for_selector("#suspect:not([hidden])")
    return page


def until(page, holds):
    """Ask again and again from here: the page's policy forbids what waits inside it."""
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, "the page did not come to it within half a minute"
        page.wait_for_timeout(20)


def row(page):
    return page.text_content("#which")


def decided(page):
    """How many rows the header says are decided."""
    return int(page.text_content("#counts").split()[0].replace(",", ""))


def press(page, key):
    """Press a key and wait until another row is shown."""
    before = row(page)
    page.keyboard.press(key)
    until(page, lambda: row(page) != before)


def seen(page, selector):
    """Whether all that a selector finds lies within the window, without scrolling."""
    size, boxes = page.viewport_size, [found.bounding_box() for found in page.query_selector_all(selector)]
    return bool(boxes) and all(
        box and box["x"] >= 0 and box["y"] >= 0 and box["width"] > 0
        and box["x"] + box["width"] <= size["width"] and box["y"] + box["height"] <= size["height"]
        for box in boxes
    )  # fmt: skip

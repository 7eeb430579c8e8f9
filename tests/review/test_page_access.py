"""The page for everyone: what axe finds in each view, in light and dark, wide and narrow."""

import pytest
from browsing import DESKTOP, PHONE, opened, press, until

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
# Colours do not depend on the width, nor what stands where on the colours.
LOOKS = {"light and wide": (DESKTOP, "light"), "dark and narrow": (PHONE, "dark")}
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], "resultTypes": ["violations"]}


def faults(page):
    """Serious and critical faults in every look, each with the place where it is."""
    found = []
    for look, (viewport, scheme) in LOOKS.items():
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for fault in axe.Axe().run(page, options=RULES).response["violations"]:
            if fault["impact"] in ("serious", "critical"):
                found += [f"{look}: {fault['id']}: {node['html'][:120]}" for node in fault["nodes"]]
    return found


@pytest.fixture
def page_of(browser, request):
    """A page on a run. Axe is a script of its own, which the page's policy would forbid."""
    pages = []

    def of(run):
        pages.append(opened(browser, request.getfixturevalue(run).link, bypass_csp=True))
        return pages[-1]

    yield of
    for page in pages:
        page.context.close()


@pytest.mark.parametrize("run", ["digits_alike", "wide", "notes", "prices"])
@pytest.mark.slow
def test_one_suspect_and_the_grid(page_of, run):
    page = page_of(run)
    page.click("#filter-button")
    assert faults(page) == []
    page.click("#filter-button")
    page.keyboard.press("g")
    until(page, lambda: page.is_visible("#grid"))
    page.keyboard.press("Space")
    assert faults(page) == []


def test_the_summary(page_of):
    page = page_of("wide")
    press(page, "k")
    page.keyboard.press("e")
    until(page, lambda: page.is_visible("#summary"))
    page.click("#export")
    until(page, lambda: page.text_content("#exported"))
    assert faults(page) == []


def test_the_dialogs(page_of):
    page = page_of("wide")
    page.keyboard.press("?")
    assert faults(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.locator("#picker-list li").count() == 2
    assert faults(page) == []


def test_a_fault_would_be_found(page_of):
    page = page_of("wide")
    page.evaluate("document.getElementById('help').removeAttribute('aria-label')")
    page.evaluate("document.getElementById('help').textContent = ''")
    assert any("button-name" in fault for fault in faults(page))


def test_what_has_changed_is_told(page_of):
    """A screen reader hears of the next suspect from the one region that speaks."""
    page = page_of("notes")
    until(page, lambda: "Given" in page.text_content("#said"))
    told = page.text_content("#said")
    assert "trusted" in told
    page.keyboard.press("k")
    until(page, lambda: page.text_content("#said") != told)
    assert page.get_attribute("#said", "role") == "status"
    assert page.get_attribute("#notice", "role") == "alert"

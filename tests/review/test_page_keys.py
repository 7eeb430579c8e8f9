"""The page by keyboard: one suspect, the grid, the search, the summary, and every control in between."""

import time

import pandas as pd
import pytest
from browsing import DESKTOP, PHONE, decided, opened, press, row, seen, until


@pytest.fixture(scope="module")
def ada(browser, digits_alike):
    page = opened(browser, digits_alike.link)
    yield page
    page.context.close()


@pytest.fixture
def page(ada):
    """The page as it is when opened; a window of its own for each test would take longer than the test."""
    ada.set_viewport_size(DESKTOP)
    ada.reload()
    ada.wait_for_selector("#suspect:not([hidden])")
    yield ada
    assert ada.problems == []


def said(page, server, at, reviewer="Ada"):
    """What is kept about a row: {reviewer: verdict}."""
    answer = page.request.get(f"{server.home}/api/item/{at}", params={"reviewer": reviewer})
    return dict(line.rsplit(": ", 1) for line in answer.json()["item"]["decisions"])


def number(page):
    """The row that is shown. Rows of these runs are in the order of the file."""
    return int(row(page).split()[1])


def likely(page):
    return [node.text_content() for node in page.query_selector_all("#likely li button > span:nth-of-type(1)")]


def test_two_hundred_suspects_in_the_grid_within_forty_strokes(browser, digits_alike, tmp_path):
    """A reviewer who knows the truth takes exceptions out of each group, accepts the rest, and keeps the exceptions."""
    page, strokes, accepted, left = opened(browser, digits_alike.link, "Grace"), 0, {}, set()

    def stroke(key):
        nonlocal strokes
        strokes += 1
        page.keyboard.press(key)

    stroke("g")
    page.wait_for_selector("#grid:not([hidden])")
    while len(accepted) < 200:
        suggested, taken_out = page.text_content("#pair .accent-text"), page.is_visible("#taken-out")
        label = page.text_content("#pair b >> nth=0") if taken_out else suggested
        cells = page.query_selector_all("#cells .cell img")
        rows = [int(cell.get_attribute("src").split("/")[2].partition("?")[0]) for cell in cells]
        assert page.locator("#cells .cell[aria-selected=true]").count() == len(rows) <= 24
        wrong = [k for k, at in enumerate(rows) if digits_alike.made[at] != label]
        assert page.text_content("#grid .full").startswith("EnterKeep" if taken_out else "EnterAccept")
        across = page.evaluate("getComputedStyle(document.querySelector('.tiles')).gridTemplateColumns").count(" ") + 1
        here = 0
        for k in wrong:
            down, sideways = k // across - here // across, k % across - here % across
            for _ in range(abs(down)):
                stroke("ArrowDown" if down > 0 else "ArrowUp")
            for _ in range(abs(sideways)):
                stroke("ArrowRight" if sideways > 0 else "ArrowLeft")
            stroke("Space")
            here = k
        assert page.locator("#cells .cell[aria-selected=true]").count() == len(rows) - len(wrong)
        stroke("Enter")
        accepted.update({at: label for k, at in enumerate(rows) if k not in wrong})
        left = left - set(rows) | {rows[k] for k in wrong}
        until(page, lambda: decided(page) == len(accepted))
    assert strokes <= 40
    assert page.problems == []
    page.context.close()
    out = digits_alike.exported(tmp_path / "cleaned.csv")
    assert out.loc[list(accepted), "label"].tolist() == list(accepted.values())
    assert out.loc[list(accepted), "reviewed"].all()
    assert not out.loc[list(left), "reviewed"].any()


def test_a_stroke_over_many_rows_is_undone_at_once(page):
    before = decided(page)
    page.keyboard.press("g")
    page.wait_for_selector("#grid:not([hidden])")
    pair, many = page.text_content("#pair"), page.locator("#cells .cell").count()
    assert many > 1
    page.keyboard.press("k")
    until(page, lambda: decided(page) == before + many)
    page.keyboard.press("z")
    until(page, lambda: decided(page) == before)
    assert page.text_content("#pair") == pair
    assert page.locator("#cells .cell").count() == many


def test_what_was_taken_out_is_asked_about_next_and_kept_by_enter(page, digits_alike):
    before = decided(page)
    page.keyboard.press("g")
    page.wait_for_selector("#grid:not([hidden])")
    cells, many = "#cells .cell img", page.locator("#cells .cell").count()
    taken = [int(page.get_attribute(f"{cells} >> nth={k}", "src").split("/")[2].partition("?")[0]) for k in (0, 1)]
    for key in ("Space", "ArrowRight", "Space", "s"):
        page.keyboard.press(key)
    page.wait_for_selector("#taken-out:not([hidden])")
    assert decided(page) == before + many - 2
    assert page.locator(cells).count() == 2
    page.keyboard.press("Enter")
    until(page, lambda: decided(page) == before + many)
    assert page.is_hidden("#taken-out")
    assert [said(page, digits_alike, row)["Ada"] for row in taken] == ["keep", "keep"]
    page.keyboard.press("z")
    until(page, lambda: decided(page) == before + many - 2)
    assert page.is_visible("#taken-out"), "Enter would keep them again"
    page.keyboard.press("z")
    until(page, lambda: decided(page) == before)
    assert page.is_hidden("#taken-out")
    assert page.locator(cells).count() == many


def test_nothing_selected_decides_nothing(page):
    before = decided(page)
    page.keyboard.press("g")
    page.wait_for_selector("#grid:not([hidden])")
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    until(page, lambda: page.is_visible("#notice"))
    assert "Nothing is selected" in page.text_content("#notice")
    assert decided(page) == before
    pair = page.text_content("#pair")
    page.keyboard.press("n")
    until(page, lambda: page.text_content("#pair") != pair)
    assert decided(page) == before


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_a_refusal_is_seen_from_the_foot_of_the_page(page, width):
    page.set_viewport_size({"width": width, "height": 420})
    page.keyboard.press("g")
    page.wait_for_selector("#grid:not([hidden])")
    page.keyboard.press("End")
    until(page, lambda: page.locator("#pair").bounding_box()["y"] < 0)
    for key in ("a", "Enter"):
        page.keyboard.press(key)
    until(page, lambda: page.is_visible("#notice"))
    assert seen(page, "#notice")
    header = page.locator("header").bounding_box()
    assert page.locator("#notice").bounding_box()["y"] >= header["y"] + header["height"]


def view(page, name):
    page.click(f"nav [data-view={name}]")
    page.wait_for_selector(f"#{name}:not([hidden])")


def open_filter(page):
    page.click("#filter-button")
    page.wait_for_selector("#filters:not([hidden])")


def filtered(use):
    """A control of the filter, used after it was opened."""
    return lambda page: (open_filter(page), use(page))


CONTROLS = {
    "reviewer": lambda page: (page.fill("#reviewer", "Ada"), page.keyboard.press("Enter")),
    "filter": open_filter,
    "filter by key": lambda page: page.keyboard.press("f"),
    "queue": filtered(lambda page: page.click("[data-queue=open]")),
    "order": filtered(lambda page: page.click("[data-order=trust]")),
    "order by keyboard": filtered(lambda page: page.press("[data-order=class]", "Space")),
    "number": filtered(lambda page: (page.fill("#high", "95"), page.keyboard.press("Enter"))),
    "number left by Escape": filtered(lambda page: (page.fill("#low", "1"), page.keyboard.press("Escape"))),
    "number not left": filtered(lambda page: page.press("#low", "ArrowUp")),
    "show all": filtered(lambda page: page.click("#reset")),
    "class": filtered(lambda page: (page.click("[data-pick=given]"), page.keyboard.type("digit 1"),
                                    page.keyboard.press("Enter"))),
    "class not chosen": filtered(lambda page: (page.click("[data-pick=suggested]"), page.keyboard.press("Escape"))),
    "search left": lambda page: (page.keyboard.press("/"), page.keyboard.type("dig"), page.keyboard.press("Escape")),
    "search button": lambda page: (page.click("#search"), page.keyboard.press("Escape")),
    "key card": lambda page: (page.keyboard.press("?"), page.keyboard.press("Escape")),
    "key card by button": lambda page: (page.click("#help"), page.click("#card-close")),
    "following": lambda page: page.click("#following"),
    "grid and back": lambda page: (view(page, "grid"), page.click("#cells .cell >> nth=1"), view(page, "suspect")),
    "summary and back": lambda page: (view(page, "summary"), page.click("#export"),
                                      page.wait_for_selector("#exported:not(:empty)"),
                                      page.click("#copy"), page.keyboard.press("Escape")),
}  # fmt: skip


@pytest.mark.parametrize("control", CONTROLS)
def test_keys_work_after_every_control(page, control):
    CONTROLS[control](page)
    page.wait_for_selector("#suspect:not([hidden])")
    page.wait_for_selector("main:not([aria-busy])")
    before = decided(page)
    page.keyboard.press("k")
    until(page, lambda: decided(page) == before + 1)
    page.keyboard.press("z")
    until(page, lambda: decided(page) == before)


def test_keys_work_in_the_grid_after_its_controls(page):
    page.keyboard.press("g")
    page.wait_for_selector("#grid:not([hidden])")
    open_filter(page)
    page.click("[data-order=trust]")
    page.wait_for_selector("main:not([aria-busy])")
    before, many = decided(page), page.locator("#cells .cell").count()
    page.click("#cells .cell >> nth=0")
    page.keyboard.press("Enter")
    until(page, lambda: decided(page) == before + many - 1)
    page.click("#grid [data-undo]")
    until(page, lambda: decided(page) == before)


def test_a_name_typed_before_the_server_answers_is_kept(browser, digits_alike):
    page = browser.new_context().new_page()

    def late(route):
        time.sleep(0.5)
        route.continue_()

    page.route("**/api/setup", late)
    page.goto(digits_alike.link, wait_until="commit")
    page.fill("#reviewer", "Hedy")
    page.keyboard.press("Enter")
    page.wait_for_selector("#suspect:not([hidden])")
    assert page.input_value("#reviewer") == "Hedy"
    page.context.close()


def test_words_typed_into_a_field_decide_nothing(page):
    before = decided(page)
    page.click("#reviewer")
    page.keyboard.type("ksuz")
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    assert decided(page) == before
    page.fill("#reviewer", "Ada")
    page.keyboard.press("Enter")


def test_numbers_choose_the_likely_classes(page, digits_alike, tmp_path):
    chosen = {}
    for key in "123":
        at, labels = number(page), likely(page)
        given, suggested = page.text_content("#label-given"), page.text_content("#label-suggested")
        press(page, key)
        chosen[at] = labels[int(key) - 1]
        verdict = {given: "keep", suggested: "suggestion"}.get(chosen[at], "other")
        assert said(page, digits_alike, at)["Ada"] == verdict
    assert digits_alike.exported(tmp_path / "cleaned.csv").loc[list(chosen), "label"].tolist() == list(chosen.values())
    for _ in range(3):
        press(page, "z")


def test_arrows_page_and_decide_nothing(page):
    before, first = decided(page), row(page)
    press(page, "ArrowRight")
    press(page, "ArrowRight")
    press(page, "ArrowLeft")
    press(page, "ArrowLeft")
    assert row(page) == first
    assert decided(page) == before


def test_the_key_card_takes_the_focus_and_gives_it_back(page):
    page.keyboard.press("?")
    assert page.evaluate("document.activeElement.closest('dialog').id") == "card"
    before = decided(page)
    page.keyboard.press("k")
    page.keyboard.press("Escape")
    assert page.is_hidden("#card")
    assert page.evaluate("document.activeElement.id") == "work"
    assert decided(page) == before


def test_bar_and_words_tell_the_same_trust(page):
    for _ in range(3):
        told = int(page.text_content("#trust").split()[-2])
        width = page.evaluate(
            "document.getElementById('trust-bar').offsetWidth / document.querySelector('.meter').offsetWidth"
        )
        assert abs(100 * width - told) < 1
        assert page.query_selector_all("#reasons li")
        press(page, "ArrowRight")


def test_words_that_matter_are_marked_whole(browser, notes):
    """Whatever stands before them: some characters count twice in a browser and once in the data."""
    page = opened(browser, notes.link)
    marked = page.locator("#texts mark").all_text_contents()
    assert marked
    words = set(page.text_content("#texts").replace(",", "").split())
    assert set(marked) <= words
    assert page.is_visible("#words")
    page.keyboard.press("g")
    page.wait_for_selector("#grid:not([hidden])")
    assert page.locator("#cells mark").count() >= len(marked)
    assert page.problems == []
    page.context.close()


def test_stepping_a_number_keeps_its_field(page):
    open_filter(page)
    page.focus("#low")
    for step in ("5", "10", "15"):
        page.keyboard.press("ArrowUp")
        page.wait_for_selector("main:not([aria-busy])")
        assert page.input_value("#low") == step
    assert page.evaluate("document.activeElement.id") == "low"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "work"


def test_the_filter_covers_nothing(page):
    open_filter(page)
    header, filters = page.locator("header").bounding_box(), page.locator("#filters").bounding_box()
    assert filters["y"] >= header["y"] + header["height"] - 1
    assert page.locator("#labels").bounding_box()["y"] >= filters["y"] + filters["height"]


def test_disputes_say_who_said_what(browser, digits_alike):
    with digits_alike.client() as session:
        item = session.get("/api/next", params={"reviewer": "Ada"}).json()["item"]
        for name, verdict in (("Ada", "keep"), ("Ben", "suggestion")):
            body = {"reviewer": name, "row": item["row"], "verdict": verdict}
            assert session.post("/api/decide", json=body).status_code == 200
    page = opened(browser, digits_alike.link, "Carl")
    open_filter(page)
    page.click("[data-queue=disputes]")
    until(page, lambda: page.is_visible("#decisions"))
    assert number(page) == item["source_index"]
    lines = page.locator("#decisions li").all_text_contents()
    assert sorted(lines) == [f"Ada keeps {item['given']}", f"Ben says {item['suggested']}"]
    page.keyboard.press("s")
    until(page, lambda: page.is_visible("#done"))
    assert said(page, digits_alike, item["row"])["Carl"] == "suggestion"
    page.context.close()


def test_the_summary_counts_exports_and_tells_how_to_train_again(browser, prices):
    page = opened(browser, prices.link)
    for key in "ksu":
        press(page, key)
    page.keyboard.press("o")
    page.keyboard.type("1,2,3")
    page.keyboard.press("Enter")
    until(page, lambda: page.is_visible("#notice"))
    assert "1 finite number" in page.text_content("#notice")
    page.keyboard.press("o")
    page.keyboard.type("one thousand")
    page.keyboard.press("Enter")
    assert "no number" in page.text_content("#picker-note")
    page.fill("#picker-text", "1000.5")
    before = number(page)
    page.keyboard.press("Enter")
    until(page, lambda: number(page) != before)
    page.keyboard.press("e")
    page.wait_for_selector("#summary:not([hidden])")
    assert page.locator("#sums b").all_text_contents()[:3] == ["1", "2", "1"]
    assert page.text_content("#people tbody td") == "Ada"
    page.click("#export")
    page.wait_for_selector("#exported:not(:empty)")
    assert "3 reviewed labels, 2 of them changed" in page.text_content("#exported")
    assert page.text_content("#command").startswith("holdfast fit ")
    written = pd.read_csv(page.text_content("#exported").partition("written to ")[2]).set_index("row")
    assert written.loc[before, "label"] == 1000.5
    assert written["reviewed"].sum() == 3
    assert ["400" in problem for problem in page.problems] == [True]
    page.context.close()


@pytest.mark.parametrize("viewport", [PHONE, {"width": 360, "height": 640}], ids=["phone", "small phone"])
def test_on_a_phone_all_that_decides_is_in_view(browser, wide, viewport):
    page = opened(browser, wide.link, viewport=viewport)
    assert page.locator("#fields tr").count() == 15
    assert seen(page, "#label-given, #label-suggested")
    assert seen(page, "#suspect .actions button")
    page.evaluate("window.scrollTo(0, 400)")
    assert seen(page, "#label-given, #label-suggested, #suspect .actions button")
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    page.keyboard.press("g")
    page.wait_for_selector("#grid:not([hidden])")
    assert seen(page, "#grid .actions button")
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    page.context.close()

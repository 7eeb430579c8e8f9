"""Makes pictures of docs/ by running what they show: files are cleaned and read, two people answer on a review page.

The diagrams, which need no run, are drawn by site/diagrams.py; the pictures of the guides by tests/guides.py.

    python site/pictures.py            all of them, in about two minutes; needs Chromium
    python site/pictures.py clean      one of them
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from statistics import mean

import httpx
import matplotlib.pyplot as plt
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "clean")]

from browsing import ARGUMENTS, CHROMIUM, until  # noqa: E402
from finished_runs import digits_alike_run  # noqa: E402
from test_round_trips import messy, semicolons  # noqa: E402

LINES = """
body { margin: 0; padding: 14px 18px; width: 470px; background: #fff; color: #1b2130; font: 16px/1.5 ui-monospace,
       "DejaVu Sans Mono", monospace }
h2 { font: 600 15px system-ui, sans-serif; color: #5a6372; margin: 14px 0 4px } h2:first-child { margin-top: 0 }
div { white-space: pre } del { background: #fbdcd8; text-decoration: none; padding: 1px 3px }
ins { background: #d3efd6; text-decoration: none; padding: 1px 3px } i { color: #8a93a1 }
"""


def holdfast(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "holdfast", *words], check=True, stdout=subprocess.DEVNULL)


def photographed(browser: Browser, html: str, path: Path, width: int = 506) -> None:
    page = browser.new_page(viewport={"width": width, "height": 100}, device_scale_factor=2)
    page.set_content(html)
    page.locator("body").screenshot(path=path)
    page.close()


def clean(browser: Browser, folder: Path) -> None:
    """Lines of a file, and the same lines after it was cleaned."""
    data, cleaned = semicolons(messy(), folder), folder / "people_clean.csv"
    holdfast("fit", str(data), "--label", "income", "--missing", "drop", "--out", str(folder / "run"), "--quiet")
    holdfast("clean", str(folder / "run"), "--out", str(cleaned))
    before, after = (path.read_bytes().decode("latin-1").split("\r\n") for path in (data, cleaned))
    at = next(k for k, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
    shown = {"people.csv": (before, "del"), "people_clean.csv": (after, "ins")}
    html = f"<style>{LINES}</style>"
    for name, (lines, mark) in shown.items():
        html += f"<h2>{name}</h2><div><i>{escape(lines[0])}</i></div>"
        for k in range(at - 2, at + 3):
            start, _, last = lines[k].rpartition(";")
            last = f"<{mark}>{escape(last)}</{mark}>" if before[k] != after[k] else escape(last)
            html += f"<div>{escape(start)};{last}</div>"
    photographed(browser, html, DOCS / "clean.png")


def clean_worth(browser: Browser, folder: Path) -> None:
    """What models reach that are trained on a file as given, cleaned, and with true labels."""
    rows = list(csv.DictReader((ROOT / "benchmarks" / "results" / "clean.csv").open()))
    models = {"boosting": "boosting", "forest": "random forest", "tree": "decision tree"}
    files = {"given": ("o", "#c4665f", "as given"), "default": ("o", "#3f7fbf", "cleaned"),
             "true": ("|", "#444444", "true labels")}  # fmt: skip
    figure, panels = plt.subplots(1, 2, figsize=(8, 2.7), sharex=True, sharey=True, layout="constrained")
    titles = {"flips": "one label in five flipped", "one-sided": "two in five above 50K wrong"}
    for axis, (case, of_case) in zip(panels, groupby(rows, lambda row: row["case"]), strict=True):
        found = list(of_case)
        for y, model in enumerate(models):
            at = {f: [float(row[model]) for row in found if row["file"] == f] for f in files}
            if not at["true"]:  # the same rows, with the same true labels, for both kinds of noise
                at["true"] = [float(row[model]) for row in rows if row["file"] == "true"]
            axis.plot([mean(at["given"]), mean(at["default"])], [y, y], color="#c9ced6", linewidth=3, zorder=1)
            for name, (marker, colour, label) in files.items():
                size = 220 if marker == "|" else 60
                axis.scatter(mean(at[name]), y, s=size, marker=marker, color=colour, label=label if y == 0 else None)
        axis.set(title=titles[case], xlabel="test accuracy (%)", yticks=range(3), yticklabels=models.values())
        axis.grid(axis="x", alpha=0.3)
        axis.margins(y=0.25)
    panels[0].invert_yaxis()
    panels[0].legend(loc="upper left", frameon=False, fontsize=9)
    figure.savefig(DOCS / "clean_worth.png", dpi=160)


def formats(browser: Browser, folder: Path) -> None:
    """A file as a spreadsheet saves it, and what check.html says that it was read as."""
    data = ROOT / "tests" / "data" / "zoo" / "kunden.csv"
    holdfast("check", str(data), "--label", "Gekauft", "--out", str(folder))
    lines = "\n".join(data.read_bytes().decode("latin-1").splitlines()[:6])
    page = browser.new_page(viewport={"width": 700, "height": 100}, device_scale_factor=2)
    page.goto((folder / "check.html").as_uri())
    page.evaluate(
        """lines => {
            const title = [...document.querySelectorAll("h2")].find(h => h.textContent === "What was read");
            const kept = [title, title.nextElementSibling, title.nextElementSibling.nextElementSibling];
            const file = document.createElement("pre");
            file.textContent = lines + "\\n...";
            file.style = "font-size: 15px; margin: 0 0 12px";
            title.textContent = "What was read from it";
            document.body.replaceChildren(file, ...kept);
            document.body.style = "margin: 0; padding: 16px; max-width: none";
        }""",
        lines,
    )
    page.locator("body").screenshot(path=DOCS / "formats.png")
    page.close()


def review_team(browser: Browser, folder: Path) -> None:
    """Two people have decided the same digits, a third one sees where they differ."""
    truth = digits_alike_run(folder)
    names = ("Ana", "Ben", "Cora")
    words = [word for name in names for word in ("--reviewer", name)]
    command = [sys.executable, "-m", "holdfast", "review", str(folder / "run"), "--double", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        links = dict(zip(names, (line.strip() for line in server.stdout if line.startswith("http")), strict=False))
        for name in ("Ana", "Ben"):
            decided(links[name], name, truth)
        page = browser.new_page(viewport={"width": 1000, "height": 730}, device_scale_factor=1.5)
        page.goto(links["Cora"])
        page.click("#filter-button")
        page.click("[data-queue=disputes]")
        until(page, lambda: page.is_visible("#decisions"))
        page.wait_for_timeout(500)
        page.screenshot(path=DOCS / "review_dispute.png")
        page.close()
        server.terminate()


def decided(link: str, name: str, truth: Sequence[str]) -> None:
    """Two dozen answers of a reviewer; Ben is wrong about one in six."""
    home = link.partition("/?")[0]
    with httpx.Client(base_url=home, headers={"origin": home}) as session:
        session.get(link, follow_redirects=True)
        for k in range(24):
            item = session.get("/api/next", params={"reviewer": name}).json()["item"]
            keep = truth[item["source_index"]] == item["given"]
            if name == "Ben" and k % 6 == 2:
                keep = not keep
            body = {"reviewer": name, "row": item["row"], "verdict": "keep" if keep else "suggestion"}
            session.post("/api/decide", json=body).raise_for_status()


ALL: tuple[Callable[[Browser, Path], None], ...] = (clean, clean_worth, formats, review_team)


def main(names: list[str]) -> None:
    with sync_playwright() as made:
        browser = made.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for make in ALL:
            if not names or make.__name__ in names:
                with tempfile.TemporaryDirectory() as folder:
                    make(browser, Path(folder))
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])

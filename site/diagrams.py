"""Draws the diagrams of docs/ as SVG: boxes in three colours, arrows between them.

A picture cannot know whether its page is light or dark. So boxes have a light ground of their own with dark words, and
what is between them has a grey that can be read on both. All are 500 wide, so that a phone, which shows them at two
thirds, still leaves words that can be read.

    python site/diagrams.py            all of them, into docs/
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
GREY = "#7b8491"
COLOURS = {
    "yours": ("#e2ebfb", "#5f83c9"),
    "holdfast": ("#fdf0d5", "#c8963e"),
    "kept": ("#e0f1e1", "#5b9a60"),
    "foreign": ("#fbe3e1", "#c4665f"),
}
"""Ground and edge: what is the user's, what Holdfast does, what is on disk, what comes from anybody."""


class Diagram:
    """Boxes, arrows and words, as they are added."""

    def __init__(self, height: int, width: int = 500) -> None:
        self.size = (width, height)
        self.parts: list[str] = []

    def box(self, x: float, y: float, w: float, h: float, title: str, *lines: str, kind: str = "holdfast") -> None:
        ground, edge = COLOURS[kind]
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="9" fill="{ground}" stroke="{edge}" '
            'stroke-width="1.8"/>'
        )
        top = y + h / 2 - 10.5 * len(lines) + 6
        self._words(x + w / 2, top, title, 17, "#1b2130", "600")
        for k, line in enumerate(lines):
            self._words(x + w / 2, top + 21 * (k + 1), line, 15, "#3a4252")

    def frame(self, x: float, y: float, w: float, h: float, title: str) -> None:
        """A dashed line around boxes that belong together, with its name at the top."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="12" fill="none" stroke="{GREY}" stroke-width="1.6" '
            'stroke-dasharray="6 5"/>'
        )
        self._words(x + w / 2, y + 23, title, 16, GREY, "600")

    def arrow(self, *points: tuple[float, float], both: bool = False) -> None:
        path = "M" + " L".join(f"{x},{y}" for x, y in points)
        start = ' marker-start="url(#tip)"' if both else ""
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{GREY}" stroke-width="2.2" marker-end="url(#tip)"{start}/>'
        )

    def words(self, x: float, y: float, *lines: str, anchor: str = "middle") -> None:
        for k, line in enumerate(lines):
            self._words(x, y + 20 * k, line, 15, GREY, anchor=anchor)

    def _words(
        self, x: float, y: float, text: str, size: int, fill: str, weight: str = "400", anchor: str = "middle"
    ) -> None:
        self.parts.append(
            f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{fill}" text-anchor="{anchor}">'
            f"{escape(text)}</text>"
        )

    def __str__(self) -> str:
        width, height = self.size
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif">\n'
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6.5" markerHeight="6.5" '
            f'orient="auto-start-reverse"><path d="M0,0.5 L10,5 L0,9.5 z" fill="{GREY}"/></marker></defs>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def architecture() -> Diagram:
    """From a file to a list of wrong labels, by the rooms of the package."""
    it = Diagram(744)
    left, wide, side, narrow, middle = 10, 296, 340, 152, 158
    it.box(left, 8, wide, 58, "your data", "table, images, text, arrays", kind="yours")
    it.arrow((middle, 66), (middle, 92))
    it.box(left, 94, wide, 58, "data/", "reads it into rows")
    it.frame(2, 174, 496, 248, "fit: every epoch")
    it.arrow((middle, 152), (middle, 208))
    it.box(left, 210, wide, 58, "Feed", "shuffled, augmented batches")
    it.arrow((middle, 268), (middle, 290))
    it.box(left, 292, wide, 58, "Method.step", "losses, step of the optimizer")
    it.arrow((middle, 350), (middle, 370))
    it.box(left, 372, wide, 40, "stop rule, checkpoint")
    it.box(side, 210, narrow, 100, "Method.plan", "rows, weights,", "partners, targets")
    it.arrow((side, 239), (left + wide + 2, 239))
    it.box(side, 350, narrow, 62, "select/", "coresets")
    it.arrow((side + narrow / 2, 350), (side + narrow / 2, 312))
    it.arrow((middle, 412), (middle, 448))
    it.box(left, 450, wide, 58, "Ledger", "what training saw of each row", kind="kept")
    it.box(side, 438, narrow, 82, "evidence", "second opinions", "on each label")
    it.arrow((side, 479), (left + wide + 2, 479))
    it.arrow((middle, 508), (middle, 530))
    it.box(left, 532, wide, 58, "issues/", "trust, suggestion, noise rate")
    it.arrow((middle, 590), (middle, 612))
    it.box(left, 614, wide, 58, "Run", "a folder: network, issues", kind="kept")
    it.box(side, 542, narrow, 130, "report/", "review/", "clean/", "exchange/", "diagnosis/")
    it.arrow((left + wide, 643), (side - 2, 643))
    it.words(250, 704, "The next run learns from what people decide", "on the review page: holdfast fit --labels")
    return it


def own_training() -> Diagram:
    """Who does what in a loop of one's own."""
    it = Diagram(520)
    it.frame(2, 4, 240, 512, "your loop")
    it.frame(258, 4, 240, 512, "the session")
    it.box(268, 40, 220, 82, "session.loader", "decides what an epoch", "trains on; batches")
    it.arrow((268, 108), (234, 156))
    it.box(12, 142, 220, 60, "net(batch.x)", "your network", kind="yours")
    it.arrow((232, 186), (266, 228))
    it.box(268, 210, 220, 102, "session.loss", "weighs each row; notes", "what the network", "expects of each label")
    it.arrow((268, 290), (234, 334))
    it.box(12, 318, 220, 82, "loss.backward()", "optimizer.step()", "your own optimizer", kind="yours")
    it.arrow((50, 318), (50, 204))
    it.words(62, 266, "next batch", anchor="start")
    it.arrow((378, 312), (378, 412))
    it.words(368, 356, "after the", "last epoch", anchor="end")
    it.box(268, 414, 220, 82, "session.save", "the labels that are", "probably wrong", kind="kept")
    return it


def several_machines() -> Diagram:
    """Which process reads, trains and writes."""
    it = Diagram(514)
    it.box(2, 8, 496, 58, "the data", "every process reads it, and they compare", kind="yours")
    for k, x in enumerate((2, 262)):
        it.arrow((x + 118, 66), (x + 118, 96))
        it.frame(x, 98, 236, 314, f"machine {k + 1}")
    tall, top, bottom = 102, 134, 342
    it.box(12, top, 216, tall, "process 0", "trains on its share,", "gets second opinions,", "prints and writes")
    it.box(272, top, 216, tall, "process 2", "trains on its share")
    it.box(12, bottom, 216, 58, "process 1", "trains on its share")
    it.box(272, bottom, 216, 58, "process 3", "trains on its share")
    it.box(112, 269, 276, 40, "mean of all gradients", kind="kept")
    for x in (120, 380):
        it.arrow((x, top + tall + 2), (x, 267), both=True)
        it.arrow((x, 311), (x, bottom - 2), both=True)
    it.arrow((120, 412), (120, 444))
    it.box(2, 446, 236, 60, "run/", "on the first machine", kind="kept")
    it.words(254, 470, "checkpoint, network,", "labels that look wrong", anchor="start")
    return it


def security() -> Diagram:
    """What comes from anybody, and how it is let in."""
    it = Diagram(584)
    it.frame(2, 4, 206, 446, "from anybody")
    it.frame(232, 4, 266, 446, "Holdfast")
    rows = (
        (
            ("data files", "tables, images,", "archives"),
            ("reads them as data", "measured before they are", "read, never executed"),
        ),
        (
            ("run folders", "weights, records,", "decisions"),
            ("checks them", "no pickles; code that they", "name is refused"),
        ),
        (("label files", "of people and", "labelling tools"), ("compares them", "they have to belong", "to your data")),
        (("requests", "to the review", "page"), ("asks for a link", "from elsewhere only", "through TLS")),
    )
    for k, (comes, done) in enumerate(rows):
        y = 40 + 101 * k
        it.box(10, y, 190, 84, *comes, kind="foreign")
        it.arrow((200, y + 42), (238, y + 42))
        it.box(240, y, 250, 84, *done)
    it.arrow((365, 450), (365, 482))
    safe = ("runs none of their code; no small file fills its", "memory; nothing is overwritten unasked")
    it.box(2, 484, 496, 92, "your machine", *safe, kind="yours")
    return it


def loop() -> Diagram:
    """Train, review, train again."""
    it = Diagram(434)
    left, right, wide = 8, 276, 216
    it.box(left, 8, wide, 58, "people.csv", "never changed", kind="yours")
    it.arrow((224, 37), (274, 37))
    it.box(right, 8, wide, 58, "holdfast fit", "trains and judges")
    it.arrow((384, 66), (384, 108))
    it.box(right, 110, wide, 58, "run/", "trust in each label", kind="kept")
    it.arrow((384, 168), (384, 210))
    it.box(right, 212, wide, 80, "holdfast review", "people decide", "what is doubtful")
    it.arrow((276, 252), (226, 252))
    it.box(left, 212, wide, 80, "labels.csv", "holdfast export:", "all decisions so far", kind="kept")
    it.arrow((116, 212), (116, 139), (250, 139), (250, 54), (274, 54))
    it.words(124, 128, "fit --labels", anchor="start")
    it.arrow((384, 292), (384, 334))
    it.box(
        left,
        336,
        484,
        80,
        "holdfast issues, clean, report",
        "use the answers at once, also to judge",
        "labels that nobody has reviewed",
    )
    return it


ALL: tuple[Callable[[], Diagram], ...] = (architecture, own_training, several_machines, security, loop)


def main() -> None:
    for draw in ALL:
        (DOCS / f"{draw.__name__.replace('_', '-')}.svg").write_text(str(draw()))


if __name__ == "__main__":
    main()

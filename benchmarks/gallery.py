"""Ten labels of well-known public data that are likely wrong, each set as it was published, with their pictures.

No label was changed and no row picked by hand: what is shown are the ten least trusted rows, by ``holdfast.check``. For
CIFAR-10, which it cannot read well without a large network, the judges are the people of CIFAR-10H, whose answers go
through ``holdfast.find_label_issues``. Of the image sets and the news, the test parts are judged. What was found stands
in gallery.csv and is not looked for again; docs/gallery.md and its pictures are made from that.

    python benchmarks/gallery.py --data FOLDER
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import protocol
import torch
from matplotlib.figure import Figure
from PIL import Image

import holdfast
from holdfast.audit.check import Check
from holdfast.files import write_text
from holdfast.plots import save
from holdfast.spreadsheet import write_csv

COUNT, QUOTED = 10, 150
DOCS = Path(__file__).parents[1] / "docs"
Array = np.ndarray[Any, Any]

FASHION = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
INCOME = ("at most 50K", "over 50K")


def top(lines: pd.DataFrame, names: Sequence[str] | None = None) -> pd.DataFrame:
    """The least trusted rows of a table of issues, and how many of all are flagged."""
    kept = lines.head(COUNT)[["row", "given", "suggested", "trust"]]
    if names is not None:
        kept = kept.assign(**{name: [names[int(k)] for k in kept[name]] for name in ("given", "suggested")})
    return kept.assign(flagged=int(lines["flag"].sum()), rows=len(lines))


def of_check(found: Check, names: Sequence[str] | None = None) -> pd.DataFrame:
    lines = found.issues.query("kind == 'label'").sort_values("score", ascending=False, kind="stable")
    return top(lines.assign(trust=1 - lines["score"].astype(float)), names)


def test_images(folder: Path, name: str) -> tuple[Array, Array]:
    with np.load(folder / name) as arrays:
        return arrays["x_test"], arrays["y_test"]


def mnist(folder: Path) -> pd.DataFrame:
    return of_check(holdfast.check(test_images(folder, "mnist.npz")))


def fashion(folder: Path) -> pd.DataFrame:
    return of_check(holdfast.check(test_images(folder, "fashion_mnist.npz")), FASHION)


def cifar10(folder: Path) -> pd.DataFrame:
    with np.load(folder / "cifar10_jpeg.npz") as images, np.load(folder / "cifar10h_counts.npz") as people:
        y, counts = images["y_test"].astype(int), people["counts"].astype(int)
    found = top(holdfast.find_label_issues(y, counts / counts.sum(1, keepdims=True), CIFAR))
    answers = counts[found["row"].to_numpy()]
    said = [f"{count.max()} of {count.sum()}" for count in answers]
    return found.assign(suggested=[CIFAR[k] for k in answers.argmax(1)], people=said)


def adult_frame(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "adult.csv.gz")


def adult(folder: Path) -> pd.DataFrame:
    return of_check(holdfast.check(adult_frame(folder), label="income >50K"), INCOME)


def news_frame(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "ag_news_test.csv.gz")


def news(folder: Path) -> pd.DataFrame:
    return of_check(holdfast.check(news_frame(folder), label="label", encoder="minilm"))


FIND: dict[str, Callable[[Path], pd.DataFrame]] = {
    "adult": adult,
    "cifar10": cifar10,
    "mnist": mnist,
    "fashion": fashion,
    "news": news,
}


def find(folder: Path, kept: Path) -> pd.DataFrame:
    """What was found in each set, from the file where it is kept."""
    table = pd.read_csv(kept) if kept.exists() else pd.DataFrame({"data": []})
    for name, look in FIND.items():
        if name not in set(table["data"]):
            table = pd.concat([table, look(folder).assign(data=name)], ignore_index=True)
            write_csv(table, kept)
            print(table[table["data"] == name].to_string(), flush=True)
    return table


def draw(lines: pd.DataFrame, pictures: Sequence[Array], path: Path) -> None:
    """The pictures of ten rows, each with its given and its suggested label."""
    figure = Figure(figsize=(9, 5 if lines["people"].isna().all() else 5.6), layout="constrained")
    for axis, picture, line in zip(figure.subplots(2, COUNT // 2).flat, pictures, lines.itertuples(), strict=True):
        axis.imshow(picture, cmap="gray_r", interpolation="nearest")
        says = f"\n{line.people}" if isinstance(line.people, str) else ""
        axis.set_title(f"given {line.given}\n{line.suggested}?{says}", fontsize=10)
        axis.set_axis_off()
    save(figure, path)


def photographs(folder: Path, rows: Sequence[int]) -> list[Array]:
    with np.load(folder / "cifar10_jpeg.npz") as arrays:
        data, at = arrays["jpeg_test"], arrays["offsets_test"]
        return [np.array(Image.open(io.BytesIO(data[at[k] : at[k + 1]].tobytes())).convert("RGB")) for k in rows]


def of_people(folder: Path, lines: pd.DataFrame) -> str:
    frame = adult_frame(folder).iloc[lines["row"].to_numpy()]
    shown = ["age", "education", "occupation", "relationship", "hours-per-week", "capital-gain", "capital-loss"]
    head = ["row", *shown, "given", "trust"]
    cells = [
        [line.row, *(one[name] for name in shown), line.given, f"{line.trust:.2f}"]
        for line, (_, one) in zip(lines.itertuples(), frame.iterrows(), strict=True)
    ]
    return markdown(head, cells)


def of_news(folder: Path, lines: pd.DataFrame) -> str:
    texts = news_frame(folder)["text"].iloc[lines["row"].to_numpy()]
    quoted = [text if len(text) <= QUOTED else text[:QUOTED].rsplit(" ", 1)[0] + " ..." for text in texts]
    cells = [
        [line.row, text.replace("|", "/").replace("<", "&lt;"), line.given, line.suggested, f"{line.trust:.3f}"]
        for line, text in zip(lines.itertuples(), quoted, strict=True)
    ]
    return markdown(["row", "text", "given", "suggested", "trust"], cells)


def markdown(head: Sequence[str], cells: Sequence[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


PAGE = """# Gallery

These are the ten labels with the lowest trust in each of five well-known data sets. The data is as it was published.
Nothing was changed, and nothing was picked by hand: `python benchmarks/gallery.py` finds the labels and makes this page.

Not every one of them is wrong. Some are right but unusual, and some pictures nobody could name. The top of such a list
always looks like this. That is why there is a [page to review them](review.md).

## CIFAR-10

![ten test images of CIFAR-10 with the published label and what people say](gallery_cifar10.png)

For CIFAR-10H, about fifty people named each test image again, and their answers judge the published labels here. Below
each picture you see the most common answer and how many people gave it. `holdfast.find_label_issues(labels, shares)`
flags {cifar10}. The last few are pictures that people disagree about, but most of them do not choose the published label.

## MNIST

![ten test digits of MNIST with the published label and the suggested one](gallery_mnist.png)

The 10,000 test digits, judged by small networks and by similar digits. No digit was judged by a network that had seen its
label. {mnist} are flagged. MNIST was made with care, so what is left are digits that are hard to recognise.

## Fashion-MNIST

![ten test images of Fashion-MNIST with the published label and the suggested one](gallery_fashion.png)

The 10,000 test images, judged in the same way. {fashion} are flagged. A T-shirt labelled as a dress, a dress labelled as
a T-shirt, an ankle boot among the sneakers: these labels are wrong.

## AG news

{news_table}

The test items, judged by MiniLM and by the words they contain. {news} are flagged. The label is the section in which the
item appeared, and news about a technology company may fit two sections.

## Adult

{adult_table}

Rows of the training part. {adult} are flagged. Nobody can look up whether these people earned more than 50,000 dollars.
But a 22-year-old who cleans for a living probably did not, and somebody with capital gains of 41,310 dollars probably did.

News: AG's corpus. Adult: Becker and Kohavi, UCI, CC BY 4.0. CIFAR-10: Krizhevsky 2009; CIFAR-10H: Peterson et al.
2019. MNIST: LeCun et al. 1998. Fashion-MNIST: Xiao et al. 2017.
"""


def main() -> None:
    parser = protocol.arguments(__doc__ or "")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    folder = protocol.data_folder(arguments)
    table = find(folder, arguments.results / "gallery.csv")
    by = {name: table[table["data"] == name].astype({"row": int, "flagged": int, "rows": int}) for name in FIND}
    for name, file in (("mnist", "mnist.npz"), ("fashion", "fashion_mnist.npz")):
        x, _ = test_images(folder, file)
        draw(by[name], list(x[by[name]["row"].to_numpy()]), DOCS / f"gallery_{name}.png")
    draw(by["cifar10"], photographs(folder, by["cifar10"]["row"].tolist()), DOCS / "gallery_cifar10.png")
    flagged = {name: f"{lines['flagged'].iloc[0]:,} of {lines['rows'].iloc[0]:,}" for name, lines in by.items()}
    tables = {"news_table": of_news(folder, by["news"]), "adult_table": of_people(folder, by["adult"])}
    write_text(DOCS / "gallery.md", PAGE.format(**flagged, **tables))


if __name__ == "__main__":
    main()

"""Votes of neighbours: what a million rows cost, and what more voters would gain.

    python benchmarks/neighbours.py --data FOLDER             how well votes tell wrong labels, by the number of voters
    python benchmarks/neighbours.py --rows 1000000            CPU seconds and memory, beside faiss where it is installed

Voters are drawn at random, as ``holdfast.functional.neighbours`` draws its 10,000. AUROC is that of the share of votes
against the given label, on 5,000 rows at most, over the labels that are known to be wrong. faiss searches all rows
(IVF, 4,096 cells of which 8 are looked into; features at length one). The last line is one JSON object.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import check as checks
import numpy as np
import protocol
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from suite import images, people
from torch import Tensor

from holdfast import Rows, read
from holdfast.data import tables
from holdfast.functional.neighbours import NEIGHBOURS, neighbour_votes

VOTERS = (1_000, 2_500, 5_000, 10_000, 20_000, 60_000)
JUDGED = 5_000
WIDTH, CLASSES = 64, 10
CELLS, LOOKED_INTO = 4096, 8


def news(folder: Path) -> Rows:
    """News items that crowd workers labelled, by MiniLM beside the words."""
    return read(folder / "ag_news_human.csv.gz", label="label", truth="truth", encoder="minilm")[0]


def reviews(folder: Path) -> Rows:
    """App reviews, 20 % flipped, by MiniLM beside the words."""
    case = checks.table(folder, "amazon_reviews.csv.gz", "Positive", 0.2)
    rows = tables.build(case.data, "the reviews", label="Positive", encoder="minilm")
    return replace(rows, truth=torch.from_numpy(case.truth).long())


CASES: dict[str, Callable[[Path], Rows]] = {
    "news_minilm": news,
    "reviews_minilm": reviews,
    "cifar_10_people": lambda folder: people(folder, 10)[0],
    "fashion_20": lambda folder: images(folder, "fashion_mnist.npz", "symmetric", 0.2)[0],
}


def by_voters(rows: Rows) -> dict[str, float]:
    """AUROC of the votes against the given labels, by how many rows vote."""
    assert isinstance(rows.x, torch.Tensor)
    assert rows.truth is not None
    x, classes = rows.x.flatten(1).float(), len(rows.classes or ())
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    judged = order[-JUDGED:]
    wrong = (rows.y != rows.truth)[judged].numpy()
    found = {}
    for count in [each for each in VOTERS if each < len(x)] + [len(x)]:
        votes = votes_among(x, rows.y, classes, order[:count], judged)
        doubt = 1 - votes.gather(1, rows.y[judged][:, None])[:, 0]
        found[str(count)] = round(float(roc_auc_score(wrong, doubt.numpy())), 4)
    return found


def votes_among(x: Tensor, y: Tensor, classes: int, voters: Tensor, judged: Tensor) -> Tensor:
    """What ``neighbour_votes`` says of some rows, without asking the others."""
    among = F.normalize(x[voters], dim=1)
    votes = []
    for rows in judged.split(500):
        near = F.normalize(x[rows], dim=1) @ among.T
        near[rows[:, None] == voters] = -torch.inf
        votes.append(F.one_hot(y[voters[near.topk(NEIGHBOURS, 1).indices]], classes).sum(1))
    return (torch.cat(votes) + torch.bincount(y, minlength=classes) / len(y)) / (NEIGHBOURS + 1)


def cost(rows: int) -> dict[str, Any]:
    """What a number of rows costs: as the library does it, and with all of them voting in an index of faiss."""
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(CLASSES, (rows,), generator=draw)
    x = torch.randn(CLASSES, WIDTH, generator=draw)[y] + torch.randn(rows, WIDTH, generator=draw)
    found = {"holdfast": timed(lambda: neighbour_votes(x, y, CLASSES))}
    print(found, flush=True)
    if find_spec("faiss") is not None:
        found["faiss_ivf"] = timed(lambda: by_faiss(F.normalize(x).numpy()))
    return found


def timed(work: Callable[[], object]) -> dict[str, float]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "wall": round(time.perf_counter() - wall, 1),
        "more_gb": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20, 2),
    }


def by_faiss(x: np.ndarray[Any, Any]) -> object:
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(WIDTH), WIDTH, CELLS, faiss.METRIC_INNER_PRODUCT)
    index.train(x[: 40 * CELLS])
    index.add(x)
    index.nprobe = LOOKED_INTO
    return index.search(x, NEIGHBOURS + 1)


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="measure what so many rows cost instead")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this case; may be repeated")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.rows:
        protocol.close(cost(options.rows))
        return
    folder = protocol.data_folder(options)
    found = {}
    for name in options.case or CASES:
        found[name] = by_voters(CASES[name](folder))
        print(name, found[name], flush=True)
    protocol.close(found)


if __name__ == "__main__":
    main()

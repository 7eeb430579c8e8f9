"""Votes of neighbours: what a million rows cost, and what more voters would gain.

    python benchmarks/neighbours.py --data FOLDER             how well votes tell wrong labels, by the number of voters
    python benchmarks/neighbours.py --rows 1000000            CPU seconds and memory, beside faiss where it is installed

Voters are drawn at random, as ``holdfast.functional.neighbours`` draws its 10,000. AUROC is that of the share of votes
against the given label, on 5,000 rows at most, over the labels that are known to be wrong. faiss searches all rows
(IVF, 1,024 cells of which 8 are looked into; features at length one). The last line is one JSON object.
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
import features as ways
import numpy as np
import protocol
import torch
from sklearn.metrics import roc_auc_score
from suite import images, people

from holdfast import Rows
from holdfast.data import tables
from holdfast.functional.neighbours import NEIGHBOURS, neighbour_votes

VOTERS = (1_000, 2_500, 5_000, 10_000, 20_000, 60_000)
JUDGED = 5_000
WIDTH, CLASSES = 64, 10
CELLS, LOOKED_INTO = 1024, 8


def reviews(folder: Path) -> Rows:
    """App reviews, 20 % flipped, by MiniLM beside the words."""
    case = checks.table(folder, "amazon_reviews.csv.gz", "Positive", 0.2)
    rows = tables.build(case.data, "the reviews", label="Positive", encoder="minilm")
    return replace(rows, truth=torch.from_numpy(case.truth).long())


CASES: dict[str, Callable[[Path], Rows]] = {
    "news_minilm": lambda folder: ways.news(folder, 0, "minilm")[0],
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
        # Only these rows are asked, and only the voters vote: the others are left out.
        some = torch.cat([judged, order[:count]]).unique()
        place = torch.full((len(x),), -1)
        place[some] = torch.arange(len(some))
        votes = neighbour_votes(x[some], rows.y[some], classes, voters=place[order[:count]])[place[judged]]
        doubt = 1 - votes.gather(1, rows.y[judged][:, None])[:, 0]
        found[str(count)] = round(float(roc_auc_score(wrong, doubt.numpy())), 4)
    return found


def cost(rows: int) -> dict[str, Any]:
    """What a number of rows costs: as the library does it, and with all of them voting in an index of faiss."""
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(CLASSES, (rows,), generator=draw)
    x = torch.randn(CLASSES, WIDTH, generator=draw)[y] + torch.randn(rows, WIDTH, generator=draw)
    found = {"holdfast": timed(lambda: neighbour_votes(x, y, CLASSES))}
    if find_spec("faiss") is not None:
        found["faiss_ivf"] = timed(lambda: by_faiss(torch.nn.functional.normalize(x).numpy()))
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
    index.train(x[: 64 * CELLS])
    index.add(x)
    index.nprobe = LOOKED_INTO
    return index.search(x, NEIGHBOURS + 1)


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="measure what so many rows cost instead")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.rows:
        protocol.close(cost(options.rows))
        return
    folder = protocol.data_folder(options)
    protocol.close({name: by_voters(load(folder)) for name, load in CASES.items()})


if __name__ == "__main__":
    main()

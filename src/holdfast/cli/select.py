"""``holdfast select``: choose rows of an array of embeddings."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import options as o
from holdfast.cli.names import ENCODERS
from holdfast.errors import HoldfastError, unreadable

if TYPE_CHECKING:
    import numpy as np

    from holdfast.select.selection import Selection

    Array = np.ndarray[Any, Any]


class Kind(StrEnum):
    """Metrics as the command line names them."""

    euclidean = "euclidean"
    sqeuclidean = "sqeuclidean"
    cosine = "cosine"
    precomputed = "precomputed"


class Way(StrEnum):
    """Ways to choose."""

    exact = "exact"
    swaps = "swaps"
    central = "central"
    stochastic = "stochastic"
    stream = "stream"


def select(
    points: Annotated[
        Path,
        typer.Argument(
            help="A .npy file of shape (n, d), or a .npz with one such array; or data as holdfast fit takes it, by the "
            "features that would be learned from."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The CSV file to write: row, weight, gain.", show_default=False)],
    k: Annotated[float, typer.Option(help="How many rows to choose, or a share below 1.")] = 0.1,
    way: Annotated[
        Way,
        typer.Option(
            help="exact: greedy facility location. swaps: the same, then swaps of k-medoids. central: the rows "
            "nearest to all others. stochastic: for a million rows. stream: one pass over a file larger than memory."
        ),
    ] = Way.exact,
    metric: Annotated[Kind, typer.Option(help="How to measure distance (exact and swaps).")] = Kind.euclidean,
    groups: Annotated[
        Path | None, typer.Option(help="A .npy file of n integers; rows are chosen inside each group (exact).")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory budget such as 4GB; by default, half of what is free.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads for groups; by default, one per core.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Label column of a table: rows are chosen without it.", show_default=False)
    ] = None,
    net: Annotated[
        str,
        typer.Option(
            help=f"A pre-trained network that reads texts or pictures: {', '.join(ENCODERS)}, text:NAME, image:NAME, "
            "timm:NAME; auto: the usual one if it is installed; mlp: words alone."
        ),
    ] = "auto",
    ignore: o.Ignore = [],  # noqa: B006
    quiet: o.Quiet = False,
) -> None:
    """Choose rows that represent all of them: from embeddings, or from texts and pictures by a pre-trained network.

    Example: [bold]holdfast select reviews.csv --label stars --k 200 --out chosen.csv[/bold]
    """
    import numpy as np
    import pandas as pd

    from holdfast.files import written_aside
    from holdfast.select.centrality import central
    from holdfast.select.facility import facility_location
    from holdfast.select.medoids import k_medoids
    from holdfast.select.points import count_of
    from holdfast.select.stochastic import stochastic_greedy
    from holdfast.select.streaming import stream

    o.check_new_file(out, ".csv")
    if groups is not None and way is not Way.exact:
        raise HoldfastError("groups are for --way exact")
    if metric is not Kind.euclidean and way not in (Way.exact, Way.swaps):
        raise HoldfastError(f"--way {way} knows the Euclidean metric only")
    if not k > 0 or (k > 1 and not k.is_integer()):
        raise HoldfastError(f"--k is a number of rows, or a share of them below 1, not {k:g}")
    if _is_array(points):
        if label is not None or net != "auto" or ignore:
            raise HoldfastError(f"{points} holds numbers to choose by; leave --label, --net and --ignore out")
        array = _array(points)
    elif way is Way.stream:
        raise HoldfastError(f"--way stream goes through a .npy file, not {points}; take another way")
    else:
        array = _features(points, label, net, ignore, quiet)
    share = k if k < 1 else int(k) if k == int(k) else k
    among = None if groups is None else np.array(_array(groups, 1))
    found: Selection
    if way is Way.exact:
        found = facility_location(
            array, share, metric=metric.value, groups=among, memory=memory, threads=threads,
            progress=not quiet,
        )  # fmt: skip
    elif way is Way.swaps:
        found = k_medoids(array, share, metric=metric.value, memory=memory)
    elif way is Way.central:
        found = central(array, share)
    elif way is Way.stochastic:
        found = stochastic_greedy(array, count_of(share, len(array)))
    else:
        found = stream(points, count_of(share, len(array)))
    table = pd.DataFrame({"row": found.index, "weight": found.weight, "gain": found.gain})
    with written_aside(out) as aside:
        table.to_csv(aside, index=False)
    mean = found.objective / len(array)
    o.console.print(f"{len(table):,} of {len(array):,} rows, mean distance to the nearest of them {mean:.4g}: {out}")


def _is_array(path: Path) -> bool:
    """Whether a file holds an array of numbers alone, rather than data with labels."""
    import numpy as np

    if path.suffix != ".npz" or not path.exists():
        return path.suffix == ".npy" or not path.exists()
    with unreadable(path, "is no .npz file of plain numbers"), np.load(path, allow_pickle=False) as held:
        return not {"y", "y_train"} & set(held.files)


def _features(path: Path, label: str | None, net: str, ignore: list[str], quiet: bool) -> Array:
    """(n, d) what a network would learn from: columns of a table, words, or features of a pre-trained network."""
    from torch import Tensor

    from holdfast.data import read

    _, encoder = o.net_and_encoder(net)
    rows, _ = read(path, label=label, encoder=encoder, ignore=ignore, progress=partial(o.encoding_bar, quiet))
    o.say_encoder(rows)
    if len(rows.shape) != 1 or not isinstance(rows.x, Tensor):
        raise HoldfastError(
            f"the rows of {path} are pictures, which have no distances of use; name a pre-trained network, such as "
            "--net lite0"
        )
    found: Array = rows.x.numpy()
    return found


def _array(path: Path, axes: int = 2) -> Array:
    import numpy as np

    from holdfast.data.arrays import load

    if not path.exists():
        raise HoldfastError(f"{path} does not exist")
    with path.open("rb") as file:
        if not file.read(6).startswith((b"\x93NUMPY", b"PK")):
            raise HoldfastError(f"{path} is no .npy or .npz file")
    with unreadable(path, "is no .npy or .npz file of plain numbers"):
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(loaded, np.ndarray):
            arrays = load(path)
            names = [name for name, values in arrays.items() if values.ndim == axes]
            if len(names) != 1:
                raise HoldfastError(f"{path} holds {len(names)} arrays of {axes} axes; save the one to select from")
            loaded = arrays[names[0]]
    array: Array = loaded
    return array

"""Options that several commands have, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from holdfast.cli import names
from holdfast.cli.settings import with_those_of_the_file
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from holdfast.augment import Augment
    from holdfast.data.rows import Rows
    from holdfast.functional.schedules import Schedule
    from holdfast.issues import WrongLabels
    from holdfast.method import Method
    from holdfast.progress import Progress
    from holdfast.usual import Usual

console = Console(markup=False)
"""Names of files, labels and columns stand in nearly all that is printed, and none of them is markup."""
WIDE = 110
"""Columns of a screen that shows every table in full."""
LARGEST_RATE = 1e30
"""Longer steps are no numbers that a network can hold."""


class OptimizerName(StrEnum):
    adam = "adam"
    sgd = "sgd"


class Missing(StrEnum):
    error = "error"
    drop = "drop"


Data = Annotated[
    Path,
    typer.Argument(
        help="A table in any common format, .npz, or a folder of images, MNIST or CIFAR.", show_default=False
    ),
]
RunPath = Annotated[Path, typer.Argument(help="The folder of a finished run.", show_default=False)]
Label = Annotated[str | None, typer.Option(help="The column with the labels.", show_default=False)]
TaskName = Annotated[str | None, typer.Option(help="classification or regression; by default, as the labels look.")]
Test = Annotated[
    str,
    typer.Option(
        help="A test file, or the share of rows to hold out and judge too (0: none). Ignored if DATA has a test set."
    ),
]
Net = Annotated[
    str,
    typer.Option(
        help=f"{', '.join(names.NETS)}, or module.path:factory; or a pre-trained network that supplies "
        f"the features: {', '.join(names.ENCODERS)}, text:FOLDER or image:FOLDER (or a name on the Hugging Face hub), "
        "timm:NAME."
    ),
]
Features = Annotated[
    Path | None,
    typer.Option(help="A .npy file of features to use instead, one row per row of DATA.", show_default=False),
]
Tune = Annotated[
    bool,
    typer.Option(
        "--tune",
        help="Fine-tune the pre-trained network itself, which is many times slower. Uses minilm for text and lite0 for "
        "images, unless --net names another.",
    ),
]
Epochs = Annotated[int, typer.Option(help="Passes over the data.")]
EpochsOrUsual = Annotated[
    int | None,
    typer.Option(
        help=f"Passes over the data; by default {names.EPOCHS}, with --tune {names.TUNED_EPOCHS} (more for small data)."
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        help=f"Rows per batch; by default {names.BATCH} (with --tune {names.TUNED_BATCH}), or fewer for small data."
    ),
]
OptimizerOption = Annotated[OptimizerName, typer.Option(help="The optimizer.")]
Momentum = Annotated[float | None, typer.Option(help="Momentum of sgd, in [0, 1); by default 0.9.", show_default=False)]
Nesterov = Annotated[
    bool | None,
    typer.Option("--nesterov/--no-nesterov", help="Nesterov's momentum for sgd; by default on.", show_default=False),
]
WeightDecay = Annotated[
    float | None, typer.Option(help="Weight decay; by default 0.0005 for sgd and 0 for adam.", show_default=False)
]
LearningRate = Annotated[
    float | None,
    typer.Option(
        help=f"Learning rate; by default {names.ADAM:g} for adam and {names.SGD:g} for sgd (with --tune "
        f"{names.TUNED_ADAM:g} and {names.TUNED_SGD:g})."
    ),
]
ScheduleName = Annotated[str, typer.Option(help=f"How the learning rate changes: {', '.join(names.SCHEDULES)}.")]
ScheduleOrUsual = Annotated[
    str | None,
    typer.Option(
        help=f"How the learning rate changes: {', '.join(names.SCHEDULES)}; by default cosine, or onecycle with --tune."
    ),
]
Crop = Annotated[
    bool | None,
    typer.Option("--augment/--no-augment", help="Random crops and flips; by default only for colour images."),
]
Seed = Annotated[int, typer.Option(help="The seed for everything random.", min=0, max=2**32 - 1)]
Device = Annotated[str, typer.Option(help="Where to train: auto, cpu, cuda, mps.")]
Precision = Annotated[str, typer.Option(help="Numerical precision: 32-true, bf16-mixed, 16-mixed, 64-true.")]
On = Annotated[
    str,
    typer.Option(
        help="Where independent jobs run: local (processes on this machine), ray, or ray://host:port (a cluster).",
        metavar="PLACE",
    ),
]
Threads = Annotated[int, typer.Option(help="Processor threads; 0 lets torch choose.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")]
Drop = Annotated[Missing, typer.Option("--missing", help="What to do with rows without a label: error, or drop them.")]
ImageSize = Annotated[
    int | None, typer.Option(help="Width and height of images in pixels; by default the most common, at most 64.")
]
SkipBroken = Annotated[bool, typer.Option("--skip-broken", help="Leave out images that cannot be decoded.")]
Delimiter = Annotated[
    str | None,
    typer.Option(help="The delimiter of a CSV file; by default, detected.", show_default=False),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="The encoding of a text file: utf-8, latin-1, cp1252, utf-16, ...; by default, detected.",
        show_default=False,
    ),
]
TableName = Annotated[
    str | None,
    typer.Option(
        "--table", help="Which table of an SQLite database, or which sheet of a workbook.", show_default=False
    ),
]
Ignore = Annotated[
    list[str],
    typer.Option(help="A column to leave out; may be repeated.", show_default=False),
]
Merge = Annotated[
    list[str],
    typer.Option(help="Read one label as another, such as 'catt=cat'; may be repeated.", show_default=False),
]
KeepSpelling = Annotated[
    bool, typer.Option("--keep-spelling", help="Keep labels apart that differ only in case or white space.")
]
TrustPickle = Annotated[bool, typer.Option("--trust-pickle", help="Load pickles. A pickle can run any code!")]
TrustCode = Annotated[
    list[str],
    typer.Option(
        "--trust-code",
        metavar="NAME",
        help="Allow code that the run names: module:factory, or the path of a pickle; may be repeated.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        help="A setting of the method, such as rate=0.5 (see holdfast methods NAME); may be repeated.",
        show_default=False,
        callback=with_those_of_the_file,
    ),
]

NoiseSettings = Annotated[
    list[str],
    typer.Option(
        "--set",
        help="A setting of the noise, such as exact=true (see holdfast methods symmetric).",
        show_default=False,
        callback=with_those_of_the_file,
    ),
]


def method_named(name: str, settings: Iterable[str]) -> Callable[[], Method]:
    from holdfast.methods import METHODS
    from holdfast.registry import lookup

    return lookup("method", name, METHODS, settings)


def check_rate(rate: float) -> None:
    """Whether it is a learning rate that steps can be taken with."""
    if not 0 < rate <= LARGEST_RATE:
        raise HoldfastError(f"a learning rate must be positive and at most {LARGEST_RATE:g}, not {rate:g}")


def optimizer_named(
    name: OptimizerName,
    rate: float | None,
    usual: Usual | None = None,
    *,
    momentum: float | None = None,
    nesterov: bool | None = None,
    decay: float | None = None,
) -> Callable[[Iterable[nn.Parameter]], Optimizer]:
    """How to make an optimizer; what is None is as usual."""
    from torch.optim import SGD, Adam

    from holdfast.usual import NEW

    usual = usual or NEW
    if rate is not None:
        check_rate(rate)
    if decay is not None and not decay >= 0:
        raise HoldfastError(f"--weight-decay must be at least 0, not {decay:g}")
    if name is OptimizerName.adam:
        if momentum is not None or nesterov is not None:
            raise HoldfastError(
                "--momentum and --nesterov are settings of sgd; pass --optimizer sgd, or leave them out"
            )
        return partial(Adam, lr=rate or usual.rate, weight_decay=decay or 0, fused=True)
    momentum = 0.9 if momentum is None else momentum
    if not 0 <= momentum < 1:
        raise HoldfastError(f"--momentum lies in [0, 1), not {momentum:g}")
    if nesterov and momentum == 0:
        raise HoldfastError("--nesterov looks ahead along the momentum; pass --momentum above 0")
    nesterov = momentum > 0 if nesterov is None else nesterov
    decay = 5e-4 if decay is None else decay
    return partial(SGD, lr=rate or usual.sgd, momentum=momentum, weight_decay=decay, nesterov=nesterov)


def schedule_named(name: str) -> Schedule:
    from holdfast.functional.schedules import Constant, Cosine, HoldThenLinear, OneCycle, Steps

    made: dict[str, Callable[[], Schedule]] = dict(
        zip(names.SCHEDULES, (Cosine, Constant, OneCycle, Steps, HoldThenLinear), strict=True)
    )
    if name not in made:
        raise HoldfastError(f"no schedule is called {name!r}; there are {', '.join(made)}")
    return made[name]()


def augmentation(wanted: bool | None, rows: Rows) -> Augment | None:
    from holdfast.augment import PadCropFlip

    image = len(rows.shape) == 3
    if wanted and not image:
        raise HoldfastError(f"--augment crops images, and these inputs have the shape {rows.shape}")
    colour = image and rows.shape[0] == 3
    return PadCropFlip() if wanted or (wanted is None and colour) else None


def net_and_encoder(named: str, plain: bool = False, tune: bool = False) -> tuple[str, str | None]:
    """The network to train, and the pre-trained one that reads the data for it.

    Parameters
    ----------
    plain: something else asks for the data as it is, unless an encoder is named.
    tune: the pre-trained one is the network to train.
    """
    from holdfast.encoders import is_encoder

    if tune and named == "auto":
        return "auto", "auto"
    if tune and not is_encoder(named):
        raise HoldfastError(
            f"--tune trains a pre-trained network, and {named} is none; name one (--net minilm for text, --net lite0 "
            "for images), or leave --tune out"
        )
    if is_encoder(named):
        return "auto", named
    return named, "auto" if named == "auto" and not plain else None


def of_labels(ignore: Sequence[str], merge: Sequence[str], keep_spelling: bool) -> dict[str, Any]:
    """Options of ``read`` that say what labels and columns of a table mean; none where nothing is asked for."""
    pairs = [pair.rpartition("=")[::2] for pair in merge]
    wrong = next((pair for pair, (name, to) in zip(merge, pairs, strict=True) if not name or not to), None)
    if wrong is not None:
        raise HoldfastError(f"--merge takes a label and its class, such as 'catt=cat', not {wrong!r}")
    return {"ignore": list(ignore) or None, "merge": dict(pairs) or None, "keep_spelling": keep_spelling or None}


def say_read(rows: Rows) -> None:
    """What was read, before anything is made of it."""
    from holdfast.data.summary import WIDTH

    if rows.summary is None:
        return
    for line in rows.summary.lines(min(console.width, WIDTH)):
        style = "yellow" if line.startswith("warning:") else None
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def say_encoder(rows: Rows) -> None:
    """Which pre-trained network reads the data, and how to do without."""
    from holdfast.data.encode import encoder_in
    from holdfast.data.tune import read_columns, tuned_in
    from holdfast.encoders import cache_folder

    name = encoder_in(rows.recipe)
    if name is None:
        return
    pictures = rows.recipe["kind"] == "image"
    read, otherwise = ("images are", "cnn4: pixels") if pictures else ("text is", "mlp: word counts")
    how = "a pre-trained network" if tuned_in(rows.recipe) is None else "a pre-trained network that is tuned"
    console.print(
        f"{read} read by {name}, {how} (features kept in {cache_folder()}); --net {otherwise} alone",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    seen, others = read_columns(rows.recipe)
    if tuned_in(rows.recipe) is not None and others:
        console.print(
            f"the tuned network reads {_listed(seen)} alone; other columns ({_listed(others)}) are heard in the second "
            "opinions on labels",
            highlight=False, soft_wrap=True,
        )  # fmt: skip


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def progress_bar(title: str, quiet: bool, unit: str = "epochs") -> Progress:
    from holdfast.progress import Bar, Silent

    return Silent() if quiet else Bar(title, unit=unit)


def bar_of(quiet: bool, title: str, unit: str) -> Progress:
    """A bar that counts something else than epochs."""
    return progress_bar(title, quiet, unit)


def encoding_bar(quiet: bool, title: str, unit: str) -> Progress:
    """The bar of an encoding, which may be long: said before it begins, with the way around it."""
    without = "cnn4" if unit == "images" else "mlp"
    if not quiet:
        text = f"{title}, a pre-trained network, reads the {unit} first, once; --net {without} goes without"
        Console(stderr=True, markup=False).print(text, highlight=False, soft_wrap=True)
    return progress_bar(title, quiet, unit)


def set_threads(threads: int) -> None:
    if threads > 0:
        import torch

        torch.set_num_threads(threads)


def say_wrong_labels(found: WrongLabels, more: Path | str) -> None:
    """How many labels are wrong, in the same words after every command, and where there is more."""
    for line in (found.estimate, found.review, f"{found.flags}: {more}", found.difference):
        if line:
            console.print(str(line), highlight=False, soft_wrap=True)


def is_narrow() -> bool:
    """Whether the screen has no room for a wide table, such as one of 80 columns."""
    return console.width < WIDE


def check_new_file(path: Path, suffix: str) -> None:
    """A file to write must have its ending and not exist yet."""
    if path.suffix != suffix:
        raise HoldfastError(f"{path} must end in {suffix}")
    if path.exists():
        raise HoldfastError(f"{path} exists; choose another name")


def check_free(path: Path, force: bool) -> None:
    """Nothing is written over unless that is asked for, and never a folder by a file."""
    if path.is_dir():
        raise HoldfastError(f"{path} is a folder; name a file")
    if path.exists() and not force:
        raise HoldfastError(f"{path} exists; choose another name, or pass --force to write over it")

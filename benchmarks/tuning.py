"""How fast an encoder is tuned: texts a second of processor time, beside the bare model.

    python benchmarks/tuning.py --rows 128

``step`` is a whole step of training as ``holdfast fit --tune`` takes it, ``bare`` forward and backward pass of the
model alone on batches that are ready, padded to their longest text, and ``forward`` the first of the two. The last line
is one JSON object.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import protocol
import torch
from encoders import SENTENCE

from holdfast import Method, Rows
from holdfast.encoders.named import encoder_named
from holdfast.encoders.tuned import tuned
from holdfast.feed import Feed
from holdfast.usual import TUNED


def rate(work: Callable[[], object], rows: int) -> float:
    start = time.process_time()
    work()
    return round(rows / (time.process_time() - start), 1)


def measure(written: Sequence[str]) -> dict[str, float]:
    encoder = encoder_named("minilm")
    rows = Rows(encoder.tokens(written), torch.arange(len(written)) % 4, tuple("abcd"))
    feed, method, net = Feed(rows, batch_size=TUNED.largest), Method(), tuned("minilm", 4).train()
    method.begin([net], feed)
    optimizer = TUNED.optimizer(net.parameters())

    def step() -> None:
        for batch in method.batches([net], feed, optimizer, 0, 1):
            method.step([net], batch, optimizer)

    model = encoder.load().train()
    parts = [list(written[i : i + TUNED.largest]) for i in range(0, len(written), TUNED.largest)]
    ready = [encoder.prepare(part) for part in parts]

    def bare() -> None:
        for tokens in ready:
            model(tokens).square().mean().backward()

    def forward() -> None:
        with torch.inference_mode():
            for tokens in ready:
                model(tokens)

    forward()
    return {"step": rate(step, len(rows)), "bare": rate(bare, len(rows)), "forward": rate(forward, len(rows))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=128, help="texts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lengths = torch.randint(5, 80, (options.rows,), generator=torch.Generator().manual_seed(0)).tolist()
    words = SENTENCE.split()
    written = [" ".join(words[(i + k) % len(words)] for k in range(n)) for i, n in enumerate(lengths)]
    protocol.close({"minilm": measure(written)})


if __name__ == "__main__":
    main()

"""How fast features are made: rows a second of processor time, beside the bare forward pass and the plain model.

    python benchmarks/encoders.py --rows 256

For texts, for images in memory and for photographs in files (JPEG, 640 by 480): ``kept`` is the whole way from the row
to the file in the cache, ``forward`` the network alone on batches that are ready, and ``plain`` the model as its own
package runs it: float32, batches of 32 in the order of the rows. Each is the median of several turns; ``kept_share`` is
what the whole way keeps of the speed of the bare network. ``start_seconds`` is what a process pays once, however many
rows there are: a digest of the weights. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
import protocol
import torch
from PIL import Image

from holdfast.data.encode import items
from holdfast.data.images import Pictures
from holdfast.encoders import Encoder, encoder_named
from holdfast.encoders.cache import Items, features, texts

SENTENCE = "shares of the company fell after a report that sales in the last quarter were weaker than expected"
REPEATS = 3


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(encoder: Encoder, given: Items, plain: Callable[[Sequence[int]], object]) -> dict[str, float]:
    rows = len(given)
    order = sorted(range(rows), key=lambda i: -given.lengths[i])
    ready = [encoder.prepare(given.load(batch)) for batch in encoder.batches(order, given.lengths)]

    def forward() -> None:
        with torch.inference_mode():
            for batch in ready:
                encoder.net(batch)

    def plainly() -> None:
        with torch.inference_mode():
            for first in range(0, rows, 32):
                plain(range(first, min(rows, first + 32)))

    def kept() -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["HOLDFAST_CACHE"] = folder
            features(encoder, given)

    forward()
    start = seconds(lambda: encoder.identity)
    # By turns, so that whoever else uses the machine slows all of them alike.
    times = [[seconds(work) for work in (forward, kept, forward)] for _ in range(REPEATS)]
    bare = [(before + after) / 2 for before, _, after in times]
    whole = [between for _, between, _ in times]
    return {
        "kept": round(rows / statistics.median(whole), 1),
        "forward": round(rows / statistics.median(bare), 1),
        "plain": round(rows / seconds(plainly), 1),
        "kept_share": round(statistics.median(b / w for b, w in zip(bare, whole, strict=True)), 3),
        "start_seconds": round(start, 2),
    }


def photographs(count: int, name: str, side: int) -> Items:
    """Soft shapes under a little noise, as large as photographs are: about 70 kB each."""
    draw, found = np.random.default_rng(0), list[bytes]()
    for _ in range(count):
        shapes = Image.fromarray(draw.integers(0, 256, (30, 40, 3), dtype=np.uint8)).resize((640, 480))
        noisy = np.asarray(shapes).astype(int) + draw.integers(-3, 4, (480, 640, 3))
        file = io.BytesIO()
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
        found.append(file.getvalue())
    recipe = {"kind": "image", "size": [192, 256], "channels": 3, "encoder": {"name": name}}
    return items(Pictures(found, recipe), recipe, side)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=256, help="texts and images")
    parser.add_argument("--side", type=int, default=224, help="of the images as the network sees them")
    options = parser.parse_args()
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(5, 80, (options.rows,), generator=draw).tolist()
    words = SENTENCE.split()
    written = [" ".join(words[(i + k) % len(words)] for k in range(n)) for i, n in enumerate(lengths)]
    minilm = encoder_named("minilm")
    from transformers import AutoModel

    model = AutoModel.from_pretrained(minilm.folder).eval()
    found = {
        "minilm": measure(minilm, texts(written), lambda rows: model(**minilm.prepare([written[i] for i in rows])))
    }

    pixels = torch.randint(0, 256, (options.rows, 3, options.side, options.side), dtype=torch.uint8, generator=draw)
    lite0 = encoder_named(f"lite0@{options.side}")
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0").eval()
    network.load_state_dict(torch.load(lite0.weights[0], weights_only=True))
    found[lite0.name] = measure(
        lite0, items(pixels, {}), lambda rows: network.extract_features(lite0.prepare(pixels[rows]).contiguous())
    )
    files = photographs(options.rows, lite0.name, options.side)
    found["photographs"] = measure(
        lite0, files, lambda rows: network.extract_features(lite0.prepare(files.load(rows)).contiguous())
    )
    protocol.close(found)


if __name__ == "__main__":
    main()

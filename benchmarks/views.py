"""What views cost beside training: processor time of weak and strong views of a batch of 256, and of the small network.

    python benchmarks/views.py

The last line is one JSON object, in milliseconds for a batch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import protocol
import torch

from holdfast.contrastive import ImageViews
from holdfast.nets import build


def cpu(work: Callable[[], object], times: int) -> float:
    """Milliseconds of the processor, the first time left out."""
    work()
    start = time.process_time()
    for _ in range(times):
        work()
    return round(1000 * (time.process_time() - start) / times, 1)


def measure(shape: tuple[int, int, int], times: int) -> dict[str, float]:
    x = torch.randint(0, 256, (256, *shape), dtype=torch.uint8)
    recipe, chance = ImageViews(shape[1]), torch.Generator().manual_seed(0)
    weak, strong = recipe.weak(), recipe.strong()
    net, seen = build("cnn4-wide+mlp", shape, 128), x.float() / 255

    @torch.no_grad()
    def forward() -> None:
        net(seen)

    return {
        "weak": cpu(lambda: weak(x, chance), times),
        "strong": cpu(lambda: strong(x, chance), times),
        "forward": cpu(forward, times),
        "training": cpu(lambda: net(seen).square().mean().backward(), times),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5, help="repetitions")
    options = parser.parse_args()
    torch.set_num_threads(1)
    shapes = ((3, 32, 32), (1, 28, 28))
    protocol.close({"x".join(map(str, shape)): measure(shape, options.times) for shape in shapes})


if __name__ == "__main__":
    main()

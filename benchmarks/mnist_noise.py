"""MNIST with wrong labels: the published small-machine protocol.

784-256-10 ReLU network, Adam at 0.001, batches of 128, inputs in [0, 1], no augmentation; symmetric noise of 20, 50
and 80 %, asymmetric noise of 40 %; the mean test accuracy of the last ten epochs beside the best epoch. Ordinary
training, EMA refinement and CRUST, unless --methods names others; no method is given the noise rate. The
last line is one JSON object for --noise and --rate, by default symmetric 50 %.

    python benchmarks/mnist_noise.py --data FOLDER                 all four noises, 30 epochs, 3 seeds
    python benchmarks/mnist_noise.py --data FOLDER --quick         symmetric 50 %, 30 epochs, one seed
    python benchmarks/mnist_noise.py --data FOLDER --paper         all four noises, 200 epochs, 5 seeds

Asymmetric noise is MNIST's published map, and on other data c -> c + 1.
"""

from __future__ import annotations

import argparse
from functools import partial

import protocol
import torch

from holdfast.functional import Constant
from holdfast.nets import MLP

NOISES = (("symmetric", 0.5), ("symmetric", 0.2), ("symmetric", 0.8), ("asymmetric", 0.4))


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    made = protocol.arguments(__doc__.splitlines()[0])
    made.add_argument("--noise", help="only this noise")
    made.add_argument("--rate", type=float, help="only this rate")
    made.add_argument("--dataset", default="mnist", help="mnist or fashion_mnist")
    return made


def main() -> None:
    options = parser().parse_args()
    protocol.prepare(options)
    epochs = options.epochs or (200 if options.paper else 30)
    seeds = options.seeds or (1 if options.quick else 5 if options.paper else 3)
    noises = [n for n in NOISES if options.noise in (None, n[0]) and options.rate in (None, n[1])]
    if options.noise and options.rate and not noises:
        noises = [(options.noise, options.rate)]
    if options.quick and not options.noise:
        noises = noises[:1]
    rows, test = protocol.load(options, options.dataset)
    results = protocol.Results(options.results / "mnist_noise.csv", options.fresh)

    def trial(method: str, noise: str, rate: float, seed: int) -> dict[str, float]:
        # The network is made here, so that each method starts from the same weights.
        torch.manual_seed(seed)
        net = MLP(784, 10)
        noisy = protocol.planted(rows, options.dataset, noise, rate, seed)
        return protocol.trial(
            noisy, test, method, net, seed, protocol.device(options), epochs=epochs, schedule=Constant()
        )

    report: dict[tuple[str, float], dict[str, dict[str, float]]] = {}
    for noise, rate in noises:
        for method in options.methods.split(","):
            lines = []
            for seed in range(seeds):
                asked = {
                    "data": options.dataset,
                    "method": method,
                    "noise": noise,
                    "rate": rate,
                    "epochs": epochs,
                    "seed": seed,
                }
                lines.append(results.get(asked, partial(trial, method, noise, rate, seed)))
            figures = protocol.mean(lines, ("last10", "best", "purity", "coverage", "seconds"))
            report.setdefault((noise, rate), {})[method] = figures
            print(f"{noise} {rate:.0%} {method}: {figures}")
    protocol.close(next(iter(report.values())))


if __name__ == "__main__":
    main()

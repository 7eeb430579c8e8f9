"""CIFAR-10 with wrong labels and little time: does a robust default do harm?

20,000 images, the 4-layer network (159,082 parameters), 15 epochs, SGD at 0.1 with momentum, a learning rate that rises
and falls to zero, random crops and flips; symmetric, asymmetric and instance-dependent noise of 40 %. Ordinary
training, EMA refinement and CRUST, all with the settings they have on MNIST. The last line is one JSON
object with a key for each noise.

    python benchmarks/cifar_noise.py --data FOLDER                 three noises, one seed (--seeds for more)
    python benchmarks/cifar_noise.py --data FOLDER --quick         6,000 images, 8 epochs
    python benchmarks/cifar_noise.py --data FOLDER --paper         50,000 images, ResNet-32, 120 epochs, 5 seeds
"""

from __future__ import annotations

import argparse
from functools import partial

import protocol
import torch
from torch.optim import SGD

from holdfast.augment import PadCropFlip
from holdfast.functional import OneCycle, Steps
from holdfast.nets import build

NOISES = ("symmetric", "asymmetric", "instance")


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    made = protocol.arguments(__doc__.splitlines()[0])
    made.add_argument("--noise", help="only this noise")
    made.add_argument("--rate", type=float, default=0.4)
    protocol.rows_argument(made)
    made.add_argument("--dataset", default="cifar10", help="cifar10 or cifar100")
    return made


def main() -> None:
    options = parser().parse_args()
    protocol.prepare(options)
    count = options.rows or (50_000 if options.paper else 6_000 if options.quick else 20_000)
    epochs = options.epochs or (120 if options.paper else 8 if options.quick else 15)
    seeds = options.seeds or (5 if options.paper else 1)
    net = "resnet32" if options.paper else "cnn4"
    rows, test = protocol.load(options, options.dataset, count)
    results = protocol.Results(options.results / "cifar_noise.csv", options.fresh)

    def trial(method: str, noise: str, seed: int) -> dict[str, float]:
        # The network is made here, so that each method starts from the same weights.
        torch.manual_seed(seed)
        return protocol.trial(
            protocol.planted(rows, options.dataset, noise, options.rate, seed), test, method,
            build(net, rows.shape, len(rows.classes or ())), seed, protocol.device(options),
            epochs=epochs, augment=PadCropFlip(), schedule=Steps() if options.paper else OneCycle(),
            optimizer=lambda p: SGD(p, 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True),
        )  # fmt: skip

    report: dict[str, dict[str, dict[str, float]]] = {}
    for noise in [options.noise] if options.noise else NOISES:
        for method in options.methods.split(","):
            lines = []
            for seed in range(seeds):
                asked = {
                    "data": options.dataset,
                    "rows": count,
                    "method": method,
                    "noise": noise,
                    "rate": options.rate,
                    "epochs": epochs,
                    "seed": seed,
                }
                lines.append(results.get(asked, partial(trial, method, noise, seed)))
            figures = protocol.mean(lines, ("last", "last10", "best", "purity", "coverage", "seconds"))
            report.setdefault(noise, {})[method] = figures
            print(f"{noise} {options.rate:.0%} {method}: {figures}")
    protocol.close(report)


if __name__ == "__main__":
    main()

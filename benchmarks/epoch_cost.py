"""What an epoch costs, as a ratio to ordinary training in the same run, on one thread.

The 4-layer network on random 32x32 images: an epoch with a coreset of the most central half of the data (one forward
pass over all rows, selection, training on half), and one of EMA refinement, each beside an ordinary epoch.
The epochs alternate, and the ratio of the medians is printed, of CPU time and of wall time. The last line is one JSON
object of CPU ratios.
"""

from __future__ import annotations

import statistics

import protocol
import torch
from torch.optim import SGD

from holdfast import Method, Rows
from holdfast.fit import fit
from holdfast.methods import Crust, EMARefinement
from holdfast.nets import CNN4


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    options = parser.parse_args()
    protocol.prepare(options)
    epochs = options.epochs or (4 if options.quick else 8)
    source = torch.Generator().manual_seed(0)
    y = torch.arange(options.rows) % 10
    x = torch.randint(0, 256, (options.rows, 3, 32, 32), dtype=torch.uint8, generator=source)
    rows = Rows(x, y, tuple(map(str, range(10))))

    def seconds(method: Method) -> tuple[float, float]:
        """CPU and wall seconds of the second of two epochs, the first one being the warm-up."""
        run = fit(rows, method, CNN4(3, 10), epochs=2, batch_size=128, optimizer=lambda p: SGD(p, 0.01), device="cpu")
        end = run.history.iloc[-1]
        return float(end["cpu_seconds"]), float(end["seconds"])

    makers = {
        "standard": Method,
        "central_half": lambda: Crust(0.5, select="central", partners=0, weighted=False, warmup=1),
        "ema_refinement": lambda: EMARefinement(warmup=1),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in makers}
    for _ in range(epochs):
        for name, make in makers.items():
            times[name].append(seconds(make()))
    middle = {name: [statistics.median(t[k] for t in taken) for k in (0, 1)] for name, taken in times.items()}
    for name, (cpu, wall) in middle.items():
        print(f"{name}: {cpu:.2f} s CPU, {wall:.2f} s wall, ratio {cpu / middle['standard'][0]:.3f}")
    protocol.close({name: round(middle[name][0] / middle["standard"][0], 3) for name in makers if name != "standard"})


if __name__ == "__main__":
    main()

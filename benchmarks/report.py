"""The rows of results as Markdown tables, with published figures beside them: writes results/tables.md."""

from __future__ import annotations

import pandas as pd
from protocol import MNIST_PUBLISHED, RESULTS, mean_and_spread

from holdfast.files import write_text

NOISES = (("symmetric", 0.2), ("symmetric", 0.5), ("symmetric", 0.8), ("asymmetric", 0.4))


def mnist(table: pd.DataFrame) -> str:
    out = []
    for (data, epochs), part in table.groupby(["data", "epochs"]):
        seeds = part["seed"].nunique()
        out += [f"{data}, 784-256-10, {epochs} epochs, {seeds} seed(s): mean of the last ten epochs (best epoch)", ""]
        out += ["| method | " + " | ".join(f"{kind} {rate:.0%}" for kind, rate in NOISES) + " |", "|---" * 5 + "|"]
        for method, own in part.groupby("method"):
            cells = []
            for kind, rate in NOISES:
                lines = own[(own["noise"] == kind) & (own["rate"] == rate)]
                cells.append(f"{mean_and_spread(lines['last10'])} ({mean_and_spread(lines['best'])})")
            out.append(f"| {method} | " + " | ".join(cells) + " |")
            if own["purity"].notna().any():
                pure = [own[(own["noise"] == k) & (own["rate"] == r)]["purity"] for k, r in NOISES]
                out.append(f"| {method}, purity | " + " | ".join(f"{p.mean():.3f}" for p in pure) + " |")
        out += [
            f"| {name}, published, 200 epochs | " + " | ".join(map(str, row)) + " |"
            for name, row in MNIST_PUBLISHED.items()
        ]
        out.append("")
    return "\n".join(out)


def cifar(table: pd.DataFrame) -> str:
    out = []
    for (data, rows, epochs), part in table.groupby(["data", "rows", "epochs"]):
        out += [f"{data}, {rows:,} images, 4-layer CNN, {epochs} epochs, noise of 40 %: last epoch (purity)", ""]
        kinds = list(part["noise"].unique())
        out += ["| method | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
        for method, own in part.groupby("method"):
            cells = []
            for kind in kinds:
                lines = own[own["noise"] == kind]
                pure = f" ({lines['purity'].mean():.3f})" if lines["purity"].notna().any() else ""
                cells.append(mean_and_spread(lines["last"]) + pure)
            out.append(f"| {method} | " + " | ".join(cells) + " |")
        out.append("")
    return "\n".join(out)


def ablation(table: pd.DataFrame) -> str:
    out = ["| method | 20 % | purity | 50 % | purity |", "|---|---|---|---|---|"]
    for name in table["name"].unique():
        cells = []
        for rate in (0.2, 0.5):
            lines = table[(table["name"] == name) & (table["rate"] == rate)]
            pure = f"{lines['purity'].mean():.3f}" if lines["purity"].notna().any() else "-"
            cells += [f"{mean_and_spread(lines['last10'])} ({mean_and_spread(lines['best'])})", pure]
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join([*out, ""])


def main() -> None:
    parts = []
    for name, make in (("mnist_noise", mnist), ("cifar_noise", cifar), ("crust_ablation", ablation)):
        path = RESULTS / f"{name}.csv"
        if path.exists():
            parts += [f"## {name}", "", make(pd.read_csv(path))]
    text = "\n".join(parts)
    write_text(RESULTS / "tables.md", text)
    print(text)


if __name__ == "__main__":
    main()

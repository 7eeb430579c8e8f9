"""A plain PyTorch loop with Holdfast in it: the five lines that change are marked."""

from __future__ import annotations

from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import holdfast


def data(wrong: float = 0.2) -> tuple[Tensor, Tensor, Tensor]:
    """Images, given labels of which a share is wrong, and the true ones."""
    x, truth = (torch.tensor(part) for part in load_digits(return_X_y=True))
    draw = torch.Generator().manual_seed(0)
    other = (truth + torch.randint(1, 10, truth.shape, generator=draw)) % 10
    return x.float() / 16, torch.where(torch.rand(len(truth), generator=draw) < wrong, other, truth), truth


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def train(x: Tensor, y: Tensor, out: Path, epochs: int = 15) -> tuple[nn.Module, holdfast.Session]:
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
    session = holdfast.Session(TensorDataset(x, y), holdfast.methods.PRLL(), epochs=epochs)  # 1
    loader = session.loader(batch_size=32)  # 2, was DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    session.begin(net, optimizer)  # 3
    if (out / "last.pt").exists():
        state = torch.load(out / "last.pt")
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        session.load_state_dict(state["session"])
    for _ in range(session.epoch, epochs):
        for batch in loader:
            loss = session.loss(net(batch.x), batch)  # 4, was cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        parts = {"net": net, "optimizer": optimizer, "session": session}
        out.mkdir(exist_ok=True)
        torch.save({name: part.state_dict() for name, part in parts.items()}, out / "part.pt")
        (out / "part.pt").rename(out / "last.pt")
    session.save(out / "run")  # 5: issues.csv, history.csv, ledger, weights
    return net, session


if __name__ == "__main__":
    images, given, truth = data()
    net, session = train(images, given, Path("plain_loop"))
    found = session.issues().query("flag")["row"].tolist()
    right = (truth != given)[found].float().mean()
    print(f"accuracy by true labels {(net(images).argmax(1) == truth).float().mean():.3f}")
    print(f"{len(found)} labels flagged, {right:.0%} of them wrong indeed")

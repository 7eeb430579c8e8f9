"""A loop of Hugging Face Accelerate with Holdfast in it: the loader deals rows to the processes by itself."""

from __future__ import annotations

from pathlib import Path

import torch
from accelerate import Accelerator
from plain_loop import data, network
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import holdfast


def train(
    x: Tensor, y: Tensor, out: Path, epochs: int = 15, batch_size: int = 32, accumulate: int = 1, method: str = "prl-l"
) -> tuple[nn.Module, holdfast.Session]:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
    session = holdfast.Session(TensorDataset(x, y), method, epochs=epochs)
    loader = session.loader(batch_size, accumulate=accumulate)  # was accelerator.prepare(DataLoader(...))
    net, optimizer = accelerator.prepare(net, optimizer)
    session.begin(net, optimizer)
    accelerator.register_for_checkpointing(session)
    if kept := sorted(out.glob("epoch-*")):
        accelerator.load_state(str(kept[-1]))
    for epoch in range(session.epoch, epochs):
        for batch in loader:
            with accelerator.accumulate(net):
                loss = session.loss(net(batch.x), batch)  # was cross_entropy(net(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.save_state(str(out / "part"))
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            (out / "part").rename(out / f"epoch-{epoch:03}")
    session.save(out / "run")
    return accelerator.unwrap_model(net), session


if __name__ == "__main__":
    images, given, truth = data()
    net, session = train(images, given, Path("accelerate_loop"))
    found = session.issues().query("flag")["row"].tolist()
    print(f"accuracy by true labels {(net(images).argmax(1) == truth).float().mean():.3f}")
    print(f"{len(found)} labels flagged, {(truth != given)[found].float().mean():.0%} of them wrong indeed")

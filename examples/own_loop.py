"""A loop of your own: the method says what to train on and takes each step, the rest stays yours."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

import holdfast
from holdfast.feed import Feed

x, y = (torch.tensor(part) for part in load_digits(return_X_y=True))
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

feed = Feed(holdfast.Rows(x.float() / 16, y, tuple("0123456789")))
method = holdfast.methods.PRLL()
method.begin([net], feed)
optimizer = torch.optim.Adam([*net.parameters(), *method.parameters()])
for epoch in range(10):
    for batch in method.batches([net], feed, optimizer, epoch, 10):
        method.step([net], batch, optimizer)

correct = (method.predictor([net])(x.float() / 16).argmax(1) == y).float().mean().item()
print(f"accuracy on the training rows: {correct:.3f}")

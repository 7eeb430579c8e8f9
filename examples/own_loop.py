"""A loop of your own: the method says what to train on and what the loss is, the rest stays yours."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

import holdfast

x, y = (torch.tensor(part) for part in load_digits(return_X_y=True))
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(net.parameters())

feed = holdfast.Feed(holdfast.Rows(x.float() / 16, y, tuple("0123456789")))
method = holdfast.Crust()
method.begin([net], feed)
for epoch in range(10):
    for batch in method.batches([net], feed, epoch, 10):
        optimizer.zero_grad()
        step = method.loss([net], batch)
        step.loss.backward()
        optimizer.step()
        method.after_step([net])

correct = (method.predictor([net])(x.float() / 16).argmax(1) == y).float().mean().item()
print(f"accuracy on the training rows: {correct:.3f}")

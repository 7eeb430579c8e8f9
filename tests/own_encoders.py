"""Encoders small enough to be understood at a glance, for tests that need no pre-trained network."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from torch import nn

from holdfast.encoders import ImageEncoder, TextEncoder

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


class Letters(TextEncoder):
    """How often each letter occurs in a text; writes down each batch in the file that LETTERS_LOG names."""

    name = "own_encoders:Letters"
    size = len(ALPHABET)
    most = 256
    weights = ()
    noise = 0.0

    def load(self) -> nn.Module:
        return nn.Identity()

    def prepare(self, batch):
        log = os.environ.get("LETTERS_LOG")
        if log:
            with Path(log).open("a") as file:
                file.write(f"{len(batch)}\n")
            time.sleep(float(os.environ.get("LETTERS_SLEEP", "0")))
        counts = [[text.lower().count(letter) for letter in ALPHABET] for text in batch]
        return torch.tensor(counts, dtype=torch.float32) + self.noise


class Colours(ImageEncoder):
    """The mean of each colour in each quarter of a picture."""

    name = "own_encoders:Colours"
    size = 12
    weights = ()

    def __init__(self) -> None:
        super().__init__(side=16)

    def load(self) -> nn.Module:
        return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())

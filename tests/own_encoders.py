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


class Spelling(TextEncoder):
    """The mean over the letters of a text of a few numbers that stand for each, which can be tuned."""

    name = "own_encoders:Spelling"
    size = 8
    most = 40
    weights = ()

    def load(self) -> nn.Module:
        return _MeanOverLetters()

    def tokens(self, texts):
        whole = torch.full((len(texts), self.most), -1, dtype=torch.int32)
        for row, text in zip(whole, texts, strict=True):
            numbers = [1 + ALPHABET.find(letter) for letter in text.lower()[: self.most]] or [0]
            row[: len(numbers)] = torch.tensor(numbers, dtype=torch.int32)
        return whole

    def prepare(self, batch):
        tokens = self.tokens(batch)
        return {"input_ids": tokens.clamp_min(0).long(), "attention_mask": (tokens >= 0).long()}


class _MeanOverLetters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(27, 8)
        values = torch.rand(27, 8, generator=torch.Generator().manual_seed(0))
        self.letters.load_state_dict({"weight": values})
        self.drop = nn.Dropout(0.1)

    def forward(self, tokens):
        mask = tokens["attention_mask"][..., None]
        return (self.drop(self.letters(tokens["input_ids"])) * mask).sum(1) / mask.sum(1)


class Shades(Colours):
    """Colours of quarters after a convolution, which can be tuned."""

    name = "own_encoders:Shades"

    def load(self) -> nn.Module:
        conv = nn.Conv2d(3, 3, 1)
        conv.load_state_dict({"weight": torch.eye(3)[:, :, None, None], "bias": torch.zeros(3)})
        return nn.Sequential(conv, super().load())

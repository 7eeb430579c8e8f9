"""What help texts name. Where it belongs is imported with torch, which takes seconds; help is to come at once.

A test holds every line to what it repeats.
"""

from __future__ import annotations

METHOD = "second-opinion"
"""``holdfast.methods.DEFAULT``; all the others are listed by ``holdfast methods``."""
STOPS = ("accuracy", "distance", "theory", "validation")
NETS = (
    "auto", "mlp", "cnn4", "cnn4-slim", "cnn4-wide", "cnn9", "resnet20", "resnet32", "resnet18", "resnet50",
    "resnet18-imagenet", "resnet50-imagenet", "inception-resnet-v2", "cnn4-group", "cnn9-group", "resnet20-group",
    "resnet32-group", "inception-resnet-v2-group",
)  # fmt: skip
ENCODERS = ("minilm", "lite0")
CONTRASTIVE = (
    "byol", "clsa", "cmc", "co2", "cpc", "dacl", "i-mix", "info-min", "inst-disc", "local-agg", "mixco", "moco", "pcl",
    "pirl", "sane", "sela", "simclr", "simsiam", "swav", "sane-strong",
)  # fmt: skip
KINDS = ("symmetric", "asymmetric", "pairflip", "derangement", "instance")
TARGET_KINDS = ("linadv", "signflip", "uninoise", "pairflip", "mixture")
SCHEDULES = ("cosine", "constant", "onecycle", "steps", "hold")

EPOCHS, TUNED_EPOCHS = 30, 3
BATCH, TUNED_BATCH = 128, 32
ADAM, TUNED_ADAM = 1e-3, 1e-4
SGD, TUNED_SGD = 0.1, 0.01
"""What ``holdfast.usual`` trains with: a new network, and one that is tuned."""
CORRECT = 0.5
"""``holdfast.clean.rule.USUAL``."""

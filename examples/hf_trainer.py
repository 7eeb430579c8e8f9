"""The Trainer of Hugging Face with Holdfast in it: another class, and a method."""

from __future__ import annotations

from pathlib import Path

import torch
from datasets import Dataset
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import holdfast
from holdfast.adapters.hugging_face import HoldfastTrainer, with_issues


def data(wrong: float = 0.2) -> tuple[Tensor, Tensor, Tensor]:
    """Sentences of eight words, given labels of which a share is wrong, and the true ones."""
    draw = torch.Generator().manual_seed(0)
    truth = torch.arange(600) % 4
    words = torch.randint(1, 30, (600, 8), generator=draw)
    own = torch.rand(600, 8, generator=draw) < 0.4
    words = torch.where(own, 30 + 2 * truth[:, None] + words % 2, words)
    other = (truth + torch.randint(1, 4, truth.shape, generator=draw)) % 4
    return words, torch.where(torch.rand(600, generator=draw) < wrong, other, truth), truth


def network() -> nn.Module:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = BertConfig(vocab_size=40, max_position_embeddings=8, num_labels=4, **sizes, **still)
    return BertForSequenceClassification(config)


def train(
    x: Tensor, y: Tensor, out: Path, epochs: int = 8, batch_size: int = 32, accumulate: int = 1, method: str = "prl-l"
) -> tuple[nn.Module, holdfast.Session]:
    rows = Dataset.from_dict({"input_ids": x.tolist(), "label": y.tolist()})
    args = TrainingArguments(
        str(out), num_train_epochs=epochs, per_device_train_batch_size=batch_size, save_strategy="epoch",
        gradient_accumulation_steps=accumulate, learning_rate=0.001, lr_scheduler_type="constant", max_grad_norm=0,
        disable_tqdm=True, report_to="none", use_cpu=True, seed=0,
    )  # fmt: skip
    trainer = HoldfastTrainer(network(), args, train_dataset=rows, method=method, out=out / "run")  # was Trainer(...)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(out)) if out.exists() else None)
    with_issues(rows, trainer.session.issues()).to_parquet(out / "rows.parquet")
    return trainer.model, trainer.session


if __name__ == "__main__":
    words, given, truth = data()
    net, session = train(words, given, Path("hf_trainer"))
    found = session.issues().query("flag")["row"].tolist()
    print(f"accuracy by true labels {(net(words).logits.argmax(1) == truth).float().mean():.3f}")
    print(f"{len(found)} labels flagged, {(truth != given)[found].float().mean():.0%} of them wrong indeed")

"""Sentence encoders of Hugging Face, from a folder or from the hub: the mean over the tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.encoders.base import TextEncoder
from holdfast.errors import HoldfastError, unreadable

FILES = ("*.json", "*.txt", "*.model", "model*.safetensors")
"""What is fetched from the hub: never code, never a pickle."""


class HuggingFaceText(TextEncoder):
    """Any encoder of texts that ``transformers`` knows.

    Parameters
    ----------
    where: a folder, or a name on the hub such as sentence-transformers/all-MiniLM-L12-v2.
    """

    def __init__(self, where: str) -> None:
        self._where = found_from_anywhere(where)
        self.name = f"text:{self._where}"

    @cached_property
    def folder(self) -> Path:
        return model_folder(self._where)

    @property
    def weights(self) -> Sequence[Path]:
        return weights_in(self.folder)

    @cached_property
    def size(self) -> int:
        with unreadable(self.folder / "config.json", "is damaged"):
            return int(settings_in(self.folder, "config.json")["hidden_size"])

    @cached_property
    def most(self) -> int:
        said = settings_in(self.folder, "sentence_bert_config.json").get("max_seq_length")
        with unreadable(self.folder, "says no length of texts"):
            return int(said or min(512, settings_in(self.folder, "config.json").get("max_position_embeddings", 512)))

    @property
    def settings(self) -> str:
        return f"{self.most} tokens"

    @cached_property
    def _tokens(self) -> Any:
        with unreadable(self.folder, "holds no tokens"):
            return transformers().AutoTokenizer.from_pretrained(
                self.folder, local_files_only=True, trust_remote_code=False
            )

    def load(self) -> nn.Module:
        model = load_model(self.folder)
        if hasattr(model, "pooler"):
            model.pooler = None  # type: ignore[assignment]  # the mean over the tokens goes past it
        return _MeanOverTokens(model)

    def prepare(self, batch: Sequence[str]) -> Mapping[str, Tensor]:
        """Tokens and their mask, as wide as the longest text."""
        made = self._tokens(list(batch), padding=True, truncation=True, max_length=self.most, return_tensors="pt")
        return {name: values.to(self.device) for name, values in made.items()}

    def tokens(self, texts: Sequence[str]) -> Tensor:
        found = self._tokens(list(texts), truncation=True, max_length=self.most)["input_ids"]
        whole = np.full((len(found), self.most), -1, dtype=np.int32)
        for row, numbers in zip(whole, found, strict=True):
            row[: len(numbers)] = numbers
        return torch.from_numpy(whole)


class _MeanOverTokens(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Mapping[str, Tensor]) -> Tensor:
        hidden = self.model(**tokens).last_hidden_state.float()
        mask = tokens["attention_mask"][..., None].float()
        mean: Tensor = (hidden * mask).sum(1) / mask.sum(1).clamp_min(1e-9)
        return mean


def transformers() -> Any:
    """The library, or a sentence that says how to get it."""
    try:
        import transformers as library
    except ImportError:
        raise HoldfastError("transformers is not installed; pip install 'holdfast[text]'") from None
    return library


def load_model(folder: Path) -> nn.Module:
    """A model of a folder, from safetensors alone and without the bar that the library draws."""
    library = transformers()
    drawn = library.utils.logging.is_progress_bar_enabled()
    library.utils.logging.disable_progress_bar()
    try:
        with unreadable(f"the model in {folder}", "cannot be loaded"):
            model: nn.Module = library.AutoModel.from_pretrained(
                folder, local_files_only=True, use_safetensors=True, trust_remote_code=False, dtype=torch.float32
            )
    finally:
        if drawn:
            library.utils.logging.enable_progress_bar()
    return model


def found_from_anywhere(where: str) -> str:
    """A folder by its full name, which stands in the recipe of a run; a name on the hub as it is."""
    return str(Path(where).absolute()) if Path(where).is_dir() else where


def model_folder(where: str) -> Path:
    """The folder of a model, fetched from the hub where it is no folder here."""
    if Path(where).is_dir():
        return Path(where).absolute()
    transformers()
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(where, allow_patterns=list(FILES)))
    # No net, no such name, a name that cannot be one: each library below raises errors of its own.
    except Exception as error:
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise HoldfastError(f"{where} is no folder here, and the hub does not give it ({why})") from None


def weights_in(folder: Path) -> list[Path]:
    """The files of weights, which must be safetensors."""
    found = sorted(folder.glob("model*.safetensors"))
    if not found:
        raise HoldfastError(f"{folder} holds no model*.safetensors; other forms of weights are not loaded")
    return found


def settings_in(folder: Path, name: str) -> dict[str, Any]:
    """A JSON file of a model; empty where there is none."""
    if not (folder / name).exists():
        return {}
    with unreadable(folder / name, "is damaged"):
        read = json.loads((folder / name).read_text(encoding="utf-8"))
    if not isinstance(read, dict):
        raise HoldfastError(f"{folder / name} is damaged: it holds no object")
    return read

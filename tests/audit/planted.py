"""Data with issues planted in it, and how many of them are found."""

import numpy as np
import pandas as pd
from PIL import Image, ImageEnhance
from sklearn.datasets import load_sample_images

WORDS = (  # noqa: SIM905
    "river stone winter market letter garden engine silver morning bridge paper forest kitchen music doctor island "
    "summer window camera station village mirror bottle ticket pocket castle dinner planet button ladder mountain "
    "school teacher record cotton harbour basket hammer needle orange tunnel valley violin wallet yellow zebra copper "
    "desert elbow feather guitar helmet insect jacket kettle lantern magnet napkin oyster pencil rabbit saddle tailor"
).split()


def precision_and_recall(found, planted):
    found, planted = set(found), set(planted)
    hit = len(found & planted)
    return hit / max(1, len(found)), hit / len(planted)


def pictures(side=32, seed=0):
    """Cuts of the two photographs that ship with scikit-learn, none of which overlap, and the photograph of each."""
    photos = load_sample_images().images
    cuts = [
        (photo[top : top + side, left : left + side], label)
        for label, photo in enumerate(photos)
        for top in range(0, photo.shape[0] - side + 1, side)
        for left in range(0, photo.shape[1] - side + 1, side)
    ]
    order = np.random.default_rng(seed).permutation(len(cuts))
    return np.stack([cuts[k][0] for k in order]), np.array([cuts[k][1] for k in order])


def resized(picture, share=0.6):
    """A smaller copy, brought back to the size of the others as reading does."""
    image = Image.fromarray(picture)
    small = image.resize([int(share * side) for side in image.size], Image.Resampling.BICUBIC)
    return np.asarray(small.resize(image.size, Image.Resampling.BILINEAR))


def recoloured(picture):
    """A copy with its colours exchanged, darker, and of less contrast."""
    image = ImageEnhance.Brightness(Image.fromarray(picture[..., [2, 0, 1]].copy())).enhance(0.7)
    return np.asarray(ImageEnhance.Contrast(image).enhance(0.8))


def table(count=1500, seed=0):
    """Numbers, whole numbers, categories and gaps, and a label that follows from them."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": draw.integers(18, 80, count),
            "height": draw.normal(170, 10, count).round(2),
            "income": draw.lognormal(10, 0.5, count).round(2),
            "score": draw.normal(0, 1, count),
            "town": draw.choice(["north", "south", "east", "west"], count),
            "member": draw.choice(["yes", "no"], count),
        }
    )
    sum_of = frame["score"] + (frame["age"] - 49) / 18 + (frame["member"] == "yes")
    frame.loc[draw.random(count) < 0.05, "height"] = np.nan
    return frame.assign(label=np.where(sum_of > 0.5, "good", "bad"))


def texts(count=1000, seed=0):
    """Sentences of a dozen words, those about one half of the vocabulary labelled so."""
    draw = np.random.default_rng(seed)
    label = draw.integers(0, 2, count)
    halves = WORDS[: len(WORDS) // 2], WORDS[len(WORDS) // 2 :]
    lines = []
    for k in label:
        own = draw.choice(halves[k], 9, replace=False)
        other = draw.choice(halves[1 - k], 3, replace=False)
        lines.append(" ".join(draw.permutation([*own, *other])))
    return lines, label

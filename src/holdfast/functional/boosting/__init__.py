"""Libraries of boosted trees, one file each, by their names."""

from holdfast.functional.boosting.base import Array, Boosting, Grown
from holdfast.functional.boosting.cat_boost import CatBoost
from holdfast.functional.boosting.light_gbm import LightGBM
from holdfast.functional.boosting.scikit_learn import ScikitLearn
from holdfast.functional.boosting.xg_boost import XGBoost

BOOSTING: dict[str, Boosting] = {each.name: each for each in (ScikitLearn(), LightGBM(), XGBoost(), CatBoost())}
"""By the name that people give; the first is the usual one, and always installed."""
USUAL = next(iter(BOOSTING))

__all__ = ["BOOSTING", "USUAL", "Array", "Boosting", "Grown"]

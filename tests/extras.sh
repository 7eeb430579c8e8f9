#!/usr/bin/env bash
# Each extra alone: the wheel in a new environment with nothing but that extra, and something done with it. Slow: ten
# environments with PyTorch each, one after the other; what pip has fetched once it does not fetch again.
#
#     tests/extras.sh              all of them
#     tests/extras.sh none text    the package without extras, and one of them
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3.11}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rm -rf dist
"$python" -m venv "$work/build"
"$work/build/bin/pip" install --quiet --disable-pip-version-check build
"$work/build/bin/python" -m build --outdir dist . >/dev/null
wheel=$(ls "$PWD"/dist/holdfast-*.whl)
constraints="$PWD/constraints.txt"

declare -A try=(
    [none]="holdfast fit rows.csv --label kind --epochs 2 --out run/ && holdfast report run/ && python -m holdfast --version"
    [text]="holdfast fit words.csv --label kind --epochs 2 --net minilm --out run/"
    [images]="holdfast fit photos/ --epochs 2 --net lite0@96 --out run/"
    [excel]="python -c 'import pandas as pd; pd.read_csv(\"rows.csv\").to_excel(\"rows.xlsx\", index=False)' && holdfast check rows.xlsx --label kind"
    [datasets]="python -c 'import datasets, holdfast; print(holdfast.fit(datasets.Dataset.from_csv(\"rows.csv\"), label=\"kind\", epochs=2))'"
    [tensorboard]="holdfast fit rows.csv --label kind --epochs 2 --out run/ --track tensorboard"
    [mlflow]="MLFLOW_ALLOW_FILE_STORE=true MLFLOW_TRACKING_URI=file:mlruns holdfast fit rows.csv --label kind --epochs 2 --out run/ --track mlflow:rows"
    [wandb]="WANDB_MODE=offline holdfast fit rows.csv --label kind --epochs 2 --out run/ --track wandb:rows"
    [lightning]="python -c 'from holdfast.adapters.lightning import HoldfastCallback as found; print(found)'"
    [hugging-face]="python -c 'from holdfast.adapters.hugging_face import HoldfastTrainer as found; print(found)'"
    [skorch]="cp '$PWD'/examples/{plain_loop,skorch_net}.py . && python skorch_net.py"
    [review]="holdfast fit rows.csv --label kind --epochs 2 --out run/ && python -c 'import holdfast.review.serving, uvicorn, starlette'"
    [ray]="python -c 'import ray; print(ray.__version__)'"
)

[ $# -gt 0 ] || set -- "${!try[@]}"
failed=""
for extra; do
    here="$work/$extra"
    mkdir -p "$here"
    "$python" -m venv "$here/env"
    what="$wheel"
    [ "$extra" = none ] || what="$wheel[$extra]"
    "$here/env/bin/pip" install --quiet --disable-pip-version-check -c "$constraints" "$what"
    if (
        cd "$here"
        PATH="$here/env/bin:$PATH"
        python - <<'MAKE'
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

draw = np.random.default_rng(0)
kind = np.arange(80) % 2
pd.DataFrame({"a": draw.normal(kind), "b": draw.normal(-kind), "kind": kind}).to_csv("rows.csv", index=False)
words = np.where(kind, "a fine day", "an awful night")
pd.DataFrame({"text": [f"{text} {k}" for k, text in enumerate(words)], "kind": kind}).to_csv("words.csv", index=False)
for k in range(20):
    path = Path("photos") / "ab"[k % 2] / f"{k}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(draw.integers(0, 120 + 130 * (k % 2), (40, 40, 3)).astype("uint8")).save(path)
MAKE
        bash -euc "${try[$extra]}" >out.txt 2>&1
    ); then
        echo "$extra: works"
    else
        cat "$here/out.txt"
        echo "$extra: failed"
        failed="$failed $extra"
    fi
    rm -rf "$here"
done
[ -z "$failed" ] || { echo "these failed:$failed"; exit 1; }

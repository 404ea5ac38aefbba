#!/bin/sh
# Makes the built-in model from a seed: vocabulary, training, export, scores.
# Usage: sh tools/pocket/make.sh [folder] [minutes]      THREADS and SEED from the environment.
set -eu
out=${1:-build/pocket}
minutes=${2:-60}
python=.venv-parity/bin/python
export OMP_NUM_THREADS="${THREADS:-1}"

PYTHONPATH=src $python -m tools.pocket.tokenizer --seed "${SEED:-1}" --out "$out"
PYTHONPATH=src $python -m tools.pocket.train --tokenizer "$out" --run "$out/run" --minutes "$minutes" \
    --seed "${SEED:-1}" --threads "${THREADS:-1}"
PYTHONPATH=src $python -m tools.pocket.export --weights "$out/run/ema.pt" --tokenizer "$out" --out "$out/model"
cp src/qanat/pocket_model/chat_template.jinja "$out/model/"
PYTHONPATH=src $python -m tools.pocket.evaluate --model "$out/model" --count 20

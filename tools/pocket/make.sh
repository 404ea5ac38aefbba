#!/bin/sh
# Makes the built-in model from a seed: vocabulary, training, multi-token prediction, export, scores.
# Usage: sh tools/pocket/make.sh [folder] [minutes] [minutes for multi-token prediction]
# PROCESSES and SEED come from the environment.
set -eu
out=${1:-build/pocket}
minutes=${2:-100}
mtp_minutes=${3:-8}
python=.venv-parity/bin/python
export OMP_NUM_THREADS=1 PYTHONPATH=src
[ -x "$python" ] || { echo "no $python: run \`make parity-env\` first, in the project's folder" >&2; exit 1; }

$python -m tools.pocket.tokenizer --seed "${SEED:-1}" --out "$out"
$python -m tools.pocket.train --tokenizer "$out" --run "$out/run" --minutes "$minutes" \
    --seed "${SEED:-1}" --processes "${PROCESSES:-1}"
$python -m tools.pocket.train_mtp --weights "$out/run/ema.pt" --tokenizer "$out" --run "$out/mtp" \
    --minutes "$mtp_minutes" --seed "${SEED:-1}" --processes "${PROCESSES:-1}"
$python -m tools.pocket.export --weights "$out/run/ema.pt" --mtp "$out/mtp/ema.pt" \
    --tokenizer "$out" --out "$out/model"
cp src/qanat/pocket_model/chat_template.jinja "$out/model/"
$python -m tools.pocket.evaluate --model "$out/model" --backend cpu --count 50 --drafts 50 \
    --json "$out/scores.json"

#!/bin/sh
# What to do with a quarter of an hour of a GPU: the tests that need one, the figures of a training
# step, and a stage of the embedded voice. Arguments are the parts to run, all without arguments.
# Python needs torch; WHEELS is a folder with wheels of what else is missing. Each part has a time
# limit and writes to OUT; a second call continues. CARRIED is a folder with texts.npz of
# `python -m demo_voice --only texts`, for a machine without WordNet, and the files that an earlier
# lease left in OUT/carried. DEVICE=cpu rehearses all at a small size.
#     WHEELS=wheels CARRIED=carried OUT=out sh benchmarks/lease.sh tests figures
set -u
PYTHON=${PYTHON:-python3}
DEVICE=${DEVICE:-cuda}
mkdir -p "${OUT:?OUT must name a folder for the results}"
wanted=" ${*:-tests figures voice} "
if [ "$DEVICE" = cpu ]; then
    figures=--rehearse voice="--short --minutes 0.2"
else
    figures="--minutes 3" voice="--minutes 4 --base xtts/assets/demo"
fi

part() { # NAME SECONDS ARGUMENTS OF PYTHON…
    name=$1 limit=$2
    shift 2
    case "$wanted" in *" $name "*) ;; *) return ;; esac
    began=$(date +%s)
    timeout -k 5 "$limit" "$PYTHON" "$@" >"$OUT/$name.log" 2>&1
    echo "$name: exit status $?, $(($(date +%s) - began)) s" | tee -a "$OUT/parts.txt"
}

[ -z "${WHEELS:-}" ] || "$PYTHON" -m pip install --quiet --no-index --no-deps "$WHEELS"/*.whl
resume=
if [ -n "${CARRIED:-}" ]; then
    mkdir -p "$OUT/voice"
    cp -n "$CARRIED"/* "$OUT/voice/"
fi
[ ! -e "$OUT/voice/carried.0" ] || resume=--resume
part tests 180 -m pytest -q -m gpu --timeout 90 tests/gpu tests/extras/graphs
# shellcheck disable=SC2086
part figures 240 -m benchmarks gpu $figures --resume --out "$OUT/gpu.json"
# shellcheck disable=SC2086
part voice 330 -m demo_voice --device "$DEVICE" $voice --work "$OUT/voice" --to "$OUT/demo" \
    --carry "$OUT/carried" $resume

#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: builds Vallmo, runs every test (those of the GPU do not skip there), compares with transformers
# where it is installed, checks the kernels with compute-sanitizer where that is, and prints the table of docs/performance.md.
#   scripts/gpu-check.sh [SIZE ...]     sizes of the table: 0.8b 4b 9b unless named (2b, 27b)
# Checkpoints with random weights are made in build/gpu (0.8b 2 GB, 4b 9 GB, 9b 19 GB).
set -euo pipefail
cd "$(dirname "$0")/.."
sizes=("$@")
[ ${#sizes[@]} -gt 0 ] || sizes=(0.8b 4b 9b)
step() { printf '\n== %s\n' "$*"; }

command -v nvidia-smi >/dev/null || { echo "no NVIDIA driver on this machine" >&2; exit 1; }
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv

scripts/test.sh quick
step "GPU programs"
cmake --build --preset dev --target bench_cuda gpu_layers

# torch draws the large checkpoints on the GPU; numpy alone takes minutes.
python=python3
$python -c 'import torch' 2>/dev/null || python=build/venv/bin/python3
work=build/gpu
mkdir -p $work
make_checkpoint() {
    [ -f $work/"$1"/config.json ] || $python tests/tools/make_checkpoint.py --size "$1" --no-mtp --flat --out $work/"$1" >/dev/null
}

if command -v compute-sanitizer >/dev/null; then
    step "compute-sanitizer"
    for tool in memcheck racecheck synccheck; do
        for test in kernel_twins kernel_sampling; do
            echo "$tool $test"
            compute-sanitizer --tool $tool --error-exitcode 9 build/dev/tests/kernels/test_$test >$work/$tool.$test.log ||
                { tail -20 $work/$tool.$test.log; exit 1; }
        done
    done
fi

if python3 -c 'import torch; from transformers import Qwen3_5ForCausalLM' 2>/dev/null; then
    for size in 0.8b 4b; do
        step "against transformers in float32: $size"
        make_checkpoint $size
        build/dev/tests/kernels/gpu_layers $work/$size 96 $work/layers.bin
        python3 tests/tools/truth.py $work/$size $work/layers.bin
        rm -f $work/layers.bin
    done
fi

for size in "${sizes[@]}"; do
    step "speed: $size, random weights, BF16"
    make_checkpoint "$size"
    echo "-- first start"
    rm -rf $work/cache
    build/dev/plugins/qwen35/cuda/bench_cuda build/dev/plugins $work/"$size" $work/cache 0
    echo "-- kernels and plans cached"
    build/dev/plugins/qwen35/cuda/bench_cuda build/dev/plugins $work/"$size" $work/cache
done

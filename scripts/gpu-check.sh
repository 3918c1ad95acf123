#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: builds Vallmo, runs every test (those of the GPU do not skip there), compares with transformers
# where it is installed, checks the kernels with compute-sanitizer where that is, and prints the table of docs/performance.md.
#   scripts/gpu-check.sh [STEP ...]     steps: build gpu suite sanitize truth speed; all of them in this order unless named
#   SIZES="0.8b 4b 9b"                  sizes of the speed table (also 2b, 27b)
# Checkpoints with random weights are made in build/gpu-check (0.8b 2 GB, 4b 9 GB, 9b 19 GB). Goes on behind a failure, tells all of
# them at the end, and exits with 1 then.
set -uo pipefail
cd "$(dirname "$0")/.."
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(build gpu suite sanitize truth speed)
tree=build/gpu-tree
work=build/gpu-check
mkdir -p $work
failures=()
step() { printf '\n== %s (%(%H:%M:%S)T)\n' "$*" -1; }
check() { # name, command: runs it, notes a failure
    local name=$1
    shift
    "$@" || { failures+=("$name"); echo "FAILED: $name"; }
}

command -v nvidia-smi >/dev/null || { echo "no NVIDIA driver on this machine" >&2; exit 1; }
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv

# torch draws the large checkpoints on the GPU; numpy alone takes minutes.
python=python3
make_checkpoint() { # folder, arguments
    local to=$work/$1
    shift
    [ -f "$to"/config.json ] || $python tests/tools/make_checkpoint.py --no-mtp --flat --out "$to" "$@" >/dev/null
}

build() {
    step "build"
    # The client is of no matter here: built where its libraries are.
    local poppy=ON
    pkg-config --exists libcurl md4c || poppy=OFF
    cmake -S . -B $tree -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DVALLMO_WERROR=ON -DVALLMO_CUDA=ON -DVALLMO_POPPY=$poppy \
        -DVALLMO_TEST_PYTHON="$(command -v $python)" >$work/configure.log 2>&1 || { cat $work/configure.log; return 1; }
    cmake --build $tree --target all bench_cuda gpu_layers -- -k 0 >$work/build.log 2>&1 || {
        grep -E "error|FAILED" $work/build.log | head -40
        return 1
    }
}

gpu() {
    step "tests of the GPU"
    ctest --test-dir $tree -L gpu --output-on-failure --timeout 300 </dev/null
}

suite() {
    step "all other tests"
    ctest --test-dir $tree -LE 'gpu|kernel' -j "$(nproc)" --output-on-failure --timeout 600 </dev/null
}

sanitize() {
    command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer"; return 0; }
    step "compute-sanitizer"
    # Side by side: each is slow alone, and none measures time.
    local tool test log rc=0 jobs=()
    for tool in memcheck synccheck racecheck initcheck; do
        for test in "twins few" sampling; do
            log=$work/$tool.${test%% *}.log
            # shellcheck disable=SC2086
            compute-sanitizer --tool $tool --error-exitcode 9 $tree/tests/kernels/test_kernel_$test >"$log" 2>&1 &
            jobs+=("$!:$tool $test:$log")
        done
    done
    for job in "${jobs[@]}"; do
        IFS=: read -r pid test log <<<"$job"
        wait "$pid" || { rc=1; grep -a '^=========' "$log" | head -30; }
        echo "$test: $(grep -a 'SUMMARY' "$log" | tail -1)"
    done
    return $rc
}

truth() {
    $python -c 'import torch; from transformers import Qwen3_5ForCausalLM' 2>/dev/null || { echo "no transformers"; return 0; }
    local case name size layers rc=0
    for case in 0.8b:0.8b: 4b:4b: 9b-8:9b:8; do
        IFS=: read -r name size layers <<<"$case"
        step "against transformers in float32: $size${layers:+, $layers layers}"
        make_checkpoint "$name" --size "$size" ${layers:+--layers "$layers"}
        $tree/tests/kernels/gpu_layers $work/"$name" 96 $work/layers.bin 2>/dev/null || rc=1
        $python tests/tools/truth.py $work/"$name" $work/layers.bin 2>/dev/null || rc=1
        rm -f $work/layers.bin
    done
    return $rc
}

speed() {
    local size rc=0 bench=$tree/plugins/qwen35/cuda/bench_cuda
    for size in ${SIZES:-0.8b 4b 9b}; do
        step "speed: $size, random weights, BF16"
        make_checkpoint "$size" --size "$size"
        echo "-- first start"
        rm -rf $work/cache
        $bench $tree/plugins $work/"$size" $work/cache 0 2>/dev/null || rc=1
        echo "-- kernels and plans cached"
        $bench $tree/plugins $work/"$size" $work/cache 2>/dev/null || rc=1
    done
    return $rc
}

for s in "${steps[@]}"; do
    case $s in
    build | gpu | suite | sanitize | truth | speed) check "$s" "$s" ;;
    *) echo "no step '$s': build gpu suite sanitize truth speed" >&2; exit 2 ;;
    esac
done
[ ${#failures[@]} -eq 0 ] || { echo "failed: ${failures[*]}"; exit 1; }
echo "all passed"

#!/usr/bin/env bash
# Builds Vallmo and runs every test that this machine can run. Ends by itself; exit 0 only if all passed.
#   scripts/test.sh            everything: optimised build, sanitizer build, conformance cases, bad files
#   scripts/test.sh quick      the optimised build's ctest alone
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-all}

step() { printf '\n== %s\n' "$*"; }

step "packages"
scripts/packages.sh test

step "test tools (PyPI, pinned, in build/venv)"
venv=build/venv
want=$(cat scripts/requirements-test.txt tests/e2e/clients.txt | sha256sum | cut -d' ' -f1)
if [ ! -x $venv/bin/python3 ] || [ "$(cat $venv/.requirements 2>/dev/null)" != "$want" ]; then
    rm -rf $venv
    mkdir -p build
    # Debian's python, whose venv module the packages brought; any python3 where there is none.
    python=/usr/bin/python3
    [ -x $python ] || python=python3
    $python -m venv $venv
    $venv/bin/pip install -q --disable-pip-version-check -r scripts/requirements-test.txt </dev/null
    echo "$want" >$venv/.requirements
fi
export VALLMO_TEST_PYTHON=$PWD/$venv/bin/python3

step "format"
if [ -d .git ]; then
    git ls-files '*.c' '*.h' | xargs $venv/bin/clang-format --dry-run -Werror
fi

jobs=$(nproc)
build_and_test() { # preset, further ctest arguments
    local preset=$1
    shift
    step "$preset: configure and build"
    cmake --preset "$preset" -DVALLMO_TEST_PYTHON="$VALLMO_TEST_PYTHON" >build/"$preset".configure.log 2>&1 || {
        cat build/"$preset".configure.log
        return 1
    }
    cmake --build --preset "$preset" -j "$jobs"
    step "$preset: tests"
    # A skip is for a missing GPU or instruction set; the tests that were skipped say why above their name.
    ctest --preset "$preset" -j 1 --timeout 1500 "$@" </dev/null
}

build_and_test dev
if [ "$mode" = all ]; then
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:strict_string_checks=1
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    build_and_test asan -LE kernel # NVRTC compiles the same text there
fi
step "all tests passed"

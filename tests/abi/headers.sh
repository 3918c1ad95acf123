#!/usr/bin/env bash
# Every public header compiles alone as C11 and as C++17, without a warning and without padding in its structs.
#   headers.sh INCLUDE_FOLDER C_COMPILER CXX_COMPILER WORK_FOLDER
set -euo pipefail
include=$1 cc=$2 cxx=$3 work=$4
mkdir -p "$work"
n=0
while IFS= read -r -d '' header; do
    name=${header#"$include"/}
    # Included twice: the guard is tested too.
    printf '#include "%s"\n#include "%s"\n' "$name" "$name" >"$work/one.c"
    cp "$work/one.c" "$work/one.cc"
    flags=(-I"$include" -Wall -Wextra -pedantic -Wpadded -Werror -Wundef -fsyntax-only)
    "$cc" -std=c11 -Wstrict-prototypes "${flags[@]}" "$work/one.c" || { echo "$name: not C11" >&2; exit 1; }
    "$cxx" -std=c++17 "${flags[@]}" "$work/one.cc" || { echo "$name: not C++17" >&2; exit 1; }
    n=$((n + 1))
done < <(find "$include/vallmo" -name '*.h' -print0)
[ "$n" -ge 8 ] || { echo "only $n headers were found" >&2; exit 1; }
# The check itself must be able to fail.
printf '#include <stdint.h>\nstruct padded { uint32_t a; uint64_t b; };\n' >"$work/one.c"
if "$cc" -std=c11 -Wpadded -Werror -fsyntax-only "$work/one.c" 2>/dev/null; then
    echo "-Wpadded finds nothing" >&2
    exit 1
fi
echo "$n headers are clean"

#!/usr/bin/env bash
# Installs the build into a fresh prefix, moves that prefix, and builds and runs examples/generate.c there with pkg-config alone.
#   installed.sh BUILD_FOLDER SOURCE_FOLDER C_COMPILER CMAKE PC_FOLDER LIB_FOLDER FLAGS...
set -euo pipefail
build=$1 source=$2 cc=$3 cmake=$4 pc=$5 lib=$6
shift 6
work=$build/tests/installed
rm -rf "$work"
mkdir -p "$work"
"$cmake" --install "$build" --prefix "$work/first" --component vallmo_sdk >/dev/null
mv "$work/first" "$work/prefix" # it must not remember where it was installed
prefix=$work/prefix
export PKG_CONFIG_PATH=$prefix/$pc
unset PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
read -ra flags <<<"$(pkg-config --cflags --libs vallmo)"
cp "$source/examples/generate.c" "$work/"
(cd "$work" && "$cc" -std=c11 -Wall -Wextra -Werror generate.c -o generate "${flags[@]}" "$@")
export LD_LIBRARY_PATH=$prefix/$lib

objects=$(cd "$prefix/$lib" && ls libvallmo.so*)
readelf -d "$prefix/$lib/libvallmo.so" | grep -q 'SONAME.*\[libvallmo\.so\.0\]' || { echo "SONAME is not libvallmo.so.0; installed: $objects" >&2; exit 1; }
# Exports are what vallmo.h declares, no more and no less.
nm -D --defined-only "$prefix/$lib/libvallmo.so" | awk '$2 == "T" {print $3}' | sort >"$work/exported"
grep -oE 'vl_[a-z_]+\(' "$prefix/include/vallmo/vallmo.h" | tr -d '(' | sort -u >"$work/mentioned"
sed -n '/^VL_EXPORT/,/;/p' "$prefix/include/vallmo/vallmo.h" | tr '\n' ' ' | tr ';' '\n' |
    grep -oE 'vl_[a-z_]+\(' | tr -d '(' | sort -u >"$work/declared"
diff "$work/declared" "$work/exported" || { echo "exports differ from vallmo.h" >&2; exit 1; }

# Without plugins it says so, and which folder it looked at is the installed one.
if (cd "$work" && ./generate nowhere hello >out 2>err); then
    echo "generate succeeded without plugins" >&2
    exit 1
fi
grep -q 'plugin' "$work/err" || { cat "$work/err" >&2; exit 1; }
# With the fake plugin beside the library it answers.
mkdir -p "$prefix/$lib/vallmo/plugins"
cp "$build/tests/plugins/fake.so" "$prefix/$lib/vallmo/plugins/"
touch "$work/model.fake"
(cd "$work" && ./generate model.fake 'say:it works;' >out 2>err) || { cat "$work/err" >&2; exit 1; }
grep -qx 'it works' "$work/out" || { cat "$work/out" "$work/err" >&2; exit 1; }
grep -qx '31 prompt tokens, 9 generated' "$work/out" || { cat "$work/out" >&2; exit 1; }
if (cd "$work" && ./generate missing.fake hello >out 2>err); then
    echo "generate succeeded on a missing file" >&2
    exit 1
fi
grep -q 'missing.fake: no such file' "$work/err" || { cat "$work/err" >&2; exit 1; }
echo "installed tree is good"

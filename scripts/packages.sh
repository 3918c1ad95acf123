#!/usr/bin/env bash
# Makes sure that what Vallmo builds and tests with is installed (Debian 12, Ubuntu 24.04).
# Usage: scripts/packages.sh [build|test]   (default: test, which includes build; build includes curl, for the demo)
# Installs with apt where it may; else prints the one line to run and fails.
set -euo pipefail

what=${1:-test}
packages=(build-essential cmake ninja-build pkg-config libevent-dev libyaml-dev libpcre2-dev
    libutf8proc-dev libcurl4-openssl-dev libmd4c-dev libcmocka-dev curl
    ca-certificates)
if [ "$what" = test ]; then
    packages+=(python3 python3-venv python3-numpy tmux procps)
fi

missing=()
for package in "${packages[@]}"; do
    # python3 and cmake may come from elsewhere than apt; a program on PATH is as good.
    case $package in
    cmake | tmux | curl) command -v "$package" >/dev/null && continue ;;
    ninja-build) command -v ninja >/dev/null && continue ;;
    esac
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
        missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo="sudo -n"
    else
        echo "These packages are missing, and this user may not install them. Run:" >&2
        echo "    sudo apt-get install -y ${missing[*]}" >&2
        exit 1
    fi
fi
if ! command -v apt-get >/dev/null; then
    echo "No apt-get here. Install what these Debian packages hold: ${missing[*]}" >&2
    exit 1
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# An old package list is the usual reason for a failed install: try without it first, then renew it.
$sudo apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 </dev/null || {
    $sudo apt-get update -qq </dev/null
    $sudo apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null </dev/null
}

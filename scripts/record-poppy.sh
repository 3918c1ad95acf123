#!/usr/bin/env bash
# Re-makes docs/poppy.svg, the picture of Poppy in the README: a chat with the demo model in a tmux window.
#   scripts/record-poppy.sh [BUILD]      BUILD: a build folder with vallmo-host and poppy (default: build/release)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
cols=100 rows=32
home=$(mktemp -d)
tmux=(tmux -L "poppy-record-$$" -f /dev/null)
host=
cleanup() {
    "${tmux[@]}" kill-server 2>/dev/null || true
    [ -z "$host" ] || kill "$host" 2>/dev/null || true
    rm -rf "$home"
}
trap cleanup EXIT

for port in $(seq 18200 18260); do # the first that nobody listens on
    (exec 3<>/dev/tcp/127.0.0.1/"$port") 2>/dev/null || break
done
"$build"/vallmo-host --model models/poppyseed --port "$port" >"$home/host.log" 2>&1 </dev/null &
host=$!
for _ in $(seq 300); do
    curl -sf -o "$home/health" "http://127.0.0.1:$port/health" && break
    kill -0 "$host"
    sleep 0.1
done

"${tmux[@]}" new-session -d -x $cols -y $rows \
    "env HOME=$home COLORTERM=truecolor TERM=tmux-256color $build/poppy --url http://127.0.0.1:$port"
"${tmux[@]}" set -g status off
sleep 1
ask() {
    "${tmux[@]}" send-keys -l "$1"
    sleep 0.2
    "${tmux[@]}" send-keys Enter
    sleep 4
}
ask "What can you do?"
ask "What is 17 + 25?"
"${tmux[@]}" capture-pane -e -p | python3 scripts/ansi_to_svg.py $cols >docs/poppy.svg
echo "docs/poppy.svg: $(wc -c <docs/poppy.svg) bytes"

#!/usr/bin/env bash
# Builds Vallmo, starts the server on the tiny model that comes with it, asks it something, shows the
# streamed answer, and says how to go on. Ends by itself.
set -euo pipefail
cd "$(dirname "$0")/.."

question=${1:-What can you do?}

echo "== packages"
scripts/packages.sh build
echo "== build"
mkdir -p build
cmake --preset release -DVALLMO_POPPY=ON >build/release.configure.log 2>&1 || {
    cat build/release.configure.log
    exit 1
}
cmake --build --preset release -j "$(nproc)" | tail -n 1

host=build/release/vallmo-host
log=build/demo.log
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])' 2>/dev/null || echo 18080)
echo "== $host --model models/poppyseed --port $port"
$host --model models/poppyseed --port "$port" >"$log" 2>&1 </dev/null &
pid=$!
trap 'kill $pid 2>/dev/null; wait $pid 2>/dev/null || true' EXIT
for _ in $(seq 200); do
    if (exec 3<>/dev/tcp/127.0.0.1/"$port") 2>/dev/null && "$host" --ask-health "$port" 2>/dev/null; then
        break
    fi
    kill -0 $pid 2>/dev/null || {
        cat "$log"
        exit 1
    }
    sleep 0.1
done

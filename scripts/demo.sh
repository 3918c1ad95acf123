#!/usr/bin/env bash
# Builds Vallmo, starts the server on the tiny model that comes with it, has a short chat with it and says how to go on.
# Ends by itself.   scripts/demo.sh ["a question"]
set -euo pipefail
cd "$(dirname "$0")/.."
question=${1:-What can you do?}

echo "== packages"
scripts/packages.sh build
echo "== build"
mkdir -p build
cmake --preset release >build/release.configure.log 2>&1 || {
    cat build/release.configure.log
    exit 1
}
cmake --build --preset release -j "$(nproc)" >build/release.build.log 2>&1 || {
    tail -n 40 build/release.build.log
    exit 1
}

host=build/release/vallmo-host
log=build/demo.log
for port in $(seq 18080 18120); do # the first that nobody listens on
    (exec 3<>/dev/tcp/127.0.0.1/"$port") 2>/dev/null || break
done
url=http://127.0.0.1:$port
echo "== $host --model models/poppyseed --port $port"
$host --model models/poppyseed --port "$port" >"$log" 2>&1 </dev/null &
pid=$!
trap 'kill $pid 2>/dev/null || true; wait $pid 2>/dev/null || true' EXIT
ready=no
for _ in $(seq 300); do
    if curl -sf -o /dev/null "$url/health"; then
        ready=yes
        break
    fi
    kill -0 $pid 2>/dev/null || break
    sleep 0.1
done
if [ $ready = no ]; then
    echo "the server did not become ready:" >&2
    tail -n 20 "$log" >&2
    exit 1
fi

ask() {
    echo
    echo "> $1"
    if [ -x build/release/poppy ]; then
        build/release/poppy --url "$url" "$1" </dev/null
    else
        # One line a token: data: {"choices":[{"delta":{"content":"Hi"}...
        curl -sN "$url/v1/chat/completions" -H 'Content-Type: application/json' \
            -d "{\"messages\":[{\"role\":\"user\",\"content\":\"$1\"}],\"stream\":true,\"temperature\":0,\"max_tokens\":200}" |
            sed -un 's/^data: .*"delta":{"content":"\([^}]*\)"}.*/\1/p' | tr -d '\n' | sed 's/\\n/\n/g; s/\\"/"/g'
        echo
    fi
}
ask "$question"
ask "What is 17 + 25?"

cat <<END

That was poppyseed, a toy of 12 million parameters. To go on:
    $host --model models/poppyseed                 the server, on 127.0.0.1:8080
    $host --model /path/to/Qwen3.5-4B              a real checkpoint: a folder of safetensors, or a GGUF file
    curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\
        -d '{"messages":[{"role":"user","content":"Hello"}]}'
END
if [ -x build/release/poppy ]; then
    echo "    build/release/poppy --url http://127.0.0.1:8080        a chat in the terminal"
fi

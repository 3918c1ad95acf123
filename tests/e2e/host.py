#!/usr/bin/env python3
"""vallmo-host as a process: host.py HOST MODEL. Flags, configs, bad models, signals, several models, keys."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from hostlib import Host

HOST, MODEL = sys.argv[1], os.path.abspath(sys.argv[2])
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0}
LONG = {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 4000, "min_tokens": 4000, "ignore_eos": True, "stream": True}
SMALL = ["--ctx", "8192", "--set", "max_sequences=2", "--set", "qwen35.threads=1"]


def run(*args, env=None):
    e = {k: v for k, v in os.environ.items() if not k.startswith("VALLMO_") and k != "VL_LOG"}
    e.update(env or {})
    return subprocess.run([HOST, *args], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, env=e)


def check(ok, what):
    if not ok:
        raise AssertionError(what)


def test_flags_that_only_print():
    for flag, word in (("--version", "vallmo-host"), ("--help", "--check-config"), ("--list-plugins", "qwen35"), ("--help-options", "cpu_form"), ("--help-markdown", "| `port` |")):
        r = run(flag)
        check(r.returncode == 0 and word in r.stdout, f"{flag}: {r}")
    r = run("--modle", MODEL)
    check(r.returncode == 2 and "--model" in r.stderr, f"a misspelt flag: {r}")


def test_check_config_good_and_bad():
    r = run("--check-config", "--model", MODEL)
    check(r.returncode == 0 and "config ok" in r.stdout and "context_tokens=" in r.stdout, f"a good model: {r}")
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "v.yaml")
        with open(path, "w") as f:
            f.write(f"prot: 1\nport: many\nmodels:\n  - model: {MODEL}\n    contxt_tokens: 4\nplugins:\n  qwen35:\n    cpu_from: scalar\n")
        r = run("-c", path, "--check-config")
        check(r.returncode == 1, f"a wrong config: {r}")
        for want in (f"{path}:1:1: unknown key 'prot'; did you mean 'port'?", f"{path}:2:7: port: want a whole number, got 'many'",
                     f"{path}:5:5: unknown key of a model 'contxt_tokens'; did you mean 'context_tokens'?",
                     f"{path}:8:5: unknown option of this plugin: 'cpu_from'; did you mean 'cpu_form'?"):
            check(want in r.stderr, f"{want!r} is not in {r.stderr}")
        with open(path, "w") as f:
            f.write(f"model: {os.path.relpath(MODEL, d)}\n")
        r = run("-c", path, "--check-config")
        check(r.returncode == 0, f"a path relative to the config file: {r}")
    check(run("--check-config").returncode == 1, "no model at all")


def test_printed_options_are_a_config():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "v.yaml")
        with open(path, "w") as f:
            f.write(run("--help-options").stdout)
        r = run("-c", path, "--model", MODEL, "--check-config")
        check(r.returncode == 0 and "config ok" in r.stdout, f"{r}")


def test_bad_model_ends_with_one_clear_line():
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "config.json"), "w") as f:
            f.write("{}")
        for path in (d, os.path.join(d, "nothing-here")):
            r = run("--port", "0", "--model", path)
            check(1 <= r.returncode <= 125, f"{path}: status {r.returncode}")
            lines = r.stderr.strip().splitlines()
            check(len(lines) <= 10 and any(path in x for x in lines), f"{path}: {r.stderr}")


def test_port_taken_is_said():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        r = run("--model", MODEL, "--port", str(port))
        check(r.returncode == 1 and str(port) in r.stderr and "listen" in r.stderr, f"{r}")


def test_environment_and_command_line():
    r = run("--check-config", "--model", MODEL, "--ctx", "512", env={"VALLMO_CONTEXT_TOKENS": "256", "VALLMO_MAX_SEQUENCES": "3"})
    check("context_tokens=512" in r.stdout and "max_sequences=3" in r.stdout, f"{r}")
    r = run("--check-config", "--model", MODEL, env={"VALLMO_QWEN35_CPU_FORM": "abacus"})
    check(r.returncode == 1 and "abacus" in r.stderr, f"{r}")


def test_term_lets_running_streams_finish():
    with Host(HOST, "--model", MODEL, *SMALL) as h:
        h.ready()
        got = {}

        def ask():
            got["r"] = h.get("/v1/chat/completions", "POST", {**LONG, "max_tokens": 300, "min_tokens": 300}, timeout=100)
        t = threading.Thread(target=ask)
        t.start()
        until(h, lambda m: metric(m, "vallmo_requests_running") == 1 and metric(m, "vallmo_generation_tokens_total") > 1)
        check(h.end() == 0, "exit status after SIGTERM")
        t.join(60)
        check(got["r"][2].endswith(b"data: [DONE]\n\n"), f"the stream ended with {got['r'][2][-80:]!r}")


def test_term_past_its_limit_and_twice():
    for twice in (False, True):
        with Host(HOST, "--model", MODEL, *SMALL, "--set", "drain_timeout=" + ("60s" if twice else "300ms")) as h:
            h.ready()
            got = {}

            def ask():
                try:
                    got["r"] = h.get("/v1/chat/completions", "POST", {**LONG, "max_tokens": 8000, "min_tokens": 8000}, timeout=100)[2]
                except Exception as e:
                    got["r"] = repr(e).encode()
            t = threading.Thread(target=ask)
            t.start()
            until(h, lambda m: metric(m, "vallmo_generation_tokens_total") > 1)
            if twice:
                h.p.send_signal(signal.SIGTERM)
                time.sleep(0.3)
            t0 = time.monotonic()
            check(h.end() == 0, "exit status")
            check(time.monotonic() - t0 < 20, "it took too long to end")
            t.join(60)
            check(b"[DONE]" not in got["r"], "a stream that was cut looks complete")
            if not twice:
                check(b'"error"' in got["r"], f"no error event: {got['r'][-100:]!r}")


def test_client_gone_frees_the_slot():
    with Host(HOST, "--model", MODEL, *SMALL) as h:
        h.ready()
        for stream in (True, False):
            s = socket.create_connection(("127.0.0.1", h.port))
            b = json.dumps({**LONG, "max_tokens": 8000, "min_tokens": 8000, "stream": stream}).encode()
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(b) + b)
            until(h, lambda m: metric(m, "vallmo_requests_running") == 1)
            s.close()
            until(h, lambda m: metric(m, "vallmo_requests_running") == 0)
        m = h.get("/metrics")[2].decode()
        check(metric(m, "vallmo_requests_cancelled_total") == 2, "two cancels are counted")


def test_queue_full_is_429():
    with Host(HOST, "--model", MODEL, "--ctx", "8192", "--set", "max_sequences=1", "--set", "queue_max=1", "--set", "qwen35.threads=1") as h:
        h.ready()
        open_ = []
        b = json.dumps({**LONG, "max_tokens": 8000, "min_tokens": 8000}).encode()
        refused = None
        for _ in range(8):
            s = socket.create_connection(("127.0.0.1", h.port))
            s.settimeout(30)
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(b) + b)
            head = s.recv(4000)
            open_.append(s)
            if b" 429 " in head:
                refused = head
                break
            check(b" 200 " in head, f"{head!r}")
        for s in open_:
            s.close()
        check(refused and b"Retry-After: " in refused and b"rate_limit_exceeded" in refused, f"{refused!r}")


def test_keys_guard_everything_but_health():
    with Host(HOST, "--model", MODEL, *SMALL, "--set", "api_keys=k1,k2") as h:
        h.ready()
        for path in ("/v1/models", "/metrics", "/nothing"):
            status, headers, body = h.get(path)
            check(status == 401 and headers.get("www-authenticate") == "Bearer" and b"invalid_api_key" in body, f"{path}: {status} {body!r}")
            check(h.get(path, headers={"Authorization": "Bearer k2"})[0] in (200, 404), path)
        check(h.get("/v1/models", headers={"x-api-key": "k1"})[0] == 200, "x-api-key")
        check(h.get("/v1/models", method="OPTIONS", headers={"Origin": "http://localhost:1"})[0] == 204, "preflight without a key")
        check(h.get("/v1/models", headers={"Host": "evil.example", "x-api-key": "k1"})[0] == 403, "another Host")


def test_several_models_chosen_by_name():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "v.yaml")
        with open(path, "w") as f:
            f.write(f"max_sequences: 2\ncontext_tokens: 4096\nmodels:\n  - model: {MODEL}\n    name: first\n  - model: {MODEL}\n    name: second\n"
                    "    context_tokens: 2048\nplugins: {qwen35: {threads: 1}}\n")
        with Host(HOST, "-c", path) as h:
            h.ready()
            data = json.loads(h.get("/v1/models")[2])["data"]
            check([(m["id"], m["max_model_len"]) for m in data] == [("first", 4096), ("second", 2048)], f"{data}")
            for name in ("first", "second"):
                status, _, body = h.get("/v1/chat/completions", "POST", {**CHAT, "model": name})
                check(status == 200 and json.loads(body)["model"] == name, f"{name}: {status} {body!r}")
            status, _, body = h.get("/v1/chat/completions", "POST", {**CHAT, "model": "third"})
            check(status == 404 and b"model_not_found" in body, f"third: {status} {body!r}")


def test_hup_takes_new_keys_and_keeps_old_on_a_mistake():
    with tempfile.TemporaryDirectory() as d:
        path, keys = os.path.join(d, "v.yaml"), os.path.join(d, "keys")
        good = f"model: {MODEL}\ncontext_tokens: 2048\nmax_sequences: 2\napi_keys_file: {keys}\nplugins: {{qwen35: {{threads: 1}}}}\n"

        def write(config, key):
            for name, text in ((path, config), (keys, f"# keys\n{key}\n")):
                with open(name, "w") as f:
                    f.write(text)

        def works(key):
            return h.get("/v1/models", headers={"x-api-key": key})[0] == 200

        def hup(line):
            h.p.send_signal(signal.SIGHUP)
            h._line(line)
        write(good, "k1")
        with Host(HOST, "-c", path) as h:
            h.ready()
            check(works("k1") and not works("k2"), "keys at the start")
            write(good, "k2")
            hup(r"reload: the config is taken over keys=1")
            check(works("k2") and not works("k1"), "keys after a reload")
            write(good + "prot: 1\n", "k3")
            hup(r"reload: the old config stays")
            check(works("k2") and not works("k3"), "keys after a bad reload")
            check("unknown key 'prot'" in h.log(), "the mistake is not told")
            write(good.replace("2048", "1024"), "k4")
            hup(r"reload: these need a restart: context_tokens")
            check(works("k4"), "keys of a config that also needs a restart")
            got = h.get("/v1/chat/completions", "POST", CHAT, headers={"x-api-key": "k4"})
            check(got[0] == 200, f"a request afterwards: {got}")


def test_service_manager_is_told():
    name = f"@vallmo-e2e-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind("\0" + name[1:])
        s.settimeout(60)
        got = []

        def wait_for(word):
            while not any(word in x for x in got):
                got.append(s.recv(4096).decode())
        with Host(HOST, "--model", MODEL, *SMALL, env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000"}) as h:
            wait_for("READY=1")
            check(not any("WATCHDOG=1" in x and "READY" in x for x in got), f"{got}")
            check(h.get("/health")[0] == 200, "READY came before /health was good")
            got.clear()
            h.get("/v1/chat/completions", "POST", {**CHAT, "max_tokens": 50})
            wait_for("WATCHDOG=1")
            h.end()
            wait_for("STOPPING=1")


def test_no_sign_of_life_while_a_step_hangs():
    name = f"@vallmo-e2e-hang-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind("\0" + name[1:])
        s.settimeout(60)
        # Asked for every 2 ms, a step of 2,000 prompt tokens is one that hangs.
        with Host(HOST, "--model", MODEL, *SMALL, env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "2000"}) as h:
            h.ready()
            status, _, body = h.get("/v1/completions", "POST", {"prompt": [5] * 2000, "max_tokens": 2})
            check(status == 200, f"{status} {body!r}")
            h._line(r"an engine makes no progress")
            while s.recv(4096) != b"WATCHDOG=1":
                pass


def test_messages_form_of_errors_counts_and_keys():
    ask = {"max_tokens": 4, "temperature": 0, "messages": [{"role": "user", "content": "Hello"}]}
    with Host(HOST, "--model", MODEL, *SMALL, "--set", "api_keys=k") as h:
        h.ready()
        status, headers, body = h.get("/v1/messages", "POST", ask)
        o = json.loads(body)
        check(status == 401 and o["type"] == "error" and o["error"]["type"] == "authentication_error", f"{status} {o}")
        check(o["request_id"] == headers["x-request-id"] == headers["request-id"], f"{headers}")
        key = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
        status, _, body = h.get("/v1/messages?beta=true", "POST", ask, headers=key)
        o = json.loads(body)
        check(status == 200, f"{status} {o}")
        used = o["usage"]["input_tokens"] + o["usage"]["cache_read_input_tokens"]
        del ask["max_tokens"]
        status, _, body = h.get("/v1/messages/count_tokens", "POST", ask, headers=key)
        check(status == 200 and json.loads(body) == {"input_tokens": used}, f"{status} {body!r}, used {used}")
        status, _, body = h.get("/v1/messages", "POST", {**ask, "max_tokens": 4, "messages": [{"role": "user", "content": "word " * 9000}]}, headers=key)
        o = json.loads(body)
        check(status == 400 and o["error"]["type"] == "invalid_request_error" and "maximum context length" in o["error"]["message"], f"{status} {o}")


def test_tools_in_both_other_forms():
    schema = {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]}
    say = [{"role": "user", "content": "Weather in Oslo?"}]
    with Host(HOST, "--model", MODEL, *SMALL) as h:
        h.ready()
        status, _, body = h.get("/v1/messages", "POST", {"max_tokens": 400, "messages": say, "thinking": {"type": "disabled"}, "tool_choice": {"type": "tool", "name": "weather"},
                                                         "tools": [{"name": "weather", "input_schema": schema}]})
        o = json.loads(body)
        check(status == 200 and o["stop_reason"] == "tool_use", f"{status} {o}")
        use = o["content"][-1]
        check(use["type"] == "tool_use" and use["name"] == "weather" and use["input"] == {"city": "Oslo"}, f"{use}")
        more = say + [{"role": "assistant", "content": o["content"]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use["id"], "content": "9"}]}]
        status, _, body = h.get("/v1/messages", "POST", {"max_tokens": 4, "messages": more})
        check(status == 200, f"the result sent back: {status} {body!r}")
        status, _, body = h.get("/v1/responses", "POST", {"max_output_tokens": 400, "input": "Weather in Oslo?", "reasoning": {"effort": "none"}, "tool_choice": "required",
                                                          "tools": [{"type": "function", "name": "weather", "parameters": schema}]})
        o = json.loads(body)
        call = next((x for x in o["output"] if x["type"] == "function_call"), None)
        check(status == 200 and call and json.loads(call["arguments"]) == {"city": "Oslo"}, f"{status} {o}")
        more = [{"role": "user", "content": "Weather in Oslo?"}, *o["output"], {"type": "function_call_output", "call_id": call["call_id"], "output": "9"}]
        status, _, body = h.get("/v1/responses", "POST", {"max_output_tokens": 4, "input": more})
        check(status == 200, f"the result sent back: {status} {body!r}")


def test_echo_logprobs_score_a_text():
    ask = {"temperature": 0, "logprobs": 2, "max_tokens": 6}
    with Host(HOST, "--model", MODEL, *SMALL) as h:
        h.ready()

        def complete(body):
            status, _, got = h.get("/v1/completions", "POST", {**ask, **body})
            check(status == 200, f"{body}: {status} {got!r}")
            c = json.loads(got)["choices"][0]
            return c["text"], c["logprobs"]
        text, own = complete({"prompt": "Once upon a"})
        whole, lp = complete({"prompt": "Once upon a" + text, "max_tokens": 1, "echo": True})
        check(whole.startswith("Once upon a" + text) and "".join(lp["tokens"]) == whole, f"{whole!r} {lp['tokens']}")
        check(len({len(lp[k]) for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}) == 1, f"{lp}")
        check(lp["token_logprobs"][0] is None and lp["top_logprobs"][0] is None, f"the first token: {lp}")
        check(lp["text_offset"] == [len("".join(lp["tokens"][:i])) for i in range(len(lp["tokens"]))], f"{lp['text_offset']}")
        at = len(lp["tokens"]) - 1 - len(own["tokens"])
        if lp["tokens"][at:-1] == own["tokens"]:  # the text can also be cut into tokens in another way
            off = max(abs(x - y) for x, y in zip(lp["token_logprobs"][at:-1], own["token_logprobs"]))
            check(off < 0.05, f"as prompt and as answer the same tokens differ by {off}")
        check(len(complete({"prompt": [5], "echo": True})[1]["tokens"]) == 7, "a prompt of one token")
        status, _, got = h.get("/v1/completions", "POST", {**ask, "prompt": "x", "echo": True, "stream": True})
        check(status == 400 and json.loads(got)["error"]["param"] == "echo", f"in a stream: {status} {got!r}")


def test_inline_thought_is_whole_text():
    say = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 60, "temperature": 0, "enable_thinking": True, "thinking_token_budget": 8}
    with Host(HOST, "--model", MODEL, *SMALL) as h:
        h.ready()
        apart = json.loads(h.get("/v1/chat/completions", "POST", say)[2])["choices"][0]["message"]
        inline = json.loads(h.get("/v1/chat/completions", "POST", {**say, "reasoning_format": "none"})[2])["choices"][0]["message"]
        want = "<think>\n" + apart["reasoning_content"] + "\n</think>\n\n" + apart["content"]
        check(apart["content"] and inline["content"] == want and "reasoning_content" not in inline, f"{inline} against {apart}")


def metric(text, name):
    return sum(float(x.rsplit(" ", 1)[1]) for x in text.splitlines() if x.startswith(name + "{") or x.startswith(name + " "))


def until(h, ok, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ok(h.get("/metrics")[2].decode()):
            return
        time.sleep(0.02)
    raise AssertionError("it never came to that:\n" + h.log())


def main():
    failed = 0
    for name, fn in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        t0 = time.monotonic()
        try:
            fn()
            print(f"pass {name} [{time.monotonic() - t0:.1f} s]", flush=True)
        except Exception as e:
            failed += 1
            print(f"fail {name}: {type(e).__name__}: {e}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

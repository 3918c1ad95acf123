#!/usr/bin/env python3
"""Starts a host on every model file of the cases and judges how it takes them.

    run.py --host PATH_TO_vallmo-host [--dir OUT_DIR] [--held DIR] [--only P,P] [--json FILE] [--scale X]

Prints a line for each case and at the end "N passed, M failed, K skipped".  Exit 0 if none failed, 1 if some did,
2 if the run could not start.
"""
import argparse
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make  # noqa: E402

END_S = 10              # a refusal
READY_S = 60            # until /health says 200, and for an answer
STOP_S = 10             # from SIGTERM to the end
MEMORY_MIB = 1536       # of resident memory at most
LINES = 10              # of stderr, for a refusal
SANITIZER = re.compile(r"(Address|Leak|Memory|Thread|UndefinedBehavior|HWAddress)Sanitizer|:\d+:\d+: runtime error: |Assertion .* failed|terminate called|stack smashing")


class Fault(Exception):
    pass


# ---------------------------------------------------------------- the host as a process

class Host:
    """One run of the host: its output, its end, its peak memory. It is in a group of its own and dies with us."""

    def __init__(self, o, args):
        self.limit = o.memory << 20
        self.dir = tempfile.mkdtemp(prefix="host-")
        self.out, self.err = os.path.join(self.dir, "out"), os.path.join(self.dir, "err")
        self.peak, self.status, self.over = 0, None, False
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.p = subprocess.Popen([o.host, *o.host_arg, *args], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=o.dir, start_new_session=True)
        self.done = threading.Event()
        threading.Thread(target=self._reap, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _reap(self):
        _, self.status, usage = os.wait4(self.p.pid, 0)
        self.p.returncode = os.waitstatus_to_exitcode(self.status)      # Popen must not wait for it again
        self.peak = max(self.peak, usage.ru_maxrss * 1024)
        self.done.set()

    def _watch(self):
        """Ends a host that takes too much memory before it takes all."""
        while not self.done.wait(0.02):
            try:
                with open(f"/proc/{self.p.pid}/status") as f:
                    m = re.search(r"VmHWM:\s+(\d+) kB", f.read())
            except OSError:
                return
            if m:
                self.peak = max(self.peak, int(m[1]) * 1024)
                if self.peak > self.limit:
                    self.over = True
                    self.kill()

    def kill(self, sig=signal.SIGKILL):
        if not self.done.is_set():
            try:
                os.killpg(self.p.pid, sig)
            except ProcessLookupError:
                pass

    def wait(self, seconds):
        return self.done.wait(seconds)

    def code(self):
        """Exit status, negative for a signal."""
        return os.waitstatus_to_exitcode(self.status)

    def end(self):
        """How it ended, in words."""
        c = self.code()
        return f"died by signal {signal.Signals(-c).name}" if c < 0 else f"exit status {c}"

    def stderr(self):
        with open(self.err, "rb") as f:
            return f.read(1 << 20).decode("utf-8", "replace")

    def close(self):
        self.kill()
        self.done.wait(10)
        shutil.rmtree(self.dir, ignore_errors=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def http_json(port, method, path, body, seconds):
    """(status, parsed body or text)"""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        c.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"} if body is not None else {})
        r = c.getresponse()
        b = r.read().decode("utf-8", "replace")
        try:
            return r.status, json.loads(b)
        except ValueError:
            return r.status, b
    finally:
        c.close()


# ---------------------------------------------------------------- judging

def found(word, line):
    """Is the word in the line: a number as a whole number, text without regard to case."""
    w = str(word)
    if isinstance(word, int) or re.fullmatch(r"-\d+", w):
        return re.search(r"(?<!\d)" + re.escape(w) + r"(?![\d])", line) is not None
    return w.lower() in line.lower()


def missing(words, line):
    return [w for w in words if not (any(found(x, line) for x in w) if isinstance(w, list) else found(w, line))]


def spell(words):
    return ", ".join(" or ".join(map(str, w)) if isinstance(w, list) else str(w) for w in words)


def short(text, n=300):
    text = " | ".join(x for x in text.strip().splitlines() if x.strip())
    return text if len(text) <= n else text[:n] + "…"


def tail(h, root=None, n=400):
    """The end of what the host wrote on stderr, where the reason stands."""
    text = h.stderr() if root is None else h.stderr().replace(root + "/", "")
    text = " | ".join(x.strip() for x in text.splitlines() if x.strip())
    return text if len(text) <= n else "…" + text[-n:]


def sound(h):
    """What no run of the host may show, however it ends."""
    m = SANITIZER.search(h.stderr())
    if m:
        line = next(x for x in h.stderr().splitlines() if m[0] in x)
        raise Fault(f"stderr shows a crash or sanitizer report: {short(line)}")
    if h.over or h.peak > h.limit:
        raise Fault(f"peak memory {h.peak >> 20} MiB, at most {h.limit >> 20} wanted")


def refusal(h, case, root):
    """The ended host's words about a bad file."""
    sound(h)
    code = h.code()
    if not 1 <= code <= 125:
        raise Fault(f"{h.end()}, exit status 1 to 125 wanted; stderr: {tail(h)}")
    lines = [x for x in h.stderr().replace(root + "/", "").splitlines() if x.strip()]     # a folder's name must not lend a message its words
    if not lines:
        raise Fault("nothing on stderr")
    lack = min((missing(case["words"], x) for x in lines), key=len)
    faults = [f"no line on stderr has all the words; lacking {spell(lack)}"] if lack else []
    if len(lines) > LINES:
        faults.append(f"{len(lines)} lines on stderr, at most {LINES} wanted")
    if faults:
        raise Fault(f"{'; '.join(faults)}; stderr: {tail(h, root)}")


def serving(port):
    try:
        return http_json(port, "GET", "/health", None, 2)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


PROMPT = "Hello, what is your name?"
ROUGH = "Hello aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! <|im_end|> e\u0301 \u4f60\u597d"


def chat(port, seconds, prompt=PROMPT):
    """(status, body) of a greedy request for four tokens."""
    try:
        s, models = http_json(port, "GET", "/v1/models", None, seconds)
        name = models["data"][0]["id"] if s == 200 else "default"
    except (KeyError, IndexError, TypeError):
        name = "default"
    return http_json(port, "POST", "/v1/chat/completions", {"model": name, "messages": [{"role": "user", "content": prompt}], "max_tokens": 4, "temperature": 0}, seconds)


def run_bad(o, case):
    port = free_port()
    h = Host(o, ["--model", os.path.join(o.dir, case["path"]), "--port", str(port)])
    try:
        end, took = time.monotonic() + END_S * o.scale, False
        while not h.wait(0.2) and not took and time.monotonic() < end:
            took = serving(port)
        if not h.done.is_set():
            h.kill()
            h.wait(10)
            sound(h)
            raise Fault("accepted: /health says 200" if took else f"not ended after {END_S * o.scale:g} s; stderr: {tail(h)}")
        refusal(h, case, o.dir)
    finally:
        h.close()


def ready(o, h, port, may_end=False):
    """Waits for /health; False if the host ended by itself."""
    end = time.monotonic() + READY_S * o.scale
    while time.monotonic() < end:
        if h.wait(0.05):
            if may_end:
                return False
            sound(h)
            raise Fault(f"not loaded: {h.end()}; stderr: {tail(h)}")
        if serving(port):
            return True
    h.kill()
    h.wait(10)
    sound(h)
    raise Fault(f"/health not 200 within {READY_S * o.scale:g} s; stderr: {tail(h)}")


def stop(o, h):
    if h.wait(0.1):
        sound(h)
        raise Fault(f"ended without SIGTERM: {h.end()}; stderr: {tail(h)}")
    h.kill(signal.SIGTERM)
    if not h.wait(STOP_S * o.scale):
        raise Fault(f"not ended {STOP_S * o.scale:g} s after SIGTERM")
    sound(h)
    if h.code() != 0:
        raise Fault(f"{h.end()} after SIGTERM, exit status 0 wanted; stderr: {tail(h)}")


def ask(o, h, port, prompt=PROMPT):
    try:
        return chat(port, READY_S * o.scale, prompt)
    except (OSError, http.client.HTTPException) as e:
        if h.wait(1):
            sound(h)
            raise Fault(f"{h.end()} while answering; stderr: {tail(h)}")
        raise Fault(f"no answer to a chat request: {type(e).__name__}: {e}")


def run_good(o, case):
    port = free_port()
    h = Host(o, ["--model", os.path.join(o.dir, case["path"]), "--port", str(port)])
    try:
        ready(o, h, port)
        s, b = ask(o, h, port)
        try:
            m = b["choices"][0]["message"]
            text = (m.get("reasoning_content") or "") + (m.get("content") or "")
            ok = s == 200 and m["role"] == "assistant" and b["choices"][0]["finish_reason"] in ("stop", "length")
            n = (b.get("usage") or {}).get("completion_tokens", 1)
        except (KeyError, IndexError, TypeError, AttributeError):
            ok, text, n = False, "", 0
        if not ok:
            raise Fault(f"the answer is {s} {short(json.dumps(b))}")
        if not 0 <= n <= 4:
            raise Fault(f"usage says {n} tokens, at most 4 were asked for")
        stop(o, h)
        return [text, n]
    finally:
        h.close()


def run_calm(o, case):
    port = free_port()
    h = Host(o, ["--model", os.path.join(o.dir, case["path"]), "--port", str(port)])
    try:
        if ready(o, h, port, may_end=True):
            ask(o, h, port, ROUGH)
            stop(o, h)
            return "loaded"
        sound(h)
        if not 1 <= h.code() <= 125:
            raise Fault(f"{h.end()}, exit status 1 to 125 wanted; stderr: {tail(h)}")
        return "refused"
    finally:
        h.close()


def check_config(o, case):
    """--check-config: a good file passes, a bad one ends calmly whatever is said."""
    h = Host(o, ["--model", os.path.join(o.dir, case["path"]), "--check-config"])
    try:
        if not h.wait(END_S * o.scale):
            raise Fault(f"--check-config not ended after {END_S * o.scale:g} s")
        sound(h)
        if not 0 <= h.code() <= 125 or (case["kind"] == "good" and h.code() != 0):
            raise Fault(f"--check-config: {h.end()}; stderr: {tail(h)}")
    finally:
        h.close()


def run_case(o, case, answers):
    """(status, message)"""
    before = set(os.listdir(o.dir))
    st, msg = judge(o, case, answers)
    new = set(os.listdir(o.dir)) - before
    if new and st == "pass":
        st, msg = "fail", f"the host left {', '.join(sorted(new))} in its working directory"
    return st, msg


def judge(o, case, answers):
    """(status, message) by the case's kind."""
    twin = case.get("twin")
    try:
        if o.check:
            check_config(o, case)
        if case["kind"] == "bad":
            run_bad(o, case)
            return "pass", ""
        if case["kind"] == "calm":
            return "pass", run_calm(o, case)
        answers[case["id"]] = got = run_good(o, case)
        if twin in answers and answers[twin] != got:
            raise Fault(f"answers {got}, and {twin}, the same model, {answers[twin]}")
        return "pass", "" if not twin or twin in answers else f"not compared: {twin} gave no answer"
    except Fault as e:
        return "fail", str(e)


# ---------------------------------------------------------------- main

def give_up(msg):
    print(f"run.py: {msg}", file=sys.stderr)
    sys.exit(2)


def manifest_of(o, only):
    """The cases under o.dir, made first where they are not there."""
    file = os.path.join(o.dir, "manifest.json")
    if os.path.exists(file):
        with open(file) as f:
            cases = json.load(f)["cases"]
        if o.held and not any(c["set"] == "held" for c in cases):
            give_up(f"{o.dir} was made without --held; name another folder, or none")
        return cases
    return make.build(o.dir, o.held, only, o.poppyseed)["cases"]


def main():
    ap = argparse.ArgumentParser(description="Starts a host on damaged, hostile and odd model files and judges how it takes them.")
    ap.add_argument("--host", required=True, metavar="PATH", help="the vallmo-host to try")
    ap.add_argument("--host-arg", action="append", default=[], metavar="ARG", help="a further argument for it, before --model (write --host-arg=--x); may be repeated")
    ap.add_argument("--dir", metavar="DIR", help="what make.py wrote; made there if it is not there; default: a temporary folder")
    ap.add_argument("--held", metavar="DIR", help="a folder with further cases_*.py")
    ap.add_argument("--only", action="append", default=[], metavar="P,P", help="ids, their beginnings (gguf.), kinds (bad, good, calm) or globs; may be repeated")
    ap.add_argument("--poppyseed", metavar="DIR", help="the trained demo model; default: models/poppyseed of this repository")
    ap.add_argument("--check", action="store_true", help="run --check-config on each file too: good must pass, bad must end calmly")
    ap.add_argument("--json", metavar="FILE", help="write the results as JSON too")
    ap.add_argument("--scale", type=float, default=1.0, help="stretches every time limit, for slow builds (sanitizers: 5)")
    ap.add_argument("--memory", type=int, default=MEMORY_MIB, metavar="MIB", help=f"resident memory that the host may take at most (default {MEMORY_MIB})")
    ap.add_argument("--list", action="store_true", help="list the cases and stop")
    ap.add_argument("--fail-fast", action="store_true", help="stop at the first failure")
    o = ap.parse_args()
    o.host = os.path.abspath(o.host)
    if not os.access(o.host, os.X_OK) or os.path.isdir(o.host):
        give_up(f"--host: no program {o.host}")
    only = [p for x in o.only for p in x.split(",") if p]
    temp = None if o.dir else tempfile.mkdtemp(prefix="badfiles-")
    o.dir = os.path.realpath(o.dir or temp)
    try:
        cases = [c for c in manifest_of(o, only) if o.held or c["set"] == "shared"]
        by_id = {c["id"]: c for c in cases}
        picked = {c["id"] for c in cases if make.wanted(c["id"], c["kind"], only)}
        picked |= {by_id[i]["twin"] for i in picked if by_id[i]["twin"] in by_id}
        cases = [c for c in cases if c["id"] in picked]
        if not cases:
            give_up(f"no case matches {', '.join(only)}")
        if o.list:
            for c in cases:
                print(f"{c['kind']:4} {c['id']:32} {c.get('wrong') or c.get('what')}")
            return 0
        results, count, answers = [], {"pass": 0, "fail": 0, "skip": 0}, {}
        for c in cases:
            t0 = time.monotonic()
            st, msg = run_case(o, c, answers)
            took = time.monotonic() - t0
            count[st] += 1
            about = f" ({c.get('wrong') or c.get('what')}{'; ' + c['rule'] if c['rule'] else ''})" if st == "fail" else ""
            print(f"{st:4} {c['id']} [{took:.1f} s]{': ' + msg if msg else ''}{about}" + (f" <{c['source']}>" if st == "fail" and c["source"] else ""), flush=True)
            results.append({"id": c["id"], "kind": c["kind"], "set": c["set"], "status": st, "message": msg, "seconds": round(took, 3), "answer": answers.get(c["id"]), "source": c["source"], "rule": c["rule"]})
            if st == "fail" and o.fail_fast:
                break
        if o.json:
            with open(o.json, "w") as f:
                json.dump({"results": results, "passed": count["pass"], "failed": count["fail"], "skipped": count["skip"]}, f, indent=1)
                f.write("\n")
        print(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped")
        return 1 if count["fail"] else 0
    finally:
        if temp:
            shutil.rmtree(temp, ignore_errors=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

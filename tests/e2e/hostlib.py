"""Starts vallmo-host for a test: a free loopback port, its log kept, its end checked. Standard library only."""
import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time


class Host:
    """A running vallmo-host. Use as a context: it is ended with SIGTERM and must exit with 0."""

    def __init__(self, program, *args, env=None, limit=60.0):
        self.limit = limit
        self.lines = []
        e = {k: v for k, v in os.environ.items() if not k.startswith("VALLMO_") and k != "VL_LOG"}
        e.update(env or {})
        self.p = subprocess.Popen([program, "--port", "0", *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, errors="replace", env=e)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.port = int(self._line(r"listening .*\bport=(\d+)")[1])

    def _read(self):
        for line in self.p.stderr:
            self.lines.append(line.rstrip("\n"))

    def _line(self, pattern):
        end = time.monotonic() + self.limit
        while time.monotonic() < end:
            for line in list(self.lines):
                m = re.search(pattern, line)
                if m:
                    return m
            if self.p.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"no line like {pattern!r} in the log:\n" + self.log())

    def log(self):
        return "\n".join(self.lines[-40:])

    def get(self, path, method="GET", body=None, headers=None, timeout=30):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            c.request(method, path, body=json.dumps(body) if isinstance(body, dict) else body, headers=headers or {})
            r = c.getresponse()
            return r.status, dict((k.lower(), v) for k, v in r.getheaders()), r.read()
        finally:
            c.close()

    def ready(self):
        end = time.monotonic() + self.limit
        while time.monotonic() < end:
            if self.p.poll() is not None:
                break
            if self.get("/health")[0] == 200:
                return self
            time.sleep(0.05)
        raise AssertionError("the host is not ready:\n" + self.log())

    def end(self, sig=signal.SIGTERM):
        """Sends the signal; the exit status."""
        if self.p.poll() is None:
            self.p.send_signal(sig)
        try:
            status = self.p.wait(self.limit)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
            raise AssertionError("the host did not end:\n" + self.log())
        self.reader.join(5)
        bad = [x for x in self.lines if "Sanitizer" in x or "runtime error:" in x]
        if bad:
            raise AssertionError("sanitizer report:\n" + "\n".join(self.lines[-200:]))
        return status

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            status = self.end()
        except AssertionError:
            if kind is None:
                raise
            return
        if kind is None and status != 0:
            raise AssertionError(f"exit status {status}:\n" + self.log())

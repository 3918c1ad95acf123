#!/usr/bin/env python3
"""Runs the conformance cases against a vallmo-host of its own: run_cases.py HOST MODEL [--key K] [--host-arg=A]... -- arguments for cases/run.py"""
import os
import subprocess
import sys

from hostlib import Host

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    own = sys.argv[1:]
    rest = []
    if "--" in own:
        at = own.index("--")
        own, rest = own[:at], own[at + 1:]
    program, model, key, args = own[0], own[1], None, []
    for a in own[2:]:
        if a.startswith("--key="):
            key = a[6:]
        elif a.startswith("--host-arg="):
            args.append(a[11:])
        else:
            sys.exit(f"unknown argument {a}")
    if key:
        args += ["--set", f"api_keys=another,{key}"]
        rest += ["--api-key", key]
    with Host(program, "--model", model, *args) as h:
        h.ready()
        rc = subprocess.call([sys.executable, os.path.join(HERE, "cases", "run.py"), "--url", f"http://127.0.0.1:{h.port}", *rest])
        if rc:
            print("--- the host's log:\n" + h.log())
    return rc


if __name__ == "__main__":
    sys.exit(main())

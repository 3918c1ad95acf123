#!/usr/bin/env python3
"""Writes the model files of the cases, and manifest.json beside them.

    make.py OUT_DIR [--held DIR] [--only P,P] [--poppyseed DIR]

OUT_DIR must not exist or be empty. Standard library only; a few seconds, some 150 MB. The same version writes the same bytes.
"""
import argparse
import fnmatch
import glob
import importlib.util
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import badlib  # noqa: E402

ORDER = ["cases_safetensors", "cases_config", "cases_tokenizer", "cases_gguf", "cases_files", "cases_good"]


def load(folder, set_name):
    """Imports cases_*.py of a folder, known names first."""
    badlib.LOADING = set_name
    names = [os.path.basename(f)[:-3] for f in glob.glob(os.path.join(folder, "cases_*.py"))]
    for n in sorted(names, key=lambda n: (ORDER.index(n) if n in ORDER else len(ORDER), n)):
        spec = importlib.util.spec_from_file_location(f"{set_name}_{n}", os.path.join(folder, n + ".py"))
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def wanted(id, kind, patterns):
    """Patterns are ids, beginnings of ids, kinds, or globs."""
    return not patterns or any(fnmatch.fnmatch(id, p) or kind == p or ("*" not in p and id.startswith(p)) for p in patterns)


def words_of(words):
    """The words as the manifest has them: text or number, or a list of which one is enough."""
    return [list(w) if isinstance(w, tuple) else w for w in words or []]


def build(out, held=None, only=(), poppyseed=None):
    """Writes the files; returns the manifest."""
    if os.path.isdir(out) and os.listdir(out):
        raise SystemExit(f"make.py: {out} is not empty")
    os.makedirs(out, exist_ok=True)
    if not badlib.CASES:
        load(HERE, "shared")
    if held and not any(c.set == "held" for c in badlib.CASES):
        if not os.path.isdir(held):
            raise SystemExit(f"make.py: no folder {held}")
        load(held, "held")
    poppyseed = poppyseed or badlib.POPPYSEED
    cases = [c for c in badlib.CASES if held or c.set == "shared"]
    picked = {c.id for c in cases if wanted(c.id, c.kind, only)}
    picked |= {c.twin for c in cases if c.id in picked and c.twin}
    rows = []
    for c in cases:
        if c.id not in picked:
            continue
        x = badlib.Ctx(out, c.id, poppyseed)
        try:
            words = words_of(c.fn(x))
        except FileNotFoundError as e:
            raise SystemExit(f"make.py: {c.id}: {e}")
        if c.kind == "bad" and not words:
            raise SystemExit(f"make.py: {c.id} names no words")
        rows.append({"id": c.id, "kind": c.kind, "set": c.set, "path": os.path.relpath(x.path, out), "wrong" if c.kind == "bad" else "what": c.what,
                     "words": words, "twin": c.twin, "source": c.source, "rule": c.rule})
    manifest = {"cases": rows}
    with open(os.path.join(out, "manifest.json"), "w") as f:
        json.dump(manifest, f, indent=1, ensure_ascii=False)
        f.write("\n")
    return manifest


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("out", metavar="OUT_DIR")
    ap.add_argument("--held", metavar="DIR", help="a folder with further cases_*.py")
    ap.add_argument("--only", action="append", default=[], metavar="P,P", help="ids, their beginnings, kinds (bad, good, calm) or globs")
    ap.add_argument("--poppyseed", metavar="DIR", help="the trained demo model; default: models/poppyseed of this repository")
    a = ap.parse_args()
    m = build(os.path.abspath(a.out), a.held, [p for o in a.only for p in o.split(",") if p], a.poppyseed)
    n = {k: sum(c["kind"] == k for c in m["cases"]) for k in ("bad", "good", "calm")}
    print(f"{len(m['cases'])} cases: {n['bad']} bad, {n['good']} good, {n['calm']} calm")


if __name__ == "__main__":
    main()

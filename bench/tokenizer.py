#!/usr/bin/env python3
"""Speed of the bpe tokenizer beside the `tokenizers` package, one thread each, in one run, on the real-size Qwen3.5
vocabulary. Ids are compared as well.

    bench/tokenizer.py [--build build] [--text FILE]... [--runs N]

The default texts: English (the language reference that every Python carries), code (its library), one letter a million
times. Best of N runs. Without the package only our own figures are given.
"""
import argparse
import array
import glob
import os
import subprocess
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"


def default_texts(folder):
    import pydoc_data.topics
    texts = {"english.txt": "\n".join(pydoc_data.topics.topics.values())}
    code = []
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))[:60]:
        with open(path, encoding="utf-8", errors="replace") as f:
            code.append(f.read())
    texts["code.txt"] = "".join(code)[:1000000]
    texts["letter.txt"] = "a" * 1000000
    for name, text in texts.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    return [os.path.join(folder, name) for name in texts]


def best(runs, f):
    times = []
    for _ in range(runs):
        t = time.perf_counter()
        r = f()
        times.append(time.perf_counter() - t)
    return min(times), r


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--build", default="build/dev")
    ap.add_argument("--text", action="append")
    ap.add_argument("--runs", type=int, default=5)
    a = ap.parse_args()
    program = os.path.join(a.build, "plugins/tokenizers/bpe/bench_tokenizer")
    vocabulary = os.path.join(a.build, "tests/tokenizers/qwen35/tokenizer.json")
    try:
        import tokenizers
    except ImportError:
        tokenizers = None
    with tempfile.TemporaryDirectory() as folder:
        files = a.text or default_texts(folder)
        reference = None
        if tokenizers:
            seconds, reference = best(2, lambda: tokenizers.Tokenizer.from_file(vocabulary))
            print("tokenizers %s: load ms=%.1f" % (tokenizers.__version__, seconds * 1e3))
        for i, path in enumerate(files):
            out = os.path.join(folder, "ids")
            lines = subprocess.run([program, "-r", str(a.runs), "-o", out, vocabulary, path], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
            print("\n".join("vallmo: " + line for line in lines[0 if i == 0 else 1:]))
            if not reference:
                continue
            with open(path, encoding="utf-8", newline="") as f:
                text = f.read()
            size = os.path.getsize(path)
            seconds, r = best(a.runs, lambda: reference.encode_batch_fast([text], add_special_tokens=False))
            ids = array.array("i", open(out, "rb").read())
            print("tokenizers: encode file=%s bytes=%d ids=%d ms=%.3f mb_s=%.1f, ids %s" % (
                os.path.basename(path), size, len(r[0].ids), seconds * 1e3, size / seconds / 1e6, "equal" if list(ids) == r[0].ids else "DIFFER"))


if __name__ == "__main__":
    main()

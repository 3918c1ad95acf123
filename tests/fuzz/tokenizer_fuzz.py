#!/usr/bin/env python3
"""Fuzzes the bpe tokenizer against the `tokenizers` package (0.23.x): ids with and without added tokens,
piece borders, streamed decode.

    tokenizer_fuzz.py --driver build/plugins/tokenizers/bpe/tokenizer_ids --folder build/tests/tokenizers
                      [--seed N] [--rounds N] [--seconds S]

Exit status: 0 equal, 1 a difference (printed with the string), 2 set-up failed, 77 the package is missing.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import time

VOCABULARIES = ["qwen35", "poppyseed"]

# First and last code points to draw from; weights by repetition.
SCRIPTS = [
    (0x20, 0x7E), (0x20, 0x7E), (0x61, 0x7A), (0x61, 0x7A), (0x30, 0x39), (0xA0, 0xFF), (0x100, 0x24F), (0x300, 0x36F), (0x370, 0x3FF),
    (0x400, 0x4FF), (0x590, 0x5F4), (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FF), (0xE00, 0xE5B), (0xF00, 0xFDA), (0x1100, 0x11FF),
    (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x209C), (0x2100, 0x218B), (0x2460, 0x24FF), (0x3000, 0x303F),
    (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0x4E00, 0x50FF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFB4F), (0xFF00, 0xFFEF),
    (0x1D400, 0x1D7FF), (0x1F300, 0x1F64F), (0x1F1E6, 0x1F1FF), (0x11900, 0x11960), (0x20000, 0x20FFF), (0x2F800, 0x2FA1D), (0x0, 0x10FFFF),
]
BITS = ["'s", "'S", "'\u017f", "'re", "'VE", "'ll", "'d", "'m", "'t", "\u2019s", "\r\n", "\n", "\n\n", " \n", "\t", "  ", "   ", "\u00a0", "\u3000",
        "\u180e", "\u200b", "\ufeff", "\x1c", "\x85", "\u2028", "e\u0301", "A\u030a", "\u1100\u1161\u11a8", "\u0958", "\u212b", "\u0e17\u0e48", "();\n",
        "</", ">", "<|", "|>", "1234567", "3.14", "\u00bd", "\u216b", "\U0001f680", "\U0001f44d\U0001f3fd", "\ufffd", "\x00", "_", "--", "==", "\u0323\u0301",
        "\u0301\u0323", "\u1e0b\u0323", "\u09c7\u09be", "\U00011131\U00011127", "\U00011935\U00011930", "the ", " quick", " brown", "Function", "return"]


class Driver:
    def __init__(self, program, args):
        self.p = subprocess.Popen([program] + args, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read(self, n):
        data = self.p.stdout.read(n)
        if len(data) != n:
            raise SystemExit("tokenizer_ids ended: status %s" % self.p.wait())
        return data

    def text(self):
        return self.read(struct.unpack("<I", self.read(4))[0])

    def encode(self, pieces):
        """pieces: (text, is_template). Returns (ids, decoded, decoded without special tokens)."""
        out = [struct.pack("<I", len(pieces))]
        for text, template in pieces:
            b = text.encode()
            out.append(struct.pack("<II", int(template), len(b)) + b)
        self.p.stdin.write(b"".join(out))
        self.p.stdin.flush()
        rc = struct.unpack("<i", self.read(4))[0]
        if rc:
            return None, None, None
        n = struct.unpack("<I", self.read(4))[0]
        ids = list(struct.unpack("<%di" % n, self.read(4 * n)))
        return ids, self.text(), self.text()


def letter(r):
    while True:
        lo, hi = r.choice(SCRIPTS)
        c = r.randint(lo, hi)
        if not 0xD800 <= c <= 0xDFFF:
            return chr(c)


def make_text(r, added):
    kind = r.random()
    if kind < 0.02:
        unit = r.choice(["a", "ab", " ", "=", "\n", "1", "\u4f60\u597d", "\u0e48", "e\u0301", "\U0001f600", "xyz ", "."])
        return unit * r.randint(1, 6000)
    if kind < 0.06:  # one long piece of letters
        return "".join(r.choice("etaoinshrdluETAOIN") for _ in range(r.randint(50, 9000)))
    out = []
    for _ in range(r.randint(0, 24)):
        k = r.random()
        if k < 0.12:
            t = r.choice(added)
            if r.random() < 0.3:  # broken
                i = r.randint(0, len(t))
                t = t[:i] + r.choice(["", " ", "x", "\n"]) + t[i + r.randint(0, 1):]
            out.append(t)
        elif k < 0.45:
            out.append(r.choice(BITS))
        elif k < 0.6:
            lo, hi = r.choice(SCRIPTS)
            out.append("".join(c for c in (chr(r.randint(lo, hi)) for _ in range(r.randint(1, 12))) if not 0xD800 <= ord(c) <= 0xDFFF))
        else:
            out.append("".join(letter(r) for _ in range(r.randint(1, 5))))
    return "".join(out)


def cut(r, text, template):
    """The same text as pieces of one kind, with borders at random places."""
    places = sorted(r.randint(0, len(text)) for _ in range(r.randint(0, 5)))
    pieces = [(text[a:b], template) for a, b in zip([0] + places, places + [len(text)])]
    return pieces


def special_as_text(text, specials):
    """Pieces in which special tokens are text and all else is template: the first and longest at each place."""
    pieces, at, i = [], 0, 0
    while i < len(text):
        hit = max((t for t in specials if text.startswith(t, i)), key=len, default=None)
        if hit:
            pieces += [(text[at:i], True), (hit, False)]
            i += len(hit)
            at = i
        else:
            i += 1
    return pieces + [(text[at:], True)]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--driver", required=True)
    ap.add_argument("--folder", required=True)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--rounds", type=int, default=20000)
    ap.add_argument("--seconds", type=float, default=1e9)
    a = ap.parse_args()
    try:
        from tokenizers import Tokenizer
    except ImportError:
        print("the package tokenizers is not installed")
        return 77
    bad = n = 0
    for name in VOCABULARIES:
        path = os.path.join(a.folder, name, "tokenizer.json")
        with open(path, encoding="utf-8") as f:
            spec = json.load(f)
        added = [t["content"] for t in spec["added_tokens"]]
        specials = [t["content"] for t in spec["added_tokens"] if t["special"]]
        full = Tokenizer.from_str(json.dumps(spec))
        plain = Tokenizer.from_str(json.dumps(dict(spec, added_tokens=[])))
        driver = Driver(a.driver, [path])
        r = random.Random("%s %d" % (name, a.seed))
        end = time.monotonic() + a.seconds / len(VOCABULARIES)
        for _ in range(a.rounds):
            if time.monotonic() > end:
                break
            text = make_text(r, added)
            full.encode_special_tokens = False
            want = full.encode(text, add_special_tokens=False).ids
            want_plain = plain.encode(text, add_special_tokens=False).ids
            full.encode_special_tokens = True
            want_special = full.encode(text, add_special_tokens=False).ids
            n += 1
            got, decoded, skipped = driver.encode([(text, True)])
            checks = [("template", got, want), ("text in pieces", driver.encode(cut(r, text, False))[0], want_plain),
                      ("special as text", driver.encode(special_as_text(text, specials))[0], want_special),
                      ("decoded", decoded.decode(), full.decode(want, skip_special_tokens=False)),
                      ("decoded without special", skipped.decode(), full.decode(want, skip_special_tokens=True))]
            for what, mine, theirs in checks:
                if mine != theirs:
                    bad += 1
                    print("%s: %s differs\n text %s\n ours %s\n want %s" % (name, what, ascii(text[:2000]), ascii(mine)[:600], ascii(theirs)[:600]))
            if bad > 5:
                break
        driver.p.stdin.close()
        driver.p.wait()
    print("%d strings, %d differences (seed %d)" % (n, bad, a.seed))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

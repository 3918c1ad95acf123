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
import tempfile
import time
import unicodedata

REAL = ["qwen35", "poppyseed"]

# Poppyseed's merges under other families' stages, and under added tokens of every kind. "old": the text is kept to
# characters that PCRE2 of the distributions knows.
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
GPT2 = dict(BYTES, use_regex=True)


def sequence(*stages):
    return {"type": "Sequence", "pretokenizers": list(stages)}


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SIGNS = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
FLAGS = [dict(content=c, single_word=w, lstrip=l, rstrip=r, normalized=n, special=s)
         for c, w, l, r, n, s in [("<l>", 0, 1, 0, 0, 1), ("<r>", 0, 0, 1, 0, 1), ("<lr>", 0, 1, 1, 1, 0), ("the", 1, 0, 0, 0, 0), ("caf\u00e9", 0, 0, 0, 1, 1),
                                  ("e\u0301", 0, 0, 0, 0, 0), ("<|im", 0, 0, 0, 0, 1), ("im_end|>", 0, 0, 0, 1, 1), ("\u212b", 0, 1, 0, 1, 0)]]
FLAGS = [{k: bool(v) if k != "content" else v for k, v in t.items()} for t in FLAGS]
VARIANTS = {
    "gpt2": dict(pre_tokenizer=GPT2, normalizer=None),
    "smollm": dict(pre_tokenizer=sequence({"type": "Digits", "individual_digits": True}, GPT2), normalizer=None),
    "digits": dict(pre_tokenizer=sequence({"type": "Digits", "individual_digits": False}, GPT2)),
    "qwen2": dict(pre_tokenizer=sequence(split(WORDS % r"\p{N}"), BYTES)),
    "llama3": dict(pre_tokenizer=sequence(split(WORDS % r"\p{N}{1,3}"), BYTES), normalizer=None, ignore_merges=True),
    "deepseek": dict(pre_tokenizer=sequence(split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(SIGNS), BYTES), old=True),
    "gpt4o": dict(pre_tokenizer=sequence(split(CASED, "Removed", True), BYTES), old=True),
    "literal": dict(pre_tokenizer=sequence({"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": False}, BYTES)),
    "flags": dict(added=FLAGS),
}

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


def specs(folder):
    """(name, specification, text is kept to old characters)"""
    loaded = {}
    for name in REAL:
        with open(os.path.join(folder, name, "tokenizer.json"), encoding="utf-8") as f:
            loaded[name] = json.load(f)
        yield name, loaded[name], False
    for name, change in VARIANTS.items():
        spec = dict(loaded["poppyseed"])
        for key in ("pre_tokenizer", "normalizer"):
            if key in change:
                spec[key] = change[key]
        if change.get("ignore_merges"):
            spec["model"] = dict(spec["model"], ignore_merges=True)
        if "added" in change:
            # The reference gives a content that the model knows that id, and all others the next ones, whatever the file says.
            vocab, spec["added_tokens"] = spec["model"]["vocab"], []
            new = len(vocab)
            for t in change["added"]:
                spec["added_tokens"].append(dict(t, id=vocab.get(t["content"], new)))
                new += t["content"] not in vocab
        yield name, spec, change.get("old", False)


def known_to_all(text):
    return "".join(c for c in text if unicodedata.category(c) not in ("Cn", "Co"))


def fuzz_one(a, name, spec, old, seconds, Tokenizer):
    """Returns (strings, differences)."""
    bad = n = 0
    flags = name == "flags"
    added = [t["content"] for t in spec["added_tokens"]]
    specials = [t["content"] for t in spec["added_tokens"] if t["special"]]
    full = Tokenizer.from_str(json.dumps(spec))
    plain = Tokenizer.from_str(json.dumps(dict(spec, added_tokens=[])))
    r = random.Random("%s %d" % (name, a.seed))
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(spec, f, ensure_ascii=r.random() < 0.5)
        driver = Driver(a.driver, [path])
        for _ in range(a.rounds):
            if time.monotonic() > end or bad > 5:
                break
            text = make_text(r, added)
            if old:
                text = known_to_all(text)
            full.encode_special_tokens = False
            want = full.encode(text, add_special_tokens=False).ids
            n += 1
            got, decoded, skipped = driver.encode([(text, True)])
            checks = [("template", got, want), ("text in pieces", driver.encode(cut(r, text, False))[0], plain.encode(text, add_special_tokens=False).ids)]
            if not flags:
                full.encode_special_tokens = True
                checks += [("special as text", driver.encode(special_as_text(text, specials))[0], full.encode(text, add_special_tokens=False).ids),
                           ("decoded", decoded and decoded.decode(), full.decode(want, skip_special_tokens=False)),
                           ("decoded without special", skipped and skipped.decode(), full.decode(want, skip_special_tokens=True))]
            for what, mine, theirs in checks:
                if mine != theirs and (mine or theirs):
                    bad += 1
                    print("%s: %s differs\n text %s\n ours %s\n want %s" % (name, what, ascii(text[:2000]), ascii(mine)[:600], ascii(theirs)[:600]))
        driver.p.stdin.close()
        driver.p.wait()
    return n, bad


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--driver", required=True)
    ap.add_argument("--folder", required=True)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--rounds", type=int, default=5000, help="strings a vocabulary")
    ap.add_argument("--seconds", type=float, default=1e9, help="at most so long in all")
    ap.add_argument("--only", help="one vocabulary: %s" % ", ".join(REAL + list(VARIANTS)))
    a = ap.parse_args()
    try:
        from tokenizers import Tokenizer
    except ImportError:
        print("the package tokenizers is not installed")
        return 77
    bad = n = 0
    for name, spec, old in specs(a.folder):
        if a.only in (None, name):
            done, wrong = fuzz_one(a, name, spec, old, a.seconds / (1 if a.only else len(REAL) + len(VARIANTS)), Tokenizer)
            print("%s: %d strings, %d differences" % (name, done, wrong), flush=True)
            n += done
            bad += wrong
    print("%d strings, %d differences (seed %d)" % (n, bad, a.seed))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

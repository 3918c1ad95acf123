"""What the case files build with: a tiny random Qwen3.5 checkpoint, writers that can lie, and the list of cases.

Standard library only. A case is a function that writes its files below c.dir and returns the words that a refusal must carry:

    @bad("st.something", "what is wrong in one line", source="CVE-...", rule="gguf.md 1.6 check 5")
    def _(c):
        m = tiny()
        ...
        c.folder(m)                      # config.json, tokenizer files, model.safetensors
        return ["model.safetensors", ("either", "or"), 4096]

A word is text (found without regard to case), a number (found as a whole number), or a tuple of which one is enough.
"""
import array
import copy
import hashlib
import json
import math
import os
import random
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
POPPYSEED = os.path.join(os.path.dirname(os.path.dirname(HERE)), "models", "poppyseed")
CASES = []


# ---------------------------------------------------------------- cases

class Case:
    def __init__(self, id, kind, what, fn, source, rule, twin, set_name):
        self.id, self.kind, self.what, self.fn = id, kind, what, fn
        self.source, self.rule, self.twin, self.set = source, rule, twin, set_name


LOADING = "shared"      # the set that the case files being imported belong to


def register(kind, id, what, source="", rule="", twin=""):
    def deco(fn):
        if any(c.id == id for c in CASES):
            raise ValueError(f"two cases are called {id}")
        CASES.append(Case(id, kind, what, fn, source, rule, twin, LOADING))
        return fn
    return deco


def bad(id, what, source="", rule=""):
    """The host must refuse it, in words that help."""
    return register("bad", id, what, source, rule)


def good(id, what, source="", rule="", twin=""):
    """The host must load it and answer; with a twin, answer what the case of that id answers."""
    return register("good", id, what, source, rule, twin)


def calm(id, what, source="", rule=""):
    """Nothing lays down what happens: only no crash, no hang, no flood of memory."""
    return register("calm", id, what, source, rule)


def neutral(id):
    """A name of letters a to p for a case's folder: it holds no word and no digit that a message is searched for."""
    return "".join(chr(97 + int(x, 16)) for x in hashlib.sha1(id.encode()).hexdigest()[:10])


class Ctx:
    """What a case function writes with."""

    def __init__(self, out, id, poppyseed):
        self.name = neutral(id)
        self.dir = os.path.join(out, self.name)
        os.makedirs(self.dir)
        self.path = self.dir            # what --model gets
        self.poppyseed = poppyseed

    def at(self, *names):
        return os.path.join(self.dir, *names)

    def put(self, name, data):
        p = self.at(name)
        os.makedirs(os.path.dirname(p), exist_ok=True)
        with open(p, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return p

    def folder(self, m, skip=(), weights=True):
        """A checkpoint folder with one safetensors file."""
        for name, data in m.files().items():
            if name not in skip:
                self.put(name, data)
        if weights:
            pairs, data = st_pack(m.tensors)
            self.put("model.safetensors", st_file(st_head(pairs), data))
        return self.dir

    def shards(self, m, n=2, index=True, edit=None, names=None):
        """A checkpoint folder with n shards. edit(weight_map) changes the index. Returns the shard names and what each holds."""
        for name, data in m.files().items():
            self.put(name, data)
        keys = list(m.tensors)
        per = -(-len(keys) // n)
        names = names or [f"model-{i + 1:05d}-of-{n:05d}.safetensors" for i in range(n)]
        parts, where, total = [], {}, 0
        for i in range(n):
            part = {k: m.tensors[k] for k in keys[i * per:(i + 1) * per]}
            pairs, data = st_pack(part)
            self.put(names[i], st_file(st_head(pairs), data))
            parts.append(part)
            total += len(data)
            where.update({k: names[i] for k in part})
        if index:
            if edit:
                where = edit(where) or where
            self.put("model.safetensors.index.json", json.dumps({"metadata": {"total_size": total}, "weight_map": where}, indent=1))
        return names, parts

    def raw(self, m, head, data, length=None):
        """A checkpoint folder whose model.safetensors has this header (bytes, text or pairs), data and length field. Returns its size."""
        self.folder(m, weights=False)
        b = st_file(head if isinstance(head, (bytes, str)) else st_head(head), data, length)
        self.put("model.safetensors", b)
        return len(b)

    def text(self, m=None, **change):
        """The tiny checkpoint with keys of its text config changed, the tensors left as they are; None drops a key."""
        m = m or tiny()
        for k, v in change.items():
            if v is None:
                m.text.pop(k)
            else:
                m.text[k] = v
        return self.folder(m)

    def tok(self, change):
        """The tiny checkpoint with tokenizer.json changed by change(dict)."""
        m = tiny()
        change(m.tok)
        return self.folder(m)

    def entry(self, change, name):
        """The tiny checkpoint with change(entry) done to one header entry. Returns (entry, size of the file)."""
        m = tiny()
        pairs, data = st_pack(m.tensors)
        e = entry(pairs, name)
        change(e)
        return e, self.raw(m, pairs, data)

    def info(self, name="blk.0.ffn_gate.weight", **change):
        """The tiny GGUF with fields of one tensor info changed (to a value, or by a function of the info), no data moved. Returns (file name, info)."""
        g = gguf(tiny())
        for t, o in zip(g.tensors, g.layout()):
            t.offset = o
        t = g.t(name)
        for k, v in change.items():
            setattr(t, k, v(t) if callable(v) else v)
        return self.gguf(g), t

    def gguf(self, g, name=None):
        """One GGUF file; --model points at it. Returns its file name."""
        name = name or self.name + ".gguf"
        self.path = self.put(name, g if isinstance(g, bytes) else g.bytes())
        return name

    def split(self, g, n=2, edit=None, names=None):
        """g in n parts, --model pointing at the first. edit(i, part) changes a part. Returns the file names."""
        names = names or [f"{self.name}-{i + 1:05d}-of-{n:05d}.gguf" for i in range(n)]
        per = -(-len(g.tensors) // n)
        for i in range(n):
            p = Gguf()
            p.kvs = [list(x) for x in g.kvs] if i == 0 else []
            p.kvs += [["split.no", U16, i], ["split.count", U16, n], ["split.tensors.count", I32, len(g.tensors)]]
            p.tensors = [copy.copy(t) for t in g.tensors[i * per:(i + 1) * per]]
            if edit:
                p = edit(i, p) or p
            if p is not SKIP:
                self.put(names[i], p if isinstance(p, bytes) else p.bytes())
        self.path = self.at(names[0])
        return names


SKIP = object()


# ---------------------------------------------------------------- numbers

def bf16(values):
    """Floats to bfloat16 bytes, to nearest even."""
    u = array.array("I", array.array("f", values).tobytes())
    return array.array("H", [((x + 0x7FFF + ((x >> 16) & 1)) >> 16) & 0xFFFF for x in u]).tobytes()


def widen(data):
    """bfloat16 bytes to a float array."""
    return array.array("f", array.array("I", [x << 16 for x in array.array("H", data)]).tobytes())


def f32(values):
    return array.array("f", values).tobytes()


def f16(data):
    """bfloat16 bytes to float16 bytes."""
    v = widen(data)
    return struct.pack(f"<{len(v)}e", *v)


# ---------------------------------------------------------------- the tiny model

class T:
    """A tensor as the file has it."""

    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, list(shape), data

    def floats(self):
        return widen(self.data) if self.dtype == "BF16" else array.array("f", self.data)


SIZE = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8, "U8": 1, "I8": 1, "I32": 4, "I64": 8, "BOOL": 1, "F8_E4M3": 1, "I16": 2}
ADDED = [("<|endoftext|>", 1), ("<|im_start|>", 1), ("<|im_end|>", 1), ("<|object_ref_start|>", 1), ("<|object_ref_end|>", 1), ("<|box_start|>", 1),
         ("<|box_end|>", 1), ("<|quad_start|>", 1), ("<|quad_end|>", 1), ("<|vision_start|>", 1), ("<|vision_end|>", 1), ("<|vision_pad|>", 1),
         ("<|image_pad|>", 1), ("<|video_pad|>", 1), ("<tool_call>", 0), ("</tool_call>", 0), ("<|fim_prefix|>", 0), ("<|fim_middle|>", 0),
         ("<|fim_suffix|>", 0), ("<|fim_pad|>", 0), ("<|repo_name|>", 0), ("<|file_sep|>", 0), ("<tool_response>", 0), ("</tool_response>", 0),
         ("<think>", 0), ("</think>", 0), ("<|audio_start|>", 1), ("<|audio_end|>", 1), ("<tts_pad>", 1), ("<tts_text_bos>", 1), ("<tts_text_eod>", 1),
         ("<tts_text_bos_single>", 1), ("<|audio_pad|>", 1)]
MERGES = ["Ġ t", "h e", "i n", "e r", "a n", "o n", "r e", "Ġ a", "l l", "o u", "Ġt he", "Ġ s", "e n", "i s", "Ġ w", "o r", "e d", "in g", "a t", "Ċ Ċ",
          "Ġ h", "e s", "he l", "hel l", "hell o", "H e", "He ll", "Hell o", "u s", "us er", "s y", "s t", "a s", "as s"]
REGEX = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_order():
    """The byte alphabet in the order of the ids: character i stands for byte order[i][0]."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    return [(b, chr(b)) for b in keep] + [(b, chr(256 + i)) for i, b in enumerate(rest)]


def tokenizer(pairs=True):
    """(tokenizer.json, tokenizer_config.json) as dicts: 256 bytes, a few merges, the 33 added tokens."""
    vocab = {c: i for i, (_, c) in enumerate(byte_order())}
    for m in MERGES:
        vocab["".join(m.split(" "))] = len(vocab)
    first = len(vocab)
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False)
    added = [dict(id=first + i, content=t, **flags, special=bool(s)) for i, (t, s) in enumerate(ADDED)]
    bytelevel = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=False, use_regex=False)
    t = dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer={"type": "NFC"},
             pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": REGEX}, "behavior": "Isolated", "invert": False}, bytelevel]},
             post_processor=dict(bytelevel), decoder=dict(bytelevel),
             model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False, byte_fallback=False,
                        ignore_merges=False, vocab=vocab, merges=[m.split(" ") if pairs else m for m in MERGES]))
    tc = dict(added_tokens_decoder={str(a["id"]): dict(content=a["content"], lstrip=False, normalized=False, rstrip=False, single_word=False, special=a["special"])
                                    for a in added},
              add_bos_token=False, add_prefix_space=False, bos_token=None, clean_up_tokenization_spaces=False, eos_token="<|im_end|>", errors="replace",
              model_max_length=32768, pad_token="<|endoftext|>", split_special_tokens=False, tokenizer_class="Qwen2Tokenizer", unk_token=None)
    return t, tc


FIRST_ADDED = 256 + len(MERGES)
LAST_ID = FIRST_ADDED + len(ADDED) - 1


class Model:
    """A checkpoint in memory: text config, tensors by HF name in file order, tokenizer files."""

    def __init__(self, text, tensors, flat=False):
        self.text, self.tensors, self.flat = text, tensors, flat
        self.root = {}                  # keys to add to (or, as None, drop from) the root of config.json
        self.tok, self.tok_config = tokenizer()
        self.gen = dict(bos_token_id=FIRST_ADDED, eos_token_id=[FIRST_ADDED + 2, FIRST_ADDED], pad_token_id=FIRST_ADDED, do_sample=True, temperature=0.6, top_k=20, top_p=0.95)
        self.extra = {}                 # further files

    @property
    def prefix(self):
        return "model." if self.flat else "model.language_model."

    def name(self, n, rest):
        return f"{self.prefix}layers.{n}.{rest}"

    def config(self):
        if self.flat:
            root = {"architectures": ["Qwen3_5ForCausalLM"], **self.text}
        else:
            root = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": self.text,
                    "tie_word_embeddings": self.text.get("tie_word_embeddings", False), "image_token_id": FIRST_ADDED + 12, "video_token_id": FIRST_ADDED + 13,
                    "vision_start_token_id": FIRST_ADDED + 9, "vision_end_token_id": FIRST_ADDED + 10}
        for k, v in self.root.items():
            if v is None:
                root.pop(k, None)
            else:
                root[k] = v
        return root

    def files(self):
        out = {"config.json": json.dumps(self.config(), indent=2), "tokenizer.json": json.dumps(self.tok, ensure_ascii=False),
               "tokenizer_config.json": json.dumps(self.tok_config, ensure_ascii=False, indent=1), "generation_config.json": json.dumps(self.gen, indent=1)}
        out.update(self.extra)
        return out

    def rename(self, old, new):
        """The same tensors with one prefix for another, in place in the order."""
        self.tensors = {(new + k[len(old):] if k.startswith(old) else k): v for k, v in self.tensors.items()}


def text_config(**change):
    c = dict(model_type="qwen3_5_text", hidden_size=64, intermediate_size=160, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
             linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4, full_attention_interval=4,
             layer_types=["linear_attention"] * 3 + ["full_attention"], vocab_size=512, rms_norm_eps=1e-6, hidden_act="silu", attention_bias=False,
             attn_output_gate=True, mamba_ssm_dtype="float32", max_position_embeddings=32768, mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False,
             tie_word_embeddings=False, dtype="bfloat16", eos_token_id=FIRST_ADDED,
             rope_parameters=dict(rope_type="default", rope_theta=10000000, partial_rotary_factor=0.25, mrope_section=[2, 1, 1], mrope_interleaved=True))
    c.update(change)
    return c


def shapes(c, mtp, flat):
    """Yields (name, shape, kind) of a checkpoint in file order (qwen35.md 1.5)."""
    h, i, v, d, nq, nkv = c["hidden_size"], c["intermediate_size"], c["vocab_size"], c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
    dk, dv, hk, hv, k = c["linear_key_head_dim"], c["linear_value_head_dim"], c["linear_num_key_heads"], c["linear_num_value_heads"], c["linear_conv_kernel_dim"]
    root = "model." if flat else "model.language_model."

    def full(p):
        yield from [(p + "q_proj.weight", (2 * nq * d, h), "mat"), (p + "k_proj.weight", (nkv * d, h), "mat"), (p + "v_proj.weight", (nkv * d, h), "mat"),
                    (p + "o_proj.weight", (h, nq * d), "mat"), (p + "q_norm.weight", (d,), "norm"), (p + "k_norm.weight", (d,), "norm")]

    def mlp(p):
        yield from [(p + "input_layernorm.weight", (h,), "norm"), (p + "post_attention_layernorm.weight", (h,), "norm"), (p + "mlp.gate_proj.weight", (i, h), "mat"),
                    (p + "mlp.up_proj.weight", (i, h), "mat"), (p + "mlp.down_proj.weight", (h, i), "mat")]

    yield root + "embed_tokens.weight", (v, h), "embed"
    for n, kind in enumerate(c["layer_types"]):
        p = f"{root}layers.{n}."
        yield from mlp(p)
        if kind == "full_attention":
            yield from full(p + "self_attn.")
        else:
            q = p + "linear_attn."
            cd = 2 * hk * dk + hv * dv
            yield from [(q + "in_proj_qkv.weight", (cd, h), "mat"), (q + "in_proj_z.weight", (hv * dv, h), "mat"), (q + "in_proj_b.weight", (hv, h), "mat"),
                        (q + "in_proj_a.weight", (hv, h), "mat"), (q + "conv1d.weight", (cd, 1, k), "mat"), (q + "A_log", (hv,), "alog"), (q + "dt_bias", (hv,), "dt"),
                        (q + "norm.weight", (dv,), "gnorm"), (q + "out_proj.weight", (h, hv * dv), "mat")]
    yield root + "norm.weight", (h,), "norm"
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (v, h), "mat"
    if mtp:
        yield from [("mtp.pre_fc_norm_embedding.weight", (h,), "norm"), ("mtp.pre_fc_norm_hidden.weight", (h,), "norm"), ("mtp.fc.weight", (h, 2 * h), "mat")]
        yield from mlp("mtp.layers.0.")
        yield from full("mtp.layers.0.self_attn.")
        yield "mtp.norm.weight", (h,), "norm"


_drawn = {}


def tiny(seed=1, mtp=True, flat=False, **change):
    """A random checkpoint of the geometry of qwen35.md section 7 item 6, with some config keys changed (the shapes follow)."""
    c = text_config(**change)
    rnd, tensors = random.Random(seed), {}
    key = (seed, json.dumps(c, sort_keys=True))
    store = _drawn.setdefault(key, {})
    for name, shape, kind in shapes(c, True, False):
        n = math.prod(shape)
        if name not in store:
            if kind == "alog":
                store[name] = T("F32", shape, f32(rnd.uniform(math.log(0.01), math.log(16)) for _ in range(n)))
            elif kind == "gnorm":
                store[name] = T("F32", shape, f32(rnd.gauss(1, 0.1) for _ in range(n)))
            else:
                mean, dev = {"dt": (-2, 1), "norm": (0, 0.1), "embed": (0, 0.02)}.get(kind, (0, math.prod(shape[1:]) ** -0.5))
                store[name] = T("BF16", shape, bf16([rnd.gauss(mean, dev) for _ in range(n)]))
        t = store[name]
        if name.startswith("mtp.") and not mtp:
            continue
        if flat:
            name = name.replace("model.language_model.", "model.")
        tensors[name] = T(t.dtype, t.shape, t.data)
    return Model(c, tensors, flat)


# ---------------------------------------------------------------- safetensors

def st_pack(tensors, meta={"format": "pt"}):
    """(header pairs, data) of tensors laid one after the other."""
    pairs, data, at = ([["__metadata__", meta]] if meta is not None else []), [], 0
    for name, t in tensors.items():
        pairs.append([name, {"dtype": t.dtype, "shape": list(t.shape), "data_offsets": [at, at + len(t.data)]}])
        data.append(t.data)
        at += len(t.data)
    return pairs, b"".join(data)


def st_head(pairs, pad=8):
    """Header bytes; pairs may name a key twice."""
    text = "{" + ",".join(json.dumps(k) + ":" + (v if isinstance(v, str) else json.dumps(v, separators=(",", ":"))) for k, v in pairs) + "}"
    b = text.encode()
    return b + b" " * (-len(b) % pad) if pad else b


def st_file(head, data, length=None):
    head = head.encode() if isinstance(head, str) else head
    return struct.pack("<Q", len(head) if length is None else length) + head + data


def entry(pairs, name):
    """The header entry of a tensor, to change in place."""
    return next(v for k, v in pairs if k == name)


# ---------------------------------------------------------------- GGUF

U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
FMT = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", U64: "Q", I64: "q", F64: "d", BOOL: "B"}
TYPES = {"F32": 0, "F16": 1, "BF16": 30}


class Raw(bytes):
    """A value written as it stands."""


class Length:
    """A string or key whose length field lies."""

    def __init__(self, length, data=b""):
        self.length, self.data = length, data


class Info:
    """A tensor of a GGUF file. offset, ndims and type are taken from the data unless set."""

    def __init__(self, name, dims, type, data):
        self.name, self.dims, self.type, self.data = name, list(dims), type, data
        self.offset = self.ndims = None


class Gguf:
    def __init__(self):
        self.magic, self.version, self.kvs, self.tensors = b"GGUF", 3, [], []
        self.n_kv = self.n_tensors = None       # lies about the counts
        self.align, self.big, self.pad_end, self.tail = 32, False, True, b""

    # editing
    def set(self, key, type, value):
        for kv in self.kvs:
            if kv[0] == key:
                kv[1:] = [type, value]
                return
        self.kvs.append([key, type, value])

    def get(self, key):
        return next(kv[2] for kv in self.kvs if kv[0] == key)

    def drop(self, *keys):
        self.kvs = [kv for kv in self.kvs if kv[0] not in keys]

    def t(self, name):
        return next(t for t in self.tensors if t.name == name)

    def remove(self, test):
        self.tensors = [t for t in self.tensors if not test(t.name)]

    # writing
    def p(self, fmt, *v):
        return struct.pack((">" if self.big else "<") + fmt, *v)

    def string(self, s):
        if isinstance(s, Length):
            return self.p("Q", s.length) + s.data
        b = s.encode() if isinstance(s, str) else bytes(s)
        return self.p("Q", len(b)) + b

    def value(self, type, v):
        if isinstance(v, Raw):
            return bytes(v)
        if isinstance(type, tuple):
            n = len(v)
            return self.p("IQ", type[1], n) + (b"".join(self.string(x) for x in v) if type[1] == STR else self.p(f"{n}{FMT[type[1]]}", *v))
        return self.string(v) if type == STR else self.p(FMT[type], v)

    def meta(self):
        return b"".join(self.string(k) + self.p("I", ARR if isinstance(t, tuple) else t) + self.value(t, v) for k, t, v in self.kvs)

    def layout(self):
        """Offset of every tensor in the data section."""
        at, out = 0, []
        for t in self.tensors:
            out.append(at if t.offset is None else t.offset)
            at += -(-len(t.data) // self.align) * self.align
        return out

    def infos(self):
        return [self.string(t.name) + self.p("I", len(t.dims) if t.ndims is None else t.ndims) + self.p(f"{len(t.dims)}Q", *t.dims) + self.p("IQ", t.type, o)
                for t, o in zip(self.tensors, self.layout())]

    def head(self):
        return (self.magic + self.p("IQQ", self.version, len(self.tensors) if self.n_tensors is None else self.n_tensors,
                                    len(self.kvs) if self.n_kv is None else self.n_kv) + self.meta() + b"".join(self.infos()))

    def bytes(self):
        b = self.head()
        b += b"\0" * (-len(b) % self.align)
        out = [b]
        for i, t in enumerate(self.tensors):
            d = t.data
            if self.big:
                a = array.array("I" if t.type == 0 else "H", d)
                a.byteswap()
                d = a.tobytes()
            out.append(d)
            if self.pad_end or i + 1 < len(self.tensors):
                out.append(b"\0" * (-len(d) % self.align))
        return b"".join(out) + self.tail


def rows(data, n):
    k = len(data) // n
    return [data[i * k:(i + 1) * k] for i in range(n)]


def tile(parts, nk):
    """Value heads (or channels of them) from grouped to tiled order (gguf.md 3.2)."""
    r = len(parts) // nk
    return [parts[(p % nk) * r + p // nk] for p in range(len(parts))]


def gguf_tokenizer(g, m, pre):
    n = m.text["vocab_size"]
    toks, types = [f"[PAD{i}]" for i in range(n)], [5] * n
    for k, i in m.tok["model"]["vocab"].items():
        toks[i], types[i] = k, 1
    for a in m.tok["added_tokens"]:
        s = a["content"]
        toks[a["id"]], types[a["id"]] = s, 3 if a["special"] or (s.startswith("<|") and s.endswith("|>")) else 4
    merges = [x if isinstance(x, str) else " ".join(x) for x in m.tok["model"]["merges"]]
    g.kvs += [["tokenizer.ggml.model", STR, "gpt2"], ["tokenizer.ggml.pre", STR, pre], ["tokenizer.ggml.tokens", (ARR, STR), toks],
              ["tokenizer.ggml.token_type", (ARR, I32), types], ["tokenizer.ggml.merges", (ARR, STR), merges], ["tokenizer.ggml.add_bos_token", BOOL, 0],
              ["tokenizer.ggml.eos_token_id", U32, next(a["id"] for a in m.tok["added_tokens"] if a["content"] == "<|im_end|>")],
              ["tokenizer.ggml.padding_token_id", U32, next(a["id"] for a in m.tok["added_tokens"] if a["content"] == "<|endoftext|>")]]


def gguf(m, type="BF16", tiled=True, pre="qwen35"):
    """The GGUF that public converters make of a checkpoint (gguf.md sections 2 and 3)."""
    c, g = m.text, Gguf()
    mtp = "mtp.fc.weight" in m.tensors
    A, rp = "qwen35.", c["rope_parameters"]
    hk, hv, dk, dv = c["linear_num_key_heads"], c["linear_num_value_heads"], c["linear_key_head_dim"], c["linear_value_head_dim"]
    g.kvs = [["general.architecture", STR, "qwen35"], ["general.type", STR, "model"], ["general.name", STR, "tiny"], ["general.quantization_version", U32, 2],
             ["general.file_type", U32, {"BF16": 32, "F32": 0, "F16": 1}[type]], [A + "block_count", U32, c["num_hidden_layers"] + mtp],
             [A + "context_length", U32, c["max_position_embeddings"]], [A + "embedding_length", U32, c["hidden_size"]],
             [A + "feed_forward_length", U32, c["intermediate_size"]], [A + "attention.head_count", U32, c["num_attention_heads"]],
             [A + "attention.head_count_kv", U32, c["num_key_value_heads"]], [A + "attention.key_length", U32, c["head_dim"]],
             [A + "attention.value_length", U32, c["head_dim"]], [A + "attention.layer_norm_rms_epsilon", F32, c["rms_norm_eps"]],
             [A + "full_attention_interval", U32, c["full_attention_interval"]], [A + "rope.freq_base", F32, float(rp["rope_theta"])],
             [A + "rope.dimension_count", U32, int(c["head_dim"] * rp["partial_rotary_factor"])],
             [A + "rope.dimension_sections", (ARR, I32), [*rp["mrope_section"], 0]], [A + "ssm.conv_kernel", U32, c["linear_conv_kernel_dim"]],
             [A + "ssm.state_size", U32, dk], [A + "ssm.group_count", U32, hk], [A + "ssm.time_step_rank", U32, hv], [A + "ssm.inner_size", U32, hv * dv]]
    if mtp:
        g.kvs.append([A + "nextn_predict_layers", U32, 1])
    gguf_tokenizer(g, m, pre)
    order = (lambda parts: tile(parts, hk)) if tiled and hk != hv and hv % hk == 0 else (lambda parts: parts)

    def mat(gname, hf, how="plain"):
        t = m.tensors[hf]
        d, shape = t.data, t.shape
        if how == "qkv":
            k = 2 * hk * dk * shape[1] * 2
            d = d[:k] + b"".join(order(rows(d[k:], hv)))
        elif how == "vrows":
            d = b"".join(order(rows(d, hv)))
        elif how == "vcols":
            d = b"".join(b"".join(order(rows(r, hv))) for r in rows(d, shape[0]))
        d = {"BF16": lambda: d, "F32": lambda: widen(d).tobytes(), "F16": lambda: f16(d)}[type]()
        g.tensors.append(Info(gname, shape[::-1], TYPES[type], d))

    def vec(gname, hf, fn=None, how="plain"):
        t = m.tensors[hf]
        v, dims = t.floats(), t.shape[::-1]
        if fn:
            v = array.array("f", [fn(x) for x in v])
        d = v.tobytes()
        if how == "heads":
            d = b"".join(order(rows(d, hv)))
        elif how == "conv":
            k = 2 * hk * dk * t.shape[2] * 4
            d, dims = d[:k] + b"".join(order(rows(d[k:], hv))), [t.shape[2], t.shape[0]]
        g.tensors.append(Info(gname, dims, 0, d))

    def norm(gname, hf):
        vec(gname, hf, lambda x: x + 1)

    def block(n, p):
        b = f"blk.{n}."
        norm(b + "attn_norm.weight", p + "input_layernorm.weight")
        norm(b + "post_attention_norm.weight", p + "post_attention_layernorm.weight")
        if p + "self_attn.q_proj.weight" in m.tensors:
            for a, h in (("attn_q", "q_proj"), ("attn_k", "k_proj"), ("attn_v", "v_proj"), ("attn_output", "o_proj")):
                mat(b + a + ".weight", f"{p}self_attn.{h}.weight")
            norm(b + "attn_q_norm.weight", p + "self_attn.q_norm.weight")
            norm(b + "attn_k_norm.weight", p + "self_attn.k_norm.weight")
        else:
            a = p + "linear_attn."
            mat(b + "attn_qkv.weight", a + "in_proj_qkv.weight", "qkv")
            mat(b + "attn_gate.weight", a + "in_proj_z.weight", "vrows")
            mat(b + "ssm_alpha.weight", a + "in_proj_a.weight", "vrows")
            mat(b + "ssm_beta.weight", a + "in_proj_b.weight", "vrows")
            vec(b + "ssm_conv1d.weight", a + "conv1d.weight", None, "conv")
            vec(b + "ssm_a", a + "A_log", lambda x: -math.exp(x), "heads")
            vec(b + "ssm_dt.bias", a + "dt_bias", None, "heads")
            vec(b + "ssm_norm.weight", a + "norm.weight")
            mat(b + "ssm_out.weight", a + "out_proj.weight", "vcols")
        for x, h in (("ffn_gate", "gate_proj"), ("ffn_up", "up_proj"), ("ffn_down", "down_proj")):
            mat(b + x + ".weight", f"{p}mlp.{h}.weight")

    mat("token_embd.weight", m.prefix + "embed_tokens.weight")
    for n in range(c["num_hidden_layers"]):
        block(n, f"{m.prefix}layers.{n}.")
    norm("output_norm.weight", m.prefix + "norm.weight")
    if "lm_head.weight" in m.tensors:
        mat("output.weight", "lm_head.weight")
    if mtp:
        n = c["num_hidden_layers"]
        block(n, "mtp.layers.0.")
        mat(f"blk.{n}.nextn.eh_proj.weight", "mtp.fc.weight")
        norm(f"blk.{n}.nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight")
        norm(f"blk.{n}.nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight")
        norm(f"blk.{n}.nextn.shared_head_norm.weight", "mtp.norm.weight")
    return g


def load_model(folder):
    """A real checkpoint folder as a Model, for making a GGUF of it."""
    cfg = json.load(open(os.path.join(folder, "config.json")))
    tensors = {}
    for f in sorted(os.listdir(folder)):
        if f.endswith(".safetensors"):
            b = open(os.path.join(folder, f), "rb").read()
            n = struct.unpack("<Q", b[:8])[0]
            for k, v in json.loads(b[8:8 + n]).items():
                if k != "__metadata__":
                    s, e = v["data_offsets"]
                    tensors[k] = T(v["dtype"], v["shape"], b[8 + n + s:8 + n + e])
    m = Model(cfg["text_config"], tensors)
    m.tok = json.load(open(os.path.join(folder, "tokenizer.json")))
    return m

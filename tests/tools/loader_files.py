#!/usr/bin/env python3
"""Writes the small checkpoints that the loaders' unit tests open: the same random model as safetensors and in several GGUF forms.

    loader_files.py OUT_DIR

Standard library only. The model has 2 key heads and 6 value heads in its linear layers: the map between the two orders of heads is
then not its own inverse, so that undoing it the wrong way shows.
"""
import os
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "badfiles"))
from badlib import ARR, BOOL, F32, I32, STR, U32, Ctx, Info, T, gguf, st_file, st_head, st_pack, tiny  # noqa: E402


def folder(root, name):
    c = Ctx.__new__(Ctx)
    c.name, c.poppyseed = name, None
    c.dir = c.path = os.path.join(root, name)
    os.makedirs(c.dir)
    return c


def one(root, name, g):
    with open(os.path.join(root, name), "wb") as f:
        f.write(g.bytes())


def main():
    root = sys.argv[1]
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    six = lambda **kw: tiny(linear_num_value_heads=6, **kw)     # noqa: E731
    folder(root, "hf").folder(six())
    folder(root, "shards").shards(six(), 3)
    folder(root, "noindex").shards(six(), 3, index=False)
    c = folder(root, "incomplete")
    c.shards(six(), 3, index=False)
    os.unlink(c.at("model-00002-of-00003.safetensors"))
    folder(root, "flat").folder(six(flat=True))

    odd, m = folder(root, "odd"), six()                         # all data at odd addresses
    pairs, data = st_pack(m.tensors)
    head = st_head(pairs, pad=0)
    odd.raw(m, head if len(head) % 2 else head + b" ", data)

    mixed, m = folder(root, "mixed"), six()                     # types and shapes that no text model needs
    m.tensors["model.visual.patch_embed.proj.weight"] = T("BF16", [4, 3, 2, 5, 7], bytes(4 * 3 * 2 * 5 * 7 * 2))
    m.tensors["x.scalar"] = T("F32", [], bytes(4))
    m.tensors["x.empty"] = T("F32", [0, 8], b"")
    m.tensors["x.fp8"] = T("F8_E4M3", [8], bytes(8))
    m.tensors["x.scale"] = T("F8_E8M0", [8], bytes(8))
    m.extra["chat_template.jinja"] = "from the file"
    m.tok_config["chat_template"] = "from the config"
    mixed.folder(m)

    named, m = folder(root, "named"), six()
    m.tok_config["chat_template"] = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "caf\u00e9"}]
    named.folder(m)

    for kind in ("BF16", "F16", "F32"):
        one(root, f"tiled-{kind.lower()}.gguf", gguf(six(), type=kind))
    g = gguf(six(), tiled=False)
    g.set("qwen35.ssm.v_head_reordered", BOOL, 0)
    one(root, "grouped.gguf", g)
    one(root, "equal.gguf", gguf(tiny(linear_num_value_heads=2)))

    g = gguf(six())
    g.remove(lambda n: n.startswith("blk.4."))
    one(root, "declared.gguf", g)
    one(root, "nomtp.gguf", gguf(six(mtp=False)))
    one(root, "tied.gguf", gguf(tiny(tie_word_embeddings=True)))

    g = gguf(six(mtp=False))                                    # as Ollama writes them
    g.set("qwen35.attention.head_count_kv", (ARR, U32), [0, 0, 0, 2])
    g.set("qwen35.rope.dimension_sections", (ARR, I32), [2, 1, 1])
    g.set("qwen35.ssm.v_head_reordered", BOOL, 1)
    for t in g.tensors:
        t.name = t.name.replace("ssm_dt.bias", "ssm_dt")
    g.tensors.append(Info("v.blk.0.attn_qkv.weight", [32, 96], 0, bytes(32 * 96 * 4)))
    one(root, "ollama.gguf", g)

    g = gguf(six())
    g.set("general.sampling.temp", F32, 0.6)
    g.set("general.sampling.top_k", I32, 20)
    g.set("tokenizer.chat_template", STR, "{{ messages }}")
    one(root, "sampling.gguf", g)

    g = gguf(six())                                             # one quantised matrix
    t = g.t("blk.0.ffn_gate.weight")
    t.type, t.data = 8, bytes(64 * 160 // 32 * 34)
    one(root, "q8_0.gguf", g)

    g = gguf(six())                                             # a decay that would grow
    t = g.t("blk.1.ssm_a")
    t.data = t.data[:8] + b"\0\0\x80\x3f" + t.data[12:]
    one(root, "a-positive.gguf", g)

    split = folder(root, "split")
    split.split(gguf(six()), 3, names=[f"six-{i + 1:05d}-of-00003.gguf" for i in range(3)])
    shutil.copy(os.path.join(root, "nomtp.gguf"), os.path.join(root, "split", "mmproj-six.gguf"))
    two = folder(root, "two")
    for name in ("a.gguf", "b.gguf"):
        shutil.copy(os.path.join(root, "nomtp.gguf"), os.path.join(two.dir, name))
    alone = folder(root, "alone")
    shutil.copy(os.path.join(root, "split", "six-00002-of-00003.gguf"), alone.dir)

    lfs = folder(root, "lfs")
    lfs.folder(six(), weights=False)
    lfs.put("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    raw = folder(root, "raw")                                   # the seeds of the fuzzer
    pairs, data = st_pack({"a": T("BF16", [2, 3], bytes(12)), "b.c": T("F32", [4], bytes(16))})
    raw.put("small.safetensors", st_file(st_head(pairs), data))


if __name__ == "__main__":
    main()

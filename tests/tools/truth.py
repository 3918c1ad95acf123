#!/usr/bin/env python3
"""Compares what gpu_layers wrote with transformers' Qwen3_5ForCausalLM in float32, for the same checkpoint (a flat export).

    truth.py CHECKPOINT DUMP

Prints the relative RMS difference of the residual behind each layer, of the final hidden and of the logits; top-1 is compared where
the reference's margin exceeds four times the RMS error of the logits there (random models have near ties everywhere).
Exit status 1 when a limit is passed: 1.5e-2 sqrt(layer) a layer, 1e-1 the final hidden, and any top-1 that differs beyond a near tie."""
import struct, sys
import numpy as np
import torch
from transformers import Qwen3_5ForCausalLM

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


def relative(a, b):
    return float(((a - b).double().pow(2).sum() / b.double().pow(2).sum()).sqrt())


def main():
    path, dump = sys.argv[1:3]
    raw = open(dump, "rb").read()
    n, layers, hidden, vocab = struct.unpack("<4i", raw[:16])
    f = torch.from_numpy(np.frombuffer(raw, np.float32, offset=16).copy())
    ours = f[: layers * n * hidden].view(layers, n, hidden)
    logits = f[layers * n * hidden:].view(n, vocab)
    ids = [(i * 7919 + 13) % min(vocab, 20000) for i in range(n)]
    model = Qwen3_5ForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").cuda().eval()
    seen = []
    hooks = [l.register_forward_hook(lambda m, a, o: seen.append((o[0] if isinstance(o, tuple) else o)[0].float().cpu()))
             for l in model.model.layers]
    with torch.no_grad():
        want = model(torch.tensor([ids], device="cuda")).logits[0].float().cpu()
        final = model.model.norm(ours[-1].cuda()).cpu()
        final_want = model.model.norm(seen[-1].cuda()).cpu()
    for h in hooks:
        h.remove()
    assert len(seen) == layers
    each = [relative(ours[i], seen[i]) for i in range(layers)]
    # Random weights are sensitive: roundings to bf16 add up like a walk, about 1e-2 in the first layer.
    bad = any(e > 1.5e-2 * (i + 1) ** 0.5 for i, e in enumerate(each))
    print("layers:", " ".join(f"{e:.1e}" for e in each))
    e = relative(final, final_want)
    bad |= e > 1e-1
    rms = (logits - want).pow(2).mean(1).sqrt()
    top = want.topk(2, 1)
    clear = (top.values[:, 0] - top.values[:, 1]) > 4 * rms
    same = logits.argmax(1) == top.indices[:, 0]
    bad |= bool((clear & ~same).any())
    print(f"final hidden {e:.1e}; logits relative {relative(logits, want):.1e}, RMS {float(rms.mean()):.1e}; top-1 equal at "
          f"{int(same.sum())} of {n}, {int((clear & same).sum())} of {int(clear.sum())} clear ones")
    sys.exit(1 if bad else 0)


main()

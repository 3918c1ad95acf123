#!/usr/bin/env python3
"""Compares what gpu_layers wrote with transformers' Qwen3_5ForCausalLM in float32, for the same checkpoint (a flat export).

    truth.py CHECKPOINT DUMP

Prints the relative RMS difference of the residual behind each layer, of the final hidden and of the logits; top-1 is compared where
the reference's margin exceeds four times the RMS error of the logits there (random models have near ties everywhere).
Beside them stands what the reference itself loses when it computes in bfloat16.
Exit status 1 when a limit is passed: at any layer and in the final hidden 1e-2 or 1.1 times the reference's own loss, whichever is
more; and any top-1 that differs beyond a near tie."""
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
    def run(dtype):
        """Residual behind each layer, final hidden and logits, of the reference in dtype; its norm in float32."""
        model = Qwen3_5ForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="eager").cuda().eval()
        seen = []
        hooks = [l.register_forward_hook(lambda m, a, o: seen.append((o[0] if isinstance(o, tuple) else o)[0].float().cpu()))
                 for l in model.model.layers]
        with torch.no_grad():
            out = model(torch.tensor([ids], device="cuda")).logits[0].float().cpu()
        for h in hooks:
            h.remove()
        seen = [x.view(n, hidden) for x in seen]
        assert len(seen) == layers
        return seen, out, model

    half, half_logits, model = run(torch.bfloat16)
    del model
    torch.cuda.empty_cache()
    seen, want, model = run(torch.float32)
    with torch.no_grad():
        final, half_final, final_want = (model.model.norm(x[-1].cuda()).cpu() for x in (ours, half, seen))
    each = [relative(ours[i], seen[i]) for i in range(layers)]
    theirs = [relative(half[i], seen[i]) for i in range(layers)]
    # Random weights are sensitive: roundings to bf16 add up like a walk, about 1e-2 in the first layer. What the reference itself
    # loses in bf16 is the measure.
    bad = any(e > max(1e-2, 1.1 * t) for e, t in zip(each, theirs))
    print("layers:              ", " ".join(f"{e:.1e}" for e in each))
    print("reference in bfloat16:", " ".join(f"{e:.1e}" for e in theirs))
    e, t = relative(final, final_want), relative(half_final, final_want)
    bad |= e > max(1e-2, 1.1 * t)

    def tops(x):
        rms = (x - want).pow(2).mean(1).sqrt()
        top = want.topk(2, 1)
        clear = (top.values[:, 0] - top.values[:, 1]) > 4 * rms
        same = x.argmax(1) == top.indices[:, 0]
        return (f"logits relative {relative(x, want):.1e}, RMS {float(rms.mean()):.1e}; top-1 equal at {int(same.sum())} of {n}, "
                f"{int((clear & same).sum())} of {int(clear.sum())} clear ones"), bool((clear & ~same).any())

    text, wrong = tops(logits)
    print(f"final hidden {e:.1e}; {text}")
    print(f"reference in bfloat16: final hidden {t:.1e}; {tops(half_logits)[0]}")
    sys.exit(1 if bad or wrong else 0)


main()

#!/usr/bin/env python3
"""Fuzzes the Qwen3.5 chat renderer against a second implementation of the templates, written here over plain Python values.

    chat_fuzz.py --driver build/tests/unit/chat_lines [--seed N] [--rounds N]

Exit status: 0 equal, 1 a difference (printed with the request).
"""
import argparse
import json
import random
import subprocess
import sys

SPACE = "".join(map(chr, [*range(9, 14), *range(0x1C, 0x21), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]))
FORMATS = ["qwen3.5-small", "qwen3.5", "qwen3.6", "qwen3.8"]
EFFORT = {
    "xhigh": "Reasoning effort is set to xhigh. Please think carefully through the task, validate key assumptions, consider plausible "
             "alternatives, and prioritize correctness, consistency, and clarity in the final answer.",
    "medium": "",
    "low": "Reasoning effort is set to low. Keep your thinking brief and focused, moving directly to the conclusion without unnecessary elaboration.",
}
HEAD = "# Tools\n\nYou have access to the following functions:\n\n<tools>"
TAIL = """
</tools>

If you choose to call a function ONLY reply in the following format with NO suffix:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
This is the value for the second parameter
that can span
multiple lines
</parameter>
</function>
</tool_call>

<IMPORTANT>
Reminder:
- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within <tool_call></tool_call> XML tags
- Required parameters MUST be specified
- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after
- If there is no function call available, answer the question like normal with your current knowledge and do not tell the user about function calls
</IMPORTANT>"""


class Refused(Exception):
    pass


def content_text(message, count, vision_id):
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    out = []
    for part in content:
        for kind, word, pad in (("image", "Picture", "image"), ("video", "Video", "video")):
            if kind in part or kind + "_url" in part or part.get("type") == kind:
                if message["role"] == "system":
                    raise Refused(f"System message cannot contain {kind}s.")
                count[kind] += 1
                out.append((f"{word} {count[kind]}: " if vision_id else "") + f"<|vision_start|><|{pad}_pad|><|vision_end|>")
                break
        else:
            if "text" not in part:
                raise Refused("Unexpected item type in content.")
            out.append(part["text"])
    return "".join(out)


def dumps(value):
    return json.dumps(value, ensure_ascii=False)


def argument(value, fmt):
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, list)) or fmt in ("qwen3.6", "qwen3.8"):
        return dumps(value)
    return str(value)


def arguments(value):
    if isinstance(value, str):
        if not value.strip(SPACE):
            return {}
        try:
            parsed = json.loads(value)
        except ValueError:
            return {"arguments": value}
        return {} if parsed is None else parsed if isinstance(parsed, dict) else {"arguments": value}
    return value or {}


def in_call_order(messages):
    out, i = [], 0
    while i < len(messages):
        j = i
        while j < len(messages) and messages[j]["role"] == "tool":
            j += 1
        block = messages[i:j]
        if block:
            calls = out[-1].get("tool_calls") or [] if out and out[-1]["role"] == "assistant" else []
            ids = [c.get("id") for c in calls]
            given = [m.get("tool_call_id") for m in block]
            if None not in ids and len(set(ids)) == len(ids) and sorted(map(str, given)) == sorted(ids) and None not in given:
                block = sorted(block, key=lambda m: ids.index(m["tool_call_id"]))
            out += block
            i = j
        else:
            out.append(messages[i])
            i += 1
    return out


def render(request, fmt):
    kwargs = request.get("chat_template_kwargs") or {}
    think, keep, vision_id = (kwargs.get(k) for k in ("enable_thinking", "preserve_thinking", "add_vision_id"))
    effort = kwargs.get("reasoning_effort")
    top = request.get("reasoning_effort")
    if top is not None:
        if think is None:
            think = top != "none"
        if effort is None and top != "none":
            effort = {"minimal": "low", "high": "xhigh", "max": "xhigh"}.get(top, top)
    count = {"image": 0, "video": 0}
    messages = [dict(m) for m in request["messages"]]
    for m in messages:
        m["role"] = {"developer": "system", "function": "tool"}.get(m["role"], m["role"])
    messages = [m for m in messages if m["role"] == "system"] + [m for m in messages if m["role"] != "system"]
    messages = in_call_order(messages)
    for m in messages:
        m["text"] = content_text(m, count, vision_id)
    system = [m for m in messages if m["role"] == "system"]
    rest = [m for m in messages if m["role"] != "system"]
    if len(system) > 1:
        system = [{"role": "system", "text": "\n\n".join(m["text"] for m in system if m["text"].strip(SPACE))}]
    out = []
    instruction = ""
    if fmt == "qwen3.8" and think is not False:
        if (effort or "xhigh") not in EFFORT:
            raise Refused(f"Unexpected reasoning effort {effort}. Supported types are xhigh (default), medium, and low.")
        instruction = EFFORT[effort or "xhigh"]
    s = system[0]["text"].strip(SPACE) if system else ""
    if request.get("tools"):
        out.append("<|im_start|>system\n" + (instruction + "\n\n" if instruction else "") + HEAD +
                   "".join("\n" + dumps(t) for t in request["tools"]) + TAIL + ("\n\n" + s if s else "") + "<|im_end|>\n")
    elif fmt == "qwen3.8":
        both = "\n\n".join(x for x in (instruction, s) if x)
        if both:
            out.append(f"<|im_start|>system\n{both}<|im_end|>\n")
    elif system:
        out.append(f"<|im_start|>system\n{s}<|im_end|>\n")

    def is_query(m):
        t = m["text"].strip(SPACE)
        return m["role"] == "user" and not (t.startswith("<tool_response>") and t.endswith("</tool_response>"))
    queries = [i for i, m in enumerate(rest) if is_query(m)]
    if not queries:
        raise Refused("No user query found in messages.")
    for i, m in enumerate(rest):
        c = m["text"].strip(SPACE)
        if m["role"] == "user":
            out.append(f"<|im_start|>user\n{c}<|im_end|>\n")
        elif m["role"] == "assistant":
            r = next((m[k] for k in ("reasoning_content", "reasoning") if isinstance(m.get(k), str) and m[k]), None)
            if r is None:
                r = ""
                if fmt != "qwen3.8" and "</think>" in c:
                    r = c.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
                    c = c.split("</think>")[-1].lstrip("\n")
            r = r.strip(SPACE)
            stays = i > queries[-1] or (fmt == "qwen3.6" and keep is True) or (fmt == "qwen3.8" and keep is not False)
            text = "<|im_start|>assistant\n" + (f"<think>\n{r}\n</think>\n\n" if stays else "") + c
            for k, call in enumerate(m.get("tool_calls") or []):
                text += "\n" if k else "\n\n" if c.strip(SPACE) else ""
                text += f"<tool_call>\n<function={call['function']['name']}>\n"
                for key, value in arguments(call["function"].get("arguments")).items():
                    text += f"<parameter={key}>\n{argument(value, fmt)}\n</parameter>\n"
                text += "</function>\n</tool_call>"
            out.append(text + "<|im_end|>\n")
        else:
            first = bool(system and i == 0) or (i > 0 and rest[i - 1]["role"] != "tool")
            out.append(("<|im_start|>user" if first else "") + f"\n<tool_response>\n{c}\n</tool_response>")
            if i + 1 == len(rest) or rest[i + 1]["role"] != "tool":
                out.append("<|im_end|>\n")
    text = "".join(out)
    if request.get("continue_final_message"):
        return text.removesuffix("<|im_end|>\n")
    if request.get("add_generation_prompt", True) is not False:
        on = think is True if fmt == "qwen3.5-small" else think is not False
        text += "<|im_start|>assistant\n" + ("<think>\n" if on else "<think>\n\n</think>\n\n")
    return text


class Maker:
    ATOMS = ["a", "Hello", " ", "\n", "\n\n", "\t", "é", "🌺", "\u3000", "\u2028", "\x1c", "<think>", "</think>", "<tool_response>",
             "</tool_response>", "<|im_end|>", "<|image_pad|>", "<tool_call>", '"', "\\", "{", "1", "\x7f", "/"]

    def __init__(self, seed):
        self.r = random.Random(seed)

    def chance(self, p):
        return self.r.random() < p

    def text(self):
        if self.chance(0.05):
            return "<tool_response>\nx\n</tool_response>"
        return "".join(self.r.choice(self.ATOMS) for _ in range(self.r.randrange(6)))

    def value(self, depth=0):
        kind = self.r.randrange(9 if depth < 2 else 7)
        if kind < 2:
            return self.text()
        if kind < 7:
            return self.r.choice([None, True, False, 0, -7, 12345678901234567890, 1.0, 0.5, 1e5, 1e16, 1e-5, 1.5e300, -2.25])
        if kind == 7:
            return [self.value(depth + 1) for _ in range(self.r.randrange(4))]
        return {self.text() + str(i): self.value(depth + 1) for i in range(self.r.randrange(4))}

    def content(self, system=False):
        if self.chance(0.1):
            return None
        if self.chance(0.7):
            return self.text()
        parts = []
        for _ in range(self.r.randrange(5)):
            parts.append(self.r.choice([
                {"type": "text", "text": self.text()}, {"type": "input_text", "text": self.text()}, {"text": self.text()},
                *([] if system and self.chance(0.9) else [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "image"}, {"type": "video", "video": "v"}]),
                *([{"type": "other"}] if self.chance(0.02) else [])]))
        return parts

    def arguments(self):
        value = {self.text() + str(i): self.value() for i in range(self.r.randrange(4))}
        return self.r.choice([value, dumps(value), json.dumps(value), "", None, "not json", "[1]", {}])

    def messages(self):
        out = []
        for _ in range(self.r.randrange(1, 9)):
            role = self.r.choice(["system", "developer", "user", "user", "user", "assistant", "assistant", "assistant", "tool", "tool", "function"])
            m = {"role": role, "content": self.content(role in ("system", "developer"))}
            if role == "assistant":
                for key in ("reasoning_content", "reasoning"):
                    if self.chance(0.25):
                        m[key] = self.r.choice([self.text(), self.text(), "", None, 5])
                if self.chance(0.5):
                    m["tool_calls"] = [{"id": "abc"[i], "type": "function", "function": {"name": "f" + self.text().replace("\n", ""), "arguments": self.arguments()}}
                                       for i in range(self.r.randrange(4))]
            if role in ("tool", "function") and self.chance(0.8):
                m["tool_call_id"] = self.r.choice("abc")
            if not m["content"] and self.chance(0.3):
                del m["content"]
            out.append(m)
        if self.chance(0.7):
            out.insert(0, {"role": "user", "content": self.text()})
        return out

    def request(self):
        r = {"messages": self.messages()}
        kwargs = {k: self.r.choice([True, False, None]) for k in ("enable_thinking", "preserve_thinking", "add_vision_id") if self.chance(0.4)}
        if self.chance(0.2):
            kwargs["reasoning_effort"] = self.r.choice(["low", "medium", "xhigh", "high"])
        if kwargs or self.chance(0.1):
            r["chat_template_kwargs"] = kwargs
        if self.chance(0.2):
            r["reasoning_effort"] = self.r.choice(["none", "minimal", "low", "medium", "high", "xhigh", "max"])
        if self.chance(0.3):
            r["tools"] = [{"type": "function", "function": {"name": f"t{i}", "description": self.text(), "parameters": {"x": self.value()}}} for i in range(self.r.randrange(4))]
        if self.chance(0.1):
            r["add_generation_prompt"] = self.r.choice([True, False])
        if r["messages"][-1]["role"] == "assistant" and r.get("add_generation_prompt") is not True and self.chance(0.5):
            r["continue_final_message"] = True
        return r


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--driver", required=True)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--rounds", type=int, default=2000)
    o = ap.parse_args()
    maker = Maker(o.seed)
    driver = subprocess.Popen([o.driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    n_ok = 0
    for i in range(o.rounds):
        request, fmt = maker.request(), maker.r.choice(FORMATS)
        line = json.dumps(request, ensure_ascii=maker.chance(0.5))
        driver.stdin.write((fmt + "\t" + line + "\n").encode())
        driver.stdin.flush()
        got = json.loads(driver.stdout.readline())
        try:
            want = ("ok", render(request, fmt))
            n_ok += 1
        except Refused as e:
            want = ("error", str(e))
        have = (got[0], got[1] if got[0] == "ok" else got[2])
        # A request with two faults may be refused for either.
        if have != want and not have[0] == want[0] == "error":
            print(f"round {i}, seed {o.seed}, {fmt}\n{line}\n got {have}\nwant {want}")
            return 1
    driver.stdin.close()
    print(f"{o.rounds} requests, {n_ok} rendered: equal")
    return driver.wait()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Published clients, unmodified (clients.txt), against vallmo-host: clients.py HOST MODEL. Plain, streams, tools, schemas, errors."""
import os
import sys
import time

import anthropic
import openai

from hostlib import Host

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]}
HELLO = [{"role": "user", "content": "Hello"}]
WEATHER = [{"role": "user", "content": "Weather?"}]
THINK = {"type": "enabled", "budget_tokens": 8}
OFF = {"type": "disabled"}


def check(ok, what):
    if not ok:
        raise AssertionError(what)


def test_anthropic_plain_equals_stream(base):
    c = anthropic.Anthropic(base_url=base, api_key="any", max_retries=0)
    ask = dict(model="m", max_tokens=60, messages=HELLO, system="Be brief", thinking=THINK, extra_body={"temperature": 0})
    m = c.messages.create(**ask)
    check([b.type for b in m.content] == ["thinking", "text"] and m.stop_reason in ("end_turn", "max_tokens"), f"{m}")
    with c.messages.stream(**ask) as s:
        text = "".join(s.text_stream)
        f = s.get_final_message()
    check([(b.type, getattr(b, "text", None), getattr(b, "thinking", None)) for b in f.content] ==
          [(b.type, getattr(b, "text", None), getattr(b, "thinking", None)) for b in m.content], f"{f} against {m}")
    check(text == m.content[1].text and f.usage.output_tokens == m.usage.output_tokens, f"{text!r} {f.usage} {m.usage}")
    n = c.messages.count_tokens(model="m", messages=HELLO, system="Be brief", thinking=THINK).input_tokens
    check(n == m.usage.input_tokens + m.usage.cache_read_input_tokens, f"counted {n}, used {m.usage}")


def test_anthropic_tool_turns(base):
    c = anthropic.Anthropic(base_url=base, api_key="any", max_retries=0)
    tools = [{"name": "weather", "input_schema": SCHEMA}]
    with c.messages.stream(model="m", max_tokens=400, messages=WEATHER, thinking=OFF, tools=tools, tool_choice={"type": "any"}) as s:
        f = s.get_final_message()
    use = f.content[-1]
    check(f.stop_reason == "tool_use" and use.type == "tool_use" and use.input == {"city": "Oslo"}, f"{f}")
    more = WEATHER + [{"role": "assistant", "content": f.content}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "9"}]}]
    check(c.messages.create(model="m", max_tokens=5, messages=more, tools=tools).usage.output_tokens > 0, "the turn after a result")


def test_anthropic_stop_and_error(base):
    c = anthropic.Anthropic(base_url=base, api_key="any", max_retries=0)
    first = c.messages.create(model="m", max_tokens=30, messages=HELLO, thinking=OFF, extra_body={"temperature": 0}).content[0].text
    m = c.messages.create(model="m", max_tokens=30, messages=HELLO, thinking=OFF, stop_sequences=[first[3:6]], extra_body={"temperature": 0})
    check(m.stop_reason == "stop_sequence" and m.stop_sequence == first[3:6] and m.content[0].text == first[:first.index(first[3:6])], f"{m} of {first!r}")
    try:
        c.messages.create(model="m", max_tokens=3, messages=[{"role": "user", "content": "w " * 9000}])
        check(False, "a prompt that does not fit was taken")
    except anthropic.BadRequestError as e:
        check("maximum context length" in e.message and e.request_id, f"{e.message} {e.request_id}")


def test_openai_responses_plain_equals_stream(base):
    c = openai.OpenAI(base_url=base + "/v1", api_key="any", max_retries=0)
    for effort in ("none", "low"):
        ask = dict(model="m", input="Hello", max_output_tokens=200, temperature=0, reasoning={"effort": effort})
        r = c.responses.create(**ask)
        last = None
        with c.responses.stream(**ask) as s:
            for e in s:
                last = e
        f = last.response
        check(f.status == r.status and f.output_text == r.output_text and [x.type for x in f.output] == [x.type for x in r.output], f"{f} against {r}")
        check(f.usage.output_tokens == r.usage.output_tokens, f"{f.usage} {r.usage}")


def test_openai_responses_tools_schema_and_refusal(base):
    c = openai.OpenAI(base_url=base + "/v1", api_key="any", max_retries=0)
    tools = [{"type": "function", "name": "weather", "parameters": SCHEMA}]
    ask = dict(model="m", max_output_tokens=400, reasoning={"effort": "none"})
    with c.responses.stream(input="Weather?", tools=tools, tool_choice="required", **ask) as s:
        for _ in s:
            pass
        f = s.get_final_response()
    call = f.output[-1]
    check(call.type == "function_call" and call.arguments.replace(" ", "").replace("\n", "") == '{"city":"Oslo"}', f"{f}")
    more = [*WEATHER, *[x.model_dump(exclude_none=True) for x in f.output], {"type": "function_call_output", "call_id": call.call_id, "output": "9"}]
    check(c.responses.create(input=more, tools=tools, **ask).usage.output_tokens > 0, "the turn after a result")
    r = c.responses.create(input="x", text={"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}, **ask)
    check("Oslo" in r.output_text, f"{r}")
    try:
        c.responses.create(input="x", previous_response_id="resp_1", **ask)
        check(False, "previous_response_id was taken")
    except openai.BadRequestError as e:
        check("previous_response_id" in e.message, e.message)


def test_openai_chat_plain_equals_stream(base):
    c = openai.OpenAI(base_url=base + "/v1", api_key="any", max_retries=0)
    ask = dict(model="m", messages=HELLO, max_tokens=40, temperature=0)
    r = c.chat.completions.create(**ask)
    with c.chat.completions.stream(**ask) as s:
        for _ in s:
            pass
        f = s.get_final_completion()
    check(f.choices[0].message.content == r.choices[0].message.content and f.choices[0].finish_reason == r.choices[0].finish_reason, f"{f} against {r}")
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    r = c.chat.completions.create(model="m", messages=WEATHER, max_tokens=400, tools=tools, tool_choice="required", extra_body={"enable_thinking": False})
    check(r.choices[0].finish_reason == "tool_calls" and "Oslo" in r.choices[0].message.tool_calls[0].function.arguments, f"{r}")


def main():
    failed = 0
    with Host(sys.argv[1], "--model", os.path.abspath(sys.argv[2]), "--ctx", "8192", "--set", "qwen35.threads=1") as h:
        h.ready()
        for name, fn in sorted(globals().items()):
            if not name.startswith("test_"):
                continue
            t0 = time.monotonic()
            try:
                fn(f"http://127.0.0.1:{h.port}")
                print(f"pass {name} [{time.monotonic() - t0:.1f} s]", flush=True)
            except Exception as e:
                failed += 1
                print(f"fail {name}: {type(e).__name__}: {e}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

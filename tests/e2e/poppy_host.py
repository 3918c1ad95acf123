"""Poppy against the real server on the demo model: one answer in a pipe, a chat on the full screen, the front `vallmo chat`.

    poppy_host.py HOST POPPY FRONT MODEL
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "terminal")]
import lib  # noqa: E402
from hostlib import Host  # noqa: E402


def answer_of(host, messages):
    """The server's own answer at temperature 0."""
    status, _, body = host.get("/v1/chat/completions", "POST", {"messages": messages, "temperature": 0, "max_tokens": 40})
    assert status == 200, body
    return json.loads(body)["choices"][0]["message"]["content"].strip()


def main():
    program, poppy, front, model = sys.argv[1:5]
    question = "What can you do?"
    with Host(program, "--model", model, "--ctx", "4096", limit=120) as host:
        host.ready()
        url = f"http://127.0.0.1:{host.port}"
        want = answer_of(host, [{"role": "user", "content": question}])
        t = lib.Context([poppy], 3.0)
        try:
            os.makedirs(os.path.join(t.home, "config", "poppy"))
            t.write_file("config/poppy/settings.json", '{"max_tokens": 40, "set": {"temperature": 0}}')
            d = t.oneshot("--url", url, question, url=False)
            lib.eq(d.status, 0, f"exit status {d}")
            lib.eq(d.text.strip(), want, "the answer in a pipe, and the server's own")

            c = t.chat("--url", url, url=False)
            c.type(question)
            c.pause(0.1)
            c.key("enter")
            head = " ".join(want.split()[:4])
            c.wait(head, 20, "the answer on the screen")
            c.wait("tok/s", 20, "the speed on the status line")
            c.wait("context ", 20, "the context on the status line")
            c.wait(lambda: "writing" not in c.flat, 20, "the end of the answer")
            lib.check("poppyseed" in c.flat, lambda: c.show("the name of the model is not on the screen"))
            lib.eq(c.leave(), 0, "exit status")
            c.restored("after /quit")
            lib.check(head in c.everything, lambda: c.show("the transcript is not on the normal screen"))

            t.command = [front, "chat"]
            d = t.oneshot("--url", url, question, url=False)
            lib.eq(d.status, 0, f"exit status of vallmo chat {d}")
            lib.check(d.text.strip(), "vallmo chat gives no answer")
        finally:
            t.close()
    print("poppy_host: passed")


if __name__ == "__main__":
    main()

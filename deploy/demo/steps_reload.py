"""A step about a new configuration while answers stream."""

import threading
import time

import wire
from callers import Caller, said, streamed
from checks import answered, holds, same

STREAMS = 20
STORY = "Tell a long story, number"
LATE = "late-model"


class Listener(threading.Thread):
    """A client that reads one slow stream to its end."""

    def __init__(self, demo, number):
        super().__init__(daemon=True)
        self.caller, self.prompt = Caller(demo.ledger, demo.gateway.url), f"{STORY} {number}"
        self.answer, self.ended = None, None
        self.start()

    def run(self):
        try:
            self.answer = self.caller.ask(self.prompt, stream=True)
        except wire.Cut:
            pass
        self.ended = time.monotonic()


def reload(demo, status):
    """Asks for it, and gives what it says of the generation in force."""
    answer = demo.gateway.ask_admin("/admin/v1/reload", {})
    same("status of the reload", answer.status, status)
    return answer.json()


def under_streams(demo):
    """Streams run on over a reload, a refused one changes nothing, and what a good one adds is served at once."""
    demo.script(STORY, times=STREAMS, chunk_ms=30, chunks=60)
    before = demo.gateway.ask_admin("/admin/v1/reload").json()
    with demo.upstream_calls(STREAMS + (2 if demo.stack.configurable else 0)):
        running = [Listener(demo, number) for number in range(STREAMS)]
        changed = file_changes(demo, before) if demo.stack.configurable else reload(demo, 200)
        at = time.monotonic()
        for listener in running:
            listener.join(30)
            holds(listener.answer is not None, "a stream was cut by a reload")
            streamed(answered(listener.answer, cache="MISS"), listener.prompt)
        last = max(listener.ended for listener in running)
    holds(last > at, "the streams were over before the reload: nothing was shown")
    what = "a refused file told in /readyz, a new name served at once; " if demo.stack.configurable else ""
    return (f"{STREAMS} streams whole over generation {before['generation']} to {changed['generation']}; {what}"
            f"the last stream ended {last - at:.1f} s behind the reload")


def file_changes(demo, before):
    ask = {"members": {"model": LATE}}
    same("the new name before", demo.alice.ask("Who comes late?", **ask).status, 404)
    demo.stack.configure(demo.gateway, "[[provider]\n")
    refused = reload(demo, 422)
    holds(refused["faults"] and refused["generation"] == before["generation"], f"a broken file was taken: {refused}")
    status, ready = demo.gateway.ready() or (0, {"faults": {}})
    holds(status == 200 and "config" in ready["faults"], f"/readyz does not tell: {status} {ready}")
    said(answered(demo.alice.ask("Who came before?"), cache="MISS"), "Who came before?")
    demo.stack.configure(demo.gateway, f"[[model]]\naliases = ['{LATE}']\n")
    taken = reload(demo, 200)
    same("the generation", taken["generation"], before["generation"] + 1)
    said(answered(demo.alice.ask("Who comes late?", **ask), cache="MISS"), "Who comes late?")
    return taken

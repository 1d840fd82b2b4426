"""The demo's own clients: they keep what they were given, as a careful customer would.

The ledger counts X-Cache and keeps every Lineage-Receipt in a file of its own, away from the gateway; the audit at the end
holds the gateway to it.
"""

import collections
import itertools
import json
import re
import threading

import wire
from checks import Failure, holds, same

MODEL = "gpt-4o-mini"
STATES = ("EXACT", "SEMANTIC", "MISS", "COALESCED", "BYPASS", "REFRESH")


class Ledger:
    """What came back over the whole demo."""

    def __init__(self, file):
        self.file, self.lock = file, threading.Lock()
        self.states, self.kept = collections.Counter(), 0
        self.file.touch()

    def note(self, answer):
        state, receipt = answer.get("x-cache"), answer.receipt()
        with self.lock:
            if answer.status == 200 and state in STATES:
                self.states[state] += 1
            if receipt:
                self.kept += 1
                with open(self.file, "a") as out:
                    out.write(receipt + "\n")

    def hit_rate(self):
        total = sum(self.states.values())
        return (self.states["EXACT"] + self.states["SEMANTIC"]) / total if total else 0.0


class Caller:
    """One client with an address and a key of its own. The gateway believes the address: it trusts us as a proxy."""

    addresses = (f"198.18.{n // 250}.{n % 250 + 1}" for n in itertools.count())

    def __init__(self, ledger, base, key="sk-demo-alice"):
        self.ledger, self.base, self.key = ledger, base, key
        self.address = next(self.addresses)

    def headers(self, extra):
        own = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        own.update({"X-Forwarded-For": self.address, "Content-Type": "application/json"})
        own.update({name.replace("_", "-"): str(value) for name, value in extra.items()})
        return own

    def send(self, method, path, body=b"", **headers):
        answer = wire.exchange(self.base, method, path, self.headers(headers), body)
        self.ledger.note(answer)
        return answer

    def get(self, path, **headers):
        return self.send("GET", path, **headers)

    def post(self, path, value, **headers):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.send("POST", path, body, **headers)

    def ask(self, prompt, system=None, stream=False, members=None, **headers):
        """A chat completion; `members` are added to the body."""
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
        value = {"model": MODEL, "messages": messages, **(members or {})}
        if stream:
            value["stream"] = True
            headers.setdefault("TE", "trailers")
        return self.post("/v1/chat/completions", value, **headers)


def said(answer, prompt=None):
    """The assistant's text of a JSON answer; with `prompt`, it must be the mock's own answer to it."""
    try:
        text = answer.json()["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError) as fault:
        raise Failure(f"not a chat completion: {answer.body[:200]!r}") from fault
    return checked(text, prompt)


def checked(text, prompt):
    if prompt is not None:
        own = rf"Mock answer \[[0-9a-f]{{16}}\] to: {re.escape(prompt)} -- the same words [\w ,]+ literal bytes\."
        holds(re.fullmatch(own, text), f"the mock's answer to {prompt!r} was expected, {text!r} came")
    return text


def streamed(answer, prompt=None):
    """The chunks and the text of a streamed answer, whose form is checked."""
    same("content type", (answer.get("content-type") or "").partition(";")[0], "text/event-stream")
    data = wire.events(answer)
    same("last event", data[-1] if data else None, "[DONE]")
    parts = [json.loads(item) for item in data[:-1]]
    same("role of the first chunk", parts[0]["choices"][0]["delta"].get("role"), "assistant")
    same("number of ids", len({part["id"] for part in parts}), 1)
    deltas = [choice for part in parts for choice in part["choices"]]
    same("last finish reason", deltas[-1]["finish_reason"] in ("stop", "tool_calls"), True)
    text = "".join(choice["delta"].get("content") or "" for choice in deltas)
    return parts, checked(text, prompt)

"""Runs cells (one call of one SDK) in one language and prints what came of each as a line of JSON.

Every cell is a function of a `Turn`; it returns the answer's words. It is run twice with the same prompt: first the
gateway must have asked the provider, then it must have answered from its cache, and both answers must be equal. X-Cache is
read from the responses below the SDK, so it does not matter whether the SDK shows headers. A cell that ends by a failure
(a timeout, an abort) says for itself what it must see on a hit.
"""

import asyncio
import importlib
import importlib.metadata
import inspect
import json
import os
import secrets
import time
import traceback
import urllib.request

GATEWAY, MOCK = os.environ["SDK_BASE"], os.environ["SDK_MOCK"]
KEY, DIRECT = os.environ["SDK_KEY"], os.environ["SDK_DIRECT"] == "1"
OPENAI, ANTHROPIC, EMBEDDING = "gpt-4o-mini", "claude-haiku-4-5", "text-embedding-3-small"
PASSES = ("direct",) if DIRECT else ("miss", "hit")
CELLS, SEEN = [], []
LOOP = asyncio.new_event_loop()  # one for all: LangChain keeps its connections for the life of the process


def record():
    """Notes the X-Cache of every response that any client of this process reads."""
    for name in ("httpx", "httpx2"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        note = lambda response: SEEN.append((response.status_code, response.headers.get("x-cache")))  # noqa: E731

        def send(client, *args, inner=module.Client.send, **kwargs):
            response = inner(client, *args, **kwargs)
            note(response)
            return response

        async def asend(client, *args, inner=module.AsyncClient.send, **kwargs):
            response = await inner(client, *args, **kwargs)
            note(response)
            return response
        module.Client.send, module.AsyncClient.send = send, asend


def ask_mock(method, path, value=None):
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(MOCK + path, data, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
        return json.load(answer)


class Turn:
    """One run of a cell."""

    def __init__(self, prompt, which, model):
        self.prompt, self.which, self.model = prompt, which, model
        self.x_cache_is_free = False  # a cell that ends early checks for itself

    @property
    def is_hit(self):
        return self.which == "hit"

    def script(self, **behaviour):
        """What the mock does to the next request with this prompt; a hit never reaches it."""
        if not self.is_hit:
            ask_mock("POST", "/_mock/script", [{"when": self.prompt, **behaviour}])

    def expect(self, condition, what):
        if not condition:
            raise AssertionError(what)


def cell(sdk, apis, case, model):
    """`apis`: the ways through the gateway that the cell takes; `a>b` is API `a` on a model whose provider speaks `b`."""
    def register(function):
        CELLS.append((sdk, apis.split(), case, model, function))
        return function
    return register


def call(function, turn):
    result = function(turn)
    return LOOP.run_until_complete(result) if inspect.isawaitable(result) else result


def run_cell(sdk, case, model, function):
    prompt = f"{case} of {sdk} {secrets.token_hex(4)}: why do tides come twice a day?"
    if "tool" in case:
        prompt += " Please use the tool."
    answers = []
    for which in PASSES:
        SEEN.clear()
        turn, began, wrong = Turn(prompt, which, model), time.monotonic(), None
        try:
            answers.append(call(function, turn))
            wrong = judge(turn, answers)
        except Exception as error:  # whatever an SDK raises is the result
            wrong = "".join(traceback.format_exception(error, limit=-4))
        yield which, wrong, time.monotonic() - began
        if wrong:
            return


def judge(turn, answers):
    if not answers[-1]:
        return "the answer is empty"
    if answers[-1] != answers[0]:
        return f"the hit is {answers[-1]!r} and the miss was {answers[0]!r}"
    if DIRECT or turn.x_cache_is_free:
        return None
    wanted = "EXACT" if turn.is_hit else "MISS"
    seen = [x_cache for status, x_cache in SEEN if status == 200]
    return None if seen and set(seen) == {wanted} else f"X-Cache was {seen}, wanted {wanted}"


def versions(names):
    return {name: importlib.metadata.version(name) for name in names}


def main(packages):
    print(json.dumps({"versions": versions(packages)}), flush=True)
    record()
    for sdk, apis, case, model, function in CELLS:
        base = {"sdk": sdk, "case": case, "apis": apis}
        for which, wrong, took in run_cell(sdk, case, model, function):
            print(json.dumps({**base, "pass": which, "wrong": wrong, "ms": round(took * 1000)}), flush=True)

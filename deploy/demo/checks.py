"""What a step may say: it holds, or a Failure that names what was expected and what came."""

import time


class Failure(Exception):
    """A step did not show what it should, or a part did not start; printed without a traceback."""


def same(what, got, want):
    if got != want:
        raise Failure(f"{what}: {want!r} was expected, {got!r} came")


def holds(condition, otherwise):
    if not condition:
        raise Failure(otherwise)


def answered(answer, status=200, cache=None, **headers):
    """Status, X-Cache and other headers (cache_status="signet; hit" means: starts with it)."""
    same("status", answer.status, status)
    if cache is not None:
        same("X-Cache", answer.get("x-cache"), cache)
    for name, want in headers.items():
        name = name.replace("_", "-")
        got = answer.get(name) or ""
        holds(got.startswith(want), f"{name}: {want!r} was expected, {got!r} came")
    return answer


def refused(answer, status, code=None, param=None):
    """An error in OpenAI's shape."""
    same("status", answer.status, status)
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError) as fault:
        raise Failure(f"{status} without an error in OpenAI's shape: {answer.body[:200]!r}") from fault
    same("members of the error", sorted(error), ["code", "message", "param", "type"])
    if code is not None:
        same("error code", error["code"], code)
    if param is not None:
        same("param", error["param"], param)
    return answer


def wait_until(what, condition, seconds, log=None):
    """Polls until `condition` gives something true, and returns that. The failure names the log that may say why."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            where = f"; its log: {log}" if log else ""
            raise Failure(f"{what} did not happen within {seconds} s{where}")
        time.sleep(0.02)

"""Shows Signet on a disposable stack, step by step, and fails if a step does not show what it should.

  run     start a stack, send scripted traffic, check each answer and the provider's call count, audit, remove it
  up      start a stack and leave it running under .demo/up; prints its URLs
  down    remove that stack with its data

DEMO=docker|native|embedded chooses the stack; default: docker if an engine answers, else native. DEMO_KILLS=N kills the
gateway N times (default 1). SIGNET_BIN_DIR names a folder with other binaries than target/release.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.dont_write_bytecode = True  # leave no __pycache__ in the repository
import compose
import local
import stack as stacks
import steps_audit
import steps_cache
import steps_errors
import steps_outage
import steps_reload
import wire
from callers import Caller, Ledger
from checks import Failure, same
from processes import Fault

HOME = stacks.ROOT / ".demo"

# name, what shows it, needs Redis, Postgres and a second replica
STEPS = (
    ("ready", steps_cache.ready, False),
    ("miss", steps_cache.miss, False),
    ("exact hit", steps_cache.exact, False),
    ("semantic hit", steps_cache.semantic, False),
    ("semantic hit by vector", steps_cache.vector, False),
    ("wrong hit", steps_cache.wrong_hit, False),
    ("near misses", steps_cache.near_misses, False),
    ("coalesced pair", steps_cache.coalesced, False),
    ("coalesced streams", steps_cache.coalesced_streams, False),
    ("bypass", steps_cache.bypass, False),
    ("refresh", steps_cache.refresh, False),
    ("stream", steps_cache.stream, False),
    ("tool call", steps_cache.tool_call, False),
    ("embeddings", steps_cache.embeddings, False),
    ("other endpoints", steps_cache.other_endpoints, False),
    ("refusals", steps_errors.refusals, False),
    ("provider errors", steps_errors.provider_errors, False),
    ("provider outage", steps_errors.provider_outage, False),
    ("reload under streams", steps_reload.under_streams, False),
    ("own records", steps_errors.own_records, False),
    ("burst", steps_errors.burst, False),
    ("second replica", steps_cache.second_replica, True),
    ("kill -9 under load", steps_outage.killed, False),
    ("Redis lost", steps_outage.redis_lost, True),
    ("Postgres lost", steps_outage.postgres_lost, True),
    ("replay", steps_audit.replay, False),
    ("balance", steps_audit.balance, False),
    ("audit", steps_audit.audit, False),
    ("checkpoints", steps_audit.checkpoints, False),
    ("tampering", steps_audit.tampering, False),
)


def say(text):
    print(f"demo: {text}", flush=True)


class Demo:
    """What the steps share."""

    def __init__(self, stack):
        self.stack, self.say, self.first = stack, say, None
        self.models, self.max_body = stacks.MODELS, stacks.MAX_BODY
        self.kills = int(os.environ.get("DEMO_KILLS", "1"))
        self.ledger = Ledger(stack.folder / "receipts.txt")
        self.alice = Caller(self.ledger, self.gateway.url)
        self.keys = stack.folder / "pinned-keys.pem"
        self.keys.write_text(stack.public_keys())

    @property
    def gateway(self):
        return self.stack.gateways[0]

    def calls(self):
        """How many requests have reached the provider."""
        return wire.exchange(self.stack.mock, "GET", "/_mock/counts").json()["requests"]

    def seen(self):
        """The bodies of the requests that have reached the provider."""
        return [json.loads(request["body"]) for request in wire.exchange(self.stack.mock, "GET", "/_mock/requests").json()
                if request["body"]]

    def script(self, when, **behaviour):
        """What the mock does with the next request whose prompt contains `when`. Not asked for by header: what a caller sends
        on to the provider is part of the cache key."""
        body = json.dumps([{"when": when, **behaviour}]).encode()
        same("status of the mock's script", wire.exchange(self.stack.mock, "POST", "/_mock/script", {}, body).status, 200)

    @contextlib.contextmanager
    def upstream_calls(self, want):
        """What happens inside costs exactly `want` calls of the provider."""
        before = self.calls()
        yield
        same("upstream calls", self.calls() - before, want)


def choose():
    mode = os.environ.get("DEMO") or ("docker" if engine_answers() else "native")
    if mode not in ("docker", "native", "embedded"):
        raise Failure(f"DEMO is docker, native or embedded, not {mode!r}")
    return mode


def engine_answers():
    if not shutil.which("docker"):
        return False
    for probe in (["docker", "info"], ["docker", "compose", "version"]):
        try:
            if subprocess.run(probe, capture_output=True, timeout=20, check=False).returncode != 0:
                return False
        except (OSError, subprocess.TimeoutExpired):
            return False
    return True


def build(mode, folder):
    return compose.Compose(folder) if mode == "docker" else local.Local(mode, folder)


def show(stack):
    """All steps in order; the first that does not hold ends the demo."""
    demo = Demo(stack)
    steps = [step for step in STEPS if stack.with_services or not step[2]]
    for number, (name, step, _) in enumerate(steps, 1):
        started = time.monotonic()
        try:
            shown = step(demo)
        except (Failure, Fault, wire.Cut) as fault:
            raise Failure(f"step {number}, {name}: {fault}") from fault
        say(f"{number:>2}/{len(steps)} {name}: {shown} [{time.monotonic() - started:.1f} s]")
    for name, _, _ in [step for step in STEPS if step not in steps]:
        say(f"not shown without Redis and Postgres: {name}")


def tell(stack, fault):
    """Why it failed, with the ends of the logs."""
    for name, text in stack.logs().items():
        print(f"--- the end of {name}'s log\n{text}", file=sys.stderr)
    print(f"--- logs and receipts stay in {stack.folder}\ndemo: FAILED: {fault}", file=sys.stderr, flush=True)


def run():
    mode = choose()
    HOME.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=HOME))
    stack = build(mode, folder)
    say(f"{mode} stack in {folder}")
    try:
        stack.start(say)
        show(stack)
    except Exception as fault:
        if not isinstance(fault, (Failure, Fault, wire.Cut)):
            traceback.print_exc()
        tell(stack, fault)
        return 1
    finally:
        stack.stop()
    shutil.rmtree(folder)
    say("every step showed what it should; the stack is removed")
    return 0


URLS = """demo: it runs until `make demo-down`
  gateway   {url}/v1            any key; answers come from the mock provider
  admin     {admin}/admin/v1/status   Authorization: Bearer {token}
  metrics   {admin}/metrics
  mock      {mock}/_mock/requests
  data      {folder}

  curl -si {url}/v1/chat/completions -H 'Authorization: Bearer sk-demo' -H 'Content-Type: application/json' \\
    -d '{{"model": "gpt-4o-mini", "messages": [{{"role": "user", "content": "Why is the sky blue?"}}]}}'"""


def up():
    folder = HOME / "up"
    if (folder / "state.json").exists():
        raise Failure(f"a stack runs in {folder} already; `make demo-down` removes it")
    mode = choose()
    shutil.rmtree(folder, ignore_errors=True)
    stack = build(mode, folder)
    try:
        stack.start(say)
        stack.remember()
    except BaseException as fault:
        tell(stack, fault)
        stack.stop()
        raise
    first = stack.gateways[0]
    print(URLS.format(url=first.url, admin=first.admin, token=first.token, mock=stack.mock, folder=folder), flush=True)
    return 0


def down():
    folder = HOME / "up"
    if not (folder / "state.json").exists():
        say("nothing runs")
        return 0
    stack = build(stacks.recalled_mode(folder), folder)
    stack.recall()
    stack.stop()
    shutil.rmtree(folder)
    say("the stack and its data are removed")
    return 0


def main():
    commands = {"run": run, "up": up, "down": down}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        print(__doc__, file=sys.stderr)
        return 64
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to end: clean up as for Ctrl-C
    try:
        return commands[sys.argv[1]]()
    except (Failure, Fault) as fault:
        print(f"demo: FAILED: {fault}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr, flush=True)
        return 130


if __name__ == "__main__":
    sys.exit(main())

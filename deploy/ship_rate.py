"""Can shipping keep up? Records a second into Postgres, beside what one gateway writes in the same run.

Postgres is stopped while the gateway answers misses as fast as it can, and started again: the backlog is shipped with nothing
else to do. Then the same once more, but with 2,000 requests a second coming in while the backlog is shipped. Postgres keeps
its defaults for durability. RATE_REQUESTS is the size of a backlog (default 60000), SIGNET_BIN_DIR names other binaries than
target/release.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True  # leave no __pycache__ in the repository
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "deploy/demo"))
from checks import Failure, holds, wait_until
from local import Local
from processes import Fault

REQUESTS, LIVE_RPS = int(os.environ.get("RATE_REQUESTS", "60000")), 2000
SETTINGS = {"SIGNET_LIMITS__IP_RPS": "1000000", "SIGNET_LIMITS__IP_BURST": "1000000"}


def say(text):
    print(f"ship-rate: {text}", flush=True)


def load(stack, requests, *flags):
    """The command that sends so many misses to the gateway."""
    command = [stack.bin / "signet-load", "matched", "--direct", f"{stack.mock}/v1", "--gateway", f"{stack.gateways[0].url}/v1",
               "--relay", "none", "--api-key", "sk-rate", "--rounds", "1", "-n", requests, *flags]
    return [str(part) for part in command]


def backlog(stack):
    """Fills one while Postgres is away; requests a second."""
    stack.stop_service("postgres")
    done = subprocess.run(load(stack, REQUESTS, "-c", "64"), capture_output=True, text=True, timeout=900, check=False)
    holds(done.returncode == 0, f"signet-load failed:\n{done.stdout}{done.stderr}")
    return float(re.search(r"^gateway +(\d+)", done.stdout, re.M).group(1))


def drained(stack, to):
    """Starts Postgres and waits until at most `to` records are left; seconds, from the first that was shipped."""
    gateway = stack.gateways[0]
    stack.start_service("postgres")
    held = gateway.unshipped()
    wait_until("the first batch", lambda: gateway.unshipped() < held or gateway.unshipped() <= to, 60)
    before, started = gateway.unshipped(), time.monotonic()
    wait_until("the backlog shipped", lambda: gateway.unshipped() <= to, 600)
    return before, time.monotonic() - started


def alone(stack):
    made = backlog(stack)
    count, seconds = drained(stack, 0)
    rate = count / seconds
    say(f"written {made:.0f}/s; then {count} records shipped in {seconds:.1f} s: {rate:.0f}/s, {rate / made:.1f} times as fast")


def beside_load(stack):
    backlog(stack)
    seconds_long = 60
    live = subprocess.Popen(load(stack, LIVE_RPS * seconds_long, "-c", "64", "--rps", str(LIVE_RPS), "--warmup", "0"),
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        first = stack.gateways[0].unshipped()
        wait_until("the live load", lambda: stack.gateways[0].unshipped() > first + 100, 90)
        count, seconds = drained(stack, LIVE_RPS // 5)
    finally:
        live.kill()
        live.wait()
    shipped = count + LIVE_RPS * seconds
    say(f"with {LIVE_RPS}/s coming in: a backlog of {count} gone after {seconds:.1f} s, {shipped / seconds:.0f}/s shipped, "
        f"{shipped / seconds / LIVE_RPS:.1f} times what came in")


def main():
    home = ROOT / ".demo"
    home.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="ship-rate-", dir=home))
    stack = Local("native", folder)
    stack.replicas, stack.extra, stack.mock_flags = 1, SETTINGS, ["--threads", "2", "--keep", "0"]
    try:
        stack.start(lambda text: None)
        alone(stack)
        beside_load(stack)
    except (Failure, Fault, subprocess.SubprocessError) as fault:
        for name, text in stack.logs().items():
            print(f"--- the end of {name}'s log\n{text}", file=sys.stderr)
        print(f"ship-rate: FAILED: {fault}", file=sys.stderr, flush=True)
        return 1
    finally:
        stack.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

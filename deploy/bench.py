"""Measures the release build against the mock provider, beside the mock alone and the relay, and writes a manifest.

Four gateways in turn: log in memory; log on disk; log on disk with Redis and Postgres; log on disk with a provider over TLS
that answers after 50 ms. Where there is a log on disk, every answer's receipt is held against it afterwards.
BENCH_REQUESTS is the number of requests a side, mode and concurrency (default 12000: shorter rounds measure wake-ups).
"""

import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # leave no __pycache__ in the repository
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "deploy/demo"))
from checks import Failure, wait_until
from local import Local
from processes import run

REQUESTS = os.environ.get("BENCH_REQUESTS", "12000")
# A limit above the load: the limiter works, but refuses nothing.
SETTINGS = {"SIGNET_LIMITS__IP_RPS": "1000000", "SIGNET_LIMITS__IP_BURST": "1000000", "SIGNET_SEMANTIC__MAX_ENTRIES": "1000"}
MODES = ["--mode", "json,hit,sse,sse-burst", "-c", "1,16,64,200"]
SLOW = ["--mode", "json", "-c", "1,64"]
# name, stack, log, flags of the load tool, TLS towards the provider
RUNS = (
    ("embedded, memory", "embedded", "memory", MODES, False),
    ("embedded, spool", "embedded", "spool", MODES, False),
    ("Redis and Postgres, spool", "native", "spool", MODES, False),
    ("embedded, spool, provider at 50 ms over TLS", "embedded", "spool", SLOW, True),
)


def say(text):
    print(f"bench: {text}", flush=True)


def machine():
    cpu = ""
    if Path("/proc/cpuinfo").exists():
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        cpu = found.group(1) if found else ""
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.system(), "kernel": platform.release(),
            "architecture": platform.machine()}


def measure(name, mode, log, flags, tls, folder):
    say(f"{name} ...")
    stack = Local(mode, folder)
    stack.replicas = 1
    stack.extra = {**SETTINGS, "SIGNET_LINEAGE__MODE": log}
    stack.mock_flags = ["--threads", "2", "--keep", "0"]
    trust = []
    if tls:
        authority = folder / "ca.pem"
        stack.mock_flags += ["--tls", "--h2", "--ca-out", str(authority), "--latency-ms", "50"]
        stack.extra["SSL_CERT_FILE"] = str(authority)
        trust = ["--ca", authority]
    try:
        stack.start(say)
        return loaded(stack, log, [*flags, *trust], folder)
    finally:
        stack.stop()


def loaded(stack, log, flags, folder):
    figures, ids = folder / "figures.json", folder / "ids.txt"
    command = [stack.bin / "signet-load", "matched", "--direct", f"{stack.mock}/v1", "--gateway", f"{stack.gateways[0].url}/v1",
               "--api-key", "sk-bench", "-n", REQUESTS, "--json", figures, "--ids", ids, *flags]
    if subprocess.run([str(part) for part in command], timeout=3600, check=False).returncode != 0:
        raise Failure("signet-load matched failed; what it said is above")
    flags_text = " ".join(["signet-load", "matched", *map(str, flags), "-n", REQUESTS])
    result = {"command": flags_text, **json.loads(figures.read_text())}
    if log == "spool":
        result["verify"] = verified(stack, ids, folder)
    return result


def verified(stack, ids, folder):
    """Every answer that was given has its record."""
    wait_until("all records shipped", lambda: stack.gateways[0].unshipped() == 0, 300)
    receipts = folder / "receipts.txt"
    lines = map(str.split, ids.read_text().splitlines())
    kept = [words[1] for words in lines if len(words) == 2 and words[1].startswith("v1;")]
    receipts.write_text("".join(f"{receipt}\n" for receipt in kept))
    keys = folder / "keys.pem"
    keys.write_text(stack.public_keys())
    code, report = stack.verify(keys, receipts)
    if code != 0:
        raise Failure(f"signet lineage verify ended with {code}:\n{report}")
    say(f"verify: 0, {len(kept)} receipts found")
    return {"exit_code": code, "receipts": len(kept), "report": report.splitlines()[:2]}


def main():
    folder = Path(tempfile.mkdtemp(prefix="signet-bench-"))
    now = datetime.datetime.now(datetime.timezone.utc)
    runs = {}
    try:
        for number, (name, *how) in enumerate(RUNS):
            inside = folder / str(number)
            inside.mkdir()
            runs[name] = measure(name, *how, inside)
    except Failure as fault:
        print(f"bench: FAILED: {fault}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    commit = run(["git", "-C", ROOT, "rev-parse", "HEAD"])[1].strip()
    target = ROOT / "loadtest/manifests" / f"{now:%Y-%m-%d-%H%M}-{platform.machine()}-{os.cpu_count()}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps({"at": now.isoformat(timespec="seconds"), "commit": commit, "machine": machine(),
                                  "settings": SETTINGS, "runs": runs}, indent=1) + "\n")
    say(f"written to {target.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

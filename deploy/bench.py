"""Measures the release build against the mock provider, beside the mock alone and the relay, and writes a manifest.

Thirteen gateways in turn, a quarter of an hour in all: log in memory, with 1,000 questions in the semantic partition; the same with streams of which an event
leaves each millisecond; the same with as many questions as come; log on disk; log on disk beside a second gateway with
its log in memory; log on disk with Redis and Postgres; log on disk with a provider over TLS that answers after 50 ms; log on disk with
streams of 64 events 20 ms apart, before which as many are held open for the memory of each; log on disk with bodies of 200 KB; log on disk with streams as fast as
they come, of 64 and of 1,000 events and of events of 4 KB (what keeping, reading and recording a stream costs over the relay's plain
copying, as throughput and as CPU time); log on disk with a bound of 32 requests at a time and ten times the load that it can
serve. Where there is a log on disk, every answer's receipt is held against it afterwards (not in the last). BENCH_REQUESTS is
the number of requests a side, mode and concurrency (default 8000: shorter rounds measure wake-ups; a part of it where an
answer takes its time). BENCH_ONLY runs those whose name holds it.
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

ONLY = os.environ.get("BENCH_ONLY", "")
REQUESTS = int(os.environ.get("BENCH_REQUESTS", "8000"))
PARTITION = 1000
# A limit above the load: the limiter works, but refuses nothing.
SETTINGS = {"SIGNET_LIMITS__IP_RPS": "1000000", "SIGNET_LIMITS__IP_BURST": "1000000", "SIGNET_SEMANTIC__MAX_ENTRIES": str(PARTITION),
            # What the load tool tells the mock, which no provider would get otherwise.
            "SIGNET_PROVIDER__0__FORWARD_HEADERS": "x-mock-chunks,x-mock-chunk-ms,x-mock-burst,x-mock-latency-ms,x-mock-answer-bytes,x-mock-fault"}
UNCAPPED = {"SIGNET_SEMANTIC__MAX_ENTRIES": "100000"}
MODES = ["--mode", "json,hit,sse,sse-burst", "-c", "1,16,64,200"]
SLOW = ["--mode", "json", "-c", "1,64"]
PACED = ["--mode", "sse", "--chunk-ms", "1", "-c", "16,64"]
PRICE = ["--mode", "json,hit", "-c", "1,64", "--rounds", "12"]
PROFILE = ["--profile", "chunks64", "-c", "500,64,1"]
BODIES = ["--mode", "json", "-c", "1,16", "--body-bytes", "200000"]
FAST = ["--mode", "sse", "-c", "16"]
# The mock waits as long before each answer: what is served at a time bounds what is served in a second.
SLOW_MOCK = ["--latency-ms", "50"]
TLS = ["--tls", "--h2", *SLOW_MOCK]
BOUND = 32
OVERLOAD = "embedded, spool, ten times the load"
AGAINST = "embedded, spool against memory"
# name, stack, log, settings, flags of the load tool, requests (or as many as the profile wants), flags of the mock
RUNS = (
    ("embedded, memory", "embedded", "memory", {}, MODES, REQUESTS, []),
    ("embedded, memory, an event each ms", "embedded", "memory", {}, PACED, REQUESTS // 5, []),
    ("embedded, memory, all questions kept", "embedded", "memory", UNCAPPED, SLOW, REQUESTS, []),
    ("embedded, spool", "embedded", "spool", {}, MODES, REQUESTS, []),
    (AGAINST, "embedded", "spool", {}, PRICE, 3 * REQUESTS, []),
    ("Redis and Postgres, spool", "native", "spool", {}, MODES, REQUESTS, []),
    ("embedded, spool, provider at 50 ms over TLS", "embedded", "spool", {}, SLOW, REQUESTS // 8, TLS),
    ("embedded, spool, 64 events 20 ms apart", "embedded", "spool", {}, PROFILE, None, []),
    ("embedded, spool, bodies of 200 KB", "embedded", "spool", {}, BODIES, REQUESTS // 5, []),
    ("embedded, spool, streams as fast as they come", "embedded", "spool", {}, [*FAST, "--chunks", "64"], REQUESTS, []),
    ("embedded, spool, streams as fast as they come, 1000 chunks", "embedded", "spool", {}, [*FAST, "--chunks", "1000"], REQUESTS // 8, []),
    ("embedded, spool, streams as fast as they come, chunks of 4 KB", "embedded", "spool", {},
     [*FAST, "--chunks", "100", "--answer-bytes", "409600"], REQUESTS // 8, []),
    (OVERLOAD, "embedded", "spool", {"SIGNET_SERVER__MAX_INFLIGHT": str(BOUND)}, ["--served", str(BOUND)], None, SLOW_MOCK),
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


def measure(name, mode, log, settings, flags, requests, mock, folder):
    say(f"{name} ...")
    stack = Local(mode, folder)
    stack.replicas = 1
    stack.extra = {**SETTINGS, **settings, "SIGNET_LINEAGE__MODE": log}
    stack.mock_flags = ["--threads", "2", "--keep", "0", *mock]
    trust = []
    if "--tls" in mock:
        authority = folder / "ca.pem"
        stack.mock_flags += ["--ca-out", str(authority)]
        stack.extra["SSL_CERT_FILE"] = str(authority)
        trust = ["--ca", authority]
    try:
        stack.start(say)
        if name == OVERLOAD:
            return load(stack, "overload", ["--target", f"{stack.gateways[0].url}/v1", *flags], folder)
        if name == AGAINST:
            stack.extra["SIGNET_LINEAGE__MODE"] = "memory"
            stack.add_gateway("signet-2", {})
            trust += ["--against", f"{stack.gateways[1].url}/v1"]
        pid = stack.processes["signet-1"].entry["pid"]
        trust += ["--pid", pid]
        if requests is not None:
            return matched(stack, log, requests, [*flags, *trust, "-n", requests], folder)
        memory = held_open(stack, pid, folder)
        return {**matched(stack, log, requests, [*flags, *trust], folder), "memory": memory}
    finally:
        stack.stop()


def load(stack, command, flags, folder):
    """Runs the load tool: what was called, and its figures."""
    figures = folder / "figures.json"
    line = [stack.bin / "signet-load", command, "--api-key", "sk-bench", "--json", figures, *flags]
    if subprocess.run([str(part) for part in line], timeout=3600, check=False).returncode != 0:
        raise Failure(f"signet-load {command} failed; what it said is above")
    return {"command": " ".join(["signet-load", command, *map(str, flags)]), **json.loads(figures.read_text())}


def held_open(stack, pid, folder):
    """What each of 500 and of 1,000 streams takes that are halted in the middle. First of all: a process keeps what memory it had."""
    return load(stack, "held", ["--gateway", f"{stack.gateways[0].url}/v1", "--rss-pid", pid], folder)


def matched(stack, log, requests, flags, folder):
    ids = folder / "ids.txt"
    sides = ["--direct", f"{stack.mock}/v1", "--gateway", f"{stack.gateways[0].url}/v1", "--ids", ids]
    result = load(stack, "matched", [*flags, *sides], folder)
    result["semantic_entries"] = held = stack.gateways[0].entries("semantic")
    if held < PARTITION and (requests or PARTITION) >= PARTITION and "--answer-bytes" not in flags:
        raise Failure(f"the semantic partition holds {held} questions; {PARTITION} were to be held")
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
        for number, (name, *how) in enumerate(it for it in RUNS if ONLY in it[0]):
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
    text = json.dumps({"at": now.isoformat(timespec="seconds"), "commit": commit, "machine": machine(),
                       "settings": SETTINGS, "runs": runs}, indent=1)
    target.write_text(text.replace(str(folder), "FOLDER") + "\n")
    say(f"written to {target.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

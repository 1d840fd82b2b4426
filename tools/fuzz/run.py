"""Runs the fuzz targets: each until FUZZ_QUIET_S (600) seconds have brought no new coverage, two at a time.

The stable compiler is enough: these are the flags that libFuzzer needs to see where a run has been. Finds are written to
tools/fuzz/artifacts; `target/.../release/NAME FILE` runs one again. Needs a C++ compiler. FUZZ_ONLY names targets.
"""

import os
import re
import selectors
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
CARGO = os.environ.get("CARGO", "cargo")
QUIET_S = float(os.environ.get("FUZZ_QUIET_S", "600"))
FLAGS = ["-Cpasses=sancov-module", "-Cllvm-args=-sanitizer-coverage-level=4", "-Cdebug-assertions", "-Ccodegen-units=1",
         "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters", "-Cllvm-args=-sanitizer-coverage-pc-table",
         "-Cllvm-args=-sanitizer-coverage-trace-compares"]
COVERED = re.compile(r"cov: (\d+)")


def build():
    host = next(line.split()[1] for line in subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True)
                .stdout.splitlines() if line.startswith("host:"))
    # With --target build scripts are built without the flags.
    subprocess.run([CARGO, "build", "--release", "--locked", "--target", host], check=True, cwd=HERE,
                   env={**os.environ, "RUSTFLAGS": " ".join(FLAGS)})
    return HERE / "target" / host / "release"


def goldens():
    """Seeds of the dialect targets, from the translations' golden files: name of the target, file name, bytes. The first
    bytes choose as the targets do: API or pair, then the length of the pieces."""
    apis = ["chat", "completions", "responses", "embeddings", "messages"]
    pairs = [("messages", "chat"), ("chat", "messages"), ("chat", "responses"), ("messages", "responses"),
             ("chat", "completions"), ("messages", "completions")]
    kept = ["completions", "responses", "messages"]
    for folder in sorted((HERE.parents[1] / "pkg/dialect/tests/golden").iterdir()):
        asks, answers = folder.name.split("-to-")
        for path in sorted(folder.iterdir()):
            text, name = path.read_bytes(), f"{folder.name}.{path.name}"
            speaks = asks if (".request.in" in path.name) or (".request." not in path.name and ".out." in path.name) else answers
            if ".request." in path.name:
                yield "dialect_request", name, bytes([apis.index(speaks)]) + text
            elif ".stream.in" in path.name:
                yield "dialect_stream", name, bytes([pairs.index((answers, asks)), 6]) + text
            elif ".answer." in path.name and speaks in kept:
                yield "dialect_answer", name, bytes([kept.index(speaks)]) + text


def run(binary):
    """One target: what was covered, in how many seconds, and whether it fell."""
    corpus, finds = HERE / "corpus" / binary.name, HERE / "artifacts" / binary.name
    for folder in (corpus, finds):
        folder.mkdir(parents=True, exist_ok=True)
    seeds = [seeds for seeds in [HERE / "seeds" / binary.name] if seeds.is_dir()]
    child = subprocess.Popen([binary, "-max_len=16384", "-timeout=10", f"-artifact_prefix={finds}/", corpus, *seeds],
                             stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0)
    os.set_blocking(child.stderr.fileno(), False)
    watch = selectors.DefaultSelector()
    watch.register(child.stderr, selectors.EVENT_READ)
    started = last = time.monotonic()
    covered, tail = 0, ""
    while child.poll() is None and time.monotonic() - last < QUIET_S:
        for _ in watch.select(timeout=1):
            tail = (tail + (child.stderr.read() or b"").decode(errors="replace"))[-8192:]
            now = max(map(int, COVERED.findall(tail)), default=0)
            covered, last = (now, time.monotonic()) if now > covered else (covered, last)
    fell = child.poll() is not None
    child.kill()
    child.wait()
    return binary.name, covered, time.monotonic() - started, tail if fell else None


def main():
    folder = build()
    for target, name, data in goldens():
        (HERE / "corpus" / target).mkdir(parents=True, exist_ok=True)
        (HERE / "corpus" / target / name).write_bytes(data)
    only = os.environ.get("FUZZ_ONLY", "").split()
    names = sorted(path.stem for path in (HERE / "targets").glob("*.rs") if not only or path.stem in only)
    failed = False
    with ThreadPoolExecutor(max(1, min(2, os.cpu_count() or 1))) as pool:
        for name, covered, took, fell in pool.map(run, [folder / name for name in names]):
            print(f"fuzz: {name}: {covered} edges, {took:.0f} s: {'FOUND A FAULT' if fell else 'nothing found'}", flush=True)
            if fell:
                failed = True
                print(fell, file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()

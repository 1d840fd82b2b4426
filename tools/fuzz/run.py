"""Runs the fuzz targets: each until FUZZ_QUIET_S (600) seconds have brought no new coverage, FUZZ_JOBS (2) at a time.

The seconds are those of the target's own CPU time, so that a busy machine or a stopped process makes the claim no weaker.
An input that takes five minutes is a fault: a process that was stopped meanwhile takes long, too.
The stable compiler is enough: these are the flags that libFuzzer needs to see where a run has been. Finds are written to
tools/fuzz/artifacts; `target/.../release/NAME FILE` runs one again. What a run has found to be of use stays in FUZZ_CORPUS
(tools/fuzz/corpus), where the next begins. Needs Linux and a C++ compiler. FUZZ_ONLY names targets.
"""

import os
import re
import selectors
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
CARGO = os.environ.get("CARGO", "cargo")
QUIET_S = float(os.environ.get("FUZZ_QUIET_S", "600"))
FLAGS = ["-Cpasses=sancov-module", "-Cllvm-args=-sanitizer-coverage-level=4", "-Cdebug-assertions", "-Ccodegen-units=1",
         "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters", "-Cllvm-args=-sanitizer-coverage-pc-table",
         "-Cllvm-args=-sanitizer-coverage-trace-compares"]
JOBS = int(os.environ.get("FUZZ_JOBS", "2"))
NAMES, DICTIONARY = HERE / "target/names.txt", HERE / "target/names.dict"
CORPUS = Path(os.environ.get("FUZZ_CORPUS", HERE / "corpus"))
# A literal that may be a name in JSON.
NAME = re.compile(r'"([a-z][a-z0-9_.-]{1,40})"')
# A line of libFuzzer: executions so far, and what they covered.
LINE = re.compile(r"#(\d+)\t\S+ +cov: (\d+)")


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
            elif ".answer." in path.name:
                if speaks in kept:
                    yield "dialect_answer", name, bytes([kept.index(speaks)]) + text
                if ".in." in path.name:
                    yield "dialect_whole", name, bytes([pairs.index((answers, asks)), 0]) + text


def tell_names():
    """The names and values that the code looks for, which chance would hardly spell: plain, and as JSON strings for libFuzzer
    to put in."""
    sources = [file for crate in ("openai", "dialect") for file in (HERE.parents[1] / "pkg" / crate / "src").rglob("*.rs")]
    names = {name for file in sources if "tests" not in str(file) for name in NAME.findall(file.read_text())}
    NAMES.write_text("".join(f"{name}\n" for name in sorted(names)))
    DICTIONARY.write_text("".join(f'"\\"{name}\\"{colon}"\n' for name in sorted(names) for colon in ("", ":")))


def cpu_s(pid):
    """Seconds of CPU time that a process has had; of one that has ended, but was not waited for, too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(binary):
    """One target: executions, what was covered, in how many seconds of CPU time, and what it said if it fell."""
    corpus, finds = CORPUS / binary.name, HERE / "artifacts" / binary.name
    for folder in (corpus, finds):
        folder.mkdir(parents=True, exist_ok=True)
    seeds = [seeds for seeds in [HERE / "seeds" / binary.name] if seeds.is_dir()]
    child = subprocess.Popen([binary, "-max_len=16384", "-timeout=300", f"-artifact_prefix={finds}/", f"-dict={DICTIONARY}",
                              corpus, *seeds],
                             stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0,
                             env={**os.environ, "FUZZ_NAMES": str(NAMES)})
    os.set_blocking(child.stderr.fileno(), False)
    watch = selectors.DefaultSelector()
    watch.register(child.stderr, selectors.EVENT_READ)
    runs, covered, last, used, tail, ended = 0, 0, 0.0, 0.0, "", False
    while not ended and used - last < QUIET_S:
        ready = watch.select(timeout=1)
        said = child.stderr.read() if ready else None
        ended = said == b""
        tail = (tail + (said or b"").decode(errors="replace"))[-8192:]
        used = cpu_s(child.pid)
        for count, edges in LINE.findall(tail):
            runs = max(runs, int(count))
            covered, last = (int(edges), used) if int(edges) > covered else (covered, last)
    child.kill()
    child.wait()
    return binary.name, runs, covered, used, tail if ended else None


def main():
    folder = build()
    tell_names()
    for target, name, data in goldens():
        (CORPUS / target).mkdir(parents=True, exist_ok=True)
        (CORPUS / target / name).write_bytes(data)
    only = os.environ.get("FUZZ_ONLY", "").split()
    names = sorted(path.stem for path in (HERE / "targets").glob("*.rs") if not only or path.stem in only)
    failed = False
    with ThreadPoolExecutor(max(1, min(JOBS, os.cpu_count() or 1))) as pool:
        for name, runs, covered, used, fell in pool.map(run, [folder / name for name in names]):
            told = "FOUND A FAULT" if fell else "nothing found"
            print(f"fuzz: {name}: {runs} executions, {covered} edges, {used:.0f} s of CPU time: {told}", flush=True)
            if fell:
                failed = True
                print(fell, file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()

"""The whole test run: format, lints, and every test against real Redis, Postgres and PgBouncer that it starts and stops.

A skipped test fails the run: what is not run is not known to work. CARGO names another cargo.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True  # leave no __pycache__ in the repository
ROOT = Path(__file__).resolve().parent.parent
SERVICES = ROOT / "deploy/services.py"
CARGO = os.environ.get("CARGO", "cargo")
STEP_S = 3000
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored; \d+ measured; (\d+) filtered out")


def say(text):
    print(f"test: {text}", flush=True)


def step(name, args, env=None, watch=None):
    """Runs a command whose output is shown as it comes; `watch` sees each line."""
    say(f"{name} ...")
    started = time.monotonic()
    child = subprocess.Popen([str(a) for a in args], cwd=ROOT, env=env, text=True, errors="replace",
                             stdout=subprocess.PIPE if watch else None)
    try:
        for line in child.stdout if watch else ():
            sys.stdout.write(line)
            sys.stdout.flush()
            watch(line)
        code = child.wait(max(1, STEP_S - (time.monotonic() - started)))
    except BaseException:
        child.terminate()
        child.wait(20)
        raise
    if code != 0:
        raise SystemExit(f"test: {name} failed ({code})")
    say(f"{name}: good after {time.monotonic() - started:.0f} s")


class Tally:
    """Sums over all test binaries."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def see(self, line):
        if match := RESULT.match(line):
            passed, failed, ignored, filtered = map(int, match.groups())
            self.passed, self.failed, self.skipped = (
                self.passed + passed, self.failed + failed, self.skipped + ignored + filtered)


def with_services(work):
    """Runs `work` with the variables that tell where the services are; they are stopped whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix="signet-test-"))
    folder.chmod(0o755)
    services = [sys.executable, SERVICES]
    try:
        step("starting Redis, Postgres and PgBouncer",
             [*services, "start", "--dir", folder, "--redis", "--postgres", "--pgbouncer", "--fast"])
        told = (folder / "services.env").read_text().splitlines()
        work({**os.environ, **dict(line.split("=", 1) for line in told)})
    finally:
        subprocess.run([*map(str, services), "stop", "--dir", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def tests(env):
    tally = Tally()
    step("tests", [CARGO, "test", "--workspace", "--locked", "--no-fail-fast", *sys.argv[1:]], env, tally.see)
    say(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    if tally.failed or tally.skipped or not tally.passed:
        raise SystemExit("test: every test has to run and to pass")


def kills():
    """With the programs just tested."""
    profile = sys.argv[sys.argv.index("--profile") + 1] if "--profile" in sys.argv else "debug"
    step("programs", [CARGO, "build", "--locked", "-p", "signet", "-p", "signet-mock-cli", "-p", "signet-load", *sys.argv[1:]])
    folder = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    env = {"SIGNET_BIN_DIR": str(Path(folder) / profile), "KILLS": "10", **os.environ}
    step("kill -9 under load", [sys.executable, ROOT / "deploy/kills.py"], env)


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to end: stop the services as for Ctrl-C
    started = time.monotonic()
    step("format", [CARGO, "fmt", "--all", "--check"])
    step("lints", [CARGO, "clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
    step("Dockerfile and compose file", [sys.executable, ROOT / "deploy/check_deploy.py"])
    with_services(tests)
    kills()
    say(f"all good after {(time.monotonic() - started) / 60:.1f} min")


if __name__ == "__main__":
    main()

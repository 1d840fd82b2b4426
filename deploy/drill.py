"""Bad days in a row, on two replicas with a real Redis and a real Postgres, under load: then every kept receipt is called in.

Clients ask 200 times a second, JSON and streams, and keep each receipt they get. Meanwhile gateways are killed with kill -9 at
random moments, Redis is off for a while, and Postgres is stopped and comes back with an old copy of its data. Afterwards
`signet lineage verify` and tools/verify must find every receipt, and both must name a record that is deleted by hand.

DRILL_SEED makes the moments those of an earlier run, DRILL_MODE is the log's mode (default spool). DRILL_OLD_BIN is an older
`signet`: one replica is rolled back to it and forward again. SIGNET_BIN_DIR names other binaries than target/release.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True  # leave no __pycache__ in the repository
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "deploy/demo"))
import wire
from callers import Caller, Ledger, said, streamed
from checks import Failure, holds, same, wait_until
from local import Local
from processes import Fault

RPS, CLIENTS, PROMPTS = 200, 16, 600
TICKET = "Explain drill #"
# The load is not to be limited, and no hit is to be drawn for a comparison.
SETTINGS = {"SIGNET_LIMITS__IP_RPS": "1000000", "SIGNET_LIMITS__IP_BURST": "1000000"}


def say(text):
    print(f"drill: {text}", flush=True)


class Load:
    """Clients on a common schedule, each with a key of its own; a cut answer is asked of the other replica next."""

    def __init__(self, stack, ledger):
        self.stack, self.ledger, self.over = stack, ledger, threading.Event()
        self.lock, self.number, self.started = threading.Lock(), 0, time.monotonic()
        self.whole, self.refused, self.cut, self.faults = 0, 0, 0, []
        self.threads = [threading.Thread(target=self.work, args=(n,), daemon=True) for n in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def turn(self):
        """The next request's number, at its time; what was missed during an outage is not made up for."""
        with self.lock:
            self.number += 1
            self.started = max(self.started + 1 / RPS, time.monotonic() - 0.5)
            number, due = self.number, self.started
        self.over.wait(max(0, due - time.monotonic()))
        return number

    def work(self, client):
        callers = [Caller(self.ledger, gateway.url, f"sk-drill-{client}") for gateway in self.stack.gateways]
        while not self.over.is_set():
            number = self.turn()
            try:
                self.ask(callers[number % len(callers)], number)
            except wire.Cut:
                with self.lock:
                    self.cut += 1
            except Failure as fault:
                self.faults.append(str(fault))

    def ask(self, caller, number):
        prompt, flows = f"{TICKET}{number % PROMPTS}", number % 3 == 0
        answer = caller.ask(prompt, stream=flows)
        if answer.status == 200:
            (streamed if flows else said)(answer, prompt)
        holds(answer.receipt() or answer.status in (502, 503), f"{answer.status} without a receipt: {answer.body[:200]!r}")
        with self.lock:
            self.whole, self.refused = self.whole + (answer.status == 200), self.refused + (answer.status != 200)

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join(60)
            holds(not thread.is_alive(), "a client hangs")
        holds(not self.faults, f"{len(self.faults)} answers were wrong, the first: {self.faults[:1]}")


class Drill:
    def __init__(self, stack, dice):
        self.stack, self.dice = stack, dice
        self.ledger = Ledger(stack.folder / "receipts.txt")
        self.keys = stack.folder / "pinned-keys.pem"
        self.keys.write_text(stack.public_keys())

    def within(self, seconds):
        """Waits for a random moment."""
        time.sleep(self.dice.uniform(0.2, seconds))

    def kill(self):
        gateway = self.dice.choice(self.stack.gateways)
        self.stack.kill_gateway(gateway)
        self.within(0.5)
        self.stack.start_gateway(gateway)
        return gateway.name

    def kills(self):
        names = []
        for _ in range(4):
            self.within(1.5)
            names.append(self.kill())
        return f"kill -9 of {', '.join(names)}"

    def redis(self):
        self.stack.stop_service("redis")
        self.within(1)
        name = self.kill()
        self.within(1)
        self.stack.start_service("redis")
        return f"Redis off, {name} killed meanwhile, Redis on"

    def postgres(self):
        """An old copy comes back: what was shipped after it was taken has to be shipped again."""
        data = Path(self.checked("psql", self.stack.psql("SHOW data_directory")).strip())
        copy = self.stack.folder / "old-copy"
        self.stack.stop_service("postgres")
        shutil.copytree(data, copy, symlinks=True)
        self.stack.start_service("postgres")
        before = self.shipped()
        wait_until("500 records shipped after the copy", lambda: self.shipped() >= before + 500, 60)
        had = self.shipped()
        self.stack.stop_service("postgres")
        name = self.kill()
        owner = data.stat()
        shutil.rmtree(data)
        shutil.copytree(copy, data, symlinks=True)
        self.own(data, owner)
        self.stack.start_service("postgres")
        return f"Postgres stopped, {name} killed, Postgres back with a copy that lacks some {had - before} of its {had} records"

    @staticmethod
    def own(data, owner):
        """copytree keeps modes, not owners; Postgres runs as another user where we are root."""
        if os.geteuid() == 0:
            for path in (data, *data.rglob("*")):
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)

    def roll(self):
        old = os.environ.get("DRILL_OLD_BIN")
        if not old:
            return "no older binary was given (DRILL_OLD_BIN): nothing rolled back"
        gateway = self.stack.gateways[0]
        process = self.stack.processes[gateway.name]
        args, env = process.args, process.env
        # An operator who rolls back takes the settings back too: builds from before the checkpoints do not know anchors.
        older = {name: value for name, value in env.items() if not name.startswith("SIGNET_LINEAGE__ANCHOR__")}
        for process.args, process.env in (([old, *args[1:]], older), (args, env)):
            process.stop()
            self.stack.start_gateway(gateway)
            self.within(3)
        return f"{gateway.name} rolled back to {old} and forward"

    def shipped(self):
        return int(self.checked("psql", self.stack.psql("SELECT count(*) FROM lineage_record")).strip())

    def checked(self, what, done):
        return self.stack.checked(what, done)

    def verify(self):
        """By both verifiers: exit codes and what they said, ours first."""
        anchors = [flag for gateway in self.stack.gateways for flag in ("--anchor", self.stack.anchors(gateway.name))]
        ours = self.stack.verify(self.keys, self.ledger.file, ["--db", self.stack.told("POSTGRES_URL"), *anchors])
        export = self.stack.folder / "export.jsonl"
        with open(export, "wb") as out:
            command = [self.stack.bin / "signet", "lineage", "export", "--db", self.stack.told("POSTGRES_URL")]
            subprocess.run(command, stdout=out, check=True, timeout=60)
        command = [sys.executable, ROOT / "tools/verify/signet_verify.py", "--key", self.keys, "--receipts", self.ledger.file,
                   *anchors, export]
        theirs = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, check=False)
        return ours, (theirs.returncode, theirs.stdout + theirs.stderr)

    def audit(self):
        for gateway in self.stack.gateways:
            wait_until(f"{gateway.name}: all records shipped", lambda g=gateway: g.unshipped() == 0, 60)
        (code, report), (their_code, their_report) = self.verify()
        holds(code == 0, f"signet lineage verify ended with {code}:\n{report[-3000:]}")
        holds(their_code == 0, f"signet_verify.py ended with {their_code}:\n{their_report[-3000:]}")
        receipts = len(set(self.ledger.file.read_text().split()))
        found = int(re.search(r"checked: (\d+) kept receipts and anchors", report).group(1))
        holds(found > receipts, f"{receipts} receipts and some anchors were kept, {found} were found")
        records = re.search(r"checked: (\d+ records in \d+ logs)", report).group(1)
        return f"{receipts} kept receipts and {found - receipts} anchored checkpoints found unchanged among {records}; tools/verify says {their_report.splitlines()[-1]}"

    def deletion(self):
        victim = "(SELECT id FROM lineage_record WHERE kind = 1 ORDER BY md5(id::text) LIMIT 1)"
        row = self.checked("psql", self.stack.psql(f"DELETE FROM lineage_record WHERE id = {victim} RETURNING log_no, seq")).strip()
        log, seq = row.splitlines()[0].split("|")
        for name, (code, report) in zip(("signet lineage verify", "signet_verify.py"), self.verify()):
            named = [line for line in report.splitlines() if line.startswith("GAP") and re.search(rf"\b{seq}\b", line)]
            holds(code == 14 and named, f"seq {seq} of log {log} was deleted, and {name} ended with {code}:\n{report[-2000:]}")
        return f"one row deleted by hand; both end with 14 and name it: {named[0]}"


def drill(stack, seed):
    stack.extra = {**SETTINGS, "SIGNET_LINEAGE__MODE": os.environ.get("DRILL_MODE", "spool")}
    stack.mock_flags = ["--keep", "0"]
    stack.start(say)
    body = json.dumps([{"when": TICKET, "times": 10_000_000, "latency_ms": 5, "chunks": 12}]).encode()
    same("status of the mock's script", wire.exchange(stack.mock, "POST", "/_mock/script", {}, body).status, 200)
    drill = Drill(stack, random.Random(seed))
    load = Load(stack, drill.ledger)
    wait_until("the first answers", lambda: load.whole >= 100, 20)
    for step in (drill.kills, drill.redis, drill.roll, drill.postgres, drill.kills):
        say(step())
    load.end()
    say(f"{load.whole} whole answers, {load.refused} refused, {load.cut} cut, {drill.ledger.kept} receipts kept")
    for step in (drill.audit, drill.deletion):
        say(step())


def main():
    home = ROOT / ".demo"
    home.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="drill-", dir=home))
    seed, started = os.environ.get("DRILL_SEED") or str(random.randrange(10**9)), time.monotonic()
    say(f"seed {seed}, folder {folder}")
    stack = Local("native", folder)
    try:
        drill(stack, seed)
    except (Failure, Fault, wire.Cut, subprocess.SubprocessError) as fault:
        for name, text in stack.logs().items():
            print(f"--- the end of {name}'s log\n{text}", file=sys.stderr)
        print(f"--- everything stays in {folder}\ndrill: FAILED (DRILL_SEED={seed}): {fault}", file=sys.stderr, flush=True)
        return 1
    finally:
        stack.stop()
    shutil.rmtree(folder)
    say(f"nothing was lost [{time.monotonic() - started:.0f} s]")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The stacks made of processes.

`embedded` is a gateway alone with its data folder. `native` adds a real Redis, a real Postgres and a second replica; the
services come from deploy/services.py.
"""

import contextlib
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from checks import Failure, wait_until
from processes import Fault, Process, free_port, run, tail
from stack import PSQL, ROOT, Gateway, Stack, settings

SERVICES = ROOT / "deploy/services.py"


BUILD = ["build", "--release", "--locked", "-p", "signet", "-p", "signet-mock-cli", "-p", "signet-load"]
BUILD_S = 3600


def programs():
    """The folder of signet, signet-mock and signet-load: SIGNET_BIN_DIR as it is, else target/release, brought up to date."""
    given = os.environ.get("SIGNET_BIN_DIR")
    folder = Path(given or Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "release").resolve()
    if not given:
        build()
    for name in ("signet", "signet-mock", "signet-load"):
        if not os.access(folder / name, os.X_OK):
            raise Failure(f"{folder / name} is not there or cannot be run")
    return folder


def build():
    """Cargo shows its own progress."""
    try:
        done = subprocess.run([os.environ.get("CARGO", "cargo"), *BUILD], cwd=ROOT, timeout=BUILD_S, check=False)
    except FileNotFoundError as missing:
        raise Failure("cargo is not there: install Rust by rustup (https://rustup.rs)") from missing
    except subprocess.TimeoutExpired as late:
        raise Failure(f"the build did not end within {BUILD_S} s") from late
    if done.returncode != 0:
        raise Failure("the build failed; what it said is above")


class Local(Stack):
    """Gateways and the mock, with services and a second replica unless embedded."""

    configurable = True

    def __init__(self, mode, folder):
        super().__init__(folder)
        self.mode, self.with_services, self.processes = mode, mode == "native", {}
        self.replicas = 2 if self.with_services else 1
        self.extra = {}  # settings over the usual ones
        self.mock_flags = ["--keep", "200"]

    # Start and end.

    def start(self, say):
        self.bin = programs()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)  # Postgres runs as another user where we are root
        store = self.start_services(say) if self.with_services else {}
        self.start_mock()
        for number in range(1, self.replicas + 1):
            self.add_gateway(f"signet-{number}", store)
        say(f"gateway {self.gateways[0].url}, mock provider {self.mock}")

    def start_services(self, say):
        say("starting Redis and Postgres (first use fetches them, which takes a minute)")
        self.service("start", "--redis", "--postgres")
        return {"SIGNET_STORE__URL": self.told("POSTGRES_URL"), "SIGNET_REDIS__URL": self.told("REDIS_URL")}

    def service(self, verb, *flags):
        done = run([sys.executable, SERVICES, verb, "--dir", self.folder / "services", *flags], timeout=900)
        self.checked(f"services.py {verb}", done)

    def told(self, name):
        """A value that services.py wrote down."""
        lines = (self.folder / "services/services.env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)[f"SIGNET_TEST_{name}"]

    def start_mock(self):
        process = self.processes["mock"] = Process(
            "mock", [self.bin / "signet-mock", "--listen", "127.0.0.1:0", *self.mock_flags], {}, self.folder)
        process.start()

        def address():
            if process.is_gone():
                raise Failure(f"signet-mock ended at once:\n{tail(process.log)}")
            words = process.log.read_text().split()
            return words[2] if words[:2] == ["listening", "on"] and len(words) > 2 else None
        self.mock = wait_until("signet-mock's first line", address, 20, process.log).removesuffix("/v1")

    def add_gateway(self, name, store):
        listen, admin = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        token = secrets.token_hex(16)
        env = {**settings(f"{self.mock}/v1"), **store, "SIGNET_LINEAGE__ANCHOR__0__FILE": str(self.anchors(name)), "SIGNET_DATA": str(self.folder / name), "NO_COLOR": "1",
               "SIGNET_SERVER__LISTEN": listen, "SIGNET_ADMIN__LISTEN": admin, "SIGNET_ADMIN_TOKEN": token,
               "SIGNET_SERVER__TRUSTED_PROXIES": "127.0.0.1/32", **self.extra}
        file = self.file(name)
        file.write_text("")
        self.processes[name] = Process(name, [self.bin / "signet", "serve", "--config", file], env, self.folder)
        self.gateways.append(Gateway(name, f"http://{listen}", f"http://{admin}", token))
        self.start_gateway(self.gateways[-1])

    def file(self, name):
        """A gateway's configuration file; what the environment says stands over it."""
        return self.folder / f"{name}.toml"

    def configure(self, gateway, text):
        """Replaces the file in one piece: the gateway looks at it each second."""
        new = self.folder / "new.toml"
        new.write_text(text)
        new.replace(self.file(gateway.name))

    def anchors(self, name):
        """Where a client would keep a gateway's checkpoints: not in the gateway's own folder."""
        return self.folder / f"anchors-{name}.txt"

    def anchored(self):
        """What is kept of each gateway's checkpoints, in words."""
        notes = [self.anchors(gateway.name).read_text().count("\n\n\u2014 ") for gateway in self.gateways]
        if not all(notes):
            raise Failure(f"checkpoints were to be anchored, and the files hold {notes}")
        return f"; {sum(notes)} kept in anchor files"

    def start_gateway(self, gateway):
        process = self.processes[gateway.name]
        process.start()

        def ready():
            if process.is_gone():
                raise Failure(f"{gateway.name} ended instead of serving:\n{tail(process.log)}")
            return (gateway.ready() or (0,))[0] == 200
        wait_until(f"{gateway.name} ready", ready, 30, process.log)

    def kill_gateway(self, gateway):
        self.processes[gateway.name].kill()

    def stop_service(self, name):
        self.service(f"stop-{name}")

    def start_service(self, name):
        self.service(f"start-{name}")

    def stop(self):
        """Ends all of it, even if one part resists."""
        parts = [process.stop for process in reversed(list(self.processes.values()))]
        if self.with_services:
            parts.append(lambda: self.service("stop"))
        faults = []
        for end in parts:
            try:
                end()
            except (Failure, Fault, subprocess.TimeoutExpired) as fault:
                faults.append(str(fault))
        if faults:
            raise Failure("; ".join(faults))

    def logs(self):
        return {name: tail(process.log) for name, process in self.processes.items()}

    # The operator's and the auditor's commands.

    def signet(self, *args):
        return run([self.bin / "signet", *args], timeout=180)

    def look(self, *args):
        """One of our own commands that reads the first replica's records."""
        return self.signet(*args, "--data", self.folder / "signet-1")

    def replay(self, *flags):
        return run([self.bin / "signet-load", "replay", "--target", f"{self.gateways[0].url}/v1", *flags], timeout=300)

    def public_keys(self):
        """Of all replicas, as `verify --key` takes them."""
        folders = [self.folder / gateway.name for gateway in self.gateways]
        return "".join(self.checked("lineage keys", self.signet("lineage", "keys", "--data", f)) for f in folders)

    def verify(self, keys, receipts, source=None):
        """Exit code and report. `source`: flags that name another place than the stack's own records."""
        own = ["--db", self.told("POSTGRES_URL")] if self.with_services else ["--data", self.folder / "signet-1"]
        return self.signet("lineage", "verify", *(source or own), "--key", keys, "--receipts", receipts)

    @contextlib.contextmanager
    def unshippable(self):
        if self.with_services:
            yield
            return
        with contextlib.closing(sqlite3.connect(self.folder / "signet-1/signet.db", timeout=10, isolation_level=None)) as lock:
            lock.execute("BEGIN IMMEDIATE")
            yield
            lock.execute("ROLLBACK")

    def tampered(self, record):
        return super().tampered(record) if self.with_services else self.flipped_in_copy(record)

    def psql(self, sql):
        port = self.told("POSTGRES_URL").rpartition(":")[2].partition("/")[0]
        return run([Path(self.told("POSTGRES_BIN")) / "psql", "-h", self.told("POSTGRES_SOCKET"), "-p", port, *PSQL, sql],
                   timeout=30)

    @contextlib.contextmanager
    def flipped_in_copy(self, record):
        """In a copy of the data folder; SQLite's own backup gives a consistent one beside the running gateway."""
        copy = self.folder / "tampered"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.folder / "signet-1/lineage", copy / "lineage")
        with contextlib.closing(sqlite3.connect(self.folder / "signet-1/signet.db")) as source, \
                contextlib.closing(sqlite3.connect(copy / "signet.db")) as target:
            source.backup(target)
            row = (bytes.fromhex(record.replace("-", "")),)
            payload = bytearray(target.execute("SELECT payload FROM lineage_entry WHERE id = ?", row).fetchone()[0])
            payload[200] ^= 1
            target.execute("UPDATE lineage_entry SET payload = ? WHERE id = ?", (bytes(payload), *row))
            target.commit()
        yield ["--data", copy]
        shutil.rmtree(copy)

    def remember(self):
        super().remember(processes={name: {"args": p.args, "entry": p.entry} for name, p in self.processes.items()})

    def recall(self):
        for name, known in self.recalled()["processes"].items():
            self.processes[name] = Process(name, known["args"], {}, self.folder, known["entry"])

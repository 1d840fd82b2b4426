"""What the demo runs on: the interface, and the stacks made of local processes.

`embedded` is a gateway alone with its data folder. `native` adds a real Redis, a real Postgres and a second replica; the
services come from deploy/services.py. Docker's stack is in compose.py.
"""

import contextlib
import json
import os
import secrets
import shutil
import sqlite3
import sys
from pathlib import Path

import wire
from checks import Failure, wait_until
from processes import Process, free_port, run, tail

ROOT = Path(__file__).resolve().parent.parent.parent
SERVICES = ROOT / "deploy/services.py"
MAX_BODY = 262144
ORIGIN = "demo.example/signet"
MODELS = ("gpt-4o-mini", "text-embedding-3-small")


def settings(mock):
    """The gateway's settings in every stack but for addresses, stores and folders. docker-compose.demo.yml has the same."""
    values = {"SIGNET_SERVER__MAX_BODY_BYTES": str(MAX_BODY), "SIGNET_LINEAGE__ORIGIN": ORIGIN,
              "SIGNET_PROVIDER__0__NAME": "mock", "SIGNET_PROVIDER__0__BASE_URL": mock}
    for number, model in enumerate(MODELS):
        values[f"SIGNET_MODEL__{number}__NAME"] = model
        values[f"SIGNET_MODEL__{number}__TARGETS__0__PROVIDER"] = "mock"
        values[f"SIGNET_MODEL__{number}__TARGETS__0__MODEL"] = model
    return values


def programs():
    """The folder of signet, signet-mock and signet-load: SIGNET_BIN_DIR, or where `make build` puts them."""
    folder = Path(os.environ.get("SIGNET_BIN_DIR") or ROOT / "target/release").resolve()
    for name in ("signet", "signet-mock", "signet-load"):
        if not os.access(folder / name, os.X_OK):
            raise Failure(f"{folder / name} is not there: run `make build`, or set SIGNET_BIN_DIR")
    return folder


def recalled_mode(folder):
    return json.loads((folder / "state.json").read_text())["mode"]


class Gateway:
    """One replica: where it answers, and how to start and end it."""

    def __init__(self, name, url, admin, token, host=None):
        self.name, self.url, self.admin, self.token, self.host = name, url, admin, token, host

    def ready(self):
        """Status and body of /readyz; None while nothing answers."""
        try:
            answer = wire.exchange(self.url, "GET", "/readyz", timeout=5)
            return answer.status, answer.json()
        except (wire.Cut, ValueError):
            return None

    def ask_admin(self, path):
        headers = {"Authorization": f"Bearer {self.token}"}
        return wire.exchange(self.admin, "GET", path, headers, timeout=10, host=self.host)

    def unshipped(self):
        """Records that are in the log and not in the database yet."""
        log = self.ask_admin("/admin/v1/status").json()["log"]
        return log["next_seq"] - log["shipped_seq"]


class Local:
    """The stacks made of processes: `replicas` gateways, the mock, and services unless embedded."""

    def __init__(self, mode, folder):
        self.mode, self.folder = mode, Path(folder).resolve()
        self.with_services = mode == "native"
        self.processes, self.gateways, self.mock = {}, [], None

    # Start and end.

    def start(self, say):
        self.bin = programs()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        store = self.start_services(say) if self.with_services else {}
        self.start_mock()
        for name in ["signet-1", "signet-2"] if self.with_services else ["signet-1"]:
            self.add_gateway(name, store)
        say(f"gateway {self.gateways[0].url}, mock provider {self.mock}")

    def start_services(self, say):
        say("starting Redis and Postgres (first use fetches them, which takes a minute)")
        self.service("start", "--redis", "--postgres", "--fast")
        return {"SIGNET_STORE__URL": self.told("POSTGRES_URL"), "SIGNET_REDIS__URL": self.told("REDIS_URL")}

    def service(self, verb, *flags):
        code, said = run([sys.executable, SERVICES, verb, "--dir", self.folder / "services", *flags], timeout=420)
        if code != 0:
            raise Failure(f"services {verb}: {said}")

    def told(self, name):
        """A value that services.py wrote down."""
        lines = (self.folder / "services/services.env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)[f"SIGNET_TEST_{name}"]

    def start_mock(self):
        process = self.processes["mock"] = Process(
            "mock", [self.bin / "signet-mock", "--listen", "127.0.0.1:0", "--keep", "200"], {}, self.folder)
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
        env = {**settings(f"{self.mock}/v1"), **store, "SIGNET_DATA": str(self.folder / name), "NO_COLOR": "1",
               "SIGNET_SERVER__LISTEN": listen, "SIGNET_ADMIN__LISTEN": admin, "SIGNET_ADMIN_TOKEN": token,
               "SIGNET_SERVER__TRUSTED_PROXIES": "127.0.0.1/32"}
        self.processes[name] = Process(name, [self.bin / "signet", "serve"], env, self.folder)
        self.gateways.append(Gateway(name, f"http://{listen}", f"http://{admin}", token))
        self.start_gateway(self.gateways[-1])

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
        for name in reversed(list(self.processes)):
            self.processes[name].stop()
        if self.with_services:
            self.service("stop")

    def logs(self):
        return {name: tail(process.log) for name, process in self.processes.items()}

    # The operator's and the auditor's commands.

    def signet(self, *args):
        return run([self.bin / "signet", *args], timeout=180)

    def replay(self, *flags):
        return run([self.bin / "signet-load", "replay", "--target", f"{self.gateways[0].url}/v1", *flags], timeout=300)

    def public_keys(self):
        """Of all replicas, as `verify --key` takes them."""
        pems = []
        for gateway in self.gateways:
            code, said = self.signet("lineage", "keys", "--data", self.folder / gateway.name)
            if code != 0:
                raise Failure(f"lineage keys: {said}")
            pems.append(said)
        return "".join(pems)

    def verify(self, keys, receipts, source=None):
        """Exit code and report. `source`: flags that name another place than the stack's own records."""
        own = ["--db", self.told("POSTGRES_URL")] if self.with_services else ["--data", self.folder / "signet-1"]
        return self.signet("lineage", "verify", *(source or own), "--key", keys, "--receipts", receipts)

    @contextlib.contextmanager
    def tampered(self, record):
        """One bit of one record's payload is flipped. Gives the flags for `verify`."""
        with self.flipped_in_postgres(record) if self.with_services else self.flipped_in_copy(record) as source:
            yield source

    @contextlib.contextmanager
    def flipped_in_postgres(self, record):
        """In the stack's own table; put back afterwards."""
        where = f"WHERE id = '{record}' AND kind = 'request'"
        flip = f"UPDATE lineage_entry SET payload = set_byte(payload, 200, get_byte(payload, 200) # 1) {where} RETURNING seq"
        self.psql(flip)
        try:
            yield None
        finally:
            self.psql(flip)

    def psql(self, sql):
        code, said = run([Path(self.told("POSTGRES_BIN")) / "psql", "-h", self.told("POSTGRES_SOCKET"), "-p",
                          self.told("POSTGRES_URL").rpartition(":")[2].partition("/")[0], "-U", "signet", "-d", "signet",
                          "-v", "ON_ERROR_STOP=1", "-qAtc", sql], timeout=30)
        if code != 0 or not said.strip():
            raise Failure(f"psql: {said or 'no row was changed'}")

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

    # What `demo-down` needs to know, in another process.

    def remember(self):
        entries = {name: {"args": p.args, "entry": p.entry} for name, p in self.processes.items()}
        (self.folder / "state.json").write_text(json.dumps({"mode": self.mode, "processes": entries}, indent=1))

    def recall(self):
        for name, known in json.loads((self.folder / "state.json").read_text())["processes"].items():
            self.processes[name] = Process(name, known["args"], {}, self.folder, known["entry"])

"""What the demo runs on, as its steps see it. local.py makes it of processes, compose.py of containers."""

import contextlib
import json
from pathlib import Path

import wire
from checks import Failure

ROOT = Path(__file__).resolve().parent.parent.parent
MAX_BODY = 262144
ORIGIN = "demo.example/signet"
PSQL = ["-U", "signet", "-d", "signet", "-v", "ON_ERROR_STOP=1", "-qAtc"]
# Each model and its names at the mock, in the order in which they are asked.
TARGETS = {"gpt-4o-mini": ("gpt-4o-mini",), "text-embedding-3-small": ("text-embedding-3-small",),
           "gpt-two-places": ("first-place", "second-place")}
MODELS = tuple(TARGETS)


def settings(mock):
    """The gateway's settings in every stack but for addresses, stores and folders. check_deploy.py compares them with
    docker-compose.demo.yml."""
    values = {"SIGNET_SERVER__MAX_BODY_BYTES": str(MAX_BODY), "SIGNET_LINEAGE__ORIGIN": ORIGIN,
              "SIGNET_SEMANTIC__SAMPLE_SHARE": "0",  # each step says what it gets, so no hit may be drawn to be checked
              "SIGNET_PROVIDER__0__NAME": "mock", "SIGNET_PROVIDER__0__BASE_URL": mock}
    for number, (model, targets) in enumerate(TARGETS.items()):
        values[f"SIGNET_MODEL__{number}__NAME"] = model
        for place, target in enumerate(targets):
            values[f"SIGNET_MODEL__{number}__TARGETS__{place}__PROVIDER"] = "mock"
            values[f"SIGNET_MODEL__{number}__TARGETS__{place}__MODEL"] = target
    return values


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

    def ask_admin(self, path, order=None):
        """A GET, or a POST of an order."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        method, body = ("GET", b"") if order is None else ("POST", json.dumps(order).encode())
        return wire.exchange(self.admin, method, path, headers, body, timeout=10, host=self.host)

    def entries(self, layer):
        """What a layer of the cache holds, as /metrics says."""
        start = f'signet_cache_entries{{layer="{layer}"}} '
        found = [line for line in self.ask_admin("/metrics").text.splitlines() if line.startswith(start)]
        return int(float(found[0].removeprefix(start))) if found else 0

    def unshipped(self):
        """Records that are in the log and not in the database yet."""
        log = self.ask_admin("/admin/v1/status").json()["log"]
        return log["next_seq"] - log["shipped_seq"]


class Stack:
    """Made by `start`, ended by `stop`. Steps use what is here and no more:

    `gateways` and `mock` tell where things answer; `kill_gateway`, `start_gateway`, `stop_service`, `start_service` make
    outages; `signet` and `replay` run our own commands; `psql` changes the database behind the gateway's back.
    """

    mode = None
    with_services = True

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.gateways, self.mock = [], None

    def checked(self, what, done):
        """The output of a command that must not fail."""
        code, said = done
        if code != 0:
            raise Failure(f"{what} ended with {code}: {said}")
        return said

    def anchored(self):
        """What is kept of checkpoints outside the gateways, in words; nothing where no anchor is configured."""
        return ""

    def unshippable(self):
        """A context in which the database takes no records, so that the log alone has the newest; here only where that is
        possible without stopping the database."""
        return contextlib.nullcontext()

    def tampered(self, record):
        """A context in which one bit of one record's payload is flipped. Gives flags for `verify`, if it needs any."""
        return self.flipped_in_postgres(record)

    @contextlib.contextmanager
    def flipped_in_postgres(self, record):
        """In the stack's own table; put back afterwards."""
        where = f"WHERE id = '{record}' AND kind = 1"
        flip = f"UPDATE lineage_record SET payload = set_byte(payload, 200, get_byte(payload, 200) # 1) {where} RETURNING seq"
        if not self.checked("psql", self.psql(flip)).strip():
            raise Failure(f"the record {record} is not in the database")
        try:
            yield None
        finally:
            self.checked("psql", self.psql(flip))

    # What `demo-down` needs to know, in another process.

    def remember(self, **more):
        (self.folder / "state.json").write_text(json.dumps({"mode": self.mode, **more}, indent=1))

    def recalled(self):
        return json.loads((self.folder / "state.json").read_text())

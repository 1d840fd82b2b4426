"""The stack made of containers, by docker-compose.demo.yml. Every run has a project and ports of its own."""

import os
import secrets
import subprocess

import wire
from checks import Failure, wait_until
from processes import free_port, run
from stack import PSQL, ROOT, Gateway, Stack

FILE = ROOT / "docker-compose.demo.yml"
# Building the image compiles everything.
BUILD_S = 3600
GATEWAYS = ("signet-1", "signet-2")
# Variable of the compose file -> service and its port inside.
PORTS = {"SIGNET_DEMO_PORT": ("signet-1", 8080), "SIGNET_DEMO_ADMIN_PORT": ("signet-1", 8081),
         "SIGNET_DEMO_PORT_2": ("signet-2", 8080), "SIGNET_DEMO_ADMIN_PORT_2": ("signet-2", 8081),
         "SIGNET_DEMO_MOCK_PORT": ("mock", 9090)}
DATABASE = "postgres://signet:demo@postgres/signet"
# The admin listener answers to the name it listens on.
ADMIN_HOST = "0.0.0.0"


class Compose(Stack):
    mode = "docker"
    configurable = False  # its containers have no file of their own

    def __init__(self, folder):
        super().__init__(folder)
        self.project = f"signet-demo-{secrets.token_hex(3)}"
        self.env = {"SIGNET_DEMO_ADMIN_TOKEN": secrets.token_hex(16)}

    def compose(self, *args, timeout=180):
        return run(["docker", "compose", "-f", FILE, "-p", self.project, *args], timeout, {**os.environ, **self.env})

    def must(self, *args, timeout=180):
        return self.checked(f"docker compose {args[0]}", self.compose(*args, timeout=timeout))

    def start(self, say):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.env.update({name: str(free_port()) for name in PORTS})
        say("building the image and starting containers (the first build takes minutes)")
        command = ["docker", "compose", "-f", str(FILE), "-p", self.project, "up", "--detach", "--build"]
        try:
            done = subprocess.run(command, timeout=BUILD_S, env={**os.environ, **self.env}, check=False)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"docker compose up did not end within {BUILD_S} s") from late
        if done.returncode != 0:
            raise Failure(f"docker compose up ended with {done.returncode}; what it said is above")
        self.find()
        for gateway in self.gateways:
            self.wait_for(gateway)
        say(f"gateway {self.gateways[0].url}, mock provider {self.mock}")

    def find(self):
        def url(name):
            return f"http://127.0.0.1:{self.env[name]}"
        token = self.env["SIGNET_DEMO_ADMIN_TOKEN"]
        self.mock = url("SIGNET_DEMO_MOCK_PORT")
        self.gateways = [Gateway(name, url(f"SIGNET_DEMO_PORT{end}"), url(f"SIGNET_DEMO_ADMIN_PORT{end}"), token, ADMIN_HOST)
                         for name, end in zip(GATEWAYS, ("", "_2"))]

    def wait_for(self, gateway):
        wait_until(f"{gateway.name} ready", lambda: (gateway.ready() or (0,))[0] == 200, 60,
                   f"docker compose -p {self.project} logs {gateway.name}")

    def start_gateway(self, gateway):
        self.must("start", gateway.name)
        self.wait_for(gateway)

    def kill_gateway(self, gateway):
        self.must("kill", "--signal", "KILL", gateway.name)

        def gone():
            try:
                wire.exchange(gateway.url, "GET", "/healthz", timeout=2)
            except wire.Cut:
                return True
            return False
        wait_until(f"the end of {gateway.name}", gone, 20)

    def stop_service(self, name):
        self.must("stop", "--timeout", "20", name)

    def start_service(self, name):
        self.must("start", name)

    def stop(self):
        self.must("down", "--volumes", "--remove-orphans", "--timeout", "20")

    def logs(self):
        return {name: self.compose("logs", "--no-color", "--tail", "25", name)[1] for name in ("mock", *GATEWAYS)}

    def signet(self, *args):
        return self.compose("exec", "-T", GATEWAYS[0], "signet", *map(str, args))

    def look(self, *args):
        """One of our own commands that reads the first replica's records; the container's environment names its folder."""
        return self.signet(*args)

    def replay(self, *flags):
        return self.compose("run", "--rm", "--no-deps", "-T", "load", "replay", "--target", "http://signet-1:8080/v1", *flags,
                            timeout=300)

    def public_keys(self):
        return "".join(self.must("exec", "-T", name, "signet", "lineage", "keys") for name in GATEWAYS)

    def verify(self, keys, receipts, source=None):
        for file in (keys, receipts):
            self.must("cp", str(file), f"{GATEWAYS[0]}:/tmp/{file.name}")
        return self.signet("lineage", "verify", *(source or ["--db", DATABASE]), "--key", f"/tmp/{keys.name}",
                           "--receipts", f"/tmp/{receipts.name}")

    def psql(self, sql):
        return self.compose("exec", "-T", "postgres", "psql", *PSQL, sql)

    def remember(self):
        super().remember(project=self.project, env=self.env)

    def recall(self):
        known = self.recalled()
        self.project, self.env = known["project"], known["env"]

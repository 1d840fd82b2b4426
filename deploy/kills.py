"""kill -9 at random moments, counted by a process that knows nothing but its sockets.

A gateway with its log on disk is killed again and again under load, in `spool` and in `strict`. The counter (this file in
another process) asks JSON and streams, hits and misses, and writes down the id and receipt of each answer that came to its
end: a JSON body of the length announced, a stream with its `[DONE]`. Afterwards every one of them must have its record.

KILLS is the number a mode (default 250), KILLS_SEED makes the moments those of an earlier run, SIGNET_BIN_DIR names other
binaries than target/release.
"""

import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.dont_write_bytecode = True  # leave no __pycache__ in the repository
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "deploy/demo"))
import wire
from checks import Failure, holds, same, wait_until
from local import Local
from processes import Fault

CLIENTS, KEY = 8, "sk-kills"
SETTINGS = {"SIGNET_LIMITS__IP_RPS": "1000000", "SIGNET_LIMITS__IP_BURST": "1000000", "SIGNET_SEMANTIC__SAMPLE_SHARE": "0"}
VERIFY_EVERY = 25
END = b"data: [DONE]\n\n"
HEAD = ("POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        "TE: trailers\r\nContent-Length: {length}\r\n\r\n")


def say(text):
    print(f"kills: {text}", flush=True)


# The counter.


def answer(reader, streams):
    """Id and receipt of one answer that came to its end; Cut otherwise. The receipt of a stream may be cut off behind it."""
    status = int(reader.line().split()[1])
    head = dict(reader.fields())
    if "chunked" not in head.get("transfer-encoding", ""):
        body = reader.exactly(int(head.get("content-length", 0)))
        holds(status != 200 or not streams or body.endswith(END), f"a stream without its [DONE]: {body[-200:]!r}")
        return status == 200 and (head["lineage-id"], head["lineage-receipt"])
    body, receipt = b"", None
    try:
        for piece in wire.chunks(reader):
            body += piece
        receipt = dict(reader.fields()).get("lineage-receipt")
    except (wire.Cut, OSError):
        if not body.endswith(END):
            raise
    holds(body.endswith(END), f"a stream ended well without its [DONE]: {body[-200:]!r}")
    return head["lineage-id"], receipt


def client(to, number, note):
    """Asks for ever, on a connection that is opened again when it breaks."""
    asked = 0
    while True:
        try:
            with socket.create_connection((to.hostname, to.port), timeout=30) as peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                reader = wire.Reader(peer)
                while True:
                    streams, asked = asked % 4 >= 2, asked + 1
                    prompt = f"What is number {asked // 2} of client {number} at {os.getpid()}?"
                    value = {"model": "gpt-4o-mini", "stream": streams, "messages": [{"role": "user", "content": prompt}]}
                    body = json.dumps(value).encode()
                    peer.sendall(HEAD.format(key=KEY, length=len(body)).encode() + body)
                    if whole := answer(reader, streams):
                        note(*whole)
        except (wire.Cut, OSError, ValueError, IndexError):
            time.sleep(0.002)


def count(base, file):
    lock, out = threading.Lock(), open(file, "a", buffering=1)

    def note(lineage_id, receipt):
        with lock:
            out.write(f"{lineage_id} {receipt or '-'}\n")

    def work(number):
        try:
            client(urlsplit(base), number, note)
        except BaseException as fault:  # noqa: BLE001
            print(f"the counter failed: {fault!r}", file=sys.stderr, flush=True)
            os._exit(1)
    for number in range(CLIENTS):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    sys.stdin.read()  # until the other process closes it or is gone


# The one who kills.


class Kept:
    """What the counter has written down."""

    def __init__(self, stack):
        self.file, self.receipts = stack.folder / "counted.txt", stack.folder / "receipts.txt"
        self.file.touch()
        self.receipts.touch()
        self.read, self.answers, self.without = 0, 0, []

    def catch_up(self):
        """The whole lines since the last call."""
        with open(self.file, "rb") as file:
            file.seek(self.read)
            text = file.read()
        text = text[:text.rfind(b"\n") + 1]
        self.read += len(text)
        new = [line.split() for line in text.decode().splitlines()]
        self.answers += len(new)
        self.without += [lineage_id for lineage_id, receipt in new if receipt == "-"]
        with open(self.receipts, "a") as out:
            out.writelines(f"{receipt}\n" for _, receipt in new if receipt != "-")


def verified(stack, keys, kept):
    code, report = stack.verify(keys, kept.receipts)
    holds(code == 0, f"signet lineage verify ended with {code}:\n{report[-3000:]}")
    found = int(re.search(r"checked: (\d+) kept receipts", report).group(1))
    same("receipts found", found, len(kept.receipts.read_text().split()))


def recorded(gateway, kept):
    """Answers whose receipt was cut off are asked for by their ids."""
    for lineage_id in kept.without:
        got = wire.exchange(gateway.url, "GET", f"/v1/lineage/{lineage_id}", {"Authorization": f"Bearer {KEY}"})
        same(f"status of {lineage_id}, whose answer came to its end", got.status, 200)
    asked, kept.without = len(kept.without), []
    return asked


def rounds(stack, counter, kills, dice):
    gateway, keys, kept, by_id = stack.gateways[0], stack.folder / "pinned-keys.pem", Kept(stack), 0
    keys.write_text(stack.public_keys())
    for number in range(1, kills + 1):
        wait_until("answers", lambda before=kept.file.stat().st_size: kept.file.stat().st_size > before, 30)
        time.sleep(dice.uniform(0, 0.4))
        stack.kill_gateway(gateway)
        holds(counter.poll() is None, "the counter ended")
        time.sleep(0.02)  # it may still read what is in its sockets
        kept.catch_up()
        if number % VERIFY_EVERY == 0 or number == kills:
            verified(stack, keys, kept)
            say(f"{number} kills, {kept.answers} complete answers, all recorded")
        stack.start_gateway(gateway)
        by_id += recorded(gateway, kept)
    return f"{kills} kills, {kept.answers} complete answers, {by_id} of them without their receipt: each has its record"


def killed(mode, kills, seed):
    folder = Path(tempfile.mkdtemp(prefix=f"kills-{mode}-", dir=home()))
    stack, counter, started = Local("embedded", folder), None, time.monotonic()
    stack.extra, stack.mock_flags = {**SETTINGS, "SIGNET_LINEAGE__MODE": mode}, ["--keep", "0"]
    try:
        stack.start(lambda text: None)
        command = [sys.executable, __file__, "count", stack.gateways[0].url, folder / "counted.txt"]
        counter = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE)
        say(f"{mode}: {rounds(stack, counter, kills, random.Random(seed))} [{time.monotonic() - started:.0f} s]")
    except (Failure, Fault, wire.Cut, subprocess.SubprocessError):
        for name, text in stack.logs().items():
            print(f"--- the end of {name}'s log\n{text}", file=sys.stderr)
        print(f"--- everything stays in {folder}", file=sys.stderr)
        raise
    finally:
        if counter:
            counter.kill()
            counter.wait()
        stack.stop()
    shutil.rmtree(folder)


def home():
    folder = ROOT / ".demo"
    folder.mkdir(exist_ok=True)
    return folder


def main():
    seed, kills = os.environ.get("KILLS_SEED") or str(random.randrange(10**9)), int(os.environ.get("KILLS", "250"))
    for mode in ("spool", "strict"):
        try:
            killed(mode, kills, seed)
        except (Failure, Fault, wire.Cut, subprocess.SubprocessError) as fault:
            print(f"kills: FAILED in {mode} (KILLS_SEED={seed}): {fault}", file=sys.stderr, flush=True)
            return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["count"]:
        count(*sys.argv[2:])
    else:
        sys.exit(main())

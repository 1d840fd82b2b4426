#!/usr/bin/env python3
"""A second verifier of lineage exports, written from docs/lineage.md alone: Python's standard library and the openssl program.

    signet_verify.py --key PINNED [--receipts FILE] [--anchor FILE]... EXPORT

EXPORT is what `signet lineage export` prints, or the folder that `--bundle` writes. It ends with 0 only if all holds, else
with the lowest code found. It asks openssl for each signature, some 150 a second: it shows that the format can be judged by
others. Index columns, sources of hits, pruned logs and revoked keys are not its subject.
"""
import argparse
import base64
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CODES = {"BAD_SIG": 10, "BAD_LEAF": 11, "ROOT_MISMATCH": 12, "FORK": 13, "GAP": 14, "DUP": 15, "TRUNCATED": 16,
         "MISSING_LOG": 17, "UNKNOWN_KEY": 18, "WRONG_LOG": 20, "ERASED_UNAUTH": 21, "LOST_DECLARED": 30, "EMPTY": 32}
SPKI = bytes.fromhex("302a300506032b6570032100")  # DER of an Ed25519 public key up to the key (RFC 8410)
TYPE = "application/vnd.in-toto+json"
found, work = [], tempfile.TemporaryDirectory()


def report(code, text):
    found.append(CODES[code])
    print(f"{code}: {text}")


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def b64(text):
    return base64.b64decode(text, validate=True)


def signed(key, message, signature):
    """Whether the raw Ed25519 `key` signed `message`."""
    names = [Path(work.name, name) for name in ("key", "message", "signature")]
    for name, content in zip(names, (SPKI + key, message, signature)):
        name.write_bytes(content)
    return subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-rawin", "-inkey", names[0],
                           "-in", names[1], "-sigfile", names[2]], capture_output=True).returncode == 0


def pinned(file):
    """Keys for records by key id, and keys for checkpoints by name."""
    text, notes = Path(file).read_text(), {}
    blocks = re.findall(r"-----BEGIN PUBLIC KEY-----\s+(.+?)\s+-----END PUBLIC KEY-----", text, re.S)
    keys = {sha256(der): der[12:] for der in map(b64, blocks) if der[:12] == SPKI}
    for name, key_id, key in re.findall(r"^([^\s+#]+)\+([0-9a-f]{8})\+(\S+)$", text, re.M):
        if b64(key)[0] == 1 and sha256(name.encode(), b"\n", b64(key))[:4].hex() == key_id:
            notes[name] = b64(key)[1:]
    return keys, notes


def canonical(payload):
    """The statement, if this is the one way to write it."""
    def whole(pairs):
        for _, value in pairs:
            if value is None or isinstance(value, float) or isinstance(value, int) and not 0 <= value < 2**53:
                raise ValueError(f"a value that no statement holds: {value}")
        return dict(pairs)
    value = json.loads(payload.decode(), object_pairs_hook=whole)
    if json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() != payload:
        raise ValueError("not in canonical form")  # a key that is there twice too: only one is left to be written
    return value


class Log:
    """One log: the leaves of its records, the tree over them, and what its records declare."""

    def __init__(self):
        self.nodes, self.size, self.leaves, self.epochs, self.keys, self.origin = {}, 0, {}, {}, [], None
        self.heads, self.lost, self.losses, self.erased = [], {}, [], []

    def grow(self):
        """The tree over what is there and what gaps name, by the roots of its perfect subtrees."""
        while (node := self.leaves.get(self.size, self.lost.get(self.size))) is not None:
            level, index = 0, self.size
            self.nodes[level, index] = node
            while index % 2:
                node, level, index = sha256(b"\1", self.nodes[level, index - 1], node), level + 1, index // 2
                self.nodes[level, index] = node
            self.size += 1

    def root(self, size):
        """The root at an earlier size; None if it cannot be told."""
        root = b"" if size <= self.size else None
        for level in (level for level in range(64) if size >> level & 1 and root is not None):
            left = self.nodes[level, (size >> level) - 1]
            root = sha256(b"\1", left, root) if root else left
        return sha256() if root == b"" else root


def leaf_hash(log_id, seq, digest, key_id, sig):
    return sha256(b"\0\1", bytes.fromhex(log_id.replace("-", "")), seq.to_bytes(8, "big"), digest, key_id[:8], sig)


def take(where, line, keys, logs, gone):
    """Reads one line into its log."""
    it = json.loads(line)
    if "erased" in it:
        it = it["erased"]
        log, leaf = logs.setdefault(it["log_id"], Log()), bytes.fromhex(it["leaf_hash"])
        parts = [bytes.fromhex(it[name]) for name in ("payload_sha256", "key_id", "sig") if name in it]
        if len(parts) == 3 and leaf_hash(it["log_id"], it["seq"], *parts) != leaf:
            return report("BAD_LEAF", f"{where}: what is left does not fit its leaf")
        log.leaves[it["seq"]], log.epochs[it["seq"]] = leaf, it["epoch"]
        return log.erased.append(it["seq"])
    [signature], payload = it["signatures"], b64(it["payload"])
    key_id, sig = bytes.fromhex(signature["keyid"]), b64(signature["sig"])
    if key_id not in keys:
        return report("UNKNOWN_KEY", f"{where}: key {key_id.hex()} is not pinned")
    if it["payloadType"] != TYPE or not signed(keys[key_id], f"DSSEv1 28 {TYPE} {len(payload)} ".encode() + payload, sig):
        return report("BAD_SIG", f"{where}: the signature does not fit")
    p = canonical(payload)["predicate"]
    log_id, seq, epoch, control = p["log"]["id"], p["log"]["seq"], p["log"]["epoch"], p.get("control", {})
    log, leaf = logs.setdefault(log_id, Log()), leaf_hash(log_id, seq, sha256(payload), key_id, sig)
    here = f"{where}: log {log_id} seq {seq}"
    if seq in log.leaves:
        return report("DUP" if log.leaves[seq] == leaf else "FORK", f"{here} is there twice")
    if log.leaves and seq < max(log.leaves):
        report("GAP", f"{here} stands behind seq {max(log.leaves)}")
    if (seq == 0) != (p["kind"] == "log_open"):
        report("GAP", f"{here}: a log begins with its log_open, and has one")
    if seq == 0 and "origin" in control:
        log.keys, log.origin = [(0, bytes.fromhex(control["key"]))], control["origin"]
    if any(key != keys[key_id] for key in [key for since, key in log.keys if since <= seq][-1:]):
        report("UNKNOWN_KEY", f"{here} is not signed by the log's own key")
    log.leaves[seq], log.epochs[seq] = leaf, epoch
    log.heads.append((seq, epoch, p["log"]["base_size"], bytes.fromhex(p["log"]["base_root"])))
    if p["kind"] == "gap" and "from" in control:
        log.losses.append((None, control["from"], min(control["to"], seq - 1)))
        digits = control.get("leaves", "")
        hashes = [bytes.fromhex(digits[at:at + 64]) for at in range(0, len(digits), 64)]
        log.lost.update(enumerate(hashes, control["from"]))
    elif p["kind"] == "recovery":
        if "lost_from" in control:
            log.losses.append((epoch, control["lost_from"], min(control["lost_to"], seq - 1)))
        if control["lost_tail_possible"]:
            log.losses.append((epoch, control.get("last_seq", -1) + 1, None))
    elif p["kind"] == "erasure" and "seq" in control:
        gone.add((control["log_id"], control["seq"]))
    elif p["kind"] == "key_rotate":
        names = [f"{log.origin}/{log_id}", control["use"], control.get("old_key", ""), control["new_key"]]
        text, new = "\n".join(["signet-key-rotate/v1", *names, ""]).encode(), bytes.fromhex(control["new_key"])
        if log.origin and not signed(new, text, bytes.fromhex(control["proof"])):
            report("BAD_SIG", f"{here}: the new key did not sign its rotation")
        elif control["use"] == "attest":
            log.keys.append((seq + 1, new))


def judge(name, log, gone):
    """What can be told when all lines have passed."""
    declared = {n for _, start, end in log.losses if end is not None for n in range(start, end + 1)}
    for seq in sorted(set(range(max(log.leaves))) - set(log.leaves) - declared):
        report("GAP", f"log {name}: seq {seq} is missing")
    for seq in (seq for seq in log.erased if (name, seq) not in gone):
        report("ERASED_UNAUTH", f"log {name} seq {seq}: the payload is gone and no record says so")
    log.grow()
    for seq, epoch, size, root in log.heads:
        excused = any(again and again > epoch and start < size for again, start, _ in log.losses)
        if size > seq or log.root(size) not in (None, root) and not excused:
            return report("ROOT_MISMATCH", f"log {name} seq {seq}: signed over another history of {size} records")


def compare_note(note, notes, logs, what):
    text, _, signatures = note.partition("\n\n")
    origin, size, root = text.split("\n")
    mine = [b64(line.split(" ")[2]) for line in signatures.splitlines() if line.split(" ")[1] == origin]
    if origin not in notes or not mine:
        return report("UNKNOWN_KEY", f"{what} of {origin}: its key is not pinned") if what == "anchor" else None
    if not any(signed(notes[origin], (text + "\n").encode(), it[4:]) for it in mine):
        return report("BAD_SIG", f"{what} of {origin}: the signature does not fit")
    log = logs.get(origin.rpartition("/")[2])
    if log is None:
        report("MISSING_LOG", f"{what}: nothing of {origin} is there")
    elif int(size) > max(log.leaves) + 1:
        report("TRUNCATED", f"{what} of {origin}: taken at size {size}, the log ends at {max(log.leaves) + 1}")
    elif log.root(int(size)) not in (None, b64(root)):
        report("FORK", f"{what} of {origin}: the first {size} records are others")


def compare_receipt(text, logs):
    _, origin, epoch, seq, leaf = text.split(";")
    (name, seq, epoch), leaf = (origin.rpartition("/")[2], int(seq), int(epoch)), base64.urlsafe_b64decode(leaf + "=")
    log = logs.get(name)
    if log is None:
        report("MISSING_LOG", f"receipt {text}: nothing of its log is there")
    elif log.origin and f"{log.origin}/{name}" != origin:
        report("WRONG_LOG", f"receipt {text}: the log's origin is {log.origin}")
    elif log.leaves.get(seq) != leaf or log.epochs[seq] != epoch:
        lost = any(start <= seq <= (seq if end is None else end) and (again or epoch + 1) > epoch
                   for again, start, end in log.losses)
        code = "FORK" if seq in log.leaves else "GAP" if seq < max(log.leaves) else "TRUNCATED"
        report("LOST_DECLARED" if lost else code, f"receipt {text}: its record is not there")


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--key", required=True)
    options.add_argument("--receipts", type=Path)
    options.add_argument("--anchor", type=Path, action="append", default=[])
    options.add_argument("export", type=Path)
    args = options.parse_args()
    (keys, notes), logs, gone = pinned(args.key), {}, set()
    for file in sorted(args.export.glob("logs/*/records.jsonl")) if args.export.is_dir() else [args.export]:
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            try:
                take(f"{file.name} line {number}", line, keys, logs, gone)
            except (ValueError, KeyError, TypeError, AttributeError) as fault:
                report("BAD_LEAF", f"{file.name} line {number}: {fault!r}")
    for name, log in logs.items():
        judge(name, log, gone)
    held = args.export.glob("logs/*/checkpoints") if args.export.is_dir() else []
    for what, file in [("checkpoint", file) for file in held] + [("anchor", file) for file in args.anchor]:
        kept = re.findall(r"(?:[^\n]+\n){3}\n(?:\u2014 [^\n]+\n)+", file.read_text())
        for note in kept or report("BAD_SIG", f"{file}: no checkpoint") or []:
            compare_note(note, notes, logs, what)
    for line in args.receipts.read_text().split() if args.receipts else []:
        compare_receipt(line, logs)
    records = sum(len(log.leaves) for log in logs.values())
    print(f"{records} records in {len(logs)} logs: {'OK' if records and not found else 'FAILED'}")
    return min(found, default=0) if records else CODES["EMPTY"]


if __name__ == "__main__":
    sys.exit(main())

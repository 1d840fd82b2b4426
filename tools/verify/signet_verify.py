#!/usr/bin/env python3
"""A second verifier of lineage exports, written from docs/lineage.md alone: Python's standard library and the openssl program.

    signet_verify.py --key PINNED [--receipts FILE] [--anchor FILE]... EXPORT

EXPORT is what `signet lineage export` prints, or the folder that `--bundle` writes. It ends with 0 only if all holds, else with
the lowest code found. It asks openssl for each signature, some 150 a second. Index columns, sources and keyrings are not its subject."""
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
         "MISSING_LOG": 17, "UNKNOWN_KEY": 18, "REVOKED_KEY": 19, "WRONG_LOG": 20, "ERASED_UNAUTH": 21, "DB_REGRESSION": 24,
         "LOST_DECLARED": 30, "EMPTY": 32}
TYPE, SPKI = "application/vnd.in-toto+json", bytes.fromhex("302a300506032b6570032100")  # DER up to an Ed25519 key
found, work = [], tempfile.TemporaryDirectory()


def report(code, text):
    found.append(CODES[code])
    print(f"{code}: {text}")


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def b64(text):
    return base64.b64decode(text, validate=True)


def signed(key, message, signature):  # whether the raw Ed25519 `key` signed `message`
    for name, content in (("key", SPKI + key), ("message", message), ("signature", signature)):
        Path(work.name, name).write_bytes(content)
    order = "openssl pkeyutl -verify -pubin -keyform DER -rawin -inkey key -in message -sigfile signature"
    return subprocess.run(order.split(), cwd=work.name, capture_output=True).returncode == 0


def note_id(name, key):
    return sha256(name.encode(), b"\n\1", key)[:4]


def pinned(file):  # keys for records by id, for checkpoints by name, and by key and log the place where it ends
    text, notes = file.read_text(), {}
    blocks = map(b64, re.findall(r"-----BEGIN PUBLIC KEY-----\s+(.+?)\s+-----END PUBLIC KEY-----", text, re.S))
    keys = {sha256(der): der[12:] for der in blocks if der[:12] == SPKI}
    for name, key_id, key in re.findall(r"^([^\s+#]+)\+([0-9a-f]{8})\+(\S+)$", text, re.M):
        if b64(key)[0] == 1 and note_id(name, b64(key)[1:]).hex() == key_id:
            notes.setdefault(name, []).append(b64(key)[1:])
    revoked = re.findall(r"^revoked ([0-9a-f]{64}) (\S+) (\d+)$", text, re.M)
    return keys, notes, {(bytes.fromhex(key_id), log): int(place) for key_id, log, place in revoked}


def canonical(payload):  # the statement, if this is the one way to write it
    def whole(pairs):
        if any(v is None or isinstance(v, float) or isinstance(v, int) and not 0 <= v < 2**53 for _, v in pairs):
            raise ValueError("a value that no statement holds")
        return dict(pairs)
    value = json.loads(payload.decode(), object_pairs_hook=whole)
    if json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() != payload:
        raise ValueError("not in canonical form")  # a key that is there twice too: only one is left to be written
    return value


def bits(number):
    return [level for level in range(64) if number >> level & 1]


class Log:  # one log: the leaves of its records, the tree over them, and what its records declare
    def __init__(self):
        self.nodes, self.size, self.leaves, self.epochs, self.keys, self.origin = {}, 0, {}, {}, [], None
        self.heads, self.lost, self.losses, self.erased, self.notes, self.regressed = [], {}, [], [], [], set()

    def grow(self, below, peaks):  # the tree over what was pruned, is there, or is named by gaps
        for level in reversed(bits(below)):
            self.nodes[level, self.size >> level], peaks = bytes.fromhex(peaks[:64]), peaks[64:]
            self.size += 1 << level
        while (node := self.leaves.get(self.size, self.lost.get(self.size))) is not None:
            level, index = 0, self.size
            self.nodes[level, index] = node
            while index % 2:
                node, level, index = sha256(b"\1", self.nodes[level, index - 1], node), level + 1, index // 2
                self.nodes[level, index] = node
            self.size += 1

    def root(self, size):  # the root at an earlier size; None if it cannot be told
        root = b""
        for level in bits(size):
            left = self.nodes.get((level, (size >> level) - 1))
            if size > self.size or left is None:
                return None
            root = sha256(b"\1", left, root) if root else left
        return root or sha256()


def leaf_hash(log_id, seq, digest, key_id, sig):
    return sha256(b"\0\1", bytes.fromhex(log_id.replace("-", "")), seq.to_bytes(8, "big"), digest, key_id[:8], sig)


def take(where, line, keys, revoked, logs, gone):  # reads one line into its log
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
        log.notes += [(0, bytes.fromhex(control["checkpoint_key"]))] if "checkpoint_key" in control else []
    log.leaves[seq], log.epochs[seq] = leaf, epoch
    if seq >= revoked.get((key_id, log_id), seq + 1):
        return report("REVOKED_KEY", f"{here} is signed by a key that is revoked there")
    if any(key != keys[key_id] for key in [key for since, key in log.keys if since <= seq][-1:]):
        report("UNKNOWN_KEY", f"{here} is not signed by the log's own key")
    log.heads.append((seq, epoch, p["log"]["base_size"], bytes.fromhex(p["log"]["base_root"])))
    if p["kind"] == "gap" and "from" in control:
        log.losses.append((None, control["from"], min(control["to"], seq - 1)))
        log.lost.update(enumerate(map(bytes.fromhex, re.findall(".{64}", control.get("leaves", ""))), control["from"]))
        log.regressed.update(range(control["from"], control["to"] + 1) if control["reason"] == "db_regression" else ())
    elif p["kind"] == "recovery":
        log.losses += [(epoch, control["lost_from"], min(control["lost_to"], seq - 1))] if "lost_from" in control else []
        log.losses += [(epoch, control.get("last_seq", -1) + 1, None)] if control["lost_tail_possible"] else []
    elif p["kind"] == "erasure" and "seq" in control:
        gone[control["log_id"], control["seq"]] = True
    elif p["kind"] == "prune" and len(control["peaks"]) == 64 * len(bits(control["below_seq"])):
        gone[control["log_id"]] = max(gone.get(control["log_id"], (0, "")), (control["below_seq"], control["peaks"]))
    elif p["kind"] == "key_rotate":
        names = [f"{log.origin}/{log_id}", control["use"], control.get("old_key", ""), control["new_key"]]
        text, new = "\n".join(["signet-key-rotate/v1", *names, ""]).encode(), bytes.fromhex(control["new_key"])
        if log.origin and not signed(new, text, bytes.fromhex(control["proof"])):
            report("BAD_SIG", f"{here}: the new key did not sign its rotation")
        else:
            turns, since = (log.keys, seq + 1) if control["use"] == "attest" else (log.notes, seq if log.notes else 0)
            turns.append((since, new))


def judge(name, log, gone):  # what can be told when all lines have passed
    declared = {n for _, start, end in log.losses if end is not None for n in range(start, end + 1)}
    below, peaks = gone.get(name, (0, ""))
    missing = set(range(below, max(log.leaves, default=0))) - set(log.leaves)
    for code, seqs, why in (("GAP", missing - declared, "it is missing"),
                            ("DB_REGRESSION", missing & log.regressed, "the database had confirmed it, and lost it"),
                            ("ERASED_UNAUTH", {seq for seq in log.erased if (name, seq) not in gone}, "erased, unsigned")):
        for seq in sorted(seqs):
            report(code, f"log {name} seq {seq}: {why}")
    log.grow(below, peaks)
    for seq, epoch, size, root in log.heads:
        excused = any(again and again > epoch and start < size for again, start, _ in log.losses)
        if size > seq or log.root(size) not in (None, root) and not excused:
            return report("ROOT_MISMATCH", f"log {name} seq {seq}: signed over another history of {size} records")


def compare_note(note, notes, revoked, logs, what):
    text, _, signatures = note.partition("\n\n")
    origin, size, root = text.split("\n")
    mine = [b64(line.split(" ")[2]) for line in signatures.splitlines() if line.split(" ")[1] == origin]
    by = [(key, it[4:]) for key in notes.get(origin, []) for it in mine if it[:4] == note_id(origin, key)]
    name, end, last, key = origin.rpartition("/")[2], int(size), max(int(size) - 1, 0), by[0][0] if by else None
    log, good = logs.get(name), [b64(root), None]
    code = ("UNKNOWN_KEY" if not by else
            "BAD_SIG" if not all(signed(key, (text + "\n").encode(), it) for key, it in by) else
            "REVOKED_KEY" if last >= revoked.get((sha256(SPKI, key), name), last + 1) else
            "MISSING_LOG" if log is None else
            "UNKNOWN_KEY" if key in dict(log.notes).values() and [key] != [k for n, k in log.notes if n <= last][-1:] else
            "TRUNCATED" if end > max(log.leaves, default=log.size - 1) + 1 else "FORK" if log.root(end) not in good else None)
    return code and (by or what == "anchor") and report(code, f"{what} of {origin} at size {size}")


def compare_receipt(text, logs, gone):
    _, origin, epoch, seq, leaf = text.split(";")
    name, seq, epoch, leaf = origin.rpartition("/")[2], int(seq), int(epoch), base64.urlsafe_b64decode(leaf + "=")
    log = logs.get(name)
    code = ("MISSING_LOG" if log is None else
            "WRONG_LOG" if log.origin and f"{log.origin}/{name}" != origin else
            None if (log.leaves.get(seq), log.epochs.get(seq)) == (leaf, epoch) else
            None if seq not in log.leaves and seq < gone.get(name, (0,))[0] else
            "LOST_DECLARED" if any(start <= seq <= (seq if end is None else end) and (again or epoch + 1) > epoch
                                   for again, start, end in log.losses) else
            "FORK" if seq in log.leaves else "GAP" if seq < max(log.leaves, default=0) else "TRUNCATED")
    return code and report(code, f"receipt {text}: its record is not there")


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, more in {"--key": {"required": True}, "--receipts": {"default": Path("/dev/null")},
                       "--anchor": {"action": "append", "default": []}, "export": {}}.items():
        options.add_argument(name, type=Path, **more)
    args = options.parse_args()
    (keys, notes, revoked), logs, gone = pinned(args.key), {}, {}
    for file in sorted(args.export.glob("logs/*/records.jsonl")) if args.export.is_dir() else [args.export]:
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            try:
                take(f"{file.name} line {number}", line, keys, revoked, logs, gone)
            except (ValueError, KeyError, TypeError, AttributeError) as fault:
                report("BAD_LEAF", f"{file.name} line {number}: {fault!r}")
    for name in sorted({*logs, *(it for it in gone if isinstance(it, str))}):  # a log may be pruned to its end
        judge(name, logs.setdefault(name, Log()), gone)
    held = [("checkpoint", file) for file in args.export.glob("logs/*/checkpoints")]
    for what, file in held + [("anchor", file) for file in args.anchor]:
        kept = re.findall(r"(?:[^\n]+\n){3}\n(?:\u2014 [^\n]+\n)+", file.read_text())
        for note in kept or report("BAD_SIG", f"{file}: no checkpoint") or []:
            compare_note(note, notes, revoked, logs, what)
    for line in args.receipts.read_text().split():
        compare_receipt(line, logs, gone)
    records = sum(len(log.leaves) for log in logs.values())
    print(f"{records} records in {len(logs)} logs: {'OK' if records and not found else 'FAILED'}")
    return min(found, default=0) if records else CODES["EMPTY"]


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""A second verifier of lineage exports, written from docs/lineage.md alone, which says what it does not look at.

EXPORT is what `signet lineage export` prints, or the folder that `--bundle` writes. It ends with 0 only if all holds, else with
the lowest code found. It asks openssl for each signature, some 150 a second."""
import argparse, base64, hashlib, json, re, subprocess, tempfile
from functools import reduce
from pathlib import Path

CODES = "BAD_SIG BAD_LEAF ROOT_MISMATCH FORK GAP DUP TRUNCATED MISSING_LOG UNKNOWN_KEY REVOKED_KEY WRONG_LOG ERASED_UNAUTH"
CODES = dict(zip(CODES.split(), range(10, 22)), DB_REGRESSION=24, LOST_DECLARED=30, EMPTY=32)
KINDS = "request log_open log_seal recovery gap denials clock feedback purge config erasure label key_rotate prune open".split()
STATEMENT = ["https://in-toto.io/Statement/v1", "urn:signet:lineage:v1", "1"]  # _type, predicateType, v
TYPE, SPKI = "application/vnd.in-toto+json", bytes.fromhex("302a300506032b6570032100")  # DER up to an Ed25519 key
found, logs, gone, ids, work, END = [], {}, {}, {}, tempfile.TemporaryDirectory(), 2**64


def report(code, text):
    found.append(CODES[code])
    print(f"{code}: {text}")


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def b64(text):
    if base64.b64encode(base64.b64decode(text)).decode() != text:
        raise ValueError("not the one way to write base64")
    return base64.b64decode(text)


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


def plain(value, depth=0):  # whether it holds only what a statement may hold
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    names = "".join(value) if isinstance(value, dict) else ""
    fits = isinstance(value, (dict, list, str, bool)) or isinstance(value, int) and 0 <= value < 2**53
    return fits and depth <= 16 and re.fullmatch(r"[!#-\[\]-~]*", names) and all(plain(it, depth + 1) for it in inner)


def predicate(payload):  # what a statement says, if it is one of this version and stands there in the one way to write it
    it = json.loads(payload.decode())  # of a key that is there twice only one is left to be written
    if not plain(it) or json.dumps(it, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() != payload:
        raise ValueError("not in canonical form")
    if [it["_type"], it["predicateType"], repr(it["predicate"]["v"])] != STATEMENT or it["predicate"]["kind"] not in KINDS:
        raise ValueError("a statement of a version or kind that is not known here")
    return it["predicate"]


def bits(number):
    return [level for level in range(64) if number >> level & 1]


class Log:  # one log: the leaves of its records, the tree over them, and what its records declare
    def __init__(self):
        self.nodes, self.size, self.leaves, self.epochs, self.lost, self.origin, self.epoch = {}, 0, {}, {}, {}, None, 0
        self.heads, self.losses, self.regressed, self.erased, self.keys, self.notes, self.modes = [], [], [], [], [], [], []

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
        peaks = [self.nodes.get((level, (size >> level) - 1)) for level in bits(size)]
        return None if None in peaks else reduce(lambda right, left: sha256(b"\1", left, right), peaks) if size else sha256()


def leaf_hash(log_id, seq, digest, key_id, sig):
    return sha256(b"\0\1", bytes.fromhex(log_id.replace("-", "")), seq.to_bytes(8, "big"), digest, key_id[:8], sig)


def take(where, line, keys, revoked):  # reads one line into its log
    it, p = json.loads(line), None
    if "erased" in it:
        it = it["erased"]
        log_id, seq, epoch, leaf = it["log_id"], it["seq"], it["epoch"], bytes.fromhex(it["leaf_hash"])
        parts = [bytes.fromhex(it[name]) for name in ("payload_sha256", "key_id", "sig") if name in it]
        if len(parts) == 3 and leaf_hash(log_id, seq, *parts) != leaf:
            return report("BAD_LEAF", f"{where}: what is left does not fit its leaf")
    else:
        [signature], payload = it["signatures"], b64(it["payload"])
        key_id, sig, text = bytes.fromhex(signature["keyid"]), b64(signature["sig"]), f"DSSEv1 28 {TYPE} {len(payload)} "
        if key_id not in keys or it["payloadType"] != TYPE or not signed(keys[key_id], text.encode() + payload, sig):
            return report("BAD_SIG" if key_id in keys else "UNKNOWN_KEY", f"{where}: it is not signed by a pinned key")
        p = predicate(payload)
        log_id, seq, epoch = p["log"]["id"], p["log"]["seq"], p["log"]["epoch"]
        leaf = leaf_hash(log_id, seq, sha256(payload), key_id, sig)
    log, here = logs.setdefault(log_id, Log()), f"{where}: log {log_id} seq {seq}"
    if seq in log.leaves:
        return report("DUP" if log.leaves[seq] == leaf else "FORK", f"{here} is there twice")
    log.leaves[seq], log.epochs[seq] = leaf, epoch
    _ = seq < max(log.leaves) and report("GAP", f"{here} stands behind seq {max(log.leaves)}")
    return weigh(here, log, p, key_id, keys[key_id], revoked) if p else log.erased.append(seq)


def weigh(here, log, p, key_id, signer, revoked):  # one record, at its place in its log
    log_id, seq, epoch, kind, control = p["log"]["id"], p["log"]["seq"], p["log"]["epoch"], p["kind"], p.get("control", {})
    if seq >= revoked.get((key_id, log_id), seq + 1):
        return report("REVOKED_KEY", f"{here} is signed by a key that is revoked there")
    if seq == 0 and kind == "log_open":
        log.keys, log.origin = [(0, bytes.fromhex(control["key"]))], f"{control['origin']}/{log_id}"
        log.notes = [(0, bytes.fromhex(control["checkpoint_key"]))] if "checkpoint_key" in control else []
    if [key for since, key in log.keys if since <= seq][-1:] not in ([], [signer]):
        return report("UNKNOWN_KEY", f"{here} is not signed by the log's own key")
    for wrong, code, why in (
            ((seq == 0) != (kind == "log_open"), "FORK" if seq else "GAP", "a log begins with its log_open, and has one"),
            (epoch < log.epoch, "FORK", "it stands behind a log_seal, or a later epoch"),
            (epoch > log.epoch and seq - 1 in log.leaves and kind != "recovery", "GAP", "an epoch without its recovery"),
            (p["id"] in ids, "DUP", f"the id {p['id']} is there twice")):
        _ = wrong and report(code, f"{here}: {why}")
    log.epoch, ids[p["id"]] = END if kind == "log_seal" else max(log.epoch, epoch), True  # no epoch comes behind a seal
    log.modes += [(epoch, control["mode"].startswith("strict"))] if kind in ("log_open", "recovery") and "mode" in control else []
    log.heads.append((seq, epoch, p["log"]["base_size"], bytes.fromhex(p["log"]["base_root"])))
    if kind == "gap" and "count" not in control:
        log.losses.append((seq, None, control["from"], min(control["to"], seq - 1)))
        log.lost.update(enumerate(map(bytes.fromhex, re.findall(".{64}", control.get("leaves", ""))), control["from"]))
        log.regressed += [log.losses[-1]] if control["reason"] == "db_regression" else []
    elif kind == "recovery":
        strict = [strict for since, strict in log.modes if since < epoch][-1:] == [True]
        lost = [(seq, epoch, control["lost_from"], control["lost_to"])] if "lost_from" in control else []
        tail = [(seq, epoch, control.get("last_seq", -1) + 1, END)] if control["lost_tail_possible"] else []
        log.losses += [] if strict else lost + tail
        return strict and lost and report("TRUNCATED", f"{here}: a `strict` log declares acknowledged records lost")
    elif kind == "erasure" and "seq" in control:
        gone[control["log_id"], control["seq"]] = True
    elif kind == "prune" and len(control["peaks"]) == 64 * len(bits(control["below_seq"])):
        gone[control["log_id"]] = max(gone.get(control["log_id"], (0, "")), (control["below_seq"], control["peaks"]))
    elif kind == "key_rotate":
        use, old, new = control["use"], control.get("old_key", ""), control["new_key"]
        turns, text = {"attest": log.keys, "checkpoint": log.notes}[use], f"{log.origin}\n{use}\n{old}\n{new}\n"
        if log.origin and not signed(bytes.fromhex(new), f"signet-key-rotate/v1\n{text}".encode(), bytes.fromhex(control["proof"])):
            return report("BAD_SIG", f"{here}: the new key did not sign its rotation")
        if use == "attest" and turns and turns[-1][1].hex() != old:
            return report("UNKNOWN_KEY", f"{here}: a rotation away from a key that does not sign there")
        turns += [(0, bytes.fromhex(old or new))] if use == "checkpoint" and not turns else []
        turns.append((seq + (use == "attest"), bytes.fromhex(new)))


def named(losses):  # the seqs before a record that it says are gone, one by one
    return {n for at, _, start, end in losses if end < END for n in range(start, min(end, at - 1) + 1)}


def judge(name, log):  # what can be told when all lines have passed
    below, peaks = gone.get(name, (0, ""))
    missing = set(range(below, max(log.leaves, default=0))) - set(log.leaves)
    for code, seqs, why in (("GAP", missing - named(log.losses), "it is missing"),
                            ("DB_REGRESSION", missing & named(log.regressed), "the database had confirmed it, and lost it"),
                            ("ERASED_UNAUTH", {seq for seq in log.erased if (name, seq) not in gone}, "erased, unsigned")):
        for seq in sorted(seqs):
            report(code, f"log {name} seq {seq}: {why}")
    log.grow(below, peaks)
    for seq, epoch, size, root in log.heads:
        excused = any(again and again > epoch and start < size for _, again, start, _ in log.losses)
        if size > seq or log.root(size) not in (None, root) and not excused:
            return report("ROOT_MISMATCH", f"log {name} seq {seq}: signed over another history of {size} records")


def compare_note(note, notes, revoked, what):
    [origin, size, root], signatures = note.partition("\n\n")[0].split("\n"), note.partition("\n\n")[2]
    mine = [b64(line.split(" ")[2]) for line in signatures.splitlines() if line.split(" ")[1] == origin]
    by = [(key, it[4:]) for key in notes.get(origin, []) for it in mine if it[:4] == note_id(origin, key)]
    name, end, last, key = origin.rpartition("/")[2], int(size), max(int(size) - 1, 0), by[0][0] if by else None
    log, good, text = logs.get(name), [b64(root), None], f"{origin}\n{size}\n{root}\n".encode()
    code = ("UNKNOWN_KEY" if not by else "BAD_SIG" if not all(signed(key, text, it) for key, it in by) else
            "REVOKED_KEY" if last >= revoked.get((sha256(SPKI, key), name), last + 1) else
            "MISSING_LOG" if log is None else "WRONG_LOG" if log.origin not in (None, origin) else
            "UNKNOWN_KEY" if key in dict(log.notes).values() and [key] != [k for n, k in log.notes if n <= last][-1:] else
            "TRUNCATED" if end > max(log.leaves, default=log.size - 1) + 1 else "FORK" if log.root(end) not in good else None)
    return code and (by or what == "anchor") and report(code, f"{what} of {origin} at size {size}")


def compare_receipt(text):
    _, origin, epoch, seq, leaf = text.split(";")
    name, seq, epoch, leaf = origin.rpartition("/")[2], int(seq), int(epoch), base64.urlsafe_b64decode(leaf + "=")
    log = logs.get(name)
    code = ("MISSING_LOG" if log is None else "WRONG_LOG" if log.origin not in (None, origin) else
            None if (log.leaves.get(seq), log.epochs.get(seq)) == (leaf, epoch) else
            None if seq not in log.leaves and seq < gone.get(name, (0,))[0] else
            "LOST_DECLARED" if any(start <= seq <= end and (again > epoch if again else seq not in log.leaves)
                                   for _, again, start, end in log.losses) else
            "FORK" if seq in log.leaves else "GAP" if seq < max(log.leaves, default=0) else "TRUNCATED")
    return code and report(code, f"receipt {text}: its record is not there")


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, more in (("--key", {"required": True}), ("--receipts", {"default": Path("/dev/null")}),
                       ("--anchor", {"action": "append", "default": []}), ("export", {})):
        options.add_argument(name, type=Path, **more)
    args = options.parse_args()
    keys, notes, revoked = pinned(args.key)
    for file in sorted(args.export.glob("logs/*/records.jsonl")) if args.export.is_dir() else [args.export]:
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            try:
                take(f"{file.name} line {number}", line, keys, revoked)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
                report("BAD_LEAF", f"{file.name} line {number}: {fault!r}")
    for name in sorted({*logs, *(it for it in gone if isinstance(it, str))}):  # a log may be pruned to its end
        judge(name, logs.setdefault(name, Log()))
    for what, file in [("checkpoint", f) for f in args.export.glob("logs/*/checkpoints")] + [("anchor", f) for f in args.anchor]:
        kept = re.findall(r"(?:[^\n]+\n){3}\n(?:\u2014 [^\n]+\n)+", file.read_text())
        for note in kept or report("BAD_SIG", f"{file}: no checkpoint") or []:
            compare_note(note, notes, revoked, what)
    for line in args.receipts.read_text().split():
        compare_receipt(line)
    held = [len(log.leaves) for log in logs.values() if log.leaves]
    print(f"{sum(held)} records in {len(held)} logs: {'OK' if held and not found else 'FAILED'}")
    return min(found, default=0) if held else CODES["EMPTY"]


if __name__ == "__main__":
    raise SystemExit(main())

"""The last steps: a replayed mix, the balance, and the audit."""

import re

from callers import STATES
from checks import Failure, holds, same, wait_until

MIN_HIT_RATE = 0.25


def replay(demo):
    """signet-load checks every answer's text itself and counts X-Cache."""
    code, said = demo.stack.replay("--api-key", "sk-demo-replay", "--rps", "25", "--duration", "8",
                                   "--min-hit-rate", str(MIN_HIT_RATE))
    if code != 0:
        raise Failure(f"signet-load replay ended with {code}:\n{said}")
    counts = {name: int(count) for name, count in re.findall(r"^X-Cache (\w+) +(\d+)", said, re.M)}
    holds(sum(counts.values()) == 200, f"200 answers were expected:\n{said}")
    demo.ledger.states.update(counts)
    rate = re.search(r"hit rate ([\d.]+) %", said).group(1)
    return f"200 requests, every text right, hit rate {rate} % ({', '.join(f'{c} {n}' for n, c in counts.items())})"


def balance(demo):
    states, rate = demo.ledger.states, demo.ledger.hit_rate()
    total = sum(states.values())
    for state in STATES:
        demo.say(f"X-Cache {state:<10}{states[state]:>7}{states[state] * 100 / total:>8.1f} %")
    same("states seen", {state for state in STATES if states[state]}, set(STATES))
    holds(rate >= MIN_HIT_RATE, f"the hit rate is {rate:.1%}, at least {MIN_HIT_RATE:.0%} was promised")
    return f"hit rate {rate:.1%} over {total} answers"


def audit(demo):
    """The auditor has the public keys, pinned at the start, and the receipts that the clients kept."""
    for gateway in demo.stack.gateways:
        wait_until(f"{gateway.name}: all records shipped", lambda g=gateway: g.unshipped() == 0, 30)
    same("exit code of verify without a key", demo.stack.signet("lineage", "verify")[0], 64)
    code, report = demo.stack.verify(demo.keys, demo.ledger.file)
    if code != 0:
        raise Failure(f"signet lineage verify ended with {code}:\n{report}")
    found = int(re.search(r"checked: (\d+) kept receipts", report).group(1))
    kept = len(set(demo.ledger.file.read_text().split()))
    same("kept receipts found unchanged", found, kept)
    holds("not checked: truncation" in report, "verify does not say that truncation was not checked")
    records = re.search(r"checked: (\d+) records in (\d+) logs, (\d+) source edges", report)
    return f"verify: 0; {records.group(0)[9:]}, all {found} kept receipts unchanged"


def checkpoints(demo):
    """Each replica's tree: a signed head over all its records, and the proof that the first answer's record is in it."""
    shown = []
    for gateway in demo.stack.gateways:
        keys = gateway.ask_admin("/v1/lineage/keys").text
        name = re.search(r"^([^\s+#]+)\+[0-9a-f]{8}\+\S+$", keys, re.M).group(1)
        path = f"/v1/lineage/logs/{name.rsplit('/', 1)[1]}/checkpoint"
        records = gateway.ask_admin("/admin/v1/status").json()["log"]["next_seq"]

        def covered():
            answer = gateway.ask_admin(path)
            return answer.status == 200 and int(answer.text.splitlines()[1]) >= records
        wait_until(f"{gateway.name}: a checkpoint over {records} records", covered, 10)
        note = gateway.ask_admin(path).text
        same("the log's name", note.splitlines()[0], name)
        shown.append(f"{gateway.name} {note.splitlines()[1]}")
    mine = demo.alice.get(f"/v1/lineage/{demo.first.get('lineage-id')}").json()["proof"]
    holds(mine and mine.startswith("c2sp.org/tlog-proof@v1\n"), f"there is no proof of the first answer: {mine}")
    anchored = demo.stack.anchored()
    return f"signed heads over all records ({', '.join(shown)}), the first answer is proved to be in one{anchored}"


def tampering(demo):
    with demo.stack.tampered(demo.first.get("lineage-id")) as source:
        code, report = demo.stack.verify(demo.keys, demo.ledger.file, source)
    named = re.search(r"^(BAD_SIG|BAD_LEAF):.*$", report, re.M)
    holds(code in (10, 11) and named, f"one bit was changed, and verify ended with {code}:\n{report}")
    again, report = demo.stack.verify(demo.keys, demo.ledger.file)
    same("exit code without the change", again, 0)
    return f"one bit of one stored record was changed: verify ended with {code}, {named.group(0)}"

"""Steps about what dies: the gateway itself under load, Redis, Postgres."""

import itertools
import threading
import time

import wire
from callers import Caller, said, streamed
from checks import answered, holds, same, wait_until

WORKERS = 4
TICKET = "Explain ticket #R"
# The load's first part settles; in the second, the database takes nothing, so that only the log has the records.
LOAD_S, BLOCKED_S = 1.6, 0.5
# An entry reaches Redis and the database from a queue; what is older than this is there (contract: 1 s).
SETTLED_S = 1.0
WARM_S = 15


class Load:
    """Clients that ask until the gateway is gone, and keep each complete answer."""

    def __init__(self, demo, generation):
        self.demo, self.generation, self.kept, self.cut = demo, generation, [], 0
        self.lock, self.numbers, self.over = threading.Lock(), itertools.count(), threading.Event()
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(WORKERS)]
        for thread in self.threads:
            thread.start()

    def work(self):
        caller = Caller(self.demo.ledger, self.demo.gateway.url)
        while not self.over.is_set():
            number = next(self.numbers)
            if number % 25 == 0:
                caller = Caller(self.demo.ledger, self.demo.gateway.url)  # another address: the limit is not the point
            prompt, flows = f"{TICKET}{self.generation}-{number}", number % 3 == 0
            try:
                answer = caller.ask(prompt, stream=flows)
            except wire.Cut:
                self.cut += 1
                return
            (streamed if flows else said)(answered(answer, cache="MISS"), prompt)
            with self.lock:
                self.kept.append((time.monotonic(), prompt, answer))

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join(30)
            holds(not thread.is_alive(), "a client hangs on a dead gateway")


def killed(demo):
    """kill -9 under load, restart: every complete answer has its record, and its prompt is served from the cache."""
    demo.script(TICKET, times=1_000_000, latency_ms=10, chunks=20)
    report = [kill_once(demo, generation) for generation in range(demo.kills)]
    return report[-1] if demo.kills == 1 else f"{demo.kills} times, the last: {report[-1]}"


def kill_once(demo, generation):
    load = Load(demo, generation)
    time.sleep(LOAD_S)
    with demo.stack.unshippable():
        time.sleep(BLOCKED_S)
        demo.stack.kill_gateway(demo.gateway)
        died = time.monotonic()
    load.end()
    holds(len(load.kept) >= 50, f"only {len(load.kept)} answers came before the kill")
    demo.stack.start_gateway(demo.gateway)
    back = time.monotonic() - died
    for caller, (_, _, answer) in with_callers(demo, load.kept):
        shown = answered(caller.get(f"/v1/lineage/{answer.get('lineage-id')}")).json()
        same("receipt of " + answer.get("lineage-id"), shown["receipt"], answer.receipt())
    settled = [kept for kept in load.kept if died - kept[0] > SETTLED_S]
    with demo.upstream_calls(0):
        # Stored entries are read oldest first while requests are served already: wait for the newest.
        wait_until("a warm cache", lambda: Caller(demo.ledger, demo.gateway.url).ask(
            settled[-1][1], Cache_Control="only-if-cached").status == 200, WARM_S)
        for caller, (_, prompt, answer) in with_callers(demo, settled):
            said(answered(caller.ask(prompt), cache="EXACT", x_cache_source=answer.get("lineage-id")), prompt)
    return (f"{len(load.kept)} complete answers ({load.cut} cut), back after {back * 1000:.0f} ms, every record found, "
            f"{len(settled)} prompts older than {SETTLED_S:.0f} s EXACT")


def with_callers(demo, items):
    """Each item with a caller whose address has budget left."""
    for number, item in enumerate(items):
        if number % 30 == 0:
            caller = Caller(demo.ledger, demo.gateway.url)
        yield caller, item


def faults(gateway):
    status, body = gateway.ready() or (0, {"faults": {}})
    return status, set(body["faults"])


def redis_lost(demo):
    demo.stack.stop_service("redis")
    wait_until("the fault of Redis in /readyz", lambda: faults(demo.gateway) == (200, {"redis"}), 15)
    prompt = "Why does bread go stale?"
    with demo.upstream_calls(1):
        answered(demo.alice.ask(prompt), cache="MISS")
        answered(demo.alice.ask(prompt), cache="EXACT")
    started = time.monotonic()
    answered(demo.alice.ask("What is the capital of Norway?"), cache="EXACT")
    took = (time.monotonic() - started) * 1000
    demo.stack.start_service("redis")
    wait_until("/readyz without faults", lambda: faults(demo.gateway) == (200, set()), 30)
    wait_until("a hit again", lambda: demo.alice.ask(prompt).get("x-cache") == "EXACT", 15)
    return f"/readyz 200 with the fault, MISS and EXACT as ever (a hit in {took:.1f} ms); the fault goes when Redis is back"


def postgres_lost(demo):
    wait_until("all records shipped", lambda: demo.gateway.unshipped() == 0, 20)
    demo.stack.stop_service("postgres")
    wait_until("the fault of the store in /readyz", lambda: faults(demo.gateway) == (200, {"store"}), 20)
    prompt = "How is cheese made?"
    with demo.upstream_calls(1):
        first = answered(demo.alice.ask(prompt), cache="MISS", lineage_receipt="v1;")
        hit = answered(demo.alice.ask(prompt), cache="EXACT", lineage_receipt="v1;")
    for answer in (first, hit):
        shown = answered(demo.alice.get(f"/v1/lineage/{answer.get('lineage-id')}")).json()
        same("receipt", shown["receipt"], answer.receipt())
    waiting = demo.gateway.unshipped()
    holds(waiting >= 2, f"{waiting} records wait in the log, at least 2 should")
    demo.stack.kill_gateway(demo.gateway)
    demo.stack.start_gateway(demo.gateway)
    for answer in (first, hit):
        shown = answered(demo.alice.get(f"/v1/lineage/{answer.get('lineage-id')}")).json()
        same("receipt after kill -9", shown["receipt"], answer.receipt())
    with demo.upstream_calls(1):
        # Without the store a new process cannot have the tenant's key: it answers, but opens and keeps no entry.
        answered(demo.alice.ask(prompt), cache="MISS", lineage_receipt="v1;")
    holds(demo.gateway.unshipped() >= waiting, "records that waited are gone")
    demo.stack.start_service("postgres")
    wait_until("all records shipped", lambda: demo.gateway.unshipped() == 0, 30)
    wait_until("/readyz without faults", lambda: faults(demo.gateway) == (200, set()), 30)
    wait_until("a hit again", lambda: demo.alice.ask(prompt).get("x-cache") == "EXACT", 15)
    return (f"/readyz 200 with the fault, MISS and EXACT with receipts, kill -9 and restart in between, "
            f"{waiting} records kept in the log and shipped later")

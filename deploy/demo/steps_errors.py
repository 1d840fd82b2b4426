"""Steps about what is refused, what fails, and what is limited."""

from callers import MODEL, Caller, said
from checks import answered, holds, refused, same, wait_until


def refusals(demo):
    chat = "/v1/chat/completions"
    post = demo.alice.post
    with demo.upstream_calls(0):
        refused(post(chat, b'{"model": "gpt-4o-mini", "messages": ['), 400)
        refused(post(chat, b"\xff\xfe not UTF-8"), 400)
        refused(post(chat, b"[" * 20000), 400)
        refused(post(chat, b'{"model": "a", "model": "b", "messages": []}'), 400)
        refused(post(chat, {"model": MODEL}), 400, param="messages")
        refused(post(chat, {"model": 7, "messages": []}), 400, param="model")
        refused(demo.alice.ask("What is salt?", X_Cache_Mode="maybe"), 400)
        refused(demo.alice.ask("x" * demo.max_body), 413, "request_too_large")
        refused(demo.alice.get("/v1/nothing/here"), 404, "unknown_url")
        refused(demo.alice.ask("What is salt?", members={"model": "gpt-unknown"}), 404, "model_not_found")
        refused(Caller(demo.ledger, demo.alice.base, key=None).ask("What is salt?"), 401, "invalid_api_key")
    return "400 (cut, not UTF-8, too deep, duplicate key, no messages, bad header), 413, 404 twice, 401; nothing went upstream"


def provider_errors(demo):
    prompt = "What is pepper?"
    with demo.upstream_calls(2):
        demo.script(prompt, status=429, retry_after="7")
        limited = demo.alice.ask(prompt)
        refused(limited, 429, "rate_limit_exceeded")
        same("Retry-After of the provider", limited.get("retry-after"), "7")
        demo.script(prompt, status=500)
        refused(demo.alice.ask(prompt), 500)
    with demo.upstream_calls(2):
        demo.script(prompt, fault="cut-after=40")
        refused(demo.alice.ask(prompt), 502)
        said(answered(demo.alice.ask(prompt), cache="MISS"), prompt)
    with demo.upstream_calls(0):
        answered(demo.alice.ask(prompt), cache="EXACT")
    return "429 with Retry-After, 500 and a cut answer (502) are passed on and not cached; then MISS and EXACT"


def provider_outage(demo):
    """One of two places of a model fails: the other answers, the breaker opens, and a probe closes it."""
    prompt, model = "What is cumin?", {"model": "gpt-two-places"}

    def explained():
        told = answered(demo.gateway.ask_admin("/admin/v1/route/explain", model)).json()["targets"]
        return {target["model"]: target for target in told}

    def ask(cache="MISS"):
        answer = answered(demo.alice.ask(prompt, members=model), cache=cache)
        count, _, why = answer.get("x-signet-attempts").partition(";")
        return int(count), why

    for _ in range(5):
        demo.script(prompt, status=503)
        with demo.upstream_calls(2):
            same("attempts", ask(), (2, 'why="mock/first-place 503, mock/second-place 200"'))
    with demo.upstream_calls(1):
        same("attempts with an open breaker", ask(), (1, 'why="mock/first-place circuit_open, mock/second-place 200"'))
    with demo.upstream_calls(0):
        first = explained()["first-place"]
        same("why the first place is not asked", first["why"], "open")
        same("failures held against it", first["failures"], 5)
        wait_until("the time for a probe", lambda: explained()["first-place"]["why"] == "probe", 10)
    with demo.upstream_calls(1):
        same("attempts with a probe", ask(), (1, ""))
        same("the first place after its probe", explained()["first-place"]["why"], "ready")
        answered(demo.alice.ask(prompt, members=model), cache="EXACT")
    return (f"five 503 and five answers of the other place, none of them kept; then the breaker is open for {first['for_ms']} ms "
            "more as explain says, one call each; the probe's answer closes it and is kept")


def own_records(demo):
    """A record is its own tenant's only."""
    mine = demo.first.get("lineage-id")
    found = answered(demo.alice.get(f"/v1/lineage/{mine}")).json()
    same("receipt", found["receipt"], demo.first.receipt())
    holds(found["envelope"]["signatures"], "the envelope has no signature")
    stranger = Caller(demo.ledger, demo.alice.base, "sk-demo-mallory")
    refused(stranger.get(f"/v1/lineage/{mine}"), 404, "lineage_not_found")
    return "GET /v1/lineage/{id} shows the signed record with the same receipt; another tenant gets 404"


def burst(demo):
    prompt = "What is the capital of Norway?"
    eager, calm = Caller(demo.ledger, demo.alice.base), Caller(demo.ledger, demo.alice.base)
    with demo.upstream_calls(0):
        answers = [eager.ask(prompt) for _ in range(220)]
        answered(calm.ask(prompt), cache="EXACT")
    limited = [answer for answer in answers if answer.status == 429]
    same("statuses", {answer.status for answer in answers}, {200, 429})
    for answer in limited:
        refused(answer, 429, "rate_limit_exceeded")
        holds(int(answer.get("retry-after")) >= 1, f"Retry-After is {answer.get('retry-after')}")
        holds(int(answer.get("retry-after-ms")) >= 1, f"retry-after-ms is {answer.get('retry-after-ms')}")
    served = len(answers) - len(limited)
    holds(served >= 100, f"only {served} were served of a burst of 100")
    same("the first 100", {answer.status for answer in answers[:100]}, {200})
    return f"{served} served, {len(limited)} refused with 429 and Retry-After ≥ 1; another address was served"

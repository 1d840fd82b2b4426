"""Steps about what the cache serves, and what it must not."""

import json
import threading
import time

import wire
from callers import MODEL, Caller, said, streamed
from checks import answered, holds, refused, same, wait_until


def ready(demo):
    same("/healthz", demo.alice.get("/healthz").status, 200)
    # The services are looked at every other second, the first time perhaps before they were connected.
    wait_until("/readyz without faults", lambda: demo.gateway.ready() == (200, {"status": "ready", "faults": {}}), 10)
    with demo.upstream_calls(0):
        models = answered(demo.alice.get("/v1/models")).json()
    same("models", sorted(model["id"] for model in models["data"]), sorted(demo.models))
    metrics = demo.gateway.ask_admin("/metrics")
    holds(metrics.status == 200 and "signet_requests_total" in metrics.text, "/metrics lacks signet_requests_total")
    return f"/healthz, /readyz, {len(models['data'])} models, metrics"


PLAIN = "What is the capital of Norway?"


def miss(demo):
    with demo.upstream_calls(1):
        demo.first = answered(demo.alice.ask(PLAIN), cache="MISS", cache_status="signet; fwd=miss; stored",
                              cache_control="private, no-store", lineage_receipt="v1;")
    said(demo.first, PLAIN)
    return "MISS, one upstream call, a receipt"


def exact(demo):
    """The same request byte for byte in meaning only: other key order, other white space, other number form."""
    value = {"messages": [{"content": PLAIN, "role": "user"}], "model": MODEL}
    with demo.upstream_calls(0):
        hits = [demo.alice.ask(PLAIN), demo.alice.post("/v1/chat/completions", json.dumps(value, indent=3).encode())]
    for hit in hits:
        answered(hit, cache="EXACT", cache_status="signet; hit; detail=exact; ttl=", x_cache_similarity="1.000", age="0",
                 x_cache_source=demo.first.get("lineage-id"))
        same("text", said(hit), said(demo.first))
    same("number of Lineage-Ids", len({hit.get("lineage-id") for hit in [demo.first, *hits]}), 3)
    return "EXACT twice (other key order, other white space), no upstream call, source named"


def semantic(demo):
    with demo.upstream_calls(0):
        hit = demo.alice.ask("Hi! Could you tell me what's the capital of Norway, please?")
    answered(hit, cache="SEMANTIC", cache_status="signet; hit; detail=same-words",
             x_cache_source=demo.first.get("lineage-id"))
    same("text", said(hit), said(demo.first))
    return f"SEMANTIC by the same words, similarity {hit.get('x-cache-similarity')}, no upstream call"


def vector(demo):
    asked = "How much does a taxi from Oslo airport to Oslo centre cost?"
    again = asked.replace("taxi", "cab")
    with demo.upstream_calls(1):
        source = answered(demo.alice.ask(asked), cache="MISS")
    with demo.upstream_calls(0):
        hit = answered(demo.alice.ask(again), cache="SEMANTIC", cache_status="signet; hit; detail=vector",
                       x_cache_source=source.get("lineage-id"))
    holds(0.97 <= float(hit.get("x-cache-similarity")) < 1, f"similarity {hit.get('x-cache-similarity')}")
    same("text", said(hit), said(source, asked))
    with demo.upstream_calls(1):
        answered(demo.alice.ask(again, X_Cache_Similarity_Min=0.999), cache="MISS")
    return f"SEMANTIC by vector, similarity {hit.get('x-cache-similarity')}; a raised floor makes it a MISS"


NEAR_MISSES = (
    ("negation", "Which mushrooms are edible?", "Which mushrooms are not edible?"),
    ("number", "Name the top 5 rivers of Asia", "Name the top 10 rivers of Asia"),
    ("direction", "Convert 30 Swiss francs to euros.", "Convert 30 euros to Swiss francs."),
    ("roles", "Can spiders eat wasps?", "Can wasps eat spiders?"),
    ("opposite", "How do I enable swap on a server?", "How do I disable swap on a server?"),
    ("entity", "Who founded Zalando?", "Who founded Klarna?"),
)


def wrong_hit(demo):
    """A hit that a caller calls wrong: why it was served, who else was served, and that nobody is any more."""
    asked, again = "What is the capital of Iceland?", "What's the capital of Iceland?"
    source = answered(demo.alice.ask(asked), cache="MISS")
    hit = answered(demo.alice.ask(again), cache="SEMANTIC")
    code, told = demo.stack.look("cache", "explain", "--lineage", hit.get("lineage-id"))
    holds(code == 0 and "hit_semantic" in told and source.get("lineage-id") in told, f"cache explain: {told}")
    code, children = demo.stack.look("lineage", "children", source.get("lineage-id"))
    holds(code == 0 and hit.get("lineage-id") in children, f"lineage children: {children}")
    taken = demo.alice.post(f"/v1/lineage/{hit.get('lineage-id')}/feedback", b'{"cache":"wrong"}')
    same("feedback", (taken.status, taken.json()["source"]), (200, source.get("lineage-id")))
    with demo.upstream_calls(1):
        answered(demo.alice.ask(again), cache="MISS")
        answered(demo.alice.ask(asked), cache="SEMANTIC")
    return "explained, its children listed, taken back: the next one is fresh"


def near_misses(demo):
    for _, stored, asked in NEAR_MISSES:
        for prompt in (stored, asked):
            with demo.upstream_calls(1):
                said(answered(demo.alice.ask(prompt), cache="MISS"), prompt)
    with demo.upstream_calls(4):
        answered(demo.alice.ask(PLAIN, system="Answer as a pirate."), cache="MISS")
        answered(demo.alice.ask(PLAIN, X_Cache_Namespace="another"), cache="MISS")
        answered(demo.alice.ask(PLAIN, members={"temperature": 0.9}), cache="MISS")
        answered(Caller(demo.ledger, demo.alice.base, "sk-demo-bob").ask(PLAIN), cache="MISS")
    names = ", ".join(name for name, *_ in NEAR_MISSES)
    return f"MISS each time: {names}, other system prompt, namespace, temperature, tenant"


def coalesced(demo):
    prompt, answers = "What is a coalesced request?", []
    callers = [Caller(demo.ledger, demo.alice.base) for _ in range(2)]
    demo.script(prompt, latency_ms=600)
    threads = [threading.Thread(target=lambda c=c: answers.append(c.ask(prompt))) for c in callers]
    with demo.upstream_calls(1):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    same("answers", len(answers), 2)
    texts = {said(answered(answer), prompt) for answer in answers}
    same("different texts", len(texts), 1)
    same("X-Cache", sorted(answer.get("x-cache") for answer in answers), ["COALESCED", "MISS"])
    follower = next(answer for answer in answers if answer.get("x-cache") == "COALESCED")
    answered(follower, cache_status="signet; fwd=miss; collapsed")
    same("Lineage-Ids", len({answer.get("lineage-id") for answer in answers}), 2)
    return "MISS and COALESCED, one upstream call, a record each"


def coalesced_streams(demo):
    """Streams and JSON, before and after the first byte; the caller that came first leaves."""
    prompt, answers = "What is a coalesced stream?", []
    demo.script(prompt, latency_ms=800, chunk_ms=100, chunks=24)
    first = Caller(demo.ledger, demo.alice.base)
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": prompt}], "stream": True}).encode()
    wants = [n % 4 != 3 for n in range(12)]
    threads = [threading.Thread(target=lambda c=Caller(demo.ledger, demo.alice.base), stream=stream:
                                answers.append((stream, c.ask(prompt, stream=stream)))) for stream in wants]
    with demo.upstream_calls(1):
        called = demo.calls() + 1
        with wire.leaving(demo.alice.base, "/v1/chat/completions", first.headers({}), body) as reader:
            wait_until("the call", lambda: demo.calls() == called, 10)
            for thread in threads[:6]:
                thread.start()
            reader.line()
            reader.fields()
            events = wire.chunks(reader)
            next(events)
            for thread in threads[6:]:
                thread.start()
            for _ in range(6):
                next(events)
        for thread in threads:
            thread.join(30)
    same("answers", len(answers), len(wants))
    texts = {streamed(answer, prompt)[1] if stream else said(answer, prompt) for stream, answer in answers}
    same("different texts", len(texts), 1)
    for _, answer in answers:
        answered(answer, cache="COALESCED", cache_status="signet; fwd=miss; collapsed")
    with demo.upstream_calls(0):
        answered(demo.alice.ask(prompt, stream=True), cache="EXACT")
    return "12 joined before and after the first byte, 3 of them for JSON; the first left: one upstream call, kept"


def bypass(demo):
    prompt = "How does a sextant work?"
    with demo.upstream_calls(3):
        answered(demo.alice.ask(prompt, Cache_Control="no-store"), cache="BYPASS", cache_status="signet; fwd=bypass")
        answered(demo.alice.ask(prompt, X_Cache_Mode="off"), cache="BYPASS")
        answered(demo.alice.ask(prompt), cache="MISS")
    return "BYPASS by no-store and by X-Cache-Mode: off; nothing was stored"


def refresh(demo):
    prompt = "How do tides form?"
    with demo.upstream_calls(2):
        old = said(answered(demo.alice.ask(prompt), cache="MISS"), prompt)
        demo.script(prompt, answer_bytes=400)
        fresh = answered(demo.alice.ask(prompt, Cache_Control="no-cache"), cache="REFRESH",
                         cache_status="signet; fwd=request")
    with demo.upstream_calls(0):
        hit = answered(demo.alice.ask(prompt), cache="EXACT", x_cache_source=fresh.get("lineage-id"))
    holds(said(hit) == said(fresh) != old, "the hit is not the refreshed answer")
    with demo.upstream_calls(0):
        refused(demo.alice.ask("Who paints the lines on roads?", Cache_Control="only-if-cached"), 504, "not_cached")
    return "REFRESH by no-cache, then EXACT with the new answer; only-if-cached is 504 on a miss"


def stream(demo):
    prompt = "How does a heat pump work?"
    with demo.upstream_calls(1):
        first = answered(demo.alice.ask(prompt, stream=True), cache="MISS", cache_control="no-cache")
    holds(first.receipt(), "no Lineage-Receipt in the trailer")
    parts, text = streamed(first, prompt)
    holds(len(parts) > 10, f"only {len(parts)} chunks came")
    with demo.upstream_calls(0):
        hit = answered(demo.alice.ask(prompt, stream=True), cache="EXACT", x_cache_source=first.get("lineage-id"))
        whole = answered(demo.alice.ask(prompt), cache="EXACT")
        counted = answered(demo.alice.ask(prompt, stream=True, members={"stream_options": {"include_usage": True}}),
                           cache="EXACT")
    again, hit_text = streamed(hit, prompt)
    same("texts", {text, hit_text, said(whole)}, {text})
    holds(again[0]["id"] != parts[0]["id"], "the replay carries the id of the first stream")
    same("usage chunks", [sum(bool(part.get("usage")) for part in parts), sum(bool(part.get("usage")) for part in again)],
         [0, 0])
    holds(json.loads(counted.text.split("\n\n")[-3][6:]).get("usage"), "the usage chunk that was asked for is missing")
    return f"MISS of {len(parts)} chunks, then EXACT as a stream, as JSON and with the usage chunk; receipt in the trailer"


def tool_call(demo):
    tools = [{"type": "function", "function": {"name": "get_tide", "parameters": {"type": "object", "properties": {}}}}]
    prompt, members = "Please use the tool for the harbour of Bergen.", {"tools": tools}
    with demo.upstream_calls(1):
        first = answered(demo.alice.ask(prompt, members=members), cache="MISS").json()["choices"][0]
    with demo.upstream_calls(0):
        hit = answered(demo.alice.ask(prompt, members=members), cache="EXACT").json()["choices"][0]
        flowing = answered(demo.alice.ask(prompt, stream=True, members=members), cache="EXACT")
    same("name of the tool", first["message"]["tool_calls"][0]["function"]["name"], "get_tide")
    same("tool calls", hit["message"]["tool_calls"], first["message"]["tool_calls"])
    same("finish reason", hit["finish_reason"], "tool_calls")
    deltas = [c["delta"] for part in streamed(flowing)[0] for c in part["choices"] if c["delta"].get("tool_calls")]
    arguments = "".join(call["function"].get("arguments", "") for d in deltas for call in d["tool_calls"])
    same("streamed arguments", arguments, first["message"]["tool_calls"][0]["function"]["arguments"])
    return "a tool call is replayed as JSON and as a stream"


def embeddings(demo):
    value = {"model": "text-embedding-3-small", "input": ["the sea", "the shore"]}
    with demo.upstream_calls(1):
        first = answered(demo.alice.post("/v1/embeddings", value), cache="MISS")
    with demo.upstream_calls(0):
        hit = answered(demo.alice.post("/v1/embeddings", value), cache="EXACT", x_cache_source=first.get("lineage-id"))
    same("vectors", hit.json()["data"], first.json()["data"])
    with demo.upstream_calls(1):
        answered(demo.alice.post("/v1/embeddings", {**value, "input": ["the sea", "the shoreline"]}), cache="MISS",
                 cache_status="signet; fwd=partial; stored")
    same("inputs that went upstream", demo.seen()[-1]["input"], ["the shoreline"])
    return "MISS, EXACT with equal vectors, MISS for other text"


def other_endpoints(demo):
    """Each API misses once and hits once, across APIs too; of a batch of five with three known, the provider sees two."""
    text = "What is a fjord mouth?"
    asks = (("/v1/messages", {"model": MODEL, "max_tokens": 64, "messages": [{"role": "user", "content": text}]}),
            ("/v1/responses", {"model": MODEL, "input": "What is a skerry guard?", "store": False}),
            ("/v1/completions", {"model": MODEL, "prompt": "A lagoon is", "max_tokens": 64}))
    for path, value in asks:
        with demo.upstream_calls(1):
            answered(demo.alice.post(path, value), cache="MISS")
        with demo.upstream_calls(0):
            answered(demo.alice.post(path, value), cache="EXACT")
    twin = {"model": MODEL, "max_completion_tokens": 64, "messages": [{"role": "user", "content": text}]}
    with demo.upstream_calls(0):
        said(answered(demo.alice.post("/v1/chat/completions", twin), cache="EXACT"), text)
    refused = demo.alice.post("/v1/messages", {**asks[0][1], "top_k": 5})
    same("what chat cannot say", refused.status, 400)
    batch = {"model": "text-embedding-3-small", "input": ["inlet", "sound", "strait"]}
    with demo.upstream_calls(1):
        answered(demo.alice.post("/v1/embeddings", batch), cache="MISS")
    with demo.upstream_calls(1):
        wider = {**batch, "input": ["bay", "inlet", "sound", "cape", "strait"]}
        part = answered(demo.alice.post("/v1/embeddings", wider), cache="MISS",
                        cache_status="signet; fwd=partial; stored").json()
    same("inputs that went upstream", demo.seen()[-1]["input"], ["bay", "cape"])
    same("places of the vectors", [vector["index"] for vector in part["data"]], [0, 1, 2, 3, 4])
    with demo.upstream_calls(0):
        answered(demo.alice.post("/v1/embeddings", wider), cache="EXACT")
    return "messages, responses, completions: MISS, EXACT; a chat caller hits what messages stored, top_k is a 400; a batch of 5 with 3 known: the provider saw 2"


def second_replica(demo):
    """What one replica stored, the other serves within a second."""
    other = Caller(demo.ledger, demo.stack.gateways[1].url)
    shown = []
    for stored, asked, state in (("What is the deepest lake?", "What is the deepest lake?", "EXACT"),
                                 ("Why do glaciers move?", "Hi, why do glaciers move?", "SEMANTIC")):
        with demo.upstream_calls(1):
            first = answered(demo.alice.ask(stored), cache="MISS")
        with demo.upstream_calls(0):
            hit, took = until_cached(other, asked, time.monotonic())
        said(answered(hit, cache=state, x_cache_source=first.get("lineage-id")), stored)
        shown.append(f"{state} after {took:.0f} ms")
    return f"the other replica answers what the first stored: {', '.join(shown)}; the source is the first's record"


def until_cached(caller, prompt, since):
    """Asks for a cached answer only, so that waiting costs no upstream call."""
    while (answer := caller.ask(prompt, Cache_Control="only-if-cached")).status == 504:
        holds(time.monotonic() - since < 1, f"the second replica has no answer to {prompt!r} after 1 s")
        time.sleep(0.025)
    return answer, (time.monotonic() - since) * 1000

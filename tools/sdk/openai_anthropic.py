"""Ordinary calls of the official Python SDKs."""

import json
import threading
import time

import anthropic
import openai
from pydantic import BaseModel

from harness import ANTHROPIC, DIRECT, EMBEDDING, GATEWAY, KEY, OPENAI, ask_mock, cell, main

TOOL = {"type": "object", "properties": {"marker": {"type": "string"}}, "required": ["marker"]}
FUNCTION = {"type": "function", "function": {"name": "look_up", "description": "Looks up.", "parameters": TOOL}}
FLAT_FUNCTION = {"type": "function", "name": "look_up", "description": "Looks up.", "parameters": TOOL, "strict": False}
ANTHROPIC_TOOL = {"name": "look_up", "description": "Looks up.", "input_schema": TOOL}
CITY = '{"city":"Lima","people":10}'


class City(BaseModel):
    city: str
    people: int


def oai(kind=openai.OpenAI, **more):
    return kind(base_url=f"{GATEWAY}/v1", api_key=KEY, **{"max_retries": 0, "timeout": 20, **more})


def ant(kind=anthropic.Anthropic, **more):
    return kind(base_url=GATEWAY, api_key=KEY, **{"max_retries": 0, "timeout": 20, **more})


def user(turn):
    return [{"role": "user", "content": turn.prompt}]


def cancelled_soon(before):
    """The mock notices that its client left."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if ask_mock("GET", "/_mock/counts")["cancelled"] > before:
            return True
        threading.Event().wait(0.02)
    return False


def must_fail(turn, kind, work):
    try:
        work()
    except kind as error:
        return error
    raise AssertionError(f"{kind} was to be raised")


def must_time_out(turn, library, work):
    """It is the SDK that gives up, and the provider's call is at its end then: the same question is not answered by it."""
    before = ask_mock("GET", "/_mock/counts")["cancelled"]
    must_fail(turn, library.APITimeoutError, work)
    turn.expect(cancelled_soon(before), "the provider's call goes on")


# OpenAI: chat, towards a provider of the same API and of the other.

for model, way, note in ((OPENAI, "chat", ""), (ANTHROPIC, "chat>messages", " on Claude")):
    @cell("openai-python", way, "chat" + note, model)
    def chat(turn):
        answer = oai().chat.completions.create(model=turn.model, messages=user(turn))
        turn.expect(answer.usage.total_tokens > 0 and answer.choices[0].finish_reason == "stop", answer)
        return answer.choices[0].message.content

    @cell("openai-python", way, "stream" + note, model)
    def stream(turn):
        options = {"include_usage": True}
        with oai().chat.completions.create(model=turn.model, messages=user(turn), stream=True, stream_options=options) as all:
            chunks = list(all)
        turn.expect(chunks[-1].usage.total_tokens > 0, "usage comes last")
        return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)

    @cell("openai-python", way, "async" + note, model)
    async def async_chat(turn):
        async with oai(openai.AsyncOpenAI) as client:
            answer = await client.chat.completions.create(model=turn.model, messages=user(turn))
        return answer.choices[0].message.content

    @cell("openai-python", way, "async stream" + note, model)
    async def async_stream(turn):
        async with oai(openai.AsyncOpenAI) as client:
            stream = await client.chat.completions.create(model=turn.model, messages=user(turn), stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])

    @cell("openai-python", way, "tools" + note, model)
    def tools(turn):
        client, messages = oai(), user(turn)
        ask = lambda: client.chat.completions.create(model=turn.model, messages=messages, tools=[FUNCTION])  # noqa: E731
        said = ask().choices[0].message
        called = said.tool_calls[0]
        turn.expect(called.function.name == "look_up" and json.loads(called.function.arguments)["marker"], called)
        messages += [said, {"role": "tool", "tool_call_id": called.id, "content": "4"}]
        return called.function.arguments + ask().choices[0].message.content

    @cell("openai-python", way, "streamed tools" + note, model)
    def streamed_tools(turn):
        with oai().chat.completions.stream(model=turn.model, messages=user(turn), tools=[FUNCTION]) as stream:
            for _ in stream:
                pass
            called = stream.get_final_completion().choices[0].message.tool_calls[0]
        turn.expect(called.function.name == "look_up", called)
        return called.function.arguments

    @cell("openai-python", way, "structured output" + note, model)
    def parse(turn):
        turn.script(text=CITY)
        answer = oai().chat.completions.parse(model=turn.model, messages=user(turn), response_format=City)
        turn.expect(answer.choices[0].message.parsed == City(city="Lima", people=10), answer)
        return answer.choices[0].message.content


@cell("openai-python", "embeddings", "embeddings", EMBEDDING)
def embeddings(turn):
    answer = oai().embeddings.create(model=turn.model, input=[turn.prompt, "bread"])
    turn.expect(len(answer.data) == 2 and len(answer.data[0].embedding) == 256, answer.usage)
    return str(answer.data[0].embedding[:4] + answer.data[1].embedding[:4])


@cell("openai-python", "embeddings", "async embeddings", EMBEDDING)
async def async_embeddings(turn):
    async with oai(openai.AsyncOpenAI) as client:
        answer = await client.embeddings.create(model=turn.model, input=turn.prompt)
    return str(answer.data[0].embedding[:4])


@cell("openai-python", "models", "models", OPENAI)
def models(turn):
    turn.x_cache_is_free = True
    return ",".join(sorted(model.id for model in oai().models.list()))


def completion(turn):
    return {"model": turn.model, "prompt": turn.prompt, "max_tokens": 50}


@cell("openai-python", "completions", "completions", OPENAI)
def completions(turn):
    return oai().completions.create(**completion(turn)).choices[0].text


@cell("openai-python", "completions", "completions stream", OPENAI)
def completions_stream(turn):
    with oai().completions.create(**completion(turn), stream=True) as chunks:
        return "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)


# Nobody says `store`: a response of Claude is not kept anywhere, and says so.
for model, way, note in ((OPENAI, "responses", ""), (ANTHROPIC, "responses>messages", " on Claude")):
    @cell("openai-python", way, "responses" + note, model)
    def responses(turn):
        answer = oai().responses.create(model=turn.model, input=turn.prompt)
        turn.expect(answer.status == "completed" and answer.usage.total_tokens > 0, answer)
        return answer.output_text

    @cell("openai-python", way, "responses stream" + note, model)
    def responses_stream(turn):
        with oai().responses.stream(model=turn.model, input=turn.prompt) as stream:
            said = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            final = stream.get_final_response()
        turn.expect(final.output_text == said, final)
        return said

    @cell("openai-python", way, "responses tools" + note, model)
    def responses_tools(turn):
        client, items = oai(), user(turn)
        ask = lambda: client.responses.create(model=turn.model, input=items, tools=[FLAT_FUNCTION])  # noqa: E731
        called = [item for item in ask().output if item.type == "function_call"][0]
        turn.expect(called.name == "look_up", called)
        items += [{"type": "function_call", "call_id": called.call_id, "name": called.name, "arguments": called.arguments},
                  {"type": "function_call_output", "call_id": called.call_id, "output": "4"}]
        return called.arguments + ask().output_text

    @cell("openai-python", way, "responses structured" + note, model)
    def responses_parse(turn):
        turn.script(text=CITY)
        answer = oai().responses.parse(model=turn.model, input=turn.prompt, text_format=City)
        turn.expect(answer.output_parsed == City(city="Lima", people=10), answer)
        return answer.output_text

    @cell("openai-python", way, "responses async" + note, model)
    async def responses_async(turn):
        async with oai(openai.AsyncOpenAI) as client:
            return (await client.responses.create(model=turn.model, input=turn.prompt)).output_text


@cell("openai-python", "responses", "responses reasoning", OPENAI)
def responses_reasoning(turn):
    answer = oai().responses.create(model=turn.model, input=turn.prompt, reasoning={"effort": "low", "summary": "auto"})
    turn.expect([item.type for item in answer.output] == ["reasoning", "message"], answer)
    return answer.output[0].summary[0].text + answer.output_text


if DIRECT:  # Azure is a provider, not a way to ask the gateway: what the mock says in its shape, read by its client
    def azure():
        return openai.AzureOpenAI(azure_endpoint=GATEWAY, api_key=KEY, api_version="2024-10-21", max_retries=0, timeout=20)

    @cell("openai-python", "chat", "azure chat", OPENAI)
    def azure_chat(turn):
        return azure().chat.completions.create(model=turn.model, messages=user(turn)).choices[0].message.content

    @cell("openai-python", "chat", "azure stream", OPENAI)
    def azure_stream(turn):
        with azure().chat.completions.create(model=turn.model, messages=user(turn), stream=True) as chunks:
            return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)

    @cell("openai-python", "embeddings", "azure embeddings", EMBEDDING)
    def azure_embeddings(turn):
        return str(azure().embeddings.create(model=turn.model, input=turn.prompt).data[0].embedding[:4])

    @cell("anthropic-python", "models", "anthropic models", ANTHROPIC)
    def anthropic_models(turn):
        return ",".join(model.id for model in ant().models.list())


# What goes wrong. On a hit the provider is not there to fail.

@cell("openai-python", "chat", "timeout", OPENAI)
def timeout(turn):
    ask = lambda seconds: oai(timeout=seconds).chat.completions.create(model=turn.model, messages=user(turn))  # noqa: E731
    turn.script(latency_ms=3000)
    if not turn.is_hit:
        must_time_out(turn, openai, lambda: ask(0.5))
    return ask(2).choices[0].message.content


@cell("openai-python", "chat", "retry", OPENAI)
def retry(turn):
    turn.script(status=429, retry_after="0")
    return oai(max_retries=2).chat.completions.create(model=turn.model, messages=user(turn)).choices[0].message.content


@cell("openai-python", "chat", "error", OPENAI)
def error(turn):
    turn.script(status=400)
    ask = lambda: oai().chat.completions.create(model=turn.model, messages=user(turn))  # noqa: E731
    if not turn.is_hit:
        failed = must_fail(turn, openai.BadRequestError, ask)
        turn.expect(failed.type == "invalid_request_error" and failed.message, failed)
    return ask().choices[0].message.content


def fails_once(turn, status, kind, ask):
    turn.script(status=status)
    if not turn.is_hit:
        turn.expect(must_fail(turn, kind, ask).status_code == status, status)
    return ask()


for status, kind in ((429, openai.RateLimitError), (500, openai.InternalServerError)):
    for model, way, note in ((OPENAI, "chat", ""), (ANTHROPIC, "chat>messages", " on Claude")):
        @cell("openai-python", way, f"error {status}{note}", model)
        def own_error(turn, status=status, kind=kind):
            ask = lambda: oai().chat.completions.create(model=turn.model, messages=user(turn))  # noqa: E731
            return fails_once(turn, status, kind, ask).choices[0].message.content


def stream_words(turn, **more):
    with oai().chat.completions.create(model=turn.model, messages=user(turn), stream=True, **more) as chunks:
        return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


@cell("openai-python", "chat", "error in a stream", OPENAI)
def error_in_stream(turn):
    turn.script(fault="error-event=5")
    if not turn.is_hit:
        must_fail(turn, openai.APIError, lambda: stream_words(turn))
    return stream_words(turn)


@cell("openai-python", "chat", "cut stream", OPENAI)
def cut_stream(turn):
    turn.script(fault="cut-after=5")
    if not turn.is_hit:
        must_fail(turn, Exception, lambda: stream_words(turn))
    return stream_words(turn)


@cell("openai-python", "chat", "abort", OPENAI)
def abort(turn):
    if not turn.is_hit:
        before = ask_mock("GET", "/_mock/counts")["cancelled"]
        turn.script(chunk_ms=100)
        stream = oai().chat.completions.create(model=turn.model, messages=user(turn), stream=True)
        next(iter(stream))
        stream.close()
        turn.expect(cancelled_soon(before), "the provider's call goes on")
        return stream_words(turn)
    stream = oai().chat.completions.create(model=turn.model, messages=user(turn), stream=True)
    next(iter(stream))
    stream.close()
    return stream_words(turn)


# Anthropic.

def message(turn, **more):
    return {"model": turn.model, "max_tokens": 300, "messages": user(turn), **more}


for model, way, note in ((ANTHROPIC, "messages", ""), (OPENAI, "messages>chat", " on GPT")):
    @cell("anthropic-python", way, "messages" + note, model)
    def messages(turn):
        answer = ant().messages.create(**message(turn, system="Be short."))
        turn.expect(answer.stop_reason == "end_turn" and answer.usage.output_tokens > 0, answer)
        return answer.content[0].text

    @cell("anthropic-python", way, "stream" + note, model)
    def messages_stream(turn):
        with ant().messages.stream(**message(turn)) as stream:
            said = "".join(stream.text_stream)
            final = stream.get_final_message()
        turn.expect(final.content[0].text == said and final.stop_reason == "end_turn", final)
        return said

    @cell("anthropic-python", way, "async" + note, model)
    async def messages_async(turn):
        async with ant(anthropic.AsyncAnthropic) as client:
            return (await client.messages.create(**message(turn))).content[0].text

    @cell("anthropic-python", way, "async stream" + note, model)
    async def messages_async_stream(turn):
        async with ant(anthropic.AsyncAnthropic) as client, client.messages.stream(**message(turn)) as stream:
            return "".join([text async for text in stream.text_stream])

    @cell("anthropic-python", way, "tools" + note, model)
    def messages_tools(turn):
        client, turns = ant(), user(turn)
        ask = lambda: client.messages.create(model=turn.model, max_tokens=300, messages=turns, tools=[ANTHROPIC_TOOL])  # noqa: E731
        said = ask()
        called = said.content[-1]
        turn.expect(called.type == "tool_use" and called.name == "look_up" and said.stop_reason == "tool_use", said)
        turns += [{"role": "assistant", "content": said.content},
                  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": called.id, "content": "4"}]}]
        return json.dumps(called.input) + ask().content[0].text

    @cell("anthropic-python", way, "streamed tools" + note, model)
    def messages_streamed_tools(turn):
        with ant().messages.stream(**message(turn, tools=[ANTHROPIC_TOOL])) as stream:
            called = stream.get_final_message().content[-1]
        turn.expect(called.type == "tool_use", called)
        return json.dumps(called.input)

    @cell("anthropic-python", way, "structured output" + note, model)
    def messages_parse(turn):
        turn.script(text=CITY)
        answer = ant().messages.parse(**message(turn), output_format=City)
        turn.expect(answer.parsed_output == City(city="Lima", people=10), answer)
        return answer.content[0].text


@cell("anthropic-python", "messages", "thinking", ANTHROPIC)
def thinking(turn):
    with ant().messages.stream(**message(turn, thinking={"type": "enabled", "budget_tokens": 1024})) as stream:
        final = stream.get_final_message()
    turn.expect([block.type for block in final.content] == ["thinking", "text"] and final.content[0].signature, final)
    return final.content[0].thinking + final.content[1].text


@cell("anthropic-python", "messages", "beta", ANTHROPIC)
def beta(turn):
    answer = ant().beta.messages.create(**message(turn), betas=["context-1m-2025-08-07"])
    return answer.content[0].text


@cell("anthropic-python", "count_tokens", "count_tokens", ANTHROPIC)
def count_tokens(turn):
    return str(ant().messages.count_tokens(model=turn.model, messages=user(turn)).input_tokens)


@cell("anthropic-python", "messages", "timeout", ANTHROPIC)
def messages_timeout(turn):
    ask = lambda seconds: ant(timeout=seconds).messages.create(**message(turn))  # noqa: E731
    turn.script(latency_ms=3000)
    if not turn.is_hit:
        must_time_out(turn, anthropic, lambda: ask(0.5))
    return ask(2).content[0].text


@cell("anthropic-python", "messages", "retry", ANTHROPIC)
def messages_retry(turn):
    turn.script(status=529, retry_after="0")
    return ant(max_retries=2).messages.create(**message(turn)).content[0].text


@cell("anthropic-python", "messages", "error", ANTHROPIC)
def messages_error(turn):
    turn.script(status=400)
    ask = lambda: ant().messages.create(**message(turn))  # noqa: E731
    if not turn.is_hit:
        failed = must_fail(turn, anthropic.BadRequestError, ask)
        turn.expect(failed.body["error"]["type"] == "invalid_request_error", failed)
    return ask().content[0].text


ERRORS = ((429, anthropic.RateLimitError), (500, anthropic.InternalServerError), (529, anthropic.OverloadedError))
for status, kind in ERRORS:
    for model, way, note in ((ANTHROPIC, "messages", ""), (OPENAI, "messages>chat", " on GPT")):
        @cell("anthropic-python", way, f"error {status}{note}", model)
        def messages_own_error(turn, status=status, kind=kind):
            ask = lambda: ant().messages.create(**message(turn))  # noqa: E731
            return fails_once(turn, status, kind, ask).content[0].text


def message_words(turn):
    with ant().messages.stream(**message(turn)) as stream:
        return "".join(stream.text_stream)


@cell("anthropic-python", "messages", "error in a stream", ANTHROPIC)
def messages_error_in_stream(turn):
    turn.script(fault="error-event=5")
    if not turn.is_hit:
        must_fail(turn, anthropic.APIStatusError, lambda: message_words(turn))
    return message_words(turn)


@cell("anthropic-python", "messages", "abort", ANTHROPIC)
def messages_abort(turn):
    before = ask_mock("GET", "/_mock/counts")["cancelled"]
    turn.script(chunk_ms=100)
    with ant().messages.stream(**message(turn)) as stream:
        next(iter(stream.text_stream))
    turn.expect(turn.is_hit or cancelled_soon(before), "the provider's call goes on")
    return message_words(turn)


if __name__ == "__main__":
    main(["openai", "anthropic"])

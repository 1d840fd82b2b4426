"""Ordinary calls of LangChain and LlamaIndex."""

from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai import OpenAIEmbedding
from llama_index.llms.openai import OpenAI, OpenAIResponses
from pydantic import BaseModel, Field

from harness import ANTHROPIC, EMBEDDING, GATEWAY, KEY, OPENAI, cell, main

CITY = '{"city":"Lima","people":10}'


class City(BaseModel):
    """A city."""

    city: str = Field(description="its name")
    people: int = Field(description="how many live there")


@tool
def look_up(marker: str) -> str:
    """Looks up."""
    return marker


def chat_openai(turn, **more):
    return ChatOpenAI(model=turn.model, base_url=f"{GATEWAY}/v1", api_key=KEY, max_retries=0, timeout=20, **more)


def chat_anthropic(turn, **more):
    return ChatAnthropic(model=turn.model, base_url=GATEWAY, api_key=KEY, max_retries=0, timeout=20, max_tokens=300, **more)


def words(message):
    return message.text if isinstance(message.text, str) else message.text()


KINDS = (
    ("langchain-openai", "chat", "", OPENAI, lambda turn: chat_openai(turn, use_responses_api=False)),
    ("langchain-openai", "responses", " by responses", OPENAI, lambda turn: chat_openai(turn, use_responses_api=True)),
    ("langchain-openai", "chat>messages", " on Claude", ANTHROPIC, lambda turn: chat_openai(turn, use_responses_api=False)),
    ("langchain-openai", "responses>messages", " by responses on Claude", ANTHROPIC,
     lambda turn: chat_openai(turn, use_responses_api=True)),
    ("langchain-anthropic", "messages", "", ANTHROPIC, chat_anthropic),
    ("langchain-anthropic", "messages>chat", " on GPT", OPENAI, chat_anthropic),
)
for sdk, way, note, model, make in KINDS:
    @cell(sdk, way, "invoke" + note, model)
    def invoke(turn, make=make):
        answer = make(turn).invoke(turn.prompt)
        turn.expect(answer.usage_metadata["total_tokens"] > 0, answer)
        return words(answer)

    @cell(sdk, way, "stream" + note, model)
    def stream(turn, make=make):
        return "".join(words(chunk) for chunk in make(turn).stream(turn.prompt))

    @cell(sdk, way, "async" + note, model)
    async def ainvoke(turn, make=make):
        return words(await make(turn).ainvoke(turn.prompt))

    @cell(sdk, way, "async stream" + note, model)
    async def astream(turn, make=make):
        return "".join([words(chunk) async for chunk in make(turn).astream(turn.prompt)])

    @cell(sdk, way, "tools" + note, model)
    def tools(turn, make=make):
        bound = make(turn).bind_tools([look_up])
        said = bound.invoke(turn.prompt)
        turn.expect(said.tool_calls[0]["name"] == "look_up", said)
        result = look_up.invoke(said.tool_calls[0])
        return str(said.tool_calls[0]["args"]) + words(bound.invoke([("user", turn.prompt), said, result]))

    @cell(sdk, way, "structured output" + note, model)
    def structured(turn, make=make):
        turn.script(text=CITY)
        chain = make(turn).with_structured_output(City, method="json_schema")
        answer = chain.invoke(turn.prompt)
        turn.expect(answer == City(city="Lima", people=10), answer)
        return str(answer)


@cell("langchain-openai", "embeddings", "embeddings", EMBEDDING)
def embeddings(turn):
    # Without its check of lengths, which would send token numbers and fetch a tokenizer.
    client = OpenAIEmbeddings(model=turn.model, base_url=f"{GATEWAY}/v1", api_key=KEY, check_embedding_ctx_length=False)
    return str([vector[:4] for vector in client.embed_documents([turn.prompt, "bread"])])


def llama(turn, kind=OpenAI):
    return kind(model=turn.model, api_base=f"{GATEWAY}/v1", api_key=KEY, max_retries=0, timeout=20)


for kind, way, note in ((OpenAI, "chat", ""), (OpenAIResponses, "responses", " by responses")):
    @cell("llama-index", way, "chat" + note, OPENAI)
    def chat(turn, kind=kind):
        return llama(turn, kind).chat([ChatMessage(role="user", content=turn.prompt)]).message.content

    @cell("llama-index", way, "complete" + note, OPENAI)
    def complete(turn, kind=kind):
        return llama(turn, kind).complete(turn.prompt).text

    @cell("llama-index", way, "stream" + note, OPENAI)
    def stream_chat(turn, kind=kind):
        parts = llama(turn, kind).stream_chat([ChatMessage(role="user", content=turn.prompt)])
        return "".join(part.delta or "" for part in parts)

    @cell("llama-index", way, "async" + note, OPENAI)
    async def achat(turn, kind=kind):
        return (await llama(turn, kind).achat([ChatMessage(role="user", content=turn.prompt)])).message.content

    @cell("llama-index", way, "tools" + note, OPENAI)
    def chat_with_tools(turn, kind=kind):
        model = llama(turn, kind)
        look = FunctionTool.from_defaults(lambda marker: marker, name="look_up", description="Looks up.")
        called = model.get_tool_calls_from_response(model.chat_with_tools([look], user_msg=turn.prompt))
        turn.expect(called[0].tool_name == "look_up", called)
        return str(called[0].tool_kwargs)


@cell("llama-index", "embeddings", "embeddings", EMBEDDING)
def llama_embeddings(turn):
    client = OpenAIEmbedding(model_name=turn.model, api_base=f"{GATEWAY}/v1", api_key=KEY, max_retries=0)
    return str([vector[:4] for vector in client.get_text_embedding_batch([turn.prompt, "bread"])])


@cell("llama-index", "embeddings", "async embeddings", EMBEDDING)
async def llama_async_embeddings(turn):
    client = OpenAIEmbedding(model_name=turn.model, api_base=f"{GATEWAY}/v1", api_key=KEY, max_retries=0)
    return str((await client.aget_query_embedding(turn.prompt))[:4])


if __name__ == "__main__":
    main(["langchain-openai", "langchain-anthropic", "langchain-core", "llama-index-core", "llama-index-llms-openai",
          "llama-index-embeddings-openai", "openai", "anthropic"])

// Ordinary calls of the official JavaScript SDKs and the Vercel AI SDK. The protocol is that of harness.py.

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import Anthropic from '@anthropic-ai/sdk';
import { embedMany, generateText, isStepCount, Output, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';

const { SDK_BASE: base, SDK_MOCK: mock, SDK_KEY: apiKey } = process.env;
const direct = process.env.SDK_DIRECT === '1';
const GPT = 'gpt-4o-mini', CLAUDE = 'claude-haiku-4-5', EMBEDDING = 'text-embedding-3-small';
const cells = [];
let seen = [];

const plainFetch = globalThis.fetch;
const fetch = async (...args) => {
  const answer = await plainFetch(...args);
  seen.push([answer.status, answer.headers.get('x-cache')]);
  return answer;
};
globalThis.fetch = fetch;
globalThis.AI_SDK_LOG_WARNINGS = false;

const askMock = async (method, path, value) =>
  (await plainFetch(mock + path, { method, body: value && JSON.stringify(value) })).json();
const expect = (condition, what) => {
  if (!condition) throw new Error(`expected otherwise: ${JSON.stringify(what)}`);
};
const mustFail = async (kind, work) => {
  try {
    await work();
  } catch (error) {
    expect(error instanceof kind, `${error.constructor.name}: ${error}`);
    return error;
  }
  throw new Error(`${kind.name} was to be thrown`);
};
const cancelledSoon = async (before) => {
  for (let tries = 0; tries < 500; tries++) {
    if ((await askMock('GET', '/_mock/counts')).cancelled > before) return true;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return false;
};
const mustTimeOut = async (kind, work) => {
  const { cancelled } = await askMock('GET', '/_mock/counts');
  await mustFail(kind, work);
  expect(await cancelledSoon(cancelled), "the provider's call goes on");
};
const cell = (sdk, apis, name, model, run) => cells.push({ sdk, apis: apis.split(' '), name, model, run });

const parameters = { type: 'object', properties: { marker: { type: 'string' } }, required: ['marker'] };
const fn = { type: 'function', function: { name: 'look_up', description: 'Looks up.', parameters } };
const flatFn = { type: 'function', name: 'look_up', description: 'Looks up.', parameters, strict: false };
const claudeTool = { name: 'look_up', description: 'Looks up.', input_schema: parameters };
const CITY = '{"city":"Lima","people":10}';
const City = z.object({ city: z.string(), people: z.number() });
const isCity = (value) => expect(value?.city === 'Lima' && value.people === 10, value);
const user = (turn) => [{ role: 'user', content: turn.prompt }];

const oai = (more) => new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0, timeout: 20_000, fetch, ...more });
const ant = (more) => new Anthropic({ baseURL: base, apiKey, maxRetries: 0, timeout: 20_000, fetch, ...more });

// OpenAI.

const chatWords = async (turn, options) => {
  let said = '';
  const stream = await oai(options).chat.completions.create({ model: turn.model, messages: user(turn), stream: true });
  for await (const chunk of stream) said += chunk.choices[0]?.delta.content ?? '';
  return said;
};
const chatOnce = async (turn, options) =>
  (await oai(options).chat.completions.create({ model: turn.model, messages: user(turn) })).choices[0].message.content;

for (const [model, way, note] of [[GPT, 'chat', ''], [CLAUDE, 'chat>messages', ' on Claude']]) {
  cell('openai-js', way, `chat${note}`, model, (turn) => chatOnce(turn));
  cell('openai-js', way, `stream${note}`, model, (turn) => chatWords(turn));
  cell('openai-js', way, `tools${note}`, model, async (turn) => {
    const messages = user(turn);
    const ask = async () => (await oai().chat.completions.create({ model, messages, tools: [fn] })).choices[0].message;
    const said = await ask();
    const called = said.tool_calls[0];
    expect(called.function.name === 'look_up', called);
    messages.push(said, { role: 'tool', tool_call_id: called.id, content: '4' });
    return called.function.arguments + (await ask()).content;
  });
  cell('openai-js', way, `streamed tools${note}`, model, async (turn) => {
    const stream = oai().chat.completions.stream({ model, messages: user(turn), tools: [fn] });
    const called = (await stream.finalMessage()).tool_calls[0];
    expect(called.function.name === 'look_up', called);
    return called.function.arguments;
  });
  cell('openai-js', way, `structured output${note}`, model, async (turn) => {
    await turn.script({ text: CITY });
    const response_format = zodResponseFormat(City, 'city');
    const answer = await oai().chat.completions.parse({ model, messages: user(turn), response_format });
    isCity(answer.choices[0].message.parsed);
    return answer.choices[0].message.content;
  });
}
cell('openai-js', 'embeddings', 'embeddings', EMBEDDING, async (turn) => {
  const answer = await oai().embeddings.create({ model: turn.model, input: [turn.prompt, 'bread'] });
  expect(answer.data.length === 2 && answer.data[0].embedding.length === 256, answer.usage);
  return JSON.stringify(answer.data.map((one) => one.embedding.slice(0, 4)));
});
cell('openai-js', 'completions', 'completions', GPT, async (turn) =>
  (await oai().completions.create({ model: turn.model, prompt: turn.prompt })).choices[0].text);
cell('openai-js', 'completions', 'completions stream', GPT, async (turn) => {
  let said = '';
  const stream = await oai().completions.create({ model: turn.model, prompt: turn.prompt, stream: true });
  for await (const chunk of stream) said += chunk.choices[0]?.text ?? '';
  return said;
});
for (const [model, way, note] of [[GPT, 'responses', ''], [CLAUDE, 'responses>messages', ' on Claude']]) {
  cell('openai-js', way, `responses${note}`, model, async (turn) =>
    (await oai().responses.create({ model, input: turn.prompt })).output_text);
  cell('openai-js', way, `responses stream${note}`, model, async (turn) => {
    let said = '';
    const stream = oai().responses.stream({ model, input: turn.prompt });
    for await (const event of stream) if (event.type === 'response.output_text.delta') said += event.delta;
    expect((await stream.finalResponse()).output_text === said, said);
    return said;
  });
  cell('openai-js', way, `responses tools${note}`, model, async (turn) => {
    const answer = await oai().responses.create({ model, input: turn.prompt, tools: [flatFn] });
    const called = answer.output.find((item) => item.type === 'function_call');
    expect(called.name === 'look_up', called);
    return called.arguments;
  });
  cell('openai-js', way, `responses structured${note}`, model, async (turn) => {
    await turn.script({ text: CITY });
    const text = { format: zodTextFormat(City, 'city') };
    const answer = await oai().responses.parse({ model, input: turn.prompt, text });
    isCity(answer.output_parsed);
    return answer.output_text;
  });
}
cell('openai-js', 'chat', 'timeout', GPT, async (turn) => {
  await turn.script({ latency_ms: 3000 });
  if (!turn.isHit) await mustTimeOut(OpenAI.APIConnectionTimeoutError, () => chatOnce(turn, { timeout: 500 }));
  return chatOnce(turn, { timeout: 2000 });
});
cell('openai-js', 'chat', 'retry', GPT, async (turn) => {
  await turn.script({ status: 503, retry_after: '0' });
  return chatOnce(turn, { maxRetries: 2 });
});
cell('openai-js', 'chat', 'error', GPT, async (turn) => {
  await turn.script({ status: 400 });
  if (!turn.isHit) {
    const failed = await mustFail(OpenAI.BadRequestError, () => chatOnce(turn));
    expect(failed.type === 'invalid_request_error', failed.type);
  }
  return chatOnce(turn);
});
for (const [status, kind] of [[429, OpenAI.RateLimitError], [500, OpenAI.InternalServerError]]) {
  for (const [model, way, note] of [[GPT, 'chat', ''], [CLAUDE, 'chat>messages', ' on Claude']]) {
    cell('openai-js', way, `error ${status}${note}`, model, async (turn) => {
      await turn.script({ status });
      if (!turn.isHit) await mustFail(kind, () => chatOnce(turn));
      return chatOnce(turn);
    });
  }
}
cell('openai-js', 'chat', 'error in a stream', GPT, async (turn) => {
  await turn.script({ fault: 'error-event=5' });
  if (!turn.isHit) await mustFail(OpenAI.APIError, () => chatWords(turn));
  return chatWords(turn);
});
cell('openai-js', 'chat', 'abort', GPT, async (turn) => {
  const { cancelled } = await askMock('GET', '/_mock/counts');
  await turn.script({ chunk_ms: 100 });
  const stream = await oai().chat.completions.create({ model: turn.model, messages: user(turn), stream: true });
  for await (const _ of stream) break;
  stream.controller.abort();
  expect(turn.isHit || (await cancelledSoon(cancelled)), "the provider's call goes on");
  return chatWords(turn);
});

// Anthropic.

const message = (turn, more) => ({ model: turn.model, max_tokens: 300, messages: user(turn), ...more });
const messageOnce = async (turn, options) => (await ant(options).messages.create(message(turn))).content[0].text;
const messageWords = async (turn) => ant().messages.stream(message(turn)).finalText();

for (const [model, way, note] of [[CLAUDE, 'messages', ''], [GPT, 'messages>chat', ' on GPT']]) {
  cell('anthropic-js', way, `messages${note}`, model, (turn) => messageOnce(turn));
  cell('anthropic-js', way, `stream${note}`, model, async (turn) => {
    let said = '';
    const stream = ant().messages.stream(message(turn)).on('text', (text) => (said += text));
    const final = await stream.finalMessage();
    expect(final.content[0].text === said && final.stop_reason === 'end_turn', final);
    return said;
  });
  cell('anthropic-js', way, `tools${note}`, model, async (turn) => {
    const messages = user(turn);
    const ask = () => ant().messages.create({ model, max_tokens: 300, messages, tools: [claudeTool] });
    const said = await ask();
    const called = said.content.at(-1);
    expect(called.type === 'tool_use' && said.stop_reason === 'tool_use', said);
    const result = [{ type: 'tool_result', tool_use_id: called.id, content: '4' }];
    messages.push({ role: 'assistant', content: said.content }, { role: 'user', content: result });
    return JSON.stringify(called.input) + (await ask()).content[0].text;
  });
  cell('anthropic-js', way, `streamed tools${note}`, model, async (turn) => {
    const final = await ant().messages.stream(message(turn, { tools: [claudeTool] })).finalMessage();
    return JSON.stringify(final.content.at(-1).input);
  });
}
cell('anthropic-js', 'messages', 'thinking', CLAUDE, async (turn) => {
  const thinking = { type: 'enabled', budget_tokens: 1024 };
  const final = await ant().messages.stream(message(turn, { thinking })).finalMessage();
  expect(final.content[0].type === 'thinking' && final.content[0].signature, final);
  return final.content[0].thinking + final.content[1].text;
});
cell('anthropic-js', 'count_tokens', 'count_tokens', CLAUDE, async (turn) =>
  String((await ant().messages.countTokens({ model: turn.model, messages: user(turn) })).input_tokens));
cell('anthropic-js', 'messages', 'timeout', CLAUDE, async (turn) => {
  await turn.script({ latency_ms: 3000 });
  if (!turn.isHit) await mustTimeOut(Anthropic.APIConnectionTimeoutError, () => messageOnce(turn, { timeout: 500 }));
  return messageOnce(turn, { timeout: 2000 });
});
cell('anthropic-js', 'messages', 'retry', CLAUDE, async (turn) => {
  await turn.script({ status: 529, retry_after: '0' });
  return messageOnce(turn, { maxRetries: 2 });
});
for (const status of [429, 500, 529]) {
  const kind = status === 429 ? Anthropic.RateLimitError : Anthropic.InternalServerError;
  for (const [model, way, note] of [[CLAUDE, 'messages', ''], [GPT, 'messages>chat', ' on GPT']]) {
    cell('anthropic-js', way, `error ${status}${note}`, model, async (turn) => {
      await turn.script({ status });
      if (!turn.isHit) await mustFail(kind, () => messageOnce(turn));
      return messageOnce(turn);
    });
  }
}
cell('anthropic-js', 'messages', 'error in a stream', CLAUDE, async (turn) => {
  await turn.script({ fault: 'error-event=5' });
  if (!turn.isHit) await mustFail(Anthropic.AnthropicError, () => messageWords(turn));
  return messageWords(turn);
});
cell('anthropic-js', 'messages', 'abort', CLAUDE, async (turn) => {
  const { cancelled } = await askMock('GET', '/_mock/counts');
  await turn.script({ chunk_ms: 100 });
  const stream = await ant().messages.create(message(turn, { stream: true }));
  for await (const _ of stream) break;
  stream.controller.abort();
  expect(turn.isHit || (await cancelledSoon(cancelled)), "the provider's call goes on");
  return messageWords(turn);
});

// Vercel's AI SDK, whose OpenAI models speak the Responses API unless told otherwise.

const openai = createOpenAI({ baseURL: `${base}/v1`, apiKey, fetch });
const anthropic = createAnthropic({ baseURL: `${base}/v1`, apiKey, fetch });
const tools = (prepare) => ({
  look_up: tool({ description: 'Looks up.', inputSchema: z.object({ marker: z.string() }), execute: prepare }),
});
for (const [note, way, name, make] of [
  ['', 'chat', GPT, (model) => openai.chat(model)],
  [' by responses', 'responses', GPT, (model) => openai(model)],
  [' by messages', 'messages', CLAUDE, (model) => anthropic(model)],
  [' on Claude', 'chat>messages', CLAUDE, (model) => openai.chat(model)],
  [' by responses on Claude', 'responses>messages', CLAUDE, (model) => openai(model)],
  [' by messages on GPT', 'messages>chat', GPT, (model) => anthropic(model)],
]) {
  const ask = (turn, more) => ({ model: make(turn.model), prompt: turn.prompt, maxRetries: 0, ...more });
  cell('vercel-ai', way, `generateText${note}`, name, async (turn) => (await generateText(ask(turn))).text);
  cell('vercel-ai', way, `streamText${note}`, name, async (turn) => {
    let said = '';
    for await (const part of streamText(ask(turn, { onError: () => {} })).textStream) said += part;
    return said;
  });
  cell('vercel-ai', way, `tools${note}`, name, async (turn) => {
    const given = [];
    const answer = await generateText(ask(turn, { tools: tools((input) => given.push(input.marker)), stopWhen: isStepCount(3) }));
    expect(given.length === 1 && answer.text, given);
    return given[0] + answer.text;
  });
  cell('vercel-ai', way, `structured output${note}`, name, async (turn) => {
    await turn.script({ text: CITY });
    const { output } = await generateText(ask(turn, { output: Output.object({ schema: City }) }));
    isCity(output);
    return JSON.stringify(output);
  });
}
cell('vercel-ai', 'embeddings', 'embedMany', EMBEDDING, async (turn) => {
  const { embeddings } = await embedMany({ model: openai.embedding(turn.model), values: [turn.prompt, 'bread'], maxRetries: 0 });
  return JSON.stringify(embeddings.map((one) => one.slice(0, 4)));
});
cell('vercel-ai', 'chat', 'abort', GPT, async (turn) => {
  const { cancelled } = await askMock('GET', '/_mock/counts');
  await turn.script({ chunk_ms: 100 });
  const control = new AbortController();
  const ask = { model: openai.chat(turn.model), prompt: turn.prompt, maxRetries: 0, onError: () => {} };
  const stream = streamText({ ...ask, abortSignal: control.signal });
  for await (const _ of stream.textStream) break;
  control.abort();
  expect(turn.isHit || (await cancelledSoon(cancelled)), "the provider's call goes on");
  let said = '';
  for await (const part of streamText(ask).textStream) said += part;
  return said;
});

// The run.

const judge = (turn, answers) => {
  const last = answers.at(-1);
  if (!last) return 'the answer is empty';
  if (last !== answers[0]) return `the hit is ${JSON.stringify(last)} and the miss was ${JSON.stringify(answers[0])}`;
  if (direct) return null;
  const wanted = turn.isHit ? 'EXACT' : 'MISS';
  const found = seen.filter(([status]) => status === 200).map(([, cache]) => cache);
  return found.length > 0 && found.every((cache) => cache === wanted) ? null : `X-Cache was ${found}, wanted ${wanted}`;
};

const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const version = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
const packages = ['openai', '@anthropic-ai/sdk', 'ai', '@ai-sdk/openai', '@ai-sdk/anthropic'];
print({ versions: { node: process.versions.node, ...Object.fromEntries(packages.map((name) => [name, version(name)])) } });
for (const { sdk, apis, name, model, run } of cells) {
  const asks = name.includes('tools') ? ' Please use the tool.' : '';
  const prompt = `${name} of ${sdk} ${randomBytes(4).toString('hex')}: why do tides come twice a day?${asks}`;
  const answers = [];
  for (const pass of direct ? ['direct'] : ['miss', 'hit']) {
    seen = [];
    const isHit = pass === 'hit';
    const script = (behaviour) => isHit || askMock('POST', '/_mock/script', [{ when: prompt, ...behaviour }]);
    const turn = { prompt, model, isHit, script };
    const began = performance.now();
    let wrong = null;
    try {
      answers.push(await run(turn));
      wrong = judge(turn, answers);
    } catch (error) {
      wrong = `${error.stack ?? error}`.slice(0, 1500);
    }
    print({ sdk, case: name, apis, pass, wrong, ms: Math.round(performance.now() - began) });
    if (wrong) break;
  }
}
process.exit(0);

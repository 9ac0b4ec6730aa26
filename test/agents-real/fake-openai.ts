/**
 * Replies in the dialect of POST /v1/responses, as far as agentB needs them.
 *
 * Each reply bills the same number of tokens, so that a test knows the cost of a run.
 */
import { begin, type Reply, refuse, send, stream } from './model-api.ts'

export const RESPONSES = '/v1/responses'
/** The address of a plan, which has an origin of its own. */
export const PLAN_RESPONSES = '/backend-api/codex/responses'

/** Each response names its model, as the vendor's do. */
export const OPENAI_MODEL = 'gpt-5.6-luna'

/** The tokens of one reply in the API's terms: `input` includes cached tokens, `output` includes reasoning. */
export const OPENAI_USAGE = {
  input_tokens: 2_000,
  input_tokens_details: { cached_tokens: 1_200, cache_write_tokens: 200 },
  output_tokens: 100,
  output_tokens_details: { reasoning_tokens: 40 },
  total_tokens: 2_100,
}

export const replyText =
  (text: string): Reply =>
  (response) =>
    stream(
      response,
      answered({
        type: 'message',
        id: nextId('msg'),
        role: 'assistant',
        content: [{ type: 'output_text', text }],
      }),
    )

/** The agent calls its shell through a piece of JavaScript. */
export const runs =
  (command: string): Reply =>
  (response) =>
    stream(
      response,
      answered({
        type: 'custom_tool_call',
        id: nextId('ctc'),
        call_id: nextId('call'),
        namespace: 'functions',
        name: 'exec',
        input: `const r = await tools.exec_command({cmd: ${JSON.stringify(command)}}); text(r.output);`,
      }),
    )

/** The usage limit of a plan. */
export const isAtLimit =
  (resetsAt: Date): Reply =>
  (response) =>
    refuse(response, 429, {
      error: {
        type: 'usage_limit_reached',
        message: 'The usage limit has been reached',
        plan_type: 'plus',
        resets_at: Math.floor(resetsAt.getTime() / 1000),
      },
    })

export const refusesTheKey: Reply = (response) =>
  refuse(response, 401, {
    error: {
      message: 'Incorrect API key provided: sk-proj-********.',
      type: 'invalid_request_error',
      code: 'invalid_api_key',
    },
  })

/** Starts a reply and never ends it. */
export const goesOnForever: Reply = (response) => {
  begin(response)
  const id = nextId('msg')
  send(response, created(nextId('resp')))
  send(response, {
    type: 'response.output_item.added',
    item: { type: 'message', id, role: 'assistant', content: [] },
  } as {
    type: string
  })
  let word = 0
  const timer = setInterval(() => {
    send(response, { type: 'response.output_text.delta', item_id: id, delta: `word${word} ` } as {
      type: string
    })
    word += 1
  }, 20)
  response.on('close', () => clearInterval(timer))
}

// ---- a response as it is streamed --------------------------------------------------------------------------------

let made = 0
function nextId(prefix: string): string {
  made += 1
  return `${prefix}_${String(made).padStart(8, '0')}`
}

const created = (id: string) => ({ type: 'response.created', response: { id, model: OPENAI_MODEL } })

function answered(item: object) {
  const id = nextId('resp')
  return [
    created(id),
    { type: 'response.output_item.done', item },
    { type: 'response.completed', response: { id, model: OPENAI_MODEL, usage: OPENAI_USAGE } },
  ]
}

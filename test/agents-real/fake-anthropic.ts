/**
 * Replies in the dialect of POST /v1/messages, as far as agentA needs them.
 *
 * Each reply bills the same number of tokens, so that a test knows the cost of a run.
 */
import { begin, type Reply, refuse, send, stream } from './model-api.ts'

export const MESSAGES = '/v1/messages'

/** The tokens of one reply in the API's terms: `input` excludes cached tokens. */
export const ANTHROPIC_USAGE = {
  input_tokens: 100,
  cache_creation_input_tokens: 2_000,
  cache_read_input_tokens: 5_000,
  output_tokens: 40,
}

export const replyText =
  (text: string): Reply =>
  (response, { body }) =>
    stream(response, message(modelOf(body), [{ type: 'text', text }], 'end_turn'))

export const runs =
  (command: string): Reply =>
  (response, { body }) => {
    const input = { command, description: 'what the test asks for' }
    stream(
      response,
      message(modelOf(body), [{ type: 'tool_use', id: nextId('toolu'), name: 'Bash', input }], 'tool_use'),
    )
  }

/** The limit of a subscription, which the API reports in headers. */
export const isAtLimit =
  (resetsAt: Date): Reply =>
  (response) => {
    const reset = String(Math.floor(resetsAt.getTime() / 1000))
    refuse(
      response,
      429,
      problem('rate_limit_error', 'This request would exceed your account’s rate limit.'),
      {
        'anthropic-ratelimit-unified-status': 'rejected',
        'anthropic-ratelimit-unified-reset': reset,
        'anthropic-ratelimit-unified-representative-claim': 'five_hour',
        'anthropic-ratelimit-unified-5h-status': 'rejected',
        'anthropic-ratelimit-unified-5h-utilization': '1.0',
        'anthropic-ratelimit-unified-5h-reset': reset,
      },
    )
  }

export const refusesTheKey: Reply = (response) =>
  refuse(response, 401, problem('authentication_error', 'invalid x-api-key'), { 'x-should-retry': 'false' })

/** Starts a reply and never ends it. */
export const goesOnForever: Reply = (response, { body }) => {
  begin(response)
  const [start, open] = opening(modelOf(body), { type: 'text', text: '' })
  send(response, start)
  send(response, open)
  let word = 0
  const timer = setInterval(() => {
    send(response, delta({ type: 'text_delta', text: `word${word} ` }))
    word += 1
  }, 20)
  response.on('close', () => clearInterval(timer))
}

// ---- a message as it is streamed ---------------------------------------------------------------------------------

type Block =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'tool_use'; readonly id: string; readonly name: string; readonly input: object }

let made = 0
function nextId(prefix: string): string {
  made += 1
  return `${prefix}_${String(made).padStart(8, '0')}`
}

function message(model: string, blocks: readonly [Block], stopReason: string) {
  const [block] = blocks
  const [start, open] = opening(model, block)
  return [
    start,
    open,
    delta(
      block.type === 'text'
        ? { type: 'text_delta', text: block.text }
        : { type: 'input_json_delta', partial_json: JSON.stringify(block.input) },
    ),
    { type: 'content_block_stop', index: 0 },
    {
      type: 'message_delta',
      delta: { stop_reason: stopReason, stop_sequence: null },
      usage: ANTHROPIC_USAGE,
    },
    { type: 'message_stop' },
  ]
}

function opening(model: string, block: Block) {
  const usage = { ...ANTHROPIC_USAGE, output_tokens: 1 }
  return [
    {
      type: 'message_start',
      message: {
        id: nextId('msg'),
        type: 'message',
        role: 'assistant',
        model,
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage,
      },
    },
    {
      type: 'content_block_start',
      index: 0,
      content_block: block.type === 'text' ? { ...block, text: '' } : { ...block, input: {} },
    },
  ] as const
}

const delta = (inner: object) => ({ type: 'content_block_delta', index: 0, delta: inner })
const modelOf = ({ model }: Readonly<Record<string, unknown>>): string => String(model)
const problem = (type: string, text: string) => ({
  type: 'error',
  error: { type, message: text },
  request_id: 'req_fake',
})

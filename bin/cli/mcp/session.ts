/**
 * A session answers each request of one client of `switchyard mcp` exactly once, unless the client cancels the request.
 *
 * The session knows the protocol only; `callTool` decides what a tool does, and whether it may.
 */
import { isMcpToolName, type ListedTool, type McpToolName } from '../../../protocol/mcp-tools.ts'
import { isSafeJson } from '../../../protocol/parse.ts'
import { isObject } from '../../../protocol/schema-errors.ts'
import { VERSION } from '../../process/this-program.ts'

/** Calls that may run at once; a further call is refused. */
export const MCP_CALLS_MAX = 16

/** The running call of a tool. */
export interface ToolCall {
  /** Aborted when the client cancels the call or ends. */
  readonly signal: AbortSignal
  /** Sends a report when the client asked for reports. `progress` grows. */
  report(progress: number, total: number, message: string): void
}

export interface McpToolResult {
  readonly content: readonly { readonly type: 'text'; readonly text: string }[]
  readonly structuredContent?: object
  readonly isError?: true
}

/** Never rejects: a failure is a result. */
export type CallTool = (
  name: McpToolName,
  input: Readonly<Record<string, unknown>>,
  call: ToolCall,
) => Promise<McpToolResult>

interface SessionOptions {
  readonly tools: readonly ListedTool[]
  readonly instructions: string
  readonly callTool: CallTool
  /** Sends one message to the client. */
  readonly send: (message: object) => void
}

const SERVER_INFO = { name: 'switchyard', title: 'Switchyard', version: VERSION }
const CAPABILITIES = { tools: {} }

type Answer = { readonly result: object } | { readonly error: RpcError }
type McpMethod = (params: RpcParams) => Answer

const refuse = (code: number, message: string): Answer => ({ error: { code, message } })

export class McpSession {
  readonly #options: SessionOptions
  readonly #calls = new Map<RequestId, AbortController>()
  /** Calls that the client cancelled; they get no answer. */
  readonly #cancelled = new WeakSet<AbortSignal>()
  /** The methods that answer at once, by dialect; `tools/call` answers later. */
  readonly #methods: Readonly<Record<Dialect, Readonly<Record<string, McpMethod>>>>
  #isInitialized = false
  #onIdle: (() => void) | undefined

  constructor(options: SessionOptions) {
    this.#options = options
    const listTools: McpMethod = ({ cursor }) => this.#listTools(cursor)
    this.#methods = {
      session: {
        initialize: (params) => this.#initialize(params),
        ping: () => ({ result: {} }),
        'tools/list': listTools,
        // Clients ask for it before they know which revisions the server speaks.
        'server/discover': () => ({ result: completeResult(this.#discovery(), SERVER_INFO, true) }),
      },
      request: {
        'tools/list': listTools,
        'server/discover': () => ({ result: this.#discovery() }),
      },
    }
  }

  onLine(line: string): void {
    const message = parseMessage(line)
    if (message.kind === 'request') this.#onRequest(message.id, message.method, message.params)
    else if (message.kind === 'notification') this.#onNotification(message.method, message.params)
    else if (message.kind === 'invalid') this.#send(message.id, { error: message.error })
  }

  /** A message was dropped before its id was known. */
  onTooLong(bytesMax: number): void {
    this.#send(null, refuse(INVALID_REQUEST, `a message must have at most ${bytesMax} bytes`))
  }

  /** Ends the calls that wait for something, and resolves when every call has its answer. */
  async close(): Promise<void> {
    for (const call of this.#calls.values()) call.abort()
    if (this.#calls.size === 0) return
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve
    })
  }

  // ---- messages --------------------------------------------------------------------------------------------------

  #onRequest(id: RequestId, method: string, params: RpcParams): void {
    const spoken = dialectOf(params)
    if (!spoken.ok) {
      this.#send(id, { error: spoken.error })
      return
    }
    const { dialect } = spoken
    const isEarly = dialect === 'session' && !this.#isInitialized
    if (isEarly && !['initialize', 'ping', 'server/discover'].includes(method))
      this.#send(id, refuse(INVALID_REQUEST, 'initialize must be the first request'))
    else if (method === 'tools/call') this.#onCall(id, params, dialect)
    else {
      const answer = Object.hasOwn(this.#methods[dialect], method)
        ? this.#methods[dialect][method]?.(params)
        : undefined
      this.#send(id, this.#complete(answer ?? refuse(METHOD_NOT_FOUND, 'no such method'), dialect, true))
    }
  }

  #onNotification(method: string, { requestId }: RpcParams): void {
    const call = isId(requestId) ? this.#calls.get(requestId) : undefined
    if (method !== 'notifications/cancelled' || call === undefined) return
    this.#cancelled.add(call.signal)
    call.abort()
  }

  #initialize({ protocolVersion }: RpcParams): Answer {
    if (this.#isInitialized) return refuse(INVALID_REQUEST, 'the session is initialized already')
    if (typeof protocolVersion !== 'string')
      return refuse(INVALID_PARAMS, 'params.protocolVersion must be a string')
    this.#isInitialized = true
    return {
      result: {
        protocolVersion: negotiateRevision(protocolVersion),
        capabilities: CAPABILITIES,
        serverInfo: SERVER_INFO,
        instructions: this.#options.instructions,
      },
    }
  }

  #discovery(): object {
    return {
      supportedVersions: REVISIONS,
      capabilities: CAPABILITIES,
      instructions: this.#options.instructions,
    }
  }

  /** All tools fit into one page, so no cursor was ever given out. */
  #listTools(cursor: unknown): Answer {
    if (cursor !== undefined) return refuse(INVALID_PARAMS, 'params.cursor is none of this server')
    return { result: { tools: this.#options.tools } }
  }

  // ---- calls -----------------------------------------------------------------------------------------------------

  #onCall(id: RequestId, params: RpcParams, dialect: Dialect): void {
    const parsed = parseCall(params)
    if ('error' in parsed) {
      this.#send(id, parsed)
      return
    }
    const refused = this.#refuseCall(id)
    if (refused !== undefined) {
      this.#send(id, this.#complete(refused, dialect, false))
      return
    }
    const { name, input, token } = parsed
    const controller = new AbortController()
    this.#calls.set(id, controller)
    const call: ToolCall = {
      signal: controller.signal,
      report: (progress, total, message) => {
        if (token === undefined || controller.signal.aborted || !this.#calls.has(id)) return
        const params = { progressToken: token, progress, total, message }
        this.#options.send({ jsonrpc: '2.0', method: 'notifications/progress', params })
      },
    }
    void this.#options.callTool(name, input, call).then((result) => {
      this.#calls.delete(id)
      if (!this.#cancelled.has(controller.signal)) this.#send(id, this.#complete({ result }, dialect, false))
      if (this.#calls.size === 0) this.#onIdle?.()
    })
  }

  #refuseCall(id: RequestId): Answer | undefined {
    if (this.#calls.has(id)) return refuse(INVALID_REQUEST, 'a call with this id is still running')
    if (this.#calls.size < MCP_CALLS_MAX) return undefined
    // A model can do something about this one.
    const text = `${MCP_CALLS_MAX} calls are running; wait until another call has ended`
    return { result: { content: [{ type: 'text', text }], isError: true } }
  }

  // ---- answers ---------------------------------------------------------------------------------------------------

  #complete(answer: Answer, dialect: Dialect, mayCache: boolean): Answer {
    if ('error' in answer || dialect === 'session') return answer
    return { result: completeResult(answer.result, SERVER_INFO, mayCache) }
  }

  #send(id: RequestId | null, answer: Answer): void {
    this.#options.send({ jsonrpc: '2.0', id, ...answer })
  }
}

interface ParsedCall {
  readonly name: McpToolName
  readonly input: RpcParams
  /** Names the call in reports of progress; absent when the client wants none. */
  readonly token: RequestId | undefined
}

function parseCall({
  name,
  arguments: input = {},
  _meta,
}: RpcParams): ParsedCall | { readonly error: RpcError } {
  const wrong = (message: string) => ({ error: { code: INVALID_PARAMS, message } })
  if (typeof name !== 'string') return wrong('params.name must be a string')
  if (!isMcpToolName(name)) return wrong('no such tool; tools/list names them all')
  if (!isObject(input)) return wrong('params.arguments must be an object')
  const token = isObject(_meta) && isId(_meta.progressToken) ? _meta.progressToken : undefined
  return { name, input, token }
}

// ---- revisions -------------------------------------------------------------------------------------------------------

/** Revisions that are negotiated by `initialize`, the newest first. */
const SESSION_REVISIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2024-10-07'] as const
/** Revisions that each request names. */
const REQUEST_REVISIONS = ['2026-07-28'] as const

/**
 * The revisions of the Model Context Protocol that the server speaks.
 *
 * Up to 2025-11-25 a session begins with `initialize`. From 2026-07-28 on each request names its revision and the
 * client's capabilities in `_meta`, and `server/discover` takes the place of `initialize`. A client may use either
 * form.
 */
const REVISIONS: readonly string[] = [...REQUEST_REVISIONS, ...SESSION_REVISIONS]

const META = 'io.modelcontextprotocol'

/** The revision for a client that asks for `requested`: the same, or the newest of ours. */
function negotiateRevision(requested: string): string {
  return SESSION_REVISIONS.find((revision) => revision === requested) ?? SESSION_REVISIONS[0]
}

/** How a request is spoken: `session` after `initialize`, or on its own. */
type Dialect = 'session' | 'request'

type DialectAnswer =
  | { readonly ok: true; readonly dialect: Dialect }
  | { readonly ok: false; readonly error: RpcError }

function dialectOf({ _meta }: RpcParams): DialectAnswer {
  const meta = isObject(_meta) ? _meta : {}
  const requested = meta[`${META}/protocolVersion`]
  if (requested === undefined) return { ok: true, dialect: 'session' }
  if (!REQUEST_REVISIONS.some((revision) => revision === requested))
    return {
      ok: false,
      error: {
        code: UNSUPPORTED_VERSION,
        message: 'this revision of the protocol is not supported',
        data: { supported: REVISIONS, requested: String(requested) },
      },
    }
  if (isObject(meta[`${META}/clientCapabilities`])) return { ok: true, dialect: 'request' }
  const message = `_meta must have ${META}/clientCapabilities, an object`
  return { ok: false, error: { code: INVALID_PARAMS, message } }
}

/** The tools stay the same while the process runs. */
const CACHE_MS = 3_600_000

/** Adds what results of the newer revision must have. */
function completeResult(result: object, serverInfo: object, mayCache: boolean): object {
  return {
    resultType: 'complete',
    ...result,
    ...(mayCache ? { ttlMs: CACHE_MS, cacheScope: 'private' } : {}),
    _meta: { [`${META}/serverInfo`]: serverInfo },
  }
}

// ---- json rpc --------------------------------------------------------------------------------------------------------

const PARSE_ERROR = -32_700
const INVALID_REQUEST = -32_600
const METHOD_NOT_FOUND = -32_601
const INVALID_PARAMS = -32_602
/** An error code of the Model Context Protocol. */
const UNSUPPORTED_VERSION = -32_022

type RequestId = string | number
type RpcParams = Readonly<Record<string, unknown>>

interface RpcError {
  readonly code: number
  readonly message: string
  readonly data?: object
}

type RpcMessage =
  | { readonly kind: 'request'; readonly id: RequestId; readonly method: string; readonly params: RpcParams }
  | { readonly kind: 'notification'; readonly method: string; readonly params: RpcParams }
  /** The server asks its client nothing, so an answer is ignored. */
  | { readonly kind: 'answer' }
  | { readonly kind: 'invalid'; readonly id: RequestId | null; readonly error: RpcError }

/**
 * Parses one line as a JSON-RPC 2.0 message. The line is untrusted: its size is limited by the reader, its depth and its
 * keys here.
 */
function parseMessage(line: string): RpcMessage {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return invalid(null, PARSE_ERROR, 'this line is not JSON')
  }
  if (Array.isArray(value))
    return invalid(null, INVALID_REQUEST, 'a batch is not supported: send one message in a line')
  if (!isObject(value)) return invalid(null, INVALID_REQUEST, 'a message must be an object')
  const id = isId(value.id) ? value.id : null
  if (!isSafeJson(value))
    return invalid(id, INVALID_REQUEST, 'the message is nested too deeply, or has too many keys')
  return messageOf(value, id)
}

function messageOf(value: Readonly<Record<string, unknown>>, id: RequestId | null): RpcMessage {
  const { jsonrpc, method, params = {} } = value
  if (jsonrpc !== '2.0') return invalid(id, INVALID_REQUEST, 'jsonrpc must be "2.0"')
  if (method === undefined && ('result' in value || 'error' in value)) return { kind: 'answer' }
  if (typeof method !== 'string') return invalid(id, INVALID_REQUEST, 'method must be a string')
  if ('id' in value && id === null)
    return invalid(null, INVALID_REQUEST, 'id must be a string or a whole number')
  if (!isObject(params)) return invalid(id, INVALID_PARAMS, 'params must be an object')
  return id === null ? { kind: 'notification', method, params } : { kind: 'request', id, method, params }
}

function invalid(id: RequestId | null, code: number, message: string): RpcMessage {
  return { kind: 'invalid', id, error: { code, message } }
}

const isId = (value: unknown): value is RequestId => typeof value === 'string' || Number.isSafeInteger(value)

/**
 * Writes the scripted agent's transcript where agentA keeps its own, in the same format: below the configuration
 * folder, in `projects/<key of the working directory>/<session>.jsonl`, with subagents beside it.
 *
 * Each content block gets one line with the message's final usage, and the session's cost follows each message, so the
 * usage export and session resume work unchanged. Lines are appended immediately, so a crash loses only the open
 * message.
 */
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { INTERRUPTED_HEADING } from '../../../worker/run/execution/prompt.ts'
import type { ContentBlock, MessageHeader, StreamLine } from './stream-lines.ts'
import { toApiMessage, toModelUsage } from './stream-lines.ts'
import type { ModelUsage, Usage, UsageByModel } from './usage-meter.ts'

const PROJECT_KEY_CHARS_MAX = 200

/** Derives the folder name from the working directory exactly as agentA does. */
export function projectKey(cwd: string): string {
  const plain = cwd.replace(/[^a-zA-Z0-9]/g, '-')
  if (plain.length <= PROJECT_KEY_CHARS_MAX) return plain
  let hash = 0
  for (let at = 0; at < cwd.length; at += 1) hash = ((hash << 5) - hash + cwd.charCodeAt(at)) | 0
  return `${plain.slice(0, PROJECT_KEY_CHARS_MAX)}-${Math.abs(hash).toString(36)}`
}

export interface TranscriptOptions {
  /** `$CLAUDE_CONFIG_DIR`, or `.claude` in the home folder. */
  readonly folder: string
  readonly cwd: string
  readonly sessionId: string
  /** A person uses the session at a terminal. */
  readonly isAtTerminal: boolean
  readonly uuid: () => string
  readonly now: () => number
}

export interface SessionHistory {
  readonly usage: UsageByModel
  readonly messages: number
  /** The last answers, shown to a returning person. */
  readonly lastTexts: readonly string[]
  /** The last prompt that asked for something new, and how many steps of its script are done. */
  readonly asked: { readonly prompt: string; readonly stepsDone: number }
}

const EMPTY_HISTORY: SessionHistory = {
  usage: {},
  messages: 0,
  lastTexts: [],
  asked: { prompt: '', stepsDone: 0 },
}
const LAST_TEXTS_MAX = 5

export class Transcript {
  readonly history: SessionHistory
  readonly #options: TranscriptOptions
  readonly #path: string
  #lastUuid: string | null = null

  private constructor(options: TranscriptOptions, path: string, past: SessionHistory) {
    this.#options = options
    this.#path = path
    this.history = past
  }

  /** Returns undefined when a session with this id exists. */
  static begin(options: TranscriptOptions): Transcript | undefined {
    if (findSession(options.folder, options.sessionId) !== undefined) return undefined
    const path = join(options.folder, 'projects', projectKey(options.cwd), `${options.sessionId}.jsonl`)
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    return new Transcript(options, path, EMPTY_HISTORY)
  }

  /** Returns undefined when no such session exists. A session may be resumed from another working directory. */
  static resume(options: TranscriptOptions): Transcript | undefined {
    const path = findSession(options.folder, options.sessionId)
    return path === undefined ? undefined : new Transcript(options, path, readHistory(path))
  }

  addPrompt(text: string): void {
    this.#add({ type: 'user', message: { role: 'user', content: text } })
  }

  /** A later execution goes on after these steps. */
  addStepsDone(count: number): void {
    this.#append({ type: 'scripted-steps', stepsDone: count, sessionId: this.#options.sessionId })
  }

  addToolResult(toolUseId: string, text: string, isError: boolean): void {
    const content = [{ tool_use_id: toolUseId, type: 'tool_result', content: text, is_error: isError }]
    this.#add({ type: 'user', message: { role: 'user', content } })
  }

  addMessage(
    message: MessageHeader,
    blocks: readonly ContentBlock[],
    usage: Usage,
    total: UsageByModel,
  ): void {
    for (const block of blocks) {
      this.#add({
        type: 'assistant',
        message: toApiMessage(message, [block], usage),
        requestId: message.requestId,
      })
    }
    this.addCost(total)
  }

  addCost(total: UsageByModel): void {
    const totalCostUSD = Object.values(total).reduce((sum, { costUSD }) => sum + costUSD, 0)
    this.#append({
      type: 'cost-state',
      totalCostUSD,
      modelUsage: toModelUsage(total),
      sessionId: this.#options.sessionId,
    })
  }

  addSubagent(
    agentId: string,
    description: string,
    message: MessageHeader,
    block: ContentBlock,
    usage: Usage,
  ): void {
    const folder = join(dirname(this.#path), this.#options.sessionId, 'subagents')
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const fields = { agentId, requestId: message.requestId, message: toApiMessage(message, [block], usage) }
    const line = this.#withDefaults({ type: 'assistant', ...fields }, true)
    appendFileSync(join(folder, `agent-${agentId}.jsonl`), toJsonLine(line), { mode: 0o600 })
    const meta = JSON.stringify({ agentType: 'general-purpose', description })
    writeFileSync(join(folder, `agent-${agentId}.meta.json`), meta, { mode: 0o600 })
  }

  #add(fields: StreamLine): void {
    const line = this.#withDefaults(fields, false)
    this.#append(line)
    this.#lastUuid = String(line.uuid)
  }

  #append(line: StreamLine): void {
    appendFileSync(this.#path, toJsonLine(line), { mode: 0o600 })
  }

  #withDefaults(fields: StreamLine, isSidechain: boolean): StreamLine {
    const { cwd, sessionId, isAtTerminal, uuid, now } = this.#options
    return {
      parentUuid: isSidechain ? null : this.#lastUuid,
      isSidechain,
      userType: 'external',
      entrypoint: isAtTerminal ? 'cli' : 'sdk-cli',
      cwd,
      sessionId,
      version: '0.0.0-scripted',
      ...fields,
      uuid: uuid(),
      timestamp: new Date(now()).toISOString(),
    }
  }
}

const toJsonLine = (line: StreamLine): string => `${JSON.stringify(line)}\n`

function findSession(folder: string, sessionId: string): string | undefined {
  const projects = join(folder, 'projects')
  if (!existsSync(projects)) return undefined
  return readdirSync(projects)
    .map((project) => join(projects, project, `${sessionId}.jsonl`))
    .find((path) => existsSync(path))
}

/** Ignores lines that a crash left incomplete. */
function readHistory(path: string): SessionHistory {
  let { usage, asked } = EMPTY_HISTORY
  const messages = new Set<string>()
  const lastTexts: string[] = []
  for (const text of readFileSync(path, 'utf8').split('\n')) {
    const line = parseLine(text)
    if (line.type === 'cost-state') usage = readUsage(line.modelUsage)
    if (line.type === 'scripted-steps') asked = { ...asked, stepsDone: Number(line.stepsDone) }
    const { content } = Object(line.message)
    if (line.type === 'user' && typeof content === 'string' && !isContinuation(content))
      asked = { prompt: content, stepsDone: 0 }
    if (line.type !== 'assistant') continue
    const message: StreamLine = Object(line.message)
    messages.add(String(message.id))
    lastTexts.push(...textsOf(message.content))
  }
  return { usage, messages: messages.size, lastTexts: lastTexts.slice(-LAST_TEXTS_MAX), asked }
}

/** The prompt asks a session that was interrupted to go on. */
export const isContinuation = (prompt: string): boolean => prompt.includes(INTERRUPTED_HEADING)

function parseLine(text: string): StreamLine {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}

function readUsage(value: unknown): UsageByModel {
  const models = Object.entries(Object(value)) as [string, ModelUsage][]
  return Object.fromEntries(
    models.map(([model, usage]) => [
      model,
      {
        inputTokens: usage.inputTokens,
        outputTokens: usage.outputTokens,
        cacheReadInputTokens: usage.cacheReadInputTokens,
        cacheCreationInputTokens: usage.cacheCreationInputTokens,
        costUSD: usage.costUSD,
      },
    ]),
  )
}

function textsOf(content: unknown): string[] {
  if (!Array.isArray(content)) return []
  return content.flatMap((block: StreamLine) => (block.type === 'text' ? [String(block.text)] : []))
}

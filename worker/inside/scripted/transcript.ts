/**
 * The scripted agent's transcript, where agentA keeps its own: `projects/<key of the working directory>/<session>.jsonl`
 * below the configuration folder, and subagents beside it.
 *
 * Whoever exports usage or resumes a session finds the same layout: one line for each content block with the message's
 * final usage, and after each message what the session has cost so far. Lines are appended as they come about, so a
 * crash loses the message it was in and no more.
 */
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Block, Line, Message } from './stream-lines.ts'
import { messageOf, modelUsage } from './stream-lines.ts'
import type { ModelUsage, Spent, Usage } from './usage-meter.ts'

const KEY_CHARS_MAX = 200

/** agentA's own way to make a folder's name of a path. */
export function projectKey(cwd: string): string {
  const plain = cwd.replace(/[^a-zA-Z0-9]/g, '-')
  if (plain.length <= KEY_CHARS_MAX) return plain
  let hash = 0
  for (let at = 0; at < cwd.length; at += 1) hash = ((hash << 5) - hash + cwd.charCodeAt(at)) | 0
  return `${plain.slice(0, KEY_CHARS_MAX)}-${Math.abs(hash).toString(36)}`
}

export interface TranscriptParts {
  /** `$CLAUDE_CONFIG_DIR`, or `.claude` at home. */
  readonly folder: string
  readonly cwd: string
  readonly sessionId: string
  /** A person is at it. */
  readonly isAtTerminal: boolean
  readonly uuid: () => string
  readonly now: () => number
}

export interface Past {
  readonly spent: Spent
  readonly messages: number
  /** The last things said, for a person who comes back. */
  readonly said: readonly string[]
}

const NOTHING_PAST: Past = { spent: {}, messages: 0, said: [] }
const SAID_MAX = 5

export class Transcript {
  readonly past: Past
  readonly #parts: TranscriptParts
  readonly #path: string
  #last: string | null = null

  private constructor(parts: TranscriptParts, path: string, past: Past) {
    this.#parts = parts
    this.#path = path
    this.past = past
  }

  /** undefined: the session's name is taken. */
  static begin(parts: TranscriptParts): Transcript | undefined {
    if (findSession(parts.folder, parts.sessionId) !== undefined) return undefined
    const path = join(parts.folder, 'projects', projectKey(parts.cwd), `${parts.sessionId}.jsonl`)
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    return new Transcript(parts, path, NOTHING_PAST)
  }

  /** undefined: there is no such session; a session may be resumed from another working directory. */
  static resume(parts: TranscriptParts): Transcript | undefined {
    const path = findSession(parts.folder, parts.sessionId)
    return path === undefined ? undefined : new Transcript(parts, path, readPast(path))
  }

  prompt(text: string): void {
    this.#add({ type: 'user', message: { role: 'user', content: text } })
  }

  toolResult(toolUseId: string, text: string, isError: boolean): void {
    const content = [{ tool_use_id: toolUseId, type: 'tool_result', content: text, is_error: isError }]
    this.#add({ type: 'user', message: { role: 'user', content } })
  }

  message(message: Message, blocks: readonly Block[], usage: Usage, total: Spent): void {
    for (const block of blocks) {
      this.#add({
        type: 'assistant',
        message: messageOf(message, [block], usage),
        requestId: message.requestId,
      })
    }
    this.cost(total)
  }

  cost(total: Spent): void {
    const totalCostUSD = Object.values(total).reduce((sum, { costUSD }) => sum + costUSD, 0)
    this.#append({
      type: 'cost-state',
      totalCostUSD,
      modelUsage: modelUsage(total),
      sessionId: this.#parts.sessionId,
    })
  }

  subagent(agentId: string, description: string, message: Message, block: Block, usage: Usage): void {
    const folder = join(dirname(this.#path), this.#parts.sessionId, 'subagents')
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const fields = { agentId, requestId: message.requestId, message: messageOf(message, [block], usage) }
    const line = this.#filled({ type: 'assistant', ...fields }, true)
    appendFileSync(join(folder, `agent-${agentId}.jsonl`), textOf(line), { mode: 0o600 })
    const meta = JSON.stringify({ agentType: 'general-purpose', description })
    writeFileSync(join(folder, `agent-${agentId}.meta.json`), meta, { mode: 0o600 })
  }

  #add(fields: Line): void {
    const line = this.#filled(fields, false)
    this.#append(line)
    this.#last = String(line.uuid)
  }

  #append(line: Line): void {
    appendFileSync(this.#path, textOf(line), { mode: 0o600 })
  }

  #filled(fields: Line, isSidechain: boolean): Line {
    const { cwd, sessionId, isAtTerminal, uuid, now } = this.#parts
    return {
      parentUuid: isSidechain ? null : this.#last,
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

const textOf = (line: Line): string => `${JSON.stringify(line)}\n`

function findSession(folder: string, sessionId: string): string | undefined {
  const projects = join(folder, 'projects')
  if (!existsSync(projects)) return undefined
  return readdirSync(projects)
    .map((project) => join(projects, project, `${sessionId}.jsonl`))
    .find((path) => existsSync(path))
}

/** A line that a crash has torn says nothing. */
function readPast(path: string): Past {
  let spent: Spent = {}
  const messages = new Set<string>()
  const said: string[] = []
  for (const text of readFileSync(path, 'utf8').split('\n')) {
    const line = parsed(text)
    if (line.type === 'cost-state') spent = spentIn(line.modelUsage)
    if (line.type !== 'assistant') continue
    const message: Line = Object(line.message)
    messages.add(String(message.id))
    said.push(...wordsOf(message.content))
  }
  return { spent, messages: messages.size, said: said.slice(-SAID_MAX) }
}

function parsed(text: string): Line {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}

function spentIn(value: unknown): Spent {
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

function wordsOf(content: unknown): string[] {
  if (!Array.isArray(content)) return []
  return content.flatMap((block: Line) => (block.type === 'text' ? [String(block.text)] : []))
}

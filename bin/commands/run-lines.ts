/**
 * Turns the events of a run into the lines of a log for people: a time, a mark, a text.
 *
 * Marks: none for standard output, `!` for standard error, `#` for the system, `>` for the agent. `--` begins a state
 * of the run, `~~` is a gap.
 */
import type { RunEvent } from '../../protocol/run.ts'
import { formatCost } from '../output/amounts.ts'
import { agentName } from './agent-names.ts'

export interface LogLine {
  readonly event: RunEvent
  readonly mark: '' | '!' | '#' | '>' | '--' | '~~'
  /** May hold several lines, and the colours of the program that printed them. */
  readonly text: string
  /** Stands behind the time of a state: the worker, the agent, or the reason. */
  readonly reason?: string | undefined
}

const STREAM_MARKS = { stdout: '', stderr: '!', system: '#' } as const

/** Undefined for an event that says nothing to people. */
export function lineOf(event: RunEvent): LogLine | undefined {
  switch (event.type) {
    case 'log':
      return { event, mark: STREAM_MARKS[event.stream], text: event.text.replace(/\r?\n$/, '') }
    case 'status':
      return { event, mark: '--', text: event.to, reason: reasonOf(event) }
    case 'agent': {
      const text = describeMessage(event.message)
      return text === '' ? undefined : { event, mark: '>', text }
    }
    case 'artifact':
      return { event, mark: '#', text: `artifact ${event.name}` }
    case 'cost':
      return { event, mark: '#', text: `cost of ${event.entry.label}: ${formatCost(event.entry)}` }
    case 'limit':
      return { event, mark: '#', text: `usage limit of ${event.provider}: ${event.message}` }
    case 'gap':
      return {
        event,
        mark: '~~',
        text: `frames ${event.from} to ${event.to} lost: the worker's buffer was full while it was offline`,
      }
  }
}

function reasonOf({ worker, provider, reason }: RunEvent & { readonly type: 'status' }): string | undefined {
  const where = worker === undefined ? undefined : `on ${worker}`
  const agent = provider === undefined ? undefined : agentName(provider)
  return [where, agent, reason].filter(Boolean).join(': ') || undefined
}

/** The newest line of the agent, or of a program while no agent has said anything. */
export function lastLineOf(events: readonly RunEvent[]): string | undefined {
  const spoken = events.filter(({ type }) => type === 'agent').map(lineOf)
  const lines = spoken.some((line) => line !== undefined)
    ? spoken
    : events.filter(({ type }) => type === 'log').map(lineOf)
  for (const line of [...lines].reverse()) {
    if (line === undefined) continue
    const last = line.text.trimEnd().split('\n').at(-1) ?? ''
    if (last.trim() !== '') return last
  }
  return undefined
}

// ---- messages of agents --------------------------------------------------------------------------------------------

type Message = Readonly<Record<string, unknown>>

/** The words of the agent, and the tools that it called; each vendor has a form of its own. */
function describeMessage(message: Message): string {
  const inner = objectOf(message.message)
  const content = Array.isArray(inner.content)
    ? inner.content
    : Array.isArray(message.content)
      ? message.content
      : []
  const parts = content.map((part) => describePart(objectOf(part)))
  if (message.type === 'error' && typeof message.message === 'string') return `error: ${message.message}`
  const item = isRepeated(message) ? {} : objectOf(message.item)
  const isOfAgent = message.role !== 'user' && message.type !== 'user'
  const own = isOfAgent ? [describePart(item), describePart(message)] : []
  return [...(isOfAgent ? parts : []), ...own].filter((text) => text !== '').join('\n')
}

/** A command stands in the log when it starts; its end has the same words. */
const isRepeated = ({ type, item }: Message): boolean =>
  type === 'item.completed' && objectOf(item).type === 'command_execution'

const TEXT_TYPES = ['text', 'agent_message', 'message', 'assistant']

function describePart(part: Message): string {
  const { type } = part
  const tool = part.name ?? part.tool_name
  if (type === 'tool_use' && typeof tool === 'string')
    return toolCall(tool, objectOf(part.input ?? part.parameters))
  if (type === 'command_execution') return toolCall('command', part)
  if (typeof type === 'string' && !TEXT_TYPES.includes(type)) return ''
  const text = part.text ?? part.content
  return typeof text === 'string' ? text.trim() : ''
}

/** The arguments that tell best what a call does. */
const TELLING = ['command', 'file_path', 'path', 'pattern', 'query', 'url', 'description', 'prompt']

function toolCall(name: string, input: Message): string {
  const key = TELLING.find((each) => typeof input[each] === 'string')
  return key === undefined ? name : `${name}: ${String(input[key]).split('\n')[0]}`
}

const objectOf = (value: unknown): Message =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Message) : {}

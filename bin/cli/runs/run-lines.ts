/**
 * Turns the events of a run into the lines of a log for people: a time, a mark, a text.
 *
 * Marks: none for standard output, `!` for standard error, `#` for the system, `>` for the agent. `--` begins a state
 * of the run, `~~` is a gap.
 */
import { type AgentMessage, readAgentMessage } from '../../../client/agent-messages.ts'
import { agentName } from '../../../client/agent-names.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import { formatCost } from '../../output/amounts.ts'

export interface LogLine {
  readonly event: RunEvent
  readonly mark: '' | '!' | '#' | '>' | '--' | '~~'
  /** May hold several lines, and the colours of the program that printed them. */
  readonly text: string
  /** Stands behind the time of a state: the worker, the agent, or the reason. */
  readonly reason?: string | undefined
}

const STREAM_MARKS = { stdout: '', stderr: '!', system: '#' } as const

/**
 * Undefined for an event that says nothing to people.
 *
 * @param hasOutputs also what tools printed, which may be much more than all the rest
 */
export function lineOf(event: RunEvent, hasOutputs = false): LogLine | undefined {
  switch (event.type) {
    case 'log':
      return { event, mark: STREAM_MARKS[event.stream], text: event.text.replace(/\r?\n$/, '') }
    case 'status':
      return { event, mark: '--', text: event.to, reason: reasonOf(event) }
    case 'agent': {
      const text = describeMessage(event.message, hasOutputs)
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
  const spoken = events.filter(({ type }) => type === 'agent').map((event) => lineOf(event))
  const lines = spoken.some((line) => line !== undefined)
    ? spoken
    : events.filter(({ type }) => type === 'log').map((event) => lineOf(event))
  for (const line of [...lines].reverse()) {
    if (line === undefined) continue
    const last = line.text.trimEnd().split('\n').at(-1) ?? ''
    if (last.trim() !== '') return last
  }
  return undefined
}

/** The words of the agent, the tools that it called, and, indented, what they printed. */
function describeMessage(message: AgentMessage, hasOutputs: boolean): string {
  return readAgentMessage(message)
    .flatMap((part) => {
      if (part.is === 'words') return part.text.trim() === '' ? [] : [part.text.trim()]
      if (part.is === 'error') return [`error: ${part.text}`]
      if (part.is === 'call') return [part.subject === '' ? part.tool : `${part.tool}: ${part.subject}`]
      if (!hasOutputs || part.text.trim() === '') return []
      return part.text
        .trimEnd()
        .split(/\r?\n/)
        .map((line) => `  ${line}`)
    })
    .join('\n')
}

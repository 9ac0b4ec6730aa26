/**
 * Reads the messages of agents: their words, the tools that they call, and the outcomes of those calls.
 *
 * Each vendor has a form of its own; a message in an unknown form has no parts.
 */

export type AgentMessage = Readonly<Record<string, unknown>>

export type AgentPart =
  /** `continues`: a piece of a text that arrives in pieces, with the spaces at its ends. */
  | { readonly is: 'words'; readonly text: string; readonly continues: boolean }
  | { readonly is: 'error'; readonly text: string }
  | AgentCall
  /** `id` is the one of the call. */
  | { readonly is: 'outcome'; readonly id: string; readonly text: string; readonly isError: boolean }

export interface AgentCall {
  readonly is: 'call'
  readonly id: string | undefined
  readonly tool: string
  /** The argument that tells best what the call does, on a single line; empty when no argument does. */
  readonly subject: string
  readonly input: AgentMessage
}

/** The parts of a message in their order. */
export function readAgentMessage(message: AgentMessage): AgentPart[] {
  if (message.type === 'error' && typeof message.message === 'string')
    return [{ is: 'error', text: message.message }]
  const isOfAgent = message.role !== 'user' && message.type !== 'user'
  const inner = objectOf(message.message)
  const content = Array.isArray(inner.content)
    ? inner.content
    : Array.isArray(message.content)
      ? message.content
      : []
  const parts = content.flatMap((part) => partOf(objectOf(part)))
  const own = [...itemPart(message), ...partOf(message)]
  // Words of a user's message are the prompt; what a tool answered stands in such a message too.
  return [...parts, ...own].filter(({ is }) => isOfAgent || is === 'outcome')
}

/** A command of Codex is a call when it starts, and an outcome when it ends. */
function itemPart(message: AgentMessage): AgentPart[] {
  const item = objectOf(message.item)
  if (message.type !== 'item.completed' || item.type !== 'command_execution') return partOf(item)
  if (typeof item.id !== 'string') return []
  return [{ is: 'outcome', id: item.id, text: textOf(item.aggregated_output), isError: item.exit_code !== 0 }]
}

const TEXT_TYPES = ['text', 'agent_message', 'message', 'assistant']

function partOf(part: AgentMessage): AgentPart[] {
  const { type } = part
  const tool = part.name ?? part.tool_name
  const id = part.id ?? part.tool_id
  if (type === 'tool_use' && typeof tool === 'string')
    return [callOf(tool, id, objectOf(part.input ?? part.parameters))]
  if (type === 'command_execution') return [callOf('command', id, part)]
  if (type === 'tool_result') return outcomeOf(part)
  if (typeof type === 'string' && !TEXT_TYPES.includes(type)) return []
  const text = part.text ?? part.content
  if (typeof text !== 'string' || text === '') return []
  if (part.delta === true) return [{ is: 'words', text, continues: true }]
  return text.trim() === '' ? [] : [{ is: 'words', text: text.trim(), continues: false }]
}

function outcomeOf(part: AgentMessage): AgentPart[] {
  const id = part.tool_use_id ?? part.tool_id
  if (typeof id !== 'string') return []
  const isError = part.is_error === true || part.status === 'error'
  return [{ is: 'outcome', id, text: textOf(part.content ?? part.output), isError }]
}

/** The arguments that tell best what a call does. */
const TELLING = ['command', 'file_path', 'path', 'pattern', 'query', 'url', 'description', 'prompt']

function callOf(tool: string, id: unknown, input: AgentMessage): AgentPart {
  const key = TELLING.find((each) => typeof input[each] === 'string')
  const subject = key === undefined ? '' : (String(input[key]).split('\n')[0] ?? '')
  return { is: 'call', id: typeof id === 'string' ? id : undefined, tool, subject, input }
}

/** A text, or the texts of a list of parts. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (!Array.isArray(value)) return ''
  return value
    .map((part) => objectOf(part).text)
    .filter((text) => typeof text === 'string')
    .join('\n')
}

const objectOf = (value: unknown): AgentMessage =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as AgentMessage) : {}

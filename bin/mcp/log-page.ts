/** Reads a part of a run's log that fits into a result, with the arguments for the parts before and after it. */
import type { Client } from '../../client/client.ts'
import type { ClientConnection } from '../../client/connection.ts'
import { type EventRange, readEvents } from '../../client/run-events.ts'
import {
  MCP_LOG_EVENTS_DEFAULT,
  MCP_LOG_TEXT_CHARS_MAX,
  MCP_RESULT_BYTES_MAX,
} from '../../protocol/limits.ts'
import type { McpInput } from '../../protocol/mcp-tools.ts'
import type { RunEvent } from '../../protocol/run.ts'
import { findRun } from '../client/names.ts'
import { keepColors } from '../commands/keep-colors.ts'
import { lineOf } from '../commands/run-lines.ts'
import { jsonBytes, shorten } from './fit.ts'

/** The rest is for the fields beside the lines. */
const LINES_BYTES_MAX = MCP_RESULT_BYTES_MAX - 2 * 1024

interface LoggedEvent {
  readonly index: number
  readonly lines: readonly string[]
  readonly bytes: number
}

export async function readLogPage(
  { client, connection }: { readonly client: Client; readonly connection: ClientConnection },
  { run: name, before, after, limit = MCP_LOG_EVENTS_DEFAULT }: McpInput<'runs_logs'>,
): Promise<object> {
  const run = await findRun(client, name)
  const range = rangeOf(before, after, limit)
  const page = await readPage(connection, run.id, range)
  const [first, last] = [page[0], page.at(-1)]
  return {
    run: run.id,
    ticket: run.ticket.identifier,
    status: run.status,
    lines: page.flatMap(({ lines }) => lines),
    earlier: first === undefined || first.index === 0 ? undefined : { before: first.index },
    later: last === undefined ? undefined : { after: last.index },
  }
}

function rangeOf(before: number | undefined, after: number | undefined, limit: number): EventRange {
  // The host refuses both together, and names them.
  if (before !== undefined) return { before, limit, ...(after === undefined ? {} : { after }) }
  return after === undefined ? { tail: limit } : { after, limit }
}

/** Reading forwards stops when the page is full; otherwise the page keeps the last events. */
async function readPage(
  connection: ClientConnection,
  runId: string,
  range: EventRange,
): Promise<readonly LoggedEvent[]> {
  const page: LoggedEvent[] = []
  let bytes = 0
  for await (const event of readEvents(connection, runId, range)) {
    const logged = logEvent(event)
    if (range.after !== undefined && page.length > 0 && bytes + logged.bytes > LINES_BYTES_MAX) break
    page.push(logged)
    bytes += logged.bytes
    while (bytes > LINES_BYTES_MAX && page.length > 1) bytes -= page.shift()?.bytes ?? 0
  }
  return page
}

/** Events that say nothing to people have no lines. */
function logEvent(event: RunEvent): LoggedEvent {
  const line = lineOf(event)
  if (line === undefined) return { index: event.index, lines: [], bytes: 0 }
  const time = event.at.slice('2026-01-31T'.length, '2026-01-31T12:00:00'.length)
  const head = line.mark === '' ? time : `${time} ${line.mark}`
  const text = [line.text, line.reason].filter(Boolean).join(': ')
  const lines = shorten(text, MCP_LOG_TEXT_CHARS_MAX)
    .split('\n')
    .map((part) => `${head} ${keepColors(part, false)}`)
  return { index: event.index, lines, bytes: jsonBytes(lines) }
}

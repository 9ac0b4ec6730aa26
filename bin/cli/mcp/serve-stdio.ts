/**
 * Connects a session to standard input and output, and ends with the client: at the end of its input, when it closes
 * its end of the output, and on a stop signal.
 *
 * While the client does not read its answers, no further message is read.
 */
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { createLineReader } from '../../../core/line-reader.ts'
import { HTTP_BODY_BYTES_MAX } from '../../../protocol/limits.ts'
import type { McpSession } from './session.ts'

/** A message of the client, in one line. */
export const MCP_LINE_BYTES_MAX = HTTP_BODY_BYTES_MAX
/** Time for calls in flight after the client has closed its end. */
const MCP_CLOSE_MS_MAX = 2_000

export interface ProtocolStreams {
  readonly input: Readable
  readonly output: Writable
  /** Resolves when the process is asked to end. */
  readonly stopped: Promise<void>
}

/** @param createSession receives the function that sends one message */
export async function serveStdio(
  { input, output, stopped }: ProtocolStreams,
  createSession: (send: (message: object) => void) => McpSession,
): Promise<void> {
  const session = createSession((message) => void output.write(`${JSON.stringify(message)}\n`))
  const lost = new Promise<void>((resolve) => output.once('error', () => resolve()))
  const over = Promise.race([stopped, lost])
  // An input that breaks is over too.
  await Promise.race([over, readLines(input, output, session).catch(() => {})])
  await Promise.race([over, session.close(), timeLimit()])
  await Promise.race([over, flush(output)])
}

async function readLines(input: Readable, output: Writable, session: McpSession): Promise<void> {
  const onTooLong = () => session.onTooLong(MCP_LINE_BYTES_MAX)
  const reader = createLineReader({ bytesMax: MCP_LINE_BYTES_MAX, onTooLong })
  const handle = async (lines: readonly string[]) => {
    for (const line of lines) {
      if (line.trim() !== '') session.onLine(line)
      if (output.writableNeedDrain) await once(output, 'drain')
    }
  }
  for await (const chunk of input) await handle(reader.push(chunk))
  await handle(reader.flush())
}

/** Calls in flight may take longer than a client waits for the end of the process. */
const timeLimit = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, MCP_CLOSE_MS_MAX).unref())

const flush = (output: Writable): Promise<void> => new Promise((resolve) => output.write('', () => resolve()))

export function untilStopSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => resolve())
  })
}

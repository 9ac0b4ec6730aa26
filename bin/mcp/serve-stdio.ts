/**
 * Connects a session to standard input and output, and ends with the client: at the end of its input, when it closes
 * its end of the output, and on a stop signal.
 *
 * While the client does not read its answers, no further message is read.
 */
import { once } from 'node:events'
import { MCP_CLOSE_MS_MAX, MCP_LINE_BYTES_MAX } from '../../protocol/limits.ts'
import { LineSplitter } from './line-splitter.ts'
import type { McpSession } from './session.ts'

export interface ProtocolStreams {
  readonly input: NodeJS.ReadStream
  readonly output: NodeJS.WriteStream
}

/** @param createSession receives the function that sends one message */
export async function serveStdio(
  { input, output }: ProtocolStreams,
  createSession: (send: (message: object) => void) => McpSession,
): Promise<void> {
  const session = createSession((message) => void output.write(`${JSON.stringify(message)}\n`))
  const splitter = new LineSplitter(MCP_LINE_BYTES_MAX, {
    onLine: (line) => session.onLine(line),
    onTooLong: () => session.onTooLong(MCP_LINE_BYTES_MAX),
  })
  const stopped = new Promise<void>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => resolve())
    output.once('error', () => resolve())
  })
  const read = async () => {
    for await (const chunk of input) {
      splitter.push(chunk)
      if (output.writableNeedDrain) await once(output, 'drain')
    }
    splitter.end()
  }
  await Promise.race([stopped, read().catch(() => {})])
  await Promise.race([stopped, session.close(), timeLimit()])
  await Promise.race([stopped, flush(output)])
}

/** Calls in flight may take longer than a client waits for the end of the process. */
const timeLimit = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, MCP_CLOSE_MS_MAX).unref())

const flush = (output: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => output.write('', () => resolve()))

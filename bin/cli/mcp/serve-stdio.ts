/**
 * Connects a session to standard input and output, and ends with the client: at the end of its input, when it closes
 * its end of the output, and on a stop signal.
 *
 * While the client does not read its answers, no further message is read.
 */
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
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
  const splitter = new LineSplitter(MCP_LINE_BYTES_MAX)
  const handle = async (lines: Iterable<SplitLine>) => {
    for (const line of lines) {
      if (line.kind === 'line') session.onLine(line.text)
      else session.onTooLong(MCP_LINE_BYTES_MAX)
      if (output.writableNeedDrain) await once(output, 'drain')
    }
  }
  for await (const chunk of input) await handle(splitter.push(chunk))
  await handle(splitter.end())
}

/** Calls in flight may take longer than a client waits for the end of the process. */
const timeLimit = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, MCP_CLOSE_MS_MAX).unref())

const flush = (output: Writable): Promise<void> => new Promise((resolve) => output.write('', () => resolve()))

export function untilStopSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => resolve())
  })
}

// ---- lines ---------------------------------------------------------------------------------------------------------

const NEWLINE = 0x0a

/** Empty lines are left out. */
export type SplitLine = { readonly kind: 'line'; readonly text: string } | { readonly kind: 'too long' }

/** Splits bytes into lines of UTF-8 text. A line above the limit is dropped as it arrives, and reported once. */
export class LineSplitter {
  readonly #bytesMax: number
  #parts: Buffer[] = []
  #bytes = 0
  #isDropping = false

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** The lines that the chunk completes, one by one. */
  *push(chunk: Buffer): Generator<SplitLine> {
    let from = 0
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      yield* this.#keep(chunk.subarray(from, at))
      yield* this.end()
      from = at + 1
    }
    yield* this.#keep(chunk.subarray(from))
  }

  /** The input is over: a last line needs no newline. */
  *end(): Generator<SplitLine> {
    const text = Buffer.concat(this.#parts).toString('utf8')
    const wasDropped = this.#isDropping
    this.#forget()
    this.#isDropping = false
    if (!wasDropped && text.trim() !== '') yield { kind: 'line', text }
  }

  *#keep(part: Buffer): Generator<SplitLine> {
    if (this.#isDropping || part.length === 0) return
    this.#parts.push(part)
    this.#bytes += part.length
    if (this.#bytes <= this.#bytesMax) return
    this.#forget()
    this.#isDropping = true
    yield { kind: 'too long' }
  }

  #forget(): void {
    this.#parts = []
    this.#bytes = 0
  }
}

/**
 * Writes large amounts of output as numbered lines, to test how floods are handled; a gap in the numbers is visible.
 */
import type { Writable } from 'node:stream'

const LINE_BYTES = 64
const LINES_AT_ONCE = 1_024
const PAD = '.'.repeat(LINE_BYTES)

/** Returns the number of bytes written: whole lines, and fewer of them when `signal` aborts. */
export async function writeFlood(output: Writable, bytes: number, signal: AbortSignal): Promise<number> {
  const lines = Math.floor(bytes / LINE_BYTES)
  let done = 0
  while (done < lines && !signal.aborted) {
    const until = Math.min(lines, done + LINES_AT_ONCE)
    let text = ''
    for (; done < until; done += 1) text += numberedLine(done)
    await writeAndYield(output, text)
  }
  return done * LINE_BYTES
}

/** A terminal converts the LF to CRLF, which makes the line one byte longer. */
function numberedLine(number: number): string {
  return `${`${number} ${PAD}`.slice(0, LINE_BYTES - 1)}\n`
}

/** Terminal writes are synchronous, so this yields between two pieces to let the process handle keys. */
function writeAndYield(output: Writable, text: string): Promise<void> {
  return new Promise((resolve) => output.write(text, () => setImmediate(resolve)))
}

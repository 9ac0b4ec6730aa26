/**
 * Very much output, for whoever wants to see what becomes of it: numbered lines, so that a gap shows.
 */
import type { Writable } from 'node:stream'

const LINE_BYTES = 64
const LINES_AT_ONCE = 1_024
const PAD = '.'.repeat(LINE_BYTES)

/** Answers how many bytes it came to: whole lines, and fewer of them when `signal` ends it. */
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

/** A terminal makes a longer end of it. */
function numberedLine(number: number): string {
  return `${`${number} ${PAD}`.slice(0, LINE_BYTES - 1)}\n`
}

/** A terminal takes all of it before anything else goes on: keys are looked at between two pieces. */
function writeAndYield(output: Writable, text: string): Promise<void> {
  return new Promise((resolve) => output.write(text, () => setImmediate(resolve)))
}

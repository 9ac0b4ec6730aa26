/**
 * Reading JSON lines from a file that may be huge and may end in the middle of a line.
 *
 * Reads go in chunks, so memory is bounded by a chunk and the longest line. Events carry their index and indexes only
 * rise, so the place of an index is found by halving the file: no second file has to be kept in step with this one.
 */
import type { FileHandle } from 'node:fs/promises'
import type { RunEvent } from '../../protocol/run.ts'

const CHUNK_BYTES = 256 * 1024
/** Enough for most lines; a longer one costs one more read. */
const PROBE_BYTES = 8 * 1024
const NEWLINE = 10

export interface TextLine {
  readonly text: string
  /** Where the line begins, and where the next one does. */
  readonly start: number
  readonly end: number
}

/** Whole lines that begin at or after `start` and end by `size`. `start` must be where a line begins. */
export async function* readLines(
  file: FileHandle,
  start: number,
  size: number,
  chunkBytes = CHUNK_BYTES,
): AsyncGenerator<TextLine> {
  let carried: Buffer[] = []
  let lineStart = start
  for (let at = start; at < size; ) {
    const chunk = Buffer.allocUnsafe(Math.min(chunkBytes, size - at))
    const { bytesRead } = await file.read(chunk, 0, chunk.length, at)
    if (bytesRead === 0) return
    let from = 0
    for (let to = newlineIn(chunk, from, bytesRead); to >= 0; to = newlineIn(chunk, from, bytesRead)) {
      const end = at + to + 1
      yield {
        text: Buffer.concat([...carried, chunk.subarray(from, to)]).toString('utf8'),
        start: lineStart,
        end,
      }
      carried = []
      lineStart = end
      from = to + 1
    }
    if (from < bytesRead) carried.push(chunk.subarray(from, bytesRead))
    at += bytesRead
  }
}

/** Where the last line at or before `size` ends: just behind its newline, or 0. */
export async function findLinesEnd(file: FileHandle, size: number): Promise<number> {
  for (let to = size; to > 0; ) {
    const from = Math.max(0, to - CHUNK_BYTES)
    const chunk = Buffer.allocUnsafe(to - from)
    const { bytesRead } = await file.read(chunk, 0, chunk.length, from)
    const newline = chunk.subarray(0, bytesRead).lastIndexOf(NEWLINE)
    if (newline >= 0) return from + newline + 1
    to = from
  }
  return 0
}

/** The event of a line, or undefined when the line is none. */
export function parseEvent(text: string): RunEvent | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null) return undefined
    // Only we write these files; what a line holds was an event when it was written.
    return 'index' in value && typeof value.index === 'number' && 'type' in value
      ? (value as RunEvent)
      : undefined
  } catch {
    return undefined
  }
}

/** The events of whole lines. */
export function parseEvents(text: string): RunEvent[] {
  return text.split('\n').flatMap((line) => parseEvent(line) ?? [])
}

/** Where to start reading for events above `index`: at a line's beginning, at most a little too early. */
export async function findOffsetAfter(file: FileHandle, index: number, size: number): Promise<number> {
  let low = 0
  let high = size
  // Everything before `low` is at or below the index; at `high` or later, everything is above it.
  while (high - low > CHUNK_BYTES) {
    const middle = low + Math.floor((high - low) / 2)
    const found = await firstEventFrom(file, middle, high)
    if (found === undefined || found.event.index > index) high = middle
    else low = found.line.end
  }
  return low
}

/** The first whole, readable line that begins behind `at` and ends by `size`. */
async function firstEventFrom(file: FileHandle, at: number, size: number) {
  let partial = true
  for await (const line of readLines(file, at, size, PROBE_BYTES)) {
    // What begins at `at` is the rest of a line.
    const event = partial ? undefined : parseEvent(line.text)
    partial = false
    if (event !== undefined) return { line, event }
  }
  return undefined
}

function newlineIn(chunk: Buffer, from: number, to: number): number {
  const found = chunk.indexOf(NEWLINE, from)
  return found < to ? found : -1
}

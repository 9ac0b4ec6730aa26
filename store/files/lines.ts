/**
 * Reads JSON lines from a file that may be huge and may end in the middle of a line.
 *
 * The file is read in chunks, so memory is limited to a chunk and the longest line. Events carry rising indexes, so a
 * binary search finds the offset of an index without a second file.
 */
import type { FileHandle } from 'node:fs/promises'
import type { RunEvent } from '../../protocol/run.ts'

const CHUNK_BYTES = 256 * 1024
/** Enough for most lines; a longer line needs another read. */
const PROBE_BYTES = 8 * 1024
const NEWLINE = 10

export interface TextLine {
  readonly text: string
  /** Offsets of this line and of the next one. */
  readonly start: number
  readonly end: number
}

export interface LineSlice {
  readonly lines: readonly string[]
  /** The offset of the line after the last one. */
  readonly end: number
}

/** Reads whole lines from `start`, the start of a line: about a chunk of them, but at least one before `size`. */
export async function readLineSlice(file: FileHandle, start: number, size: number): Promise<LineSlice> {
  for (let bytes = CHUNK_BYTES; start < size; bytes *= 2) {
    const chunk = Buffer.allocUnsafe(Math.min(bytes, size - start))
    const { bytesRead } = await file.read(chunk, 0, chunk.length, start)
    const last = chunk.subarray(0, bytesRead).lastIndexOf(NEWLINE)
    if (last >= 0) return { lines: chunk.toString('utf8', 0, last).split('\n'), end: start + last + 1 }
    if (bytesRead < bytes) break
  }
  return { lines: [], end: size }
}

/** Yields whole lines between `start`, which must be the start of a line, and `size`. */
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

/** Returns the offset after the last newline before `size`, or 0. */
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

/** Returns the event of a line, or undefined when the line is not an event. */
export function parseEvent(text: string): RunEvent | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null) return undefined
    // Only this service writes these files, so the line was an event when it was written.
    return 'index' in value && typeof value.index === 'number' && 'type' in value
      ? (value as RunEvent)
      : undefined
  } catch {
    return undefined
  }
}

/** Returns the offset from which to read events above `index`: the start of a line, at most a little too early. */
export async function findOffsetAfter(file: FileHandle, index: number, size: number): Promise<number> {
  let low = 0
  let high = size
  // Events before `low` are at or below the index; events at `high` or later are above it.
  while (high - low > CHUNK_BYTES) {
    const middle = low + Math.floor((high - low) / 2)
    const found = await firstEventFrom(file, middle, high)
    if (found === undefined || found.event.index > index) high = middle
    else low = found.line.end
  }
  return low
}

/** Returns the first whole, readable line that starts after `at` and ends by `size`. */
async function firstEventFrom(file: FileHandle, at: number, size: number) {
  let partial = true
  for await (const line of readLines(file, at, size, PROBE_BYTES)) {
    // The text at `at` is the rest of a line.
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

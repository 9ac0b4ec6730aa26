/**
 * Reads and appends a run's event file: `runs/<runId>/events.jsonl`, one JSON object per line.
 *
 * The database knows how many bytes are valid. Bytes after that were written but never acknowledged, or only in part;
 * they are cut off before the next write, so no two lines merge and none occurs twice. A busy minute produces
 * thousands of these files, so this module uses few system calls and plain descriptors, because a handle object costs
 * more than the call.
 */
import { close, constants, fdatasync, fstat, ftruncate, open as openFile, type Stats, write } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf } from '../../protocol/message-of.ts'
import type { RunEvent } from '../../protocol/run.ts'
import { replaceFile } from './atomic.ts'
import { runFolder } from './run-folder.ts'

const WRITE = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW

/** `short`: the file has fewer bytes than were acknowledged, so nothing was written. */
export type AppendResult = { readonly is: 'written'; readonly fresh: boolean } | { readonly is: 'short' }

/**
 * Appends bytes after the valid part. The data is on disk when it resolves, except the name of a new file. A failure
 * leaves at most bytes that do not count.
 */
export async function appendAt(path: string, known: number, bytes: Uint8Array): Promise<AppendResult> {
  const fresh = known === 0
  const file = fresh ? await openFresh(path) : await openKnown(path)
  if (file === undefined) return { is: 'short' }
  try {
    if (!fresh) {
      const { size } = await promised<Stats>((done) => fstat(file, done))
      if (size < known) return { is: 'short' }
      if (size > known) await promised<void>((done) => ftruncate(file, known, done))
    }
    await writeSynced(file, known, bytes)
    return { is: 'written', fresh }
  } finally {
    await promised<void>((done) => close(file, done))
  }
}

async function writeSynced(file: number, at: number, bytes: Uint8Array): Promise<void> {
  try {
    for (let written = 0; written < bytes.length; ) {
      const rest = bytes.length - written
      written += await promised<number>((done) => write(file, bytes, written, rest, at + written, done))
    }
    await promised<void>((done) => fdatasync(file, done))
  } catch (error) {
    // On a full disk a partial write would take space that others need.
    await promised<void>((done) => ftruncate(file, at, done)).catch(() => undefined)
    throw error
  }
}

type NodeCallback<T> = (error: NodeJS.ErrnoException | null, value?: T) => void

function promised<T>(call: (done: NodeCallback<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    // For calls without a value T is void.
    call((error, value) => (error === null || error === undefined ? resolve(value as T) : reject(error)))
  })
}

const openDescriptor = (path: string, flags: number): Promise<number> =>
  promised((done) => openFile(path, flags, 0o600, done))

/** Keeps the bytes of events that cannot be read in a file of their own. Returns its name. Repeating changes nothing. */
export async function setAsideEvents(
  runs: string,
  { runId, first, bytes }: { readonly runId: string; readonly first: number; readonly bytes: Uint8Array },
): Promise<string> {
  const name = `events.${first}.damaged`
  const path = join(runFolder(runs, runId), name)
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  await replaceFile(path, bytes)
  return `${runId}/${name}`
}

/** Whether a file of a run's folder keeps the bytes of events that cannot be read. */
export const isSetAside = (name: string): boolean => /^events\.\d+\.damaged$/.test(name)

export interface LastEvent {
  readonly end: number
  readonly next: number
}

/**
 * Finds the last event line up to `size`; later lines that are no events are ignored. Without a file, the result is
 * empty.
 */
export async function findLastEvent(path: string, size = Number.POSITIVE_INFINITY): Promise<LastEvent> {
  const file = await openForReading(path)
  if (file === undefined) return { end: 0, next: 0 }
  try {
    return await findLastEventIn(file, Math.min(size, (await file.stat()).size))
  } finally {
    await file.close()
  }
}

async function findLastEventIn(file: FileHandle, size: number): Promise<LastEvent> {
  for (let end = await findLinesEnd(file, size); end > 0; ) {
    const start = await findLinesEnd(file, end - 1)
    const line = Buffer.allocUnsafe(end - 1 - start)
    await file.read(line, 0, line.length, start)
    const event = parseEvent(line.toString('utf8'))
    if (event !== undefined) return { end, next: event.index + 1 }
    end = start
  }
  return { end: 0, next: 0 }
}

/** Returns undefined when there is no file. */
export async function openForReading(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Returns undefined when the file is gone, possibly with its folder. */
async function openKnown(path: string): Promise<number | undefined> {
  try {
    return await openDescriptor(path, WRITE)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** No byte of the file is valid yet, so existing content is from an unacknowledged write. */
async function openFresh(path: string): Promise<number> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  return openDescriptor(path, WRITE | constants.O_TRUNC)
}

// ---- lines ---------------------------------------------------------------------------------------------------------

// The file may be huge and may end in the middle of a line. It is read in chunks, so memory is limited to a chunk and the
// longest line. Events carry rising indexes, so a binary search finds the offset of an index without a second file.

const CHUNK_BYTES = 256 * 1024
/** Enough for most lines; a longer line needs another read. */
const PROBE_BYTES = 8 * 1024
const NEWLINE = 10

interface TextLine {
  readonly text: string
  /** Offsets of this line and of the next one. */
  readonly start: number
  readonly end: number
}

interface LineSlice {
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
async function* readLines(
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
async function findLinesEnd(file: FileHandle, size: number): Promise<number> {
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

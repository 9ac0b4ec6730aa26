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
import { codeOf } from '../errors.ts'
import { replaceFile } from './atomic.ts'
import { findLinesEnd, parseEvent } from './lines.ts'
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

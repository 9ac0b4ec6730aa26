/**
 * One run's event file: `runs/<runId>/events.jsonl`, one JSON object a line.
 *
 * How much of it counts is known from elsewhere. Whatever lies behind that was written but never acknowledged, or
 * only half, and is cut off before anything else is written, so no two lines ever fuse and none is there twice.
 */
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { codeOf } from '../failures.ts'
import { eventOf, wholeLinesEnd } from './lines.ts'

const WRITE = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW

/** `short`: less is there than was acknowledged, so nothing was written. */
export type Appended = { readonly is: 'written'; readonly fresh: boolean } | { readonly is: 'short' }

/** On disk when it resolves, but for the name of a fresh file. What fails leaves at most a tail that does not count. */
export async function appendAt(path: string, known: number, bytes: Uint8Array): Promise<Appended> {
  const file = await openForWriting(path)
  try {
    const { size } = await file.stat()
    if (size < known) return { is: 'short' }
    if (size > known) await file.truncate(known)
    await writeSynced(file, known, bytes)
    return { is: 'written', fresh: known === 0 }
  } finally {
    await file.close()
  }
}

async function writeSynced(file: FileHandle, at: number, bytes: Uint8Array): Promise<void> {
  try {
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done)
      done += bytesWritten
    }
    await file.datasync()
  } catch (error) {
    // On a full disk half a write takes up room that others need.
    await file.truncate(at).catch(() => undefined)
    throw error
  }
}

export interface Kept {
  readonly end: number
  readonly next: number
}

/** The last line by `size` that is an event; lines behind it that are none are not kept. No file, nothing kept. */
export async function lastEventBy(path: string, size = Number.POSITIVE_INFINITY): Promise<Kept> {
  const file = await openForReading(path)
  if (file === undefined) return { end: 0, next: 0 }
  try {
    return await lastEventIn(file, Math.min(size, (await file.stat()).size))
  } finally {
    await file.close()
  }
}

async function lastEventIn(file: FileHandle, size: number): Promise<Kept> {
  for (let end = await wholeLinesEnd(file, size); end > 0; ) {
    const start = await wholeLinesEnd(file, end - 1)
    const line = Buffer.allocUnsafe(end - 1 - start)
    await file.read(line, 0, line.length, start)
    const event = eventOf(line.toString('utf8'))
    if (event !== undefined) return { end, next: event.index + 1 }
    end = start
  }
  return { end: 0, next: 0 }
}

/** Undefined: there is none. */
export async function openForReading(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Made when it is missing, together with its folder. A link in its place is refused. */
async function openForWriting(path: string): Promise<FileHandle> {
  try {
    return await open(path, WRITE, 0o600)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    return open(path, WRITE, 0o600)
  }
}

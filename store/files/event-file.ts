/**
 * One run's event file: `runs/<runId>/events.jsonl`, one JSON object a line.
 *
 * How much of it counts is known from elsewhere. Whatever lies behind that was written but never acknowledged, or
 * only half, and is cut off before anything else is written, so no two lines ever fuse and none is there twice.
 *
 * Every run ends in one of these, thousands of them after a busy minute, so what is done for each of them is done with
 * as few calls as will do, and with plain descriptors: a handle object for each costs more than the call.
 */
import { close, constants, fdatasync, fstat, ftruncate, open as openFile, type Stats, write } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { codeOf } from '../errors.ts'
import { findLinesEnd, parseEvent } from './lines.ts'

const WRITE = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW

/** `short`: less is there than was acknowledged, so nothing was written. */
export type AppendResult = { readonly is: 'written'; readonly fresh: boolean } | { readonly is: 'short' }

/** On disk when it resolves, but for the name of a fresh file. What fails leaves at most a tail that does not count. */
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
    // On a full disk half a write takes up room that others need.
    await promised<void>((done) => ftruncate(file, at, done)).catch(() => undefined)
    throw error
  }
}

type NodeCallback<T> = (error: NodeJS.ErrnoException | null, value?: T) => void

function promised<T>(call: (done: NodeCallback<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    // Of calls without a value, T is void.
    call((error, value) => (error === null || error === undefined ? resolve(value as T) : reject(error)))
  })
}

const openDescriptor = (path: string, flags: number): Promise<number> =>
  promised((done) => openFile(path, flags, 0o600, done))

export interface LastEvent {
  readonly end: number
  readonly next: number
}

/** The last line by `size` that is an event; lines behind it that are none are not kept. No file, nothing kept. */
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

/** Undefined: there is none. */
export async function openForReading(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Undefined: it is gone, and maybe its folder with it. */
async function openKnown(path: string): Promise<number | undefined> {
  try {
    return await openDescriptor(path, WRITE)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Nothing of it counts yet, so whatever is there is left from a write that was never acknowledged. */
async function openFresh(path: string): Promise<number> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  return openDescriptor(path, WRITE | constants.O_TRUNC)
}

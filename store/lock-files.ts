/**
 * Reads and writes the lock files of a data directory, `lock.<generation>`, of which the highest counts.
 *
 * A file appears under its name whole: it is written under another one, locked by the kernel, synced, and then linked.
 */
import {
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { OwnerRecord } from '../core/owner.ts'
import { codeOf, messageOf } from './errors.ts'
import { lockOpenFile } from './kernel-lock.ts'
import { processStart } from './own-place.ts'

const LOCK = /^lock\.(\d+)$/
const DRAFT = /^lock\.draft\.(\d+)\.[0-9a-f]+$/

export interface LinkedFile {
  /** Stays open: the kernel's lock lives as long, and no other file gets the number of this one. */
  readonly fd: number
  readonly record: OwnerRecord
}

/** Links the lock file of a generation. Returns undefined when another process was first. */
export function linkGeneration(
  dataDir: string,
  generation: number,
  owner: OwnerRecord,
): LinkedFile | undefined {
  const draft = join(dataDir, `lock.draft.${owner.pid}.${owner.nonce}`)
  const fd = openSync(draft, 'wx+', 0o600)
  let isLinked = false
  try {
    const record: OwnerRecord =
      owner.released !== true && lockOpenFile(fd) ? { ...owner, kernelLock: true } : owner
    writeFileSync(fd, JSON.stringify(record))
    // A file that lost its text would say nothing of an owner that lives on another machine.
    fsyncSync(fd)
    linkSync(draft, lockFile(dataDir, generation))
    isLinked = true
    return { fd, record }
  } catch (error) {
    // ENOENT: another process took this one for dead and removed the draft.
    if (codeOf(error) === 'EEXIST' || codeOf(error) === 'ENOENT') return undefined
    throw error
  } finally {
    if (!isLinked) closeSync(fd)
    rmSync(draft, { force: true })
  }
}

/** Lists the folder twice, because a listing of a changing folder may miss files. */
export function isHighest(dataDir: string, generation: number): boolean {
  return highestIn(dataDir) === generation && highestIn(dataDir) === generation
}

export const highestIn = (dataDir: string): number => Math.max(0, ...generationsIn(dataDir))

export const generationsIn = (dataDir: string): number[] =>
  readdirSync(dataDir).flatMap((name) => {
    const generation = LOCK.exec(name)?.[1]
    return generation === undefined ? [] : [Number(generation)]
  })

export function removeOlder(dataDir: string, generation: number): void {
  for (const name of readdirSync(dataDir)) {
    const older = Number(LOCK.exec(name)?.[1] ?? generation) < generation
    const draftOf = DRAFT.exec(name)?.[1]
    const abandoned = draftOf !== undefined && processStart(Number(draftOf)) === undefined
    if (older || abandoned) rmSync(join(dataDir, name), { force: true })
  }
}

/** Returns `damaged` for a file that identifies no process, which earlier versions left after a power loss. */
export function readOwner(dataDir: string, generation: number): OwnerRecord | 'gone' | 'damaged' {
  const text = readLock(lockFile(dataDir, generation))
  if (text === undefined) return 'gone'
  try {
    const owner: unknown = JSON.parse(text)
    return isOwnerRecord(owner) ? owner : 'damaged'
  } catch {
    return 'damaged'
  }
}

/** An unreadable lock may belong to a live host, so the directory is not used. */
function readLock(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new Error(
      `the lock ${file} cannot be read (${messageOf(error)}), so another switchyard may be at work here; ` +
        'start as the user who owns it, or start with another --data-dir',
      { cause: error },
    )
  }
}

function isOwnerRecord(value: unknown): value is OwnerRecord {
  return (
    typeof value === 'object' &&
    value !== null &&
    'pid' in value &&
    typeof value.pid === 'number' &&
    'began' in value
  )
}

export function lockFile(dataDir: string, generation: number): string {
  return join(dataDir, `lock.${generation}`)
}

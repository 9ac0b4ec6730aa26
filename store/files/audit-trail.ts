/**
 * The trail of actions on disk: lines that are only ever appended, in files that are named by their first entry.
 *
 * The actions of one moment share a write and a sync. A write that failed half way is taken back, or a later one would
 * stand in the midst of a line. After a crash the end of an entry that nobody was answered for is cut off, which the
 * next entry says.
 */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { AuditTrail } from '../../core/ports/store.ts'
import type { AuditAction, AuditEntry } from '../../protocol/audit.ts'
import { makeFolder, namesIn, syncFolder } from './atomic.ts'
import { type GuardWrite, StoreQueue } from './store-queue.ts'

/** The next entry after so many bytes begins another file of the trail. */
const TRAIL_FILE_BYTES_MAX = 8 * 1024 * 1024

export const AUDIT_FOLDER = 'audit'
const FILE_NAME = /^\d{12}\.jsonl$/
const END = '\n'

export interface AuditTrailOptions {
  readonly folder: string
  readonly clock: Pick<Clock, 'now'>
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>
  readonly guardWrite: GuardWrite
  /** TRAIL_FILE_BYTES_MAX when absent. */
  readonly fileBytesMax?: number
}

/** The end of the trail, behind which the next entry goes. */
interface TrailEnd {
  readonly n: number
  readonly hash: string
  /** The file that is written; undefined before the first entry. */
  readonly file: string | undefined
  readonly bytes: number
  /** The bytes of an unfinished line behind them. */
  readonly tornBytes: number
}

export class AuditTrailOnDisk implements AuditTrail {
  readonly #options: AuditTrailOptions
  readonly #queue = new StoreQueue()
  readonly #waiting: (AuditAction & { readonly at: string })[] = []
  #end: TrailEnd
  #handle: FileHandle | undefined
  #missed = 0

  private constructor(options: AuditTrailOptions, end: TrailEnd) {
    this.#options = options
    this.#end = end
  }

  static async open(options: AuditTrailOptions): Promise<AuditTrailOnDisk> {
    await makeFolder(options.folder)
    const end = await findEnd(options.folder)
    const { n, hash, tornBytes } = end
    if (n > 0) options.log.info({ entries: n, hash }, 'the trail of actions goes on here')
    if (tornBytes > 0)
      options.log.warn(
        { bytes: tornBytes },
        'the trail of actions ends with an unfinished entry, which is cut off',
      )
    return new AuditTrailOnDisk(options, end)
  }

  async record(action: AuditAction): Promise<void> {
    this.#waiting.push({ at: new Date(this.#options.clock.now()).toISOString(), ...action })
    try {
      await this.#queue.run('', () => this.#writeWaiting())
    } catch (error) {
      this.#options.log.error(
        { err: error, source: action.source, action: action.action },
        'an action could not be written to the trail of actions',
      )
    }
  }

  async close(): Promise<void> {
    await this.#queue.close()
    await this.#handle?.close()
    const { n, hash } = this.#end
    if (n > 0) this.#options.log.info({ entries: n, hash }, 'the trail of actions ends here')
  }

  /** An earlier call may have written them already. */
  async #writeWaiting(): Promise<void> {
    const actions = this.#waiting.splice(0)
    if (actions.length === 0) return
    try {
      await this.#options.guardWrite(() => this.#write(actions))
      this.#missed = 0
    } catch (error) {
      this.#missed += actions.length
      throw error
    }
  }

  async #write(actions: readonly (AuditAction & { readonly at: string })[]): Promise<void> {
    let { n, hash } = this.#end
    let text = ''
    for (const action of actions) {
      n += 1
      const missed = text === '' && this.#missed > 0 ? { missed: this.#missed } : {}
      const sealed = sealEntry({ n, ...action, ...missed }, hash)
      hash = sealed.hash
      text += sealed.line + END
    }
    const { handle, file, bytes } = await this.#openFile()
    try {
      const { bytesWritten } = await handle.write(text, bytes)
      if (bytesWritten < Buffer.byteLength(text)) throw new Error('the disk took only a part of the entry')
      await handle.datasync()
    } catch (error) {
      this.#end = { ...this.#end, file, bytes, tornBytes: Buffer.byteLength(text) }
      throw error
    }
    this.#end = { n, hash, file, bytes: bytes + Buffer.byteLength(text), tornBytes: 0 }
  }

  /** Opens the file for the next entry, without what a failed write has left. */
  async #openFile(): Promise<{ handle: FileHandle; file: string; bytes: number }> {
    const { folder, fileBytesMax = TRAIL_FILE_BYTES_MAX } = this.#options
    const { n, file: current, bytes, tornBytes } = this.#end
    // The unfinished line is cut off where the next entry goes.
    const isFull = current === undefined || (bytes >= fileBytesMax && tornBytes === 0)
    const file = isFull ? fileName(n + 1) : current
    if (isFull) {
      await this.#handle?.close()
      this.#handle = undefined
    }
    this.#handle ??= await open(join(folder, file), constants.O_RDWR | constants.O_CREAT, 0o600)
    if (isFull) await syncFolder(folder)
    if (tornBytes > 0) await this.#handle.truncate(bytes)
    return { handle: this.#handle, file, bytes: isFull ? 0 : bytes }
  }
}

/** The names of the trail's files, in the order of their entries. */
export async function trailFiles(folder: string): Promise<string[]> {
  return (await namesIn(folder)).filter((name) => FILE_NAME.test(name)).sort()
}

const fileName = (n: number): string => `${String(n).padStart(12, '0')}.jsonl`

/** A file may be empty, when the host ended between creating and writing it. */
async function findEnd(folder: string): Promise<TrailEnd> {
  const files = await trailFiles(folder)
  const newest = files.at(-1)
  let own: Pick<TrailEnd, 'bytes' | 'tornBytes'> = { bytes: 0, tornBytes: 0 }
  for (const file of files.toReversed()) {
    const text = await readFile(join(folder, file), 'utf8')
    const whole = text.slice(0, text.lastIndexOf(END) + 1)
    if (file === newest)
      own = { bytes: Buffer.byteLength(whole), tornBytes: Buffer.byteLength(text.slice(whole.length)) }
    const lines = whole.split(END).slice(0, -1)
    const last = lines.at(-1)
    if (last === undefined) continue
    const { entry, hash } = readLine(last, NO_HASH)
    return { n: entry?.n ?? Number.parseInt(file, 10) + lines.length - 1, hash, file: newest, ...own }
  }
  return { n: 0, hash: NO_HASH, file: newest, ...own }
}

// ---- the chain -----------------------------------------------------------------------------------------------------

/** Stands for the entry before the first one. */
export const NO_HASH = ''
const SEALED = /^(\{.*),"hash":"([0-9a-f]{64})"\}$/

/**
 * Makes the line of an entry, without its end. The chain of the trail: each entry holds a hash over itself and over
 * the hash of the entry before it, so an entry that was changed, moved or taken out no longer fits those around it.
 *
 * The newest entries can be cut off without a break in the chain. Who has written down a hash, as `audit --verify` and
 * the host's log print it, sees that too.
 *
 * @param previous the hash of the entry before it
 */
function sealEntry(entry: Omit<AuditEntry, 'hash'>, previous: string): { line: string; hash: string } {
  const text = JSON.stringify(entry)
  const hash = hashOf(text, previous)
  return { line: `${text.slice(0, -1)},"hash":"${hash}"}`, hash }
}

interface ReadLine {
  /** Undefined: nobody can read the line. */
  readonly entry: AuditEntry | undefined
  /** Whether the entry is the one that was written after `previous`. */
  readonly fits: boolean
  /** The hash for the entry after it; a line that nobody can read has one too. */
  readonly hash: string
}

export function readLine(line: string, previous: string): ReadLine {
  const [, text = '', hash = ''] = SEALED.exec(line) ?? []
  const entry = parseEntry(line)
  if (entry === undefined || hash === '')
    return { entry: undefined, fits: false, hash: hashOf(line, NO_HASH) }
  return { entry, fits: hashOf(`${text}}`, previous) === hash, hash }
}

const hashOf = (text: string, previous: string): string =>
  createHash('sha256').update(`${previous}\n${text}`).digest('hex')

function parseEntry(line: string): AuditEntry | undefined {
  try {
    const read: Partial<AuditEntry> | null = JSON.parse(line)
    if (read === null || !Number.isSafeInteger(read.n)) return undefined
    if (typeof read.at !== 'string' || typeof read.source !== 'string' || typeof read.action !== 'string')
      return undefined
    // The fields that must be there are; the chain tells whether the others are those that were written.
    return read as AuditEntry
  } catch {
    return undefined
  }
}

// ---- reading -------------------------------------------------------------------------------------------------------

interface ReadTrail {
  readonly count: number
  /** A sentence for each place in which the chain is broken. */
  readonly faults: readonly string[]
  /** A last line without its end: the host is writing it, or had no time to finish it. */
  readonly isLastUnfinished: boolean
}

/**
 * Reads the trail of actions whole and judges its chain, also beside the host that writes it.
 *
 * @param onEntry receives each entry, oldest first; a trail may be longer than memory has room for
 */
export async function readAuditTrail(
  folder: string,
  onEntry: (entry: AuditEntry) => void,
): Promise<ReadTrail> {
  const reader = new TrailReader(onEntry)
  for (const file of await trailFiles(folder))
    reader.readFile(file, await readFile(join(folder, file), 'utf8'))
  return reader
}

class TrailReader implements ReadTrail {
  count = 0
  readonly faults: string[] = []
  isLastUnfinished = false
  #next = 1
  #previous = NO_HASH
  readonly #onEntry: (entry: AuditEntry) => void

  constructor(onEntry: (entry: AuditEntry) => void) {
    this.#onEntry = onEntry
  }

  readFile(file: string, text: string): void {
    if (this.isLastUnfinished) this.faults.push(`entry ${this.#next} is cut off at the end of its file`)
    const lines = text.split('\n')
    this.isLastUnfinished = lines.pop() !== ''
    for (const [at, line] of lines.entries()) this.#readLine(`${file}:${at + 1}`, line)
  }

  #readLine(where: string, line: string): void {
    const { entry, fits, hash } = readLine(line, this.#previous)
    this.#previous = hash
    if (entry === undefined) this.faults.push(`${where} is no entry (entry ${this.#next} should be there)`)
    else if (entry.n !== this.#next) this.faults.push(describeGap(where, this.#next, entry.n))
    else if (!fits) this.faults.push(`${where}: entry ${entry.n} was changed, or the one before it`)
    if (entry !== undefined) {
      this.count += 1
      this.#onEntry(entry)
    }
    this.#next = (entry?.n ?? this.#next) + 1
  }
}

function describeGap(where: string, expected: number, found: number): string {
  if (found < expected) return `${where}: entry ${found} stands where entry ${expected} should`
  const missing = found === expected + 1 ? `entry ${expected} is` : `entries ${expected} to ${found - 1} are`
  return `${where}: ${missing} missing before entry ${found}`
}

/**
 * The person's configuration file, as text that anybody may edit at any moment.
 *
 * A replacement names the text it expects to replace, and looks at the file last, when its draft is already on disk,
 * so that a hand edit nobody has seen yet can be overwritten only in the instant between that look and the rename.
 * Own writes are told from hand edits by content, by whoever watches. A `config.json` that is a link keeps being one:
 * what it points at is replaced. The file holds credentials, so it is owner-only after every replacement, and one
 * that is found wider is tightened, where we may.
 */
import { closeSync, type FSWatcher, openSync, readSync, watch } from 'node:fs'
import { chmod, realpath, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Cancel, Clock, ConfigFile, Log } from '../../core/ports.ts'
import { CONFIG_BYTES_MAX } from '../../protocol/limits.ts'
import { codeOf, messageOf } from '../errors.ts'
import { createFile, namesIn, replaceFile, sweepDrafts } from './atomic.ts'
import { StoreQueue } from './store-queue.ts'

const DEBOUNCE_MS = 100
/** Catches what the folder's events miss: network disks, links, editors with odd habits. */
const POLL_MS = 2_000
/** A file, or its folder, that is not ours to change. */
const NOT_PERMITTED = new Set<unknown>(['EPERM', 'EACCES', 'EROFS'])
const REJECTED_MAX = 5
const REJECTED = /^\.\d{4}-\d{2}-\d{2}T\d{9}Z(-\d+)?\.rejected$/

export class ConfigFileOnDisk implements ConfigFile {
  readonly path: string
  readonly #clock: Clock
  readonly #log: Log
  readonly #queue = new StoreQueue()
  readonly #watchers = new Set<Cancel>()

  constructor(path: string, clock: Clock, log: Log) {
    this.path = path
    this.#clock = clock
    this.#log = log
  }

  /** Removes drafts that a crash left, and narrows a file that others could read. */
  async tidy(): Promise<void> {
    const target = await this.#target()
    await this.#warnIfNotAllowed('drafts beside the configuration file could not be removed', () =>
      sweepDrafts(dirname(target), basename(target)),
    )
    const stats = await stat(target).catch(() => undefined)
    if (stats === undefined || (stats.mode & 0o077) === 0) return
    await this.#warnIfNotAllowed(
      'the configuration file can be read by others, and is not ours to make 0600',
      async () => {
        await chmod(target, 0o600)
        this.#log.warn({ path: target }, 'the configuration file could be read by others; it is 0600 now')
      },
    )
  }

  async read(): Promise<string | undefined> {
    return readCapped(this.path)
  }

  replace(expected: string | undefined, text: string) {
    return this.#queue.run('', async () => {
      if (Buffer.byteLength(text) > CONFIG_BYTES_MAX) throw new RangeError(tooLarge(this.path))
      let found: string | undefined
      const replaced = await replaceFile(await this.#target(), text, () => {
        found = readCapped(this.path)
        return found === expected
      })
      return replaced ? ({ is: 'replaced' } as const) : ({ is: 'changed', text: found } as const)
    })
  }

  saveCopy(text: string): Promise<string> {
    return this.#queue.run('', async () => {
      const stamp = new Date(this.#clock.now()).toISOString().replace(/[:.]/g, '')
      const copy = await this.#createFree(
        (n) => `${this.path}.${stamp}${n === 0 ? '' : `-${n}`}.rejected`,
        text,
      )
      await this.#dropOldCopies()
      return copy
    })
  }

  watch(changed: () => void): Cancel {
    let pending: Cancel | undefined
    const scheduleCallback = () => {
      pending?.()
      pending = this.#clock.after(DEBOUNCE_MS, changed)
    }
    const stops = [this.#watchFolder(scheduleCallback), this.#poll(scheduleCallback)]
    const stop = () => {
      pending?.()
      for (const each of stops) each()
      this.#watchers.delete(stop)
    }
    this.#watchers.add(stop)
    return stop
  }

  async close(): Promise<void> {
    for (const stop of this.#watchers) stop()
    await this.#queue.close()
  }

  /** A link may lead to a file that somebody else keeps. That is worth a warning, not a host that does not start. */
  async #warnIfNotAllowed(otherwise: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (!NOT_PERMITTED.has(codeOf(error))) throw error
      this.#log.warn({ path: this.path, reason: messageOf(error) }, otherwise)
    }
  }

  /** What the path means when it is a link, or itself while there is no such file. */
  async #target(): Promise<string> {
    return realpath(this.path).catch(() => this.path)
  }

  async #createFree(nameOf: (n: number) => string, text: string): Promise<string> {
    for (let n = 0; ; n++) {
      try {
        await createFile(nameOf(n), text)
        return nameOf(n)
      } catch (error) {
        if (codeOf(error) !== 'EEXIST') throw error
      }
    }
  }

  async #dropOldCopies(): Promise<void> {
    const own = basename(this.path)
    const copies = (await namesIn(dirname(this.path)))
      .filter((name) => name.startsWith(own) && REJECTED.test(name.slice(own.length)))
      .sort(byAge)
    for (const name of copies.slice(0, -REJECTED_MAX))
      await rm(join(dirname(this.path), name), { force: true })
  }

  /** The folder, not the file: a watch on a file dies with the rename that replaces it. */
  #watchFolder(soon: () => void): Cancel {
    let watcher: FSWatcher | undefined
    try {
      watcher = watch(dirname(this.path), { persistent: false }, (_event, name) => {
        if (name === null || name === basename(this.path)) soon()
      })
      // Without events there is still the poll.
      watcher.on('error', () => watcher?.close())
    } catch (error) {
      this.#log.warn(
        { reason: messageOf(error) },
        'the configuration folder cannot be watched; looking every 2 s instead',
      )
    }
    return () => watcher?.close()
  }

  #poll(soon: () => void): Cancel {
    let stopped = false
    let known: string | undefined
    let next: Cancel | undefined
    const checkFile = async (first: boolean) => {
      const seen = await fileVersion(this.path)
      if (stopped) return
      if (!first && seen !== known) soon()
      known = seen
      next = this.#clock.after(POLL_MS, () => void checkFile(false))
    }
    void checkFile(true)
    return () => {
      stopped = true
      next?.()
    }
  }
}

/** Synchronous, so that nothing of ours comes between the last look at the file and its replacement. */
function readCapped(path: string): string | undefined {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    // One byte more than allowed tells a file of exactly the limit from a larger one, and bounds what is read.
    const bytes = Buffer.allocUnsafe(CONFIG_BYTES_MAX + 1)
    let filled = 0
    for (;;) {
      const bytesRead = readSync(file, bytes, filled, bytes.length - filled, null)
      filled += bytesRead
      if (filled > CONFIG_BYTES_MAX) throw new RangeError(tooLarge(path))
      if (bytesRead === 0) return bytes.toString('utf8', 0, filled)
    }
  } finally {
    closeSync(file)
  }
}

/** Differs when the file was replaced or written to. */
async function fileVersion(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs } = await stat(path, { bigint: true })
    return `${dev}:${ino}:${size}:${mtimeNs}`
  } catch {
    return 'none'
  }
}

/** The stamps sort by time, the numbers behind equal stamps do not sort as text. */
function byAge(a: string, b: string): number {
  const [stampA = '', numberA = '0'] = a.replace('.rejected', '').split(/Z-?/)
  const [stampB = '', numberB = '0'] = b.replace('.rejected', '').split(/Z-?/)
  if (stampA !== stampB) return stampA < stampB ? -1 : 1
  return Number(numberA) - Number(numberB)
}

function tooLarge(path: string): string {
  return `${path} is larger than ${CONFIG_BYTES_MAX} bytes; remove what does not belong in it`
}

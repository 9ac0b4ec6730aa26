/**
 * Stores the configuration file, a text that people may edit at any moment.
 *
 * A replacement names the text that it expects, and compares it with the file when the draft is already on disk. So a
 * concurrent hand edit can be lost only between that comparison and the rename. Watchers distinguish own writes from
 * hand edits by content. When `config.json` is a link, its target is replaced and the link stays. The file contains
 * credentials, so it is owner-only after every replacement, and a wider mode is narrowed where permitted.
 */
import { closeSync, type FSWatcher, openSync, readSync, watch } from 'node:fs'
import { chmod, realpath, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { ConfigFile } from '../../core/ports/store.ts'
import { CONFIG_BYTES_MAX } from '../../protocol/limits.ts'
import { codeOf, messageOf } from '../../protocol/message-of.ts'
import { createFile, namesIn, replaceFile, sweepDrafts } from './atomic.ts'
import { type GuardWrite, StoreQueue } from './store-queue.ts'

const DEBOUNCE_MS = 100
/** Finds changes that folder events miss: network disks, links, unusual editors. */
const POLL_MS = 2_000
/** Error codes for a file or folder that this user must not change. */
const NOT_PERMITTED = new Set<unknown>(['EPERM', 'EACCES', 'EROFS'])
const REJECTED_MAX = 5
const REJECTED = /^\.\d{4}-\d{2}-\d{2}T\d{9}Z(-\d+)?\.rejected$/

export class ConfigFileOnDisk implements ConfigFile {
  readonly path: string
  readonly #clock: Clock
  readonly #log: Log
  readonly #queue: StoreQueue
  readonly #watchers = new Set<Cancel>()

  constructor(path: string, clock: Clock, log: Log, guardWrite?: GuardWrite) {
    this.path = path
    this.#queue = new StoreQueue(guardWrite)
    this.#clock = clock
    this.#log = log
  }

  /** Removes drafts of a crash, and makes the file owner-only. */
  async tidy(): Promise<void> {
    const target = await this.#target()
    await this.#warnIfNotAllowed('drafts beside the configuration file could not be removed', () =>
      sweepDrafts(dirname(target), basename(target)),
    )
    const stats = await stat(target).catch(() => undefined)
    if (stats === undefined || (stats.mode & 0o077) === 0) return
    await this.#warnIfNotAllowed(
      'the configuration file can be read by others, and this user may not change its mode to 0600',
      async () => {
        await chmod(target, 0o600)
        this.#log.warn(
          { path: target },
          'the configuration file could be read by others; its mode is 0600 now',
        )
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

  /** The file may be a link to a file of another user, which causes a warning but no failed start. */
  async #warnIfNotAllowed(otherwise: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (!NOT_PERMITTED.has(codeOf(error))) throw error
      this.#log.warn({ path: this.path, reason: messageOf(error) }, otherwise)
    }
  }

  /** Returns the target of a link, or the path itself while there is no file. */
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

  /** Watches the folder, because a watch on a file ends with the rename that replaces it. */
  #watchFolder(soon: () => void): Cancel {
    let watcher: FSWatcher | undefined
    try {
      watcher = watch(dirname(this.path), { persistent: false }, (_event, name) => {
        if (name === null || name === basename(this.path)) soon()
      })
      // Without events the poll still finds changes.
      watcher.on('error', () => watcher?.close())
    } catch (error) {
      this.#log.warn(
        { reason: messageOf(error) },
        'the configuration folder cannot be watched; the file is polled every 2 s instead',
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

/** Synchronous, so that no other code of this process runs between this read and the replacement. */
function readCapped(path: string): string | undefined {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    // Reading one byte more than allowed detects a file above the limit, and bounds the read.
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

/** A text that changes when the file is replaced or written. */
async function fileVersion(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs } = await stat(path, { bigint: true })
    return `${dev}:${ino}:${size}:${mtimeNs}`
  } catch {
    return 'none'
  }
}

/** Time stamps sort as text, the numbers after equal stamps do not. */
function byAge(a: string, b: string): number {
  const [stampA = '', numberA = '0'] = a.replace('.rejected', '').split(/Z-?/)
  const [stampB = '', numberB = '0'] = b.replace('.rejected', '').split(/Z-?/)
  if (stampA !== stampB) return stampA < stampB ? -1 : 1
  return Number(numberA) - Number(numberB)
}

function tooLarge(path: string): string {
  return `${path} is larger than ${CONFIG_BYTES_MAX} bytes; remove what does not belong in it`
}

/**
 * Tells when something in a folder may have changed.
 *
 * The system's events say so at once, and are gathered for a moment, since one save is several of them. Every two
 * seconds the folder itself is looked at: one that was missing, or was replaced by another, is watched anew. Where
 * events cannot be had, that look counts as a change.
 */
import { type BigIntStats, type FSWatcher, statSync, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import type { Cancel, Clock, Log } from '../../core/ports.ts'
import { textOf } from './errors.ts'

const DEBOUNCE_MS = 50
/** A folder that never rests is told of all the same. */
const DEBOUNCE_MS_MAX = 500
const POLL_MS = 2_000

export function watchFolder(path: string, clock: Clock, log: Log, changed: () => void): Cancel {
  const watching = new FolderWatch(path, clock, log, changed)
  watching.start()
  return () => watching.stop()
}

class FolderWatch {
  readonly #path: string
  readonly #clock: Clock
  readonly #log: Log
  readonly #changed: () => void
  #watcher: FSWatcher | undefined
  /** Which folder is watched; undefined while there is none. */
  #folder: string | undefined
  #pending: Cancel | undefined
  #firstEventAt = 0
  #nextPoll: Cancel | undefined
  #stopped = false
  #hasComplained = false

  constructor(path: string, clock: Clock, log: Log, changed: () => void) {
    this.#path = path
    this.#clock = clock
    this.#log = log
    this.#changed = changed
  }

  /** In one go, so that whoever looks at the folder after this misses nothing. */
  start(): void {
    this.#folder = idNow(this.#path)
    this.#open()
    this.#pollLater()
  }

  stop(): void {
    this.#stopped = true
    this.#pending?.()
    this.#nextPoll?.()
    this.#watcher?.close()
  }

  #soon(): void {
    if (this.#stopped) return
    const now = this.#clock.monotonic()
    if (this.#pending === undefined) this.#firstEventAt = now
    this.#pending?.()
    const wait = Math.min(DEBOUNCE_MS, this.#firstEventAt + DEBOUNCE_MS_MAX - now)
    this.#pending = this.#clock.after(Math.max(0, wait), () => {
      this.#pending = undefined
      this.#changed()
    })
  }

  #pollLater(): void {
    this.#nextPoll = this.#clock.after(POLL_MS, () => void this.#poll())
  }

  async #poll(): Promise<void> {
    await this.#check()
    if (!this.#stopped) this.#pollLater()
  }

  async #check(): Promise<void> {
    const folder = idOf(await stat(this.#path, { bigint: true }).catch(() => undefined))
    if (this.#stopped) return
    const isSame = folder === this.#folder
    if (isSame && (folder === undefined || this.#watcher !== undefined)) return
    // Asked before the watch is opened: a folder replaced in between is found out by the next look.
    this.#folder = folder
    this.#open()
    this.#soon()
  }

  #open(): void {
    this.#watcher?.close()
    this.#watcher = undefined
    if (this.#folder === undefined) return
    try {
      const watcher = watch(this.#path, { persistent: false }, (_event, name) => this.#heard(watcher, name))
      watcher.on('error', (error) => this.#lost(watcher, error))
      this.#watcher = watcher
    } catch (error) {
      this.#complain(error)
    }
  }

  /** A folder that is moved or removed says so under its own name, and nothing ever after. */
  #heard(watcher: FSWatcher, name: string | null): void {
    if (watcher !== this.#watcher) return
    if (name === null || name === basename(this.#path)) {
      watcher.close()
      this.#watcher = undefined
      void this.#check()
    }
    this.#soon()
  }

  #lost(watcher: FSWatcher, error: unknown): void {
    watcher.close()
    if (watcher !== this.#watcher) return
    this.#watcher = undefined
    this.#complain(error)
  }

  #complain(error: unknown): void {
    if (this.#hasComplained) return
    this.#hasComplained = true
    this.#log.warn(
      { path: this.#path, reason: textOf(error) },
      'the ticket folder cannot be watched; looking every 2 s instead',
    )
  }
}

function idNow(path: string): string | undefined {
  try {
    return idOf(statSync(path, { bigint: true }))
  } catch {
    return undefined
  }
}

/** Inode numbers are given out again, birth times are not. */
function idOf(stats: BigIntStats | undefined): string | undefined {
  return stats?.isDirectory() === true ? `${stats.dev}:${stats.ino}:${stats.birthtimeNs}` : undefined
}

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
import { errorText } from './errors.ts'

const DEBOUNCE_MS = 50
/** A folder that never rests is told of all the same. */
const DEBOUNCE_MS_MAX = 500
const POLL_MS = 2_000

export function watchFolder(path: string, clock: Clock, log: Log, onChange: () => void): Cancel {
  const folderWatch = new FolderWatch(path, clock, log, onChange)
  folderWatch.start()
  return () => folderWatch.stop()
}

class FolderWatch {
  readonly #path: string
  readonly #clock: Clock
  readonly #log: Log
  readonly #onChange: () => void
  #watcher: FSWatcher | undefined
  /** Which folder is watched; undefined while there is none. */
  #folderId: string | undefined
  #cancelNotification: Cancel | undefined
  #firstEventAt = 0
  #cancelPoll: Cancel | undefined
  #stopped = false
  #hasWarned = false

  constructor(path: string, clock: Clock, log: Log, onChange: () => void) {
    this.#path = path
    this.#clock = clock
    this.#log = log
    this.#onChange = onChange
  }

  /** In one go, so that whoever looks at the folder after this misses nothing. */
  start(): void {
    this.#folderId = readFolderIdSync(this.#path)
    this.#open()
    this.#schedulePoll()
  }

  stop(): void {
    this.#stopped = true
    this.#cancelNotification?.()
    this.#cancelPoll?.()
    this.#watcher?.close()
  }

  #scheduleNotification(): void {
    if (this.#stopped) return
    const now = this.#clock.monotonic()
    if (this.#cancelNotification === undefined) this.#firstEventAt = now
    this.#cancelNotification?.()
    const wait = Math.min(DEBOUNCE_MS, this.#firstEventAt + DEBOUNCE_MS_MAX - now)
    this.#cancelNotification = this.#clock.after(Math.max(0, wait), () => {
      this.#cancelNotification = undefined
      this.#onChange()
    })
  }

  #schedulePoll(): void {
    this.#cancelPoll = this.#clock.after(POLL_MS, () => void this.#poll())
  }

  async #poll(): Promise<void> {
    await this.#check()
    if (!this.#stopped) this.#schedulePoll()
  }

  async #check(): Promise<void> {
    const folderId = toFolderId(await stat(this.#path, { bigint: true }).catch(() => undefined))
    if (this.#stopped) return
    const isSame = folderId === this.#folderId
    if (isSame && (folderId === undefined || this.#watcher !== undefined)) return
    // Asked before the watch is opened: a folder replaced in between is found out by the next look.
    this.#folderId = folderId
    this.#open()
    this.#scheduleNotification()
  }

  #open(): void {
    this.#watcher?.close()
    this.#watcher = undefined
    if (this.#folderId === undefined) return
    try {
      const watcher = watch(this.#path, { persistent: false }, (_event, name) => this.#onEvent(watcher, name))
      watcher.on('error', (error) => this.#onWatcherError(watcher, error))
      this.#watcher = watcher
    } catch (error) {
      this.#warnOnce(error)
    }
  }

  /** A folder that is moved or removed says so under its own name, and nothing ever after. */
  #onEvent(watcher: FSWatcher, name: string | null): void {
    if (watcher !== this.#watcher) return
    if (name === null || name === basename(this.#path)) {
      watcher.close()
      this.#watcher = undefined
      void this.#check()
    }
    this.#scheduleNotification()
  }

  #onWatcherError(watcher: FSWatcher, error: unknown): void {
    watcher.close()
    if (watcher !== this.#watcher) return
    this.#watcher = undefined
    this.#warnOnce(error)
  }

  #warnOnce(error: unknown): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    this.#log.warn(
      { path: this.#path, reason: errorText(error) },
      'the ticket folder cannot be watched; looking every 2 s instead',
    )
  }
}

function readFolderIdSync(path: string): string | undefined {
  try {
    return toFolderId(statSync(path, { bigint: true }))
  } catch {
    return undefined
  }
}

/** Inode numbers are given out again, birth times are not. */
function toFolderId(stats: BigIntStats | undefined): string | undefined {
  return stats?.isDirectory() === true ? `${stats.dev}:${stats.ino}:${stats.birthtimeNs}` : undefined
}

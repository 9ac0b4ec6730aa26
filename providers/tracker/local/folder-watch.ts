/**
 * Reports that something in a folder may have changed.
 *
 * File system events are debounced, because one save causes several. Every two seconds the folder itself is checked,
 * and watched again if it appeared or was replaced. Without file system events, each of these checks counts as a
 * change.
 */
import { type BigIntStats, type FSWatcher, statSync, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import type { Cancel, Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import { messageOf } from '../../../protocol/message-of.ts'

const DEBOUNCE_MS = 50
/** Limit for the delay of a folder that changes without pause. */
const DEBOUNCE_MS_MAX = 500
const POLL_MS = 2_000

export interface FolderWatchListener {
  /** At once: this file may have changed, or any file when there is no name. */
  onEvent(name: string | undefined): void
  /** Once for the events of a moment. */
  onChange(): void
}

export function watchFolder(path: string, clock: Clock, log: Log, listener: FolderWatchListener): Cancel {
  const folderWatch = new FolderWatch(path, clock, log, listener)
  folderWatch.start()
  return () => folderWatch.stop()
}

class FolderWatch {
  readonly #path: string
  readonly #clock: Clock
  readonly #log: Log
  readonly #listener: FolderWatchListener
  #watcher: FSWatcher | undefined
  /** Identity of the watched folder; undefined while there is none. */
  #folderId: string | undefined
  #cancelNotification: Cancel | undefined
  #firstEventAt = 0
  #cancelPoll: Cancel | undefined
  #stopped = false
  #hasWarned = false

  constructor(path: string, clock: Clock, log: Log, listener: FolderWatchListener) {
    this.#path = path
    this.#clock = clock
    this.#log = log
    this.#listener = listener
  }

  /** Synchronous, so that a caller who reads the folder afterwards misses no change. */
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

  #scheduleNotification(name?: string): void {
    if (this.#stopped) return
    this.#listener.onEvent(name)
    const now = this.#clock.monotonic()
    if (this.#cancelNotification === undefined) this.#firstEventAt = now
    this.#cancelNotification?.()
    const wait = Math.min(DEBOUNCE_MS, this.#firstEventAt + DEBOUNCE_MS_MAX - now)
    this.#cancelNotification = this.#clock.after(Math.max(0, wait), () => {
      this.#cancelNotification = undefined
      this.#listener.onChange()
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
    // Read before the watch starts: the next check finds a folder that was replaced in between.
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

  /** A moved or removed folder sends one event with its own name, and none after that. */
  #onEvent(watcher: FSWatcher, name: string | null): void {
    if (watcher !== this.#watcher) return
    if (name === null || name === basename(this.#path)) {
      watcher.close()
      this.#watcher = undefined
      void this.#check()
      this.#scheduleNotification()
    } else this.#scheduleNotification(name)
  }

  #onWatcherError(watcher: FSWatcher, error: unknown): void {
    watcher.close()
    if (watcher !== this.#watcher) return
    this.#watcher = undefined
    this.#listener.onEvent(undefined)
    this.#warnOnce(error)
  }

  #warnOnce(error: unknown): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    this.#log.warn(
      { path: this.#path, reason: messageOf(error) },
      'the ticket folder cannot be watched; polling every 2 s instead',
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

/** Includes the birth time, because inode numbers are reused. */
function toFolderId(stats: BigIntStats | undefined): string | undefined {
  return stats?.isDirectory() === true ? `${stats.dev}:${stats.ino}:${stats.birthtimeNs}` : undefined
}

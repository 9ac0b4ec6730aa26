/**
 * One run's event file while it is being written.
 *
 * Appends that come while a write is under way are written together by the next one. The length counts only what was
 * written whole: after a failed write the file is cut back to it before anything else is written, so no two lines
 * ever fuse. After a failed sync nobody knows what the disk holds, so the log refuses everything until it is opened
 * again at a length that was acknowledged.
 */
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { codeOf } from '../failures.ts'
import { syncFolder } from './atomic.ts'

interface Append {
  readonly bytes: Buffer
  /** Index of its first event. */
  readonly first: number
  resolve(length: number): void
  reject(error: unknown): void
}

export class RunLog {
  readonly path: string
  /** What was written whole. */
  length: number
  /** Index the next event gets. */
  next: number
  #file: FileHandle | undefined
  #waiting: Append[] = []
  #busy: Promise<void> = Promise.resolve()
  #writing = false
  /** A failed write may have left half a line behind `length`. */
  #torn = false
  /** What was found in the file may have been written just before a crash of the process, and never synced. */
  #dirty: boolean
  /** Whether the file's name is known to survive a crash. */
  #named = false
  #lost: unknown

  constructor(path: string, length: number, next: number) {
    this.path = path
    this.length = length
    this.next = next
    this.#dirty = length > 0
  }

  /** `first` is the index of the first event in `text`, `next` the one after the last. */
  append(text: string, first: number, next: number): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.#lost !== undefined) return reject(this.#lost)
      this.next = next
      this.#waiting.push({ bytes: Buffer.from(text), first, resolve, reject })
      this.#writeSoon()
    })
  }

  /** Everything appended before the call is on disk when it resolves. */
  sync(): Promise<void> {
    return this.#after(async () => {
      // What was asked to be written while another write was under way would otherwise come after us.
      if (this.#waiting.length > 0) await this.#writeWaiting()
      if (this.#lost !== undefined) throw this.#lost
      if (!this.#dirty) return
      try {
        await (await this.#handle()).datasync()
        if (!this.#named) await this.#syncName()
      } catch (error) {
        this.#lost = error
        throw error
      }
      this.#named = true
      this.#dirty = false
    })
  }

  /** The file's entry in its folder, and the folder's in the one above. */
  async #syncName(): Promise<void> {
    const folder = dirname(this.path)
    await syncFolder(folder)
    await syncFolder(dirname(folder))
  }

  /** Lets go of the file; the next append opens it again. What was appended is synced first. */
  async rest(): Promise<void> {
    // A failed sync is remembered and told to whoever appends or syncs next.
    await this.sync().catch(() => undefined)
    await this.#after(async () => {
      const file = this.#file
      this.#file = undefined
      await file?.close()
    })
  }

  /** Runs after all that was asked for so far; what fails is the caller's to hear. */
  #after<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#busy.then(work)
    this.#busy = mine.then(
      () => undefined,
      () => undefined,
    )
    return mine
  }

  #writeSoon(): void {
    if (this.#writing || this.#waiting.length === 0) return
    this.#writing = true
    this.#busy = this.#busy.then(() => this.#writeWaiting())
  }

  /** One write for all that wait; none, when a sync has written them already. */
  async #writeWaiting(): Promise<void> {
    const appends = this.#waiting.splice(0)
    try {
      if (appends.length > 0) await this.#write(Buffer.concat(appends.map(({ bytes }) => bytes)))
      for (const append of appends) {
        this.length += append.bytes.length
        append.resolve(this.length)
      }
    } catch (error) {
      this.#refuse([...appends, ...this.#waiting.splice(0)], error)
    }
    this.#writing = false
    this.#writeSoon()
  }

  /** What waits behind a failed append would leave a hole in the indexes, so it fails too. */
  #refuse(appends: readonly Append[], error: unknown): void {
    this.next = appends[0]?.first ?? this.next
    for (const append of appends) append.reject(error)
  }

  async #write(bytes: Buffer): Promise<void> {
    const file = await this.#handle()
    if (this.#torn) await file.truncate(this.length)
    this.#torn = true
    this.#dirty = true
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await file.write(bytes, done, bytes.length - done, this.length + done)
      done += bytesWritten
    }
    this.#torn = false
  }

  /** Only ever called by one piece of work at a time. */
  async #handle(): Promise<FileHandle> {
    this.#file ??= await openForWriting(this.path)
    return this.#file
  }
}

/** Made when it is missing, together with its folder. A link in its place is refused. */
export async function openForWriting(path: string): Promise<FileHandle> {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW
  try {
    return await open(path, flags, 0o600)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    return open(path, flags, 0o600)
  }
}

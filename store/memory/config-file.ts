/** The configuration file in memory. `edit` simulates a hand edit. */
import type { Cancel, Clock, ConfigFile } from '../../core/ports.ts'
import { CONFIG_BYTES_MAX } from '../../protocol/limits.ts'
import { StoreClosed } from '../errors.ts'

const DEBOUNCE_MS = 100

export class MemoryConfigFile implements ConfigFile {
  readonly path = 'config.json'
  readonly savedCopies: string[] = []
  readonly #clock: Clock
  readonly #watchers = new Set<() => void>()
  #text: string | undefined
  #closed = false

  constructor(clock: Clock, text?: string) {
    this.#clock = clock
    this.#text = text
  }

  async read(): Promise<string | undefined> {
    return this.#text
  }

  async replace(expected: string | undefined, text: string) {
    if (this.#closed) throw new StoreClosed('the store is closed')
    if (Buffer.byteLength(text) > CONFIG_BYTES_MAX)
      throw new RangeError(`${this.path} is larger than ${CONFIG_BYTES_MAX} bytes`)
    if (this.#text !== expected) return { is: 'changed', text: this.#text } as const
    this.edit(text)
    return { is: 'replaced' } as const
  }

  async saveCopy(text: string): Promise<string> {
    if (this.#closed) throw new StoreClosed('the store is closed')
    const number = this.savedCopies.push(text)
    return `${this.path}.${number}.rejected`
  }

  watch(changed: () => void): Cancel {
    let pending: Cancel | undefined
    const scheduleCallback = () => {
      pending?.()
      pending = this.#clock.after(DEBOUNCE_MS, changed)
    }
    this.#watchers.add(scheduleCallback)
    return () => {
      pending?.()
      this.#watchers.delete(scheduleCallback)
    }
  }

  close(): void {
    this.#closed = true
  }

  edit(text: string | undefined): void {
    this.#text = text
    for (const soon of this.#watchers) soon()
  }
}

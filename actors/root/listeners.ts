/**
 * Opens the doors once and closes them once, also when the second is asked for while the first is still under way.
 */
import { type Result, yes } from '../../core/result.ts'

export interface OpenListeners {
  close(): Promise<void>
}

export class Listeners {
  readonly #openListeners: () => Promise<Result<OpenListeners>>
  #opening: Promise<Result<OpenListeners>> | undefined

  constructor(openDoors: () => Promise<Result<OpenListeners>>) {
    this.#openListeners = openDoors
  }

  async open(): Promise<Result<void>> {
    this.#opening ??= this.#openListeners()
    const opened = await this.#opening
    return opened.ok ? yes(undefined) : opened
  }

  async close(): Promise<void> {
    const opened = await this.#opening
    if (opened?.ok) await opened.value.close()
  }
}

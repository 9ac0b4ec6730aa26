/** Opens the listeners once and closes them once, even if closing is requested while opening is still in progress. */
import { type Result, yes } from '../../core/result.ts'

export interface OpenListeners {
  close(): Promise<void>
}

export class Listeners {
  readonly #openListeners: () => Promise<Result<OpenListeners>>
  #opening: Promise<Result<OpenListeners>> | undefined

  constructor(openListeners: () => Promise<Result<OpenListeners>>) {
    this.#openListeners = openListeners
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

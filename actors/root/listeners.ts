/**
 * Opens the doors once and closes them once, also when the second is asked for while the first is still under way.
 */
import { type Result, yes } from '../../core/result.ts'

export interface Closable {
  close(): Promise<void>
}

export class DoorKeeper {
  readonly #openDoors: () => Promise<Result<Closable>>
  #opening: Promise<Result<Closable>> | undefined

  constructor(openDoors: () => Promise<Result<Closable>>) {
    this.#openDoors = openDoors
  }

  async open(): Promise<Result<void>> {
    this.#opening ??= this.#openDoors()
    const opened = await this.#opening
    return opened.ok ? yes(undefined) : opened
  }

  async close(): Promise<void> {
    const opened = await this.#opening
    if (opened?.ok) await opened.value.close()
  }
}

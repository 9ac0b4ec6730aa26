/**
 * Opens the doors once and closes them once, also when the second is asked for while the first is still under way.
 */
import { type Answer, yes } from '../../core/result.ts'

export interface Closable {
  close(): Promise<void>
}

export class DoorKeeper {
  readonly #openDoors: () => Promise<Answer<Closable>>
  #opening: Promise<Answer<Closable>> | undefined

  constructor(openDoors: () => Promise<Answer<Closable>>) {
    this.#openDoors = openDoors
  }

  async open(): Promise<Answer<void>> {
    this.#opening ??= this.#openDoors()
    const opened = await this.#opening
    return opened.ok ? yes(undefined) : opened
  }

  async close(): Promise<void> {
    const opened = await this.#opening
    if (opened?.ok) await opened.value.close()
  }
}

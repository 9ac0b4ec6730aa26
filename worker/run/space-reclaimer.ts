/**
 * `SpaceReclaimer` discards retained sandboxes one after the other until the disk has room for a run.
 *
 * A discarded sandbox frees its space only when its folder is deleted, so `run` waits for each deletion before it
 * chooses the next sandbox. Callers share one pass and may stop waiting; the pass goes on without them.
 */
import type { Sandboxes } from './sandboxes.ts'

export interface SpaceReclaimerPorts {
  readonly sandboxes: Pick<Sandboxes, 'discardNext' | 'waitForDeletions'>
  readonly freeBytes: () => Promise<number>
  readonly bytesMin: number
}

export class SpaceReclaimer {
  readonly #ports: SpaceReclaimerPorts
  #pass: Promise<void> | undefined

  constructor(ports: SpaceReclaimerPorts) {
    this.#ports = ports
  }

  run(isBusy: (runId: string) => boolean): Promise<void> {
    this.#pass ??= this.#discardUntilEnough(isBusy).finally(() => {
      this.#pass = undefined
    })
    return this.#pass
  }

  async #discardUntilEnough(isBusy: (runId: string) => boolean): Promise<void> {
    const { sandboxes, freeBytes, bytesMin } = this.#ports
    // Deletions that run already may give enough room.
    await sandboxes.waitForDeletions()
    while ((await freeBytes()) < bytesMin && (await sandboxes.discardNext(isBusy)))
      await sandboxes.waitForDeletions()
  }
}

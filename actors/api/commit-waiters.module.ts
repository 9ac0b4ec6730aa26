/** Answers of the API wait here until everything that happened before them is on disk. */
import { no, type Result, yes } from '../../core/result.ts'
import { defineHostModule } from '../host-context.ts'
import { effectHandlers } from '../runtime/module.ts'

type CommitWaitersEffect = { readonly type: 'api.notify committed'; readonly handle: number }

export interface CommitWaitersView {
  /** Resolves once everything up to now is on disk. */
  whenCommitted(): Promise<Result<void>>
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly commitWaiters: CommitWaitersView
  }
}

export const commitWaitersModule = defineHostModule({
  name: 'commitWaiters',
  create({ system }) {
    const waiters = new CommitWaiters()
    return {
      view: {
        whenCommitted: () =>
          waiters.wait((handle) => {
            const effect: CommitWaitersEffect = { type: 'api.notify committed', handle }
            system.runAfterCommit(effect)
          }),
      },
      effects: effectHandlers<CommitWaitersEffect>({ api: ({ handle }) => waiters.onCommitted(handle) }),
      stop: () => waiters.refuseAll(),
      sizes: () => ({ waitingForTheDisk: waiters.size }),
    }
  },
})

/**
 * CommitWaiters holds callers until everything that has happened so far is on disk, so that an answer is durable when
 * it is given.
 */
class CommitWaiters {
  readonly #settlers = new Map<number, (answer: Result<void>) => void>()
  #next = 1

  /** @param notifyOnCommit arranges a call of `onCommitted(handle)` once everything up to now is on disk */
  wait(notifyOnCommit: (handle: number) => void): Promise<Result<void>> {
    const handle = this.#next++
    const result = new Promise<Result<void>>((settle) => this.#settlers.set(handle, settle))
    notifyOnCommit(handle)
    return result
  }

  get size(): number {
    return this.#settlers.size
  }

  onCommitted(handle: number): void {
    this.#settlers.get(handle)?.(yes(undefined))
    this.#settlers.delete(handle)
  }

  /** Refuses every waiter when the service stops: whether their changes reached the disk is unknown. */
  refuseAll(): void {
    for (const settle of this.#settlers.values())
      settle(no('unavailable', 'the service stopped; check after its next start whether the change was made'))
    this.#settlers.clear()
  }
}

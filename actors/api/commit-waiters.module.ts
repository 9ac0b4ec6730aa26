/** Answers of the API wait here until everything that happened before them is on disk. */
import type { Result } from '../../core/result.ts'
import { defineHostModule } from '../host-context.ts'
import { CommitWaiters } from '../runtime/commit-waiters.ts'
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

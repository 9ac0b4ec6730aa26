/** API calls about memories. */
import { no, type Result, yes } from '../../core/result.ts'
import { withTimeout } from '../../core/with-timeout.ts'
import type { MemoriesResponse } from '../../protocol/run.ts'
import type { ApiDependencies } from './api-dependencies.ts'
import type { HostApi } from './host-api.ts'

/** How long the disk may take to write a change. */
const CHANGE_MS_MAX = 5_000

type MemoriesApi = Pick<HostApi, 'memories' | 'keepMemory' | 'forgetMemory' | 'clearMemories'>

export function createMemoriesApi(api: ApiDependencies): MemoriesApi {
  const { memories } = api.views
  return {
    memories: () => memories.listDurable(),
    keepMemory: (repo, id) => changeMemories(api, () => memories.keep(repo, id)),
    forgetMemory: (repo, id) => changeMemories(api, () => memories.forget(repo, id)),
    clearMemories: (repo) => changeMemories(api, () => memories.clear(repo)),
  }
}

/** The specification answers 500 for a change that the disk does not take, which is `failed`. */
async function changeMemories(
  { context, views, mayChange, whenCommitted }: ApiDependencies,
  change: () => Result<void>,
): Promise<Result<MemoriesResponse>> {
  const { database } = context.store
  const may = mayChange()
  if (!may.ok) return database.state().is === 'ready' ? may : no('failed', may.refusal.message)
  const changed = change()
  if (!changed.ok) return changed
  const committed = await withTimeout(context.clock, CHANGE_MS_MAX, whenCommitted(), 'the disk')
  if (committed.ok) return yes(views.memories.listDurable())
  const state = database.state()
  // The disk had room when the request arrived.
  return state.is === 'ready'
    ? committed
    : no('failed', `${state.reason}; the change is written as soon as the disk accepts it`)
}

/** API calls about join keys: creating, listing and deleting them, and checking one. */
import { normalizeName } from '../../core/fleet/naming.ts'
import { no, yes } from '../../core/result.ts'
import type { JoinKeyRequest } from '../../protocol/join-key.ts'
import { JOIN_KEY_NAME_CHARS_MAX } from '../../protocol/limits.ts'
import type { WorkerEvent } from '../workers/worker.machine.ts'
import { WORKER } from '../workers/worker.names.ts'
import type { ApiDependencies } from './api-dependencies.ts'
import type { HostApi } from './host-api.ts'
import { NOT_ADMITTED } from './workers.ts'

type JoinKeysApi = Pick<HostApi, 'joinKeys' | 'createJoinKey' | 'deleteJoinKey' | 'admitJoinKey'>

export function createJoinKeysApi(api: ApiDependencies): JoinKeysApi {
  const { joinKeys } = api.views.workers
  return {
    joinKeys: () => ({ joinKeys: joinKeys.list() }),
    createJoinKey: (request) => createJoinKey(api, request),
    deleteJoinKey: (id, withWorkers) => deleteJoinKey(api, id, withWorkers),
    admitJoinKey: (key) => {
      const id = joinKeys.idOf(key)
      return id === undefined ? NOT_ADMITTED : yes({ id })
    },
  }
}

async function createJoinKey(
  api: ApiDependencies,
  { name: asked, expiresAt, maxWorkers, ephemeral = false }: JoinKeyRequest,
): ReturnType<HostApi['createJoinKey']> {
  const may = api.mayChange()
  if (!may.ok) return may
  const name = normalizeName(asked, JOIN_KEY_NAME_CHARS_MAX)
  if (name === '') return no('invalid', '/name: must have a visible character')
  if (expiresAt !== undefined && !(Date.parse(expiresAt) > api.context.clock.now()))
    return no('invalid', `/expiresAt: must be in the future, not ${expiresAt}`)
  const terms = {
    name,
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(maxWorkers === undefined ? {} : { maxWorkers }),
    ephemeral,
  }
  const created = api.views.workers.joinKeys.create(terms)
  if (!created.ok) return created
  const { id, key } = created.value
  const committed = await api.whenCommitted()
  return committed.ok ? yes({ id, ...terms, key }) : committed
}

/** The workers of a key that was deleted before can still be revoked together. */
async function deleteJoinKey(
  api: ApiDependencies,
  id: string,
  withWorkers: boolean,
): ReturnType<HostApi['deleteJoinKey']> {
  const may = api.mayChange()
  if (!may.ok) return may
  const { joinKeys, registry } = api.views.workers
  const joined = withWorkers ? [...registry.all()].filter(({ context }) => context.joinKey === id) : []
  if (!joinKeys.delete(id) && joined.length === 0) return no('unknown', `there is no join key ${id}`)
  const revoked: WorkerEvent = { type: 'revoked' }
  for (const worker of joined) api.context.system.send(WORKER, worker.id, revoked)
  const committed = await api.whenCommitted()
  return committed.ok ? yes({ ok: true }) : committed
}

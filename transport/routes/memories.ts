/** Routes of memories, in the order of the specification's table. */
import type { HostApi } from '../../actors/api/host-api.ts'
import { json, resultReply } from '../reply.ts'
import type { Handlers } from './route-table.ts'

type MemoryRoute = 'listMemories' | 'keepMemory' | 'forgetMemory' | 'clearMemories'

export function memoryHandlers(hostApi: HostApi): Pick<Handlers, MemoryRoute> {
  return {
    listMemories: () => json(hostApi.memories()),
    keepMemory: async ({ params, body }) => resultReply(await hostApi.keepMemory(params.repo, body.id)),
    forgetMemory: async ({ params, body }) => resultReply(await hostApi.forgetMemory(params.repo, body.id)),
    clearMemories: async ({ params }) => resultReply(await hostApi.clearMemories(params.repo)),
  }
}

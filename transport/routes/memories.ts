/** What runs have recorded about each repository, in the order of the specification's table. */
import type { FrontDesk } from '../../actors/api/host-api.ts'
import { answered, json } from '../reply.ts'
import type { Handlers } from './route-table.ts'

type MemoryRoute = 'listMemories' | 'forgetMemory' | 'clearMemories'

export function memoryHandlers(desk: FrontDesk): Pick<Handlers, MemoryRoute> {
  return {
    listMemories: () => json(desk.memories()),
    forgetMemory: async ({ params, body }) => answered(await desk.forgetMemory(params.repo, body.id)),
    clearMemories: async ({ params }) => answered(await desk.clearMemories(params.repo)),
  }
}

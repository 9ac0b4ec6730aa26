/** Routes of code host, pull requests and tracker, in the order of the specification's table. */
import type { HostApi } from '../../actors/api/host-api.ts'
import type { Result } from '../../core/result.ts'
import { json, type Reply, refusalReply, resultReply } from '../reply.ts'
import type { Handlers } from './route-table.ts'

type PullRoute =
  | 'readRunPull'
  | 'listCodehostRepos'
  | 'listPulls'
  | 'readPull'
  | 'mergePull'
  | 'closePull'
  | 'reopenPull'
  | 'readyPull'
  | 'commentPull'
  | 'reviewPull'
  | 'replyPull'
  | 'resolvePullThread'
  | 'readTrackerStatus'
  | 'listTrackerProjects'

export function pullHandlers(hostApi: HostApi): Pick<Handlers, PullRoute> {
  return {
    readRunPull: async ({ params }) => resultReply(await hostApi.runPull(params.id)),
    listCodehostRepos: async () => resultReply(await hostApi.codehostRepos()),
    listPulls: async () => resultReply(await hostApi.pulls()),
    readPull: async ({ params }) => resultReply(await hostApi.pull(params.repo, params.number)),
    mergePull: async ({ params, body }) =>
      resultReply(await hostApi.mergePull(params.repo, params.number, body)),
    closePull: async ({ params }) => okReply(await hostApi.closePull(params.repo, params.number)),
    reopenPull: async ({ params }) => okReply(await hostApi.reopenPull(params.repo, params.number)),
    readyPull: async ({ params }) => okReply(await hostApi.readyPull(params.repo, params.number)),
    commentPull: async ({ params, body }) =>
      okReply(await hostApi.commentPull(params.repo, params.number, body)),
    reviewPull: async ({ params, body }) =>
      okReply(await hostApi.reviewPull(params.repo, params.number, body)),
    replyPull: async ({ params, body }) => okReply(await hostApi.replyPull(params.repo, params.number, body)),
    resolvePullThread: async ({ params, body }) =>
      okReply(await hostApi.resolveThread(params.repo, params.number, body)),
    readTrackerStatus: () => json(hostApi.trackerStatus()),
    listTrackerProjects: async () => resultReply(await hostApi.trackerProjects()),
  }
}

const okReply = (answer: Result<void>): Reply =>
  answer.ok ? json({ ok: true }) : refusalReply(answer.refusal)

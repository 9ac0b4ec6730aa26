/** Code host, pull requests and tracker, in the order of the specification's table. */
import type { FrontDesk } from '../../actors/api/host-api.ts'
import type { Result } from '../../core/result.ts'
import { answered, json, type Reply, refused } from '../reply.ts'
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
  | 'listTrackerProjects'

export function pullHandlers(desk: FrontDesk): Pick<Handlers, PullRoute> {
  return {
    readRunPull: async ({ params }) => answered(await desk.runPull(params.id)),
    listCodehostRepos: async () => answered(await desk.codehostRepos()),
    listPulls: async () => answered(await desk.pulls()),
    readPull: async ({ params }) => answered(await desk.pull(params.repo, params.number)),
    mergePull: async ({ params, body }) => answered(await desk.mergePull(params.repo, params.number, body)),
    closePull: async ({ params }) => done(await desk.closePull(params.repo, params.number)),
    reopenPull: async ({ params }) => done(await desk.reopenPull(params.repo, params.number)),
    readyPull: async ({ params }) => done(await desk.readyPull(params.repo, params.number)),
    commentPull: async ({ params, body }) => done(await desk.commentPull(params.repo, params.number, body)),
    reviewPull: async ({ params, body }) => done(await desk.reviewPull(params.repo, params.number, body)),
    replyPull: async ({ params, body }) => done(await desk.replyPull(params.repo, params.number, body)),
    resolvePullThread: async ({ params, body }) =>
      done(await desk.resolveThread(params.repo, params.number, body)),
    listTrackerProjects: async () => answered(await desk.trackerProjects()),
  }
}

const done = (answer: Result<void>): Reply => (answer.ok ? json({ ok: true }) : refused(answer.refusal))

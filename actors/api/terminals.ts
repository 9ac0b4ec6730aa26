/**
 * API calls about the agent's session of a finished run, continued in a terminal. Opening a terminal asks for the same
 * as resuming, and is refused in the same words.
 */
import type { ViewReceiver, ViewSender } from '../../core/connection-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { mayResume } from '../../core/run/permission.ts'
import type { ResumeRunResponse } from '../../protocol/routes.ts'
import type { Run } from '../../protocol/run.ts'
import type { ApiDependencies } from './api-dependencies.ts'
import type { HostApi } from './host-api.ts'

type TerminalsApi = Pick<HostApi, 'resumeRun' | 'releaseRun' | 'attachView'>

export function createTerminalsApi(api: ApiDependencies): TerminalsApi {
  const { sessions } = api.views.terminals
  return {
    resumeRun: (id) => resumeRun(api, id),
    releaseRun: (id) => releaseRun(api, id),
    attachView: (id: string, view: ViewSender): ViewReceiver =>
      sessions.attach(id, view, () => resumeRun(api, id)),
  }
}

/** Joining or ending a resumed sandbox changes nothing on disk, so a full disk does not prevent it. */
const mayJoin = ({ context }: ApiDependencies): Result<void> =>
  context.isOpen() ? yes(undefined) : no('unavailable', 'the service is stopping')

function latestRun({ views }: ApiDependencies, id: string, may: Result<void>): Result<Run> {
  if (!may.ok) return may
  const run = views.runs.latest(id)
  return run === undefined ? no('unknown', `there is no run ${id}`) : yes(run)
}

const showDurable = ({ context, views }: ApiDependencies, run: Run): Run =>
  views.scheduler.shownRun(context.store.database.runs.get(run.id) ?? run)

async function resumeRun(api: ApiDependencies, id: string): Promise<Result<ResumeRunResponse>> {
  const { context, views } = api
  const { sessions, sessionCosts } = views.terminals
  const booted = sessions.isBooted(id)
  const asked = latestRun(api, id, booted ? mayJoin(api) : api.mayChange())
  if (!asked.ok) return asked
  const run = asked.value
  const { workerId = '' } = run.sandbox
  const worker = views.workers.registry.get(workerId)
  const followUpStarting = views.jobs.followUpReader.isStarting(id)
  const may = mayResume(run, { now: context.clock.now(), followUpStarting, booted, worker })
  if (!may.ok) return may
  if (!booted) sessionCosts.startSession(run, workerId, may.value.sessionId)
  const done = await sessions.boot({ runId: id, workerId })
  if (!done.ok) return done
  const workerName = worker?.name ?? workerId
  return yes({ run: showDurable(api, run), attach: { kind: 'worker', workerId, workerName } })
}

/** Answers for every run: whether its sandbox is booted only the worker knows, for example after a restart of the host. */
async function releaseRun(api: ApiDependencies, id: string): Promise<Result<Run>> {
  const run = latestRun(api, id, mayJoin(api))
  if (!run.ok) return run
  api.views.terminals.sessions.release(id, run.value.sandbox.workerId)
  return yes(showDurable(api, run.value))
}

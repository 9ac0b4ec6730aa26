/**
 * The front desk's part about a person who steps in: the agent's session of a run, gone on with in a terminal.
 *
 * Whoever opens a terminal asks for the same as whoever resumes, and is refused in the same words.
 */
import type { Clock, ControlDatabase } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { mayRelease, mayResume } from '../../core/run/permission.ts'
import type { ResumeRunResponse } from '../../protocol/routes.ts'
import type { Run } from '../../protocol/run.ts'
import type { HostModules } from '../root/modules.ts'
import type { HostApi, ViewReceiver, ViewSender } from './host-api.ts'

export interface TerminalApiPorts {
  readonly database: ControlDatabase
  readonly clock: Clock
  readonly modules: HostModules
  /** Somebody has just asked for a follow-up of it. */
  readonly isFollowUpStarting: (runId: string) => boolean
  /** The service is not being stopped. */
  readonly isOpen: () => boolean
  /** Refused while nothing may be changed. */
  readonly mayChange: () => Result<void>
}

type TerminalApi = Pick<HostApi, 'resumeRun' | 'releaseRun' | 'attachView'>

export function createTerminalApi(parts: TerminalApiPorts): TerminalApi {
  const { database, clock, modules, mayChange } = parts
  const { terminals, workers, sessionCosts } = modules
  const durableView = (run: Run): Run => modules.runs.withWaitReason(database.runs.get(run.id) ?? run)
  /** Who goes on with what is booted, or ends it, changes nothing on disk, and is not held up by a full one. */
  const mayContinue = (): Result<void> =>
    parts.isOpen() ? yes(undefined) : no('unavailable', 'the service is stopping')
  const findRun = (id: string, may: Result<void>): Result<Run> => {
    if (!may.ok) return may
    const run = modules.runs.latest(id)
    return run === undefined ? no('unknown', `there is no run ${id}`) : yes(run)
  }

  async function resumeRun(id: string): Promise<Result<ResumeRunResponse>> {
    const booted = terminals.isBooted(id)
    const asked = findRun(id, booted ? mayContinue() : mayChange())
    if (!asked.ok) return asked
    const run = asked.value
    const { workerId = '' } = run.sandbox
    const worker = workers.get(workerId)
    const followUpStarting = parts.isFollowUpStarting(id)
    const may = mayResume(run, { now: clock.now(), followUpStarting, booted, worker })
    if (!may.ok) return may
    if (!booted) sessionCosts.startSession(run, workerId, may.value.sessionId)
    const done = await terminals.boot({ runId: id, workerId })
    if (!done.ok) return done
    const workerName = worker?.name ?? workerId
    return yes({ run: durableView(run), attach: { kind: 'worker', workerId, workerName } })
  }

  async function releaseRun(id: string): Promise<Result<Run>> {
    const asked = findRun(id, mayContinue())
    if (!asked.ok) return asked
    const may = mayRelease(asked.value)
    if (!may.ok) return may
    terminals.release(id)
    return yes(durableView(asked.value))
  }

  const attachView = (id: string, view: ViewSender): ViewReceiver =>
    terminals.attach(id, view, () => resumeRun(id))

  return { resumeRun, releaseRun, attachView }
}

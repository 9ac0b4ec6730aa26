/**
 * What must come to pass once nothing disturbs any more: every run ends or waits for a reason that is true, every
 * worker is online. Judged at the end of the calm part, from the disk and from the workers themselves.
 */
import { FAULTS_END_MS, RUN_MS_MAX } from '../plan.ts'
import { executionRecordsOn } from '../worker-disk.ts'
import { isTerminal, type Law, type LawView } from './law.ts'
import { sessionTokens, TOKENS_PER_ENTRY } from './sessions.ts'

/** What a lease lives without its worker at most: the longer when its dispatch may have arrived or not. */
const LEASE_TERM_MS_MAX = 220_000
const TOLERANCE_MS = 60_000
/** Three refusals within five minutes keep a worker out for ten. */
const BACKOFF_MS_MAX = 16 * 60_000

export interface JudgedWorker {
  readonly worker: string
  readonly workerId: string | undefined
  readonly isOn: boolean
  readonly isRegistered: boolean
  readonly concurrency: number
}

/** Not watched but asked, at the end. */
export interface Goal {
  readonly number: string
  readonly sentence: string
  judge(view: LawView, workers: readonly JudgedWorker[], queries: GoalQueries): string | undefined
}

/** What was said: to workers on the wire, and to people at the desk. */
export interface GoalQueries {
  readonly grantedAt: ReadonlyMap<string, number>
  /** When an execution's end was on its daemon's disk. */
  readonly finishedAt: ReadonlyMap<string, number>
  readonly queueReason: (runId: string) => string | undefined
  /** When a worker was last sent a dispatch, and how often it has declined one since a moment. */
  readonly lastDispatchAt: (workerId: string) => number
  readonly countDeclines: (workerId: string, since: number) => number
  /** As the demand of a worker has it; undefined while nobody answers. */
  readonly attachSessions: (workerId: string) => number | undefined
  /** How much of each kind the host holds in memory. */
  readonly inMemoryCounts: () => Readonly<Record<string, number>>
}

const everyRunEnds: Goal = {
  number: 'A',
  sentence: 'faults stop ⇒ every unfinished run ends, or waits with a reason',
  judge: (view, workers, queries) => {
    const { grantedAt, queueReason } = queries
    for (const runId of view.disk.runs.keys()) {
      const run = view.run(runId)
      if (run === undefined || isTerminal(run)) continue
      const lease = view.leasesOf(runId)[0]
      if (lease !== undefined) {
        // Each restart of the host lets a lease live anew.
        const since = view.now() - Math.max(FAULTS_END_MS, grantedAt.get(lease.id) ?? 0)
        const mostMs = (lease.state === 'held' ? RUN_MS_MAX : 0) + LEASE_TERM_MS_MAX + TOLERANCE_MS
        if (since > mostMs)
          return `run ${runId} is ${run.status}, its lease ${lease.id} is ${Math.round(since / 1000)} s old and ${lease.state}`
        continue
      }
      const reason = queueReason(runId)
      if (reason === undefined) return `run ${runId} waits and nobody knows why`
      const contradiction = contradictionOf(view, workers, queries, reason)
      if (contradiction !== undefined)
        return `run ${runId} waits, it is said, because ${reason}; ${contradiction}`
    }
    return undefined
  },
}

/** Whether a reason for waiting is untrue of the fleet as it is. */
function contradictionOf(
  view: LawView,
  workers: readonly JudgedWorker[],
  queries: GoalQueries,
  reason: string,
): string | undefined {
  const online = workers.filter(({ isOn, isRegistered }) => isOn && isRegistered)
  if (reason.startsWith('no workers')) return online.length === 0 ? undefined : `${online.length} are`
  const active = online.filter(({ workerId }) => view.workerState(workerId ?? '') === 'active')
  if (reason.startsWith('all workers are draining')) return active.length === 0 ? undefined : 'one is active'
  if (reason.startsWith('waiting for') || reason.startsWith('its pull request ')) return undefined
  const holder = /^worker (\S+) holds the sandbox$/.exec(reason)?.[1]
  const free = active.find(
    ({ worker, workerId = '', concurrency }) =>
      (holder === undefined || holder === worker) &&
      view.leasesOn(workerId).length < concurrency &&
      // One that declined a moment ago, or again and again, is let be for a while.
      view.now() - queries.lastDispatchAt(workerId) > TOLERANCE_MS &&
      queries.countDeclines(workerId, view.now() - BACKOFF_MS_MAX) < 3,
  )
  return free === undefined ? undefined : `${free.worker} has room`
}

const everyWorkerOnline: Goal = {
  number: 'C',
  sentence: 'a worker with a good credential and a reachable host is online',
  judge: (view, workers) => {
    const away = workers.find(
      ({ isOn, isRegistered, workerId }) =>
        isOn && !isRegistered && workerId !== undefined && view.worker(workerId) !== undefined,
    )
    return away === undefined ? undefined : `${away.worker} (${away.workerId}) is not`
  },
}

/** From the calm on: a restart, a forgotten socket, the longest backoff. */
const REPORT_MS_MAX = 140_000

const finishedReachesHost: Goal = {
  number: 'D10',
  sentence: 'what is finished on a worker reaches the host, and leaves the worker',
  judge: (view, workers, { finishedAt }) => {
    // Each thing is said once on a connection, and none but a hostile one loses what is said in the middle of it.
    if (view.hasHostileLink) return undefined
    for (const { worker, isOn, isRegistered } of workers) {
      const workerDisk = view.workerDiskOf(worker)
      if (!isOn || !isRegistered || workerDisk === undefined) continue
      const late = executionRecordsOn(workerDisk).find(
        ({ leaseId, isFinished }) =>
          isFinished && view.now() - Math.max(FAULTS_END_MS, finishedAt.get(leaseId) ?? 0) > REPORT_MS_MAX,
      )
      if (late !== undefined) return `${late.leaseId} waits on ${worker}`
    }
    return undefined
  },
}

const sessionsAreCounted: Goal = {
  number: 'S9',
  sentence:
    'a worker’s demand counts those who look at its sandboxes, and the host holds nothing for anybody else',
  judge: (view, workers, { attachSessions, inMemoryCounts: census }) => {
    const viewers = [...view.viewers].filter(({ isOpen }) => isOpen)
    for (const { worker, workerId = '', isOn, isRegistered } of workers) {
      if (!isOn || !isRegistered || view.hasHostileLink || !view.isLinkSteady(worker)) continue
      const localViewers = viewers.filter(({ runId }) => view.run(runId)?.sandbox.workerId === workerId)
      const counted = attachSessions(workerId)
      if (counted !== undefined && counted !== localViewers.length)
        return `${worker} is said to have ${counted} terminals open, and ${localViewers.length} are`
    }
    const { booted = 0, terminals = 0 } = census()
    const viewedRuns = new Set(viewers.map(({ runId }) => runId)).size
    if (terminals !== viewers.length) return `${terminals} terminals are kept for ${viewers.length} people`
    return booted === viewedRuns ? undefined : `${booted} sandboxes are booted for people at ${viewedRuns}`
  },
}

/** Younger than anything. */
const AFTER_EVERYTHING = '9'

const sessionsAreCosted: Goal = {
  number: 'S8',
  sentence: 'what is archived of people’s sessions is among the costs of their runs',
  judge: (view) => {
    if (view.hasWallClockJumped) return undefined
    for (const runId of view.disk.runs.keys()) {
      const run = view.run(runId)
      if (run?.agentSessionId === undefined || !isTerminal(run) || view.approximatedRuns.has(runId)) continue
      const session = view.disk.keyValue('session', `${run.sandbox.workerId}/${run.agentSessionId}`)
      // Before the first export since its boot, whatever came to the archive has come by another way.
      const { sinces, bootedAt } = { sinces: {}, bootedAt: undefined, ...session }
      const [since] = Object.values<string>(sinces)
      const from = since ?? (bootedAt === undefined ? AFTER_EVERYTHING : new Date(bootedAt).toISOString())
      const archived = [...view.disk.usage.values()].filter(({ key }) => key.sessionId === run.agentSessionId)
      const used = archived.flatMap(({ text }) => typedEntriesIn(text, runId, from)).length * TOKENS_PER_ENTRY
      const counted = sessionTokens(run.costs)
      if (counted < used) return `run ${runId} counts ${counted} tokens, and ${used} are archived`
    }
    return undefined
  },
}

function typedEntriesIn(text: string, runId: string, since: string): readonly unknown[] {
  const { entries } = JSON.parse(text) as { entries: readonly { readonly id: string; readonly at: string }[] }
  return entries.filter(({ id, at }) => id.startsWith(`${runId} typed `) && at > since)
}

export const goals: readonly Goal[] = [
  everyRunEnds,
  everyWorkerOnline,
  finishedReachesHost,
  sessionsAreCounted,
  sessionsAreCosted,
]

/** Nothing goes on for ever: the runner counts what happens and says so under this name. */
export const STEP_LIMIT_LAW: Pick<Law, 'number' | 'sentence'> = {
  number: 'B',
  sentence: 'no seed exceeds its budget of happenings',
}
/** The product noticed a bug of its own. */
export const NO_BUG_LAW: Pick<Law, 'number' | 'sentence'> = {
  number: '0',
  sentence: 'no life throws, no effect fails, no host ends that nobody stopped',
}

/**
 * Goals that must be reached once the faults are over: every run ends or waits for a true reason, and every worker
 * is online.
 *
 * The world judges them at the end of the calm part, from the disk and from the workers themselves.
 */
import { ABLE_WORKERS, FLEET_REASONS, NO_OTHER_WORKER } from '../../../core/fleet/placement.ts'
import type { Run } from '../../../protocol/run.ts'
import type { PlanTimes } from '../plan.ts'
import type { Spending } from '../sandbox-boots.ts'
import { GIVEN_BACK_REASON, SPENT_TOKENS } from '../sim-executor.ts'
import { ELIGIBLE, STARTED } from '../sim-tracker.ts'
import { executionRecordsOn } from '../worker-disk.ts'
import { fieldsOf, isDamagedRun, isLeaseDamaged, isTerminal, type Law, type LawView } from './law.ts'
import { sessionTokens, TOKENS_PER_ENTRY } from './sessions.ts'

/**
 * Longest life of a lease without its worker; a lease whose dispatch may or may not have arrived lives longest.
 */
const LEASE_TERM_MS_MAX = 220_000
const TOLERANCE_MS = 60_000
/** Three refusals within five minutes exclude a worker for ten minutes. */
const BACKOFF_MS_MAX = 16 * 60_000

export interface JudgedWorker {
  readonly worker: string
  readonly workerId: string | undefined
  readonly isOn: boolean
  readonly isRegistered: boolean
  /** The worker was asked to stop, and takes no more runs. */
  readonly isEnding: boolean
  /** When it last registered, or its connection ended. */
  readonly linkChangedAt: number
  readonly concurrency: number
  readonly spendings: readonly Spending[]
}

/** A condition that is judged once at the end instead of being observed. */
export interface Goal {
  readonly number: string
  readonly sentence: string
  judge(view: LawView, workers: readonly JudgedWorker[], queries: GoalQueries): string | undefined
}

/** Facts from frames and from the API, for the goals to compare. */
export interface GoalQueries {
  readonly times: PlanTimes
  readonly grantedAt: ReadonlyMap<string, number>
  /** When the end of an execution reached its daemon's disk, by lease. */
  readonly finishedAt: ReadonlyMap<string, number>
  /** When the end of a lease reached the host's disk. */
  readonly endedAt: ReadonlyMap<string, number>
  /** When the record of a run first reached the host's disk. */
  readonly runCreatedAt: ReadonlyMap<string, number>
  /** When the record of a run last reached the host's disk. */
  readonly runWrittenAt: ReadonlyMap<string, number>
  readonly queueReason: (runId: string) => string | undefined
  /** The gates that do not pass; undefined while the host does not answer. */
  readonly closedGates: (runId: string) => readonly string[] | undefined
  /** The time of the last dispatch to a worker. */
  readonly lastDispatchAt: (workerId: string) => number
  /** Dispatches that the worker has declined in this time of the host's monotonic clock. */
  readonly countDeclines: (workerId: string, withinMs: number) => number
  /** The number in the worker's demand response; undefined while the host does not answer. */
  readonly attachSessions: (workerId: string) => number | undefined
  /** Number of entries of each kind that the host holds in memory. */
  readonly inMemoryCounts: () => Readonly<Record<string, number>>
}

const everyRunEnds: Goal = {
  number: 'A',
  sentence: 'after the faults, every unfinished run ends or waits for a true reason',
  judge: (view, workers, queries) => {
    const { grantedAt, queueReason, times } = queries
    for (const runId of view.disk.runs.keys()) {
      const run = view.run(runId)
      if (run === undefined || isTerminal(run) || isDamagedRun(view, runId)) continue
      const lease = view.leasesOf(runId)[0]
      if (lease !== undefined) {
        // Each restart of the host extends every lease.
        const since = view.now() - Math.max(times.faultsEndMs, grantedAt.get(lease.id) ?? 0)
        const mostMs = (lease.state === 'held' ? times.runMsMax : 0) + LEASE_TERM_MS_MAX + TOLERANCE_MS
        if (since > mostMs)
          return `run ${runId} is ${run.status}, its lease ${lease.id} is ${Math.round(since / 1000)} s old and ${lease.state}`
        continue
      }
      const isFresh = view.now() - times.faultsEndMs < LEASE_TERM_MS_MAX + TOLERANCE_MS
      if (isFresh && isLeaseDamaged(view, runId)) continue
      const reason = queueReason(runId)
      if (reason === undefined) return `run ${runId} waits without a reason`
      if (queries.closedGates(runId)?.length === 0) return `run ${runId} waits, but every gate passes`
      const contradiction = contradictionOf(view, workers, queries, reason)
      if (contradiction !== undefined)
        return `run ${runId} waits because of “${reason}”, but ${contradiction}`
    }
    return undefined
  },
}

/** Explains why a reason for waiting contradicts the actual workers; undefined when the reason is true. */
function contradictionOf(
  view: LawView,
  workers: readonly JudgedWorker[],
  queries: GoalQueries,
  reason: string,
): string | undefined {
  const online = workers.filter(({ isOn, isRegistered }) => isOn && isRegistered)
  if (reason === FLEET_REASONS.away) return online.length === 0 ? undefined : `${online.length} are`
  const active = online.filter(({ workerId }) => view.workerState(workerId ?? '') === 'active')
  if (reason === FLEET_REASONS.draining) return active.length === 0 ? undefined : 'one of them is active'
  if (reason.includes(GIVEN_BACK_REASON)) return undefined
  // The others have given this run back: only the host knows what for.
  if (reason.startsWith(ABLE_WORKERS) || reason.endsWith(NO_OTHER_WORKER)) return undefined
  if (reason.startsWith('waiting for') || reason.startsWith('its pull request ')) return undefined
  const publishesAt = /^publishing again at (\S+):/.exec(reason)?.[1]
  if (publishesAt !== undefined && view.hostNow() - Date.parse(publishesAt) < TOLERANCE_MS) return undefined
  const holder = /^worker (\S+) holds the sandbox(?:$|, )/.exec(reason)?.[1]
  const free = active.find(
    ({ worker, workerId = '', concurrency, isEnding }) =>
      // A person who has a sandbox open keeps a worker from ending.
      !isEnding &&
      (holder === undefined || holder === worker) &&
      view.leasesOn(workerId).length < concurrency &&
      // The scheduler avoids a worker that declined recently or repeatedly.
      view.now() - queries.lastDispatchAt(workerId) > TOLERANCE_MS &&
      queries.countDeclines(workerId, BACKOFF_MS_MAX) < 3,
  )
  return free === undefined ? undefined : `${free.worker} has room`
}

const everyWorkerOnline: Goal = {
  number: 'C',
  sentence: 'a worker with a valid credential and a reachable host is online',
  judge: (view, workers) => {
    const away = workers.find(
      ({ isOn, isRegistered, workerId }) =>
        isOn &&
        !isRegistered &&
        workerId !== undefined &&
        view.worker(workerId) !== undefined &&
        !view.hostDamage.has('worker', workerId) &&
        !isSeatTaken(view, workerId),
    )
    return away === undefined ? undefined : `${away.worker} (${away.workerId}) is not`
  },
}

/** A worker that said that it ends has left its seat, and other machines of its join key may have taken all of them. */
function isSeatTaken(view: LawView, workerId: string): boolean {
  const { joinKey } = fieldsOf(view.worker(workerId))
  if (typeof joinKey !== 'string' || !isEnding(view, workerId)) return false
  const { maxWorkers } = { maxWorkers: Number.POSITIVE_INFINITY, ...view.disk.keyValue('join-key', joinKey) }
  const ids = [...(view.disk.snapshots.get('worker')?.keys() ?? [])]
  const seated = ids.filter((id) => fieldsOf(view.worker(id)).joinKey === joinKey && !isEnding(view, id))
  return seated.length >= maxWorkers
}

function isEnding(view: LawView, workerId: string): boolean {
  const { capabilities } = fieldsOf(view.worker(workerId))
  return typeof capabilities === 'object' && { ending: false, ...capabilities }.ending === true
}

/** Covers a restart, a forgotten socket and the longest backoff after the faults end. */
const REPORT_MS_MAX = 140_000

const finishedReachesHost: Goal = {
  number: 'D10',
  sentence: 'finished executions reach the host and leave the worker',
  judge: (view, workers, { finishedAt, times }) => {
    // The daemon sends each frame once per connection, and only a hostile link loses frames in the middle.
    if (view.hasHostileLink) return undefined
    for (const { worker, isOn, isRegistered } of workers) {
      const workerDisk = view.workerDiskOf(worker)
      if (!isOn || !isRegistered || workerDisk === undefined) continue
      const late = executionRecordsOn(workerDisk).find(
        ({ leaseId, isFinished }) =>
          isFinished &&
          view.now() - Math.max(times.faultsEndMs, finishedAt.get(leaseId) ?? 0) > REPORT_MS_MAX,
      )
      if (late !== undefined) return `${late.leaseId} is finished and still on ${worker}`
    }
    return undefined
  },
}

const sessionsAreCounted: Goal = {
  number: 'S9',
  sentence:
    'a worker’s demand counts the viewers of its sandboxes, and the host keeps nothing for absent viewers',
  judge: (view, workers, { attachSessions, inMemoryCounts: census }) => {
    const viewers = [...view.viewers].filter(({ isOpen }) => isOpen)
    for (const { worker, workerId = '', isOn, isRegistered } of workers) {
      if (!isOn || !isRegistered || view.hasHostileLink || !view.isLinkSteady(worker)) continue
      const localViewers = viewers.filter(({ runId }) => view.run(runId)?.sandbox.workerId === workerId)
      const counted = attachSessions(workerId)
      if (counted !== undefined && counted !== localViewers.length)
        return `demand counts ${counted} terminals on ${worker}, but ${localViewers.length} are open`
    }
    const { booted = 0, terminals = 0 } = census()
    const viewedRuns = new Set(viewers.map(({ runId }) => runId)).size
    if (terminals !== viewers.length)
      return `the host keeps ${terminals} terminals for ${viewers.length} viewers`
    const adrift = countAdriftRuns(view, workers)
    return booted >= viewedRuns && booted <= viewedRuns + adrift
      ? undefined
      : `${booted} sandboxes are booted, but viewers look at ${viewedRuns}, and ${adrift} are adrift`
  },
}

/** Covers the reconnect grace of a worker, in which the host keeps what people had booted there. */
const ADRIFT_MS_MAX = 125_000

/** Runs that people have resumed, and whose worker left a moment ago, maybe before anybody looked. */
function countAdriftRuns(view: LawView, workers: readonly JudgedWorker[]): number {
  const gone = workers.filter(
    ({ isRegistered, linkChangedAt }) => !isRegistered && view.now() - linkChangedAt < ADRIFT_MS_MAX,
  )
  const holders = new Set(gone.map(({ workerId }) => workerId))
  const viewers = [...view.viewers]
  const sessions = [...(view.disk.keyValues.get('session')?.values() ?? [])]
  const resumed = [...viewers, ...sessions.map(({ value }) => ({ runId: '', ...value }))]
  const isViewed = (runId: string) => viewers.some((each) => each.isOpen && each.runId === runId)
  return [...new Set(resumed.map(({ runId }) => runId))].filter(
    (runId) => !isViewed(runId) && holders.has(view.run(runId)?.sandbox.workerId),
  ).length
}

/** Sorts after every instant. */
const AFTER_EVERYTHING = '9'

const sessionsAreCosted: Goal = {
  number: 'S8',
  sentence: 'archived usage of people’s sessions is among the costs of their runs',
  judge: (view) => {
    // The host says by its own clock since when a session's entries are a person's.
    if (view.hasWallClockJumped || view.hasHostClockJumped) return undefined
    for (const runId of view.disk.runs.keys()) {
      const run = view.run(runId)
      if (run?.agentSessionId === undefined || !isTerminal(run) || view.approximatedRuns.has(runId)) continue
      const session = view.disk.keyValue('session', `${run.sandbox.workerId}/${run.agentSessionId}`)
      // Entries that reached the archive before the first export of this boot came from executions.
      const { sinces, bootedAt } = { sinces: {}, bootedAt: undefined, ...session }
      const [since] = Object.values<string>(sinces)
      const from = since ?? (bootedAt === undefined ? AFTER_EVERYTHING : new Date(bootedAt).toISOString())
      const archived = [...view.disk.usage.values()].filter(({ key }) => key.sessionId === run.agentSessionId)
      const used = archived.flatMap(({ text }) => typedEntriesIn(text, runId, from)).length * TOKENS_PER_ENTRY
      const counted = sessionTokens(run.costs)
      if (counted < used) return `run ${runId} counts ${counted} tokens, but ${used} are archived`
    }
    return undefined
  },
}

function typedEntriesIn(text: string, runId: string, since: string): readonly unknown[] {
  const { entries } = JSON.parse(text) as { entries: readonly { readonly id: string; readonly at: string }[] }
  return entries.filter(({ id, at }) => id.startsWith(`${runId} typed `) && at > since)
}

const everySpendingCounts: Goal = {
  number: '31',
  sentence: 'the costs of a run contain what each of its executions has spent, interrupted ones included',
  judge: (view, workers, { endedAt, times }) => {
    for (const { worker, workerId, isOn, isRegistered, spendings } of workers) {
      const workerDisk = view.workerDiskOf(worker)
      if (!isOn || !isRegistered || workerDisk === undefined) continue
      const unfinished = new Set(executionRecordsOn(workerDisk).map(({ leaseId }) => leaseId))
      const missing = spendings.find(
        (spending) =>
          // A worker that was enrolled again reports nothing under its old id.
          spending.workerId === workerId &&
          !unfinished.has(spending.leaseId) &&
          !isDestroyed(view, spending) &&
          view.now() - Math.max(times.faultsEndMs, endedAt.get(spending.leaseId) ?? view.now()) >
            REPORT_MS_MAX &&
          !isCounted(view, spending),
      )
      if (missing !== undefined) return `run ${missing.runId} lacks the costs of ${missing.leaseId}`
    }
    return undefined
  },
}

/** The records that say what was spent, or for which run, are damaged. */
const isDestroyed = ({ lostRows, hostDamage }: LawView, { leaseId, runId }: Spending): boolean =>
  lostRows.has('execution', leaseId) ||
  lostRows.has('settlement', leaseId) ||
  hostDamage.has('run', runId) ||
  hostDamage.has('lease', leaseId) ||
  hostDamage.has('ended-lease', leaseId)

function isCounted(view: LawView, { leaseId, runId }: Spending): boolean {
  const costs = view.run(runId)?.costs ?? []
  const counted = costs.filter(({ model }) => model === leaseId)
  return counted.length === 1 && counted[0]?.inputTokens === SPENT_TOKENS
}

const runsOnceForEachEntry: Goal = {
  number: '32',
  sentence: 'a ticket runs at most once for each time that somebody made it eligible',
  judge: (view) => {
    for (const { id, entries } of view.tickets()) {
      const runs = runsOf(view, id)
      if (runs.length > entries)
        return `${id} was made eligible ${entries} times, and has the runs ${runs.map((run) => run.id).join(', ')}`
    }
    return undefined
  },
}

/** Covers two polls, and a tracker that does not answer once. */
const INTAKE_MS_MAX = 5 * 60_000

const everyEntryRuns: Goal = {
  number: '32',
  sentence: 'a ticket that somebody made eligible, and nobody has moved since, has a run',
  judge: (view, _, { runCreatedAt, runWrittenAt, times }) => {
    for (const { id, state, enteredAt } of view.tickets()) {
      if (state !== ELIGIBLE || view.now() - Math.max(enteredAt, times.faultsEndMs) < INTAKE_MS_MAX) continue
      const runs = runsOf(view, id)
      const since = (run: Run) => Math.max(runCreatedAt.get(run.id) ?? 0, runWrittenAt.get(run.id) ?? 0)
      if (!runs.some((run) => !isTerminal(run) || since(run) >= enteredAt))
        return `${id} is eligible since ${Math.round(enteredAt)}, and no run has begun since`
    }
    return undefined
  },
}

/** Covers the longest pause before a move is retried, and a tracker that does not answer once. */
const TICKET_MOVE_MS_MAX = 5 * 60_000

const noTicketIsStuck: Goal = {
  number: 'T',
  sentence: 'a ticket is in the started state only while a run works on it',
  judge: (view, _, { runWrittenAt }) => {
    for (const { id, state } of view.tickets()) {
      // The host has forgotten from where it took such a ticket.
      if (state !== STARTED || view.hostDamage.has('ticket', id)) continue
      const runs = runsOf(view, id)
      if (runs.some((run) => !isTerminal(run))) continue
      const endedAt = Math.max(...runs.map((run) => runWrittenAt.get(run.id) ?? 0))
      if (view.now() - endedAt < TICKET_MOVE_MS_MAX) continue
      const ends = runs.map((run) => `${run.id} ${run.status}`)
      return `${id} is still ${STARTED}, and its runs are over: ${ends.join(', ')}`
    }
    return undefined
  },
}

const runsOf = (view: LawView, ticketId: string): Run[] =>
  [...view.disk.runs.keys()].flatMap((runId) => {
    const run = view.run(runId)
    return run?.ticket.id === ticketId ? [run] : []
  })

export const goals: readonly Goal[] = [
  runsOnceForEachEntry,
  everyEntryRuns,
  noTicketIsStuck,
  everySpendingCounts,
  everyRunEnds,
  everyWorkerOnline,
  finishedReachesHost,
  sessionsAreCounted,
  sessionsAreCosted,
]

/** The law under which the runner reports a seed that exceeds its step limit. */
export const STEP_LIMIT_LAW: Pick<Law, 'number' | 'sentence'> = {
  number: 'B',
  sentence: 'no seed exceeds its limit of steps',
}
/** The law under which the runner reports a bug that the product noticed itself. */
export const NO_BUG_LAW: Pick<Law, 'number' | 'sentence'> = {
  number: '0',
  sentence: 'no actor throws, no effect fails, no host ends by itself',
}

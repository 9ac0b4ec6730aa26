/**
 * What must come to pass once nothing disturbs any more: every run ends or waits for a reason that is true, every
 * worker is online. Judged at the end of the calm part, from the disk and from the workers themselves.
 */
import { CALM, RUN_MS_MAX } from '../plan.ts'
import { recordsOn } from '../worker-disk.ts'
import { isTerminal, type Law, type Sight } from './law.ts'
import { sessionTokens, TOKENS } from './sessions.ts'

/** What a lease lives without its worker at most: the longer when its dispatch may have arrived or not. */
const TERM_MS = 220_000
const PATIENCE_MS = 60_000
/** Three refusals within five minutes keep a worker out for ten. */
const HOLD_MS_MAX = 16 * 60_000

export interface Crew {
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
  judge(sight: Sight, crew: readonly Crew[], talk: Talk): string | undefined
}

/** What was said: to workers on the wire, and to people at the desk. */
export interface Talk {
  readonly grantedAt: ReadonlyMap<string, number>
  /** When an execution's end was on its daemon's disk. */
  readonly finishedAt: ReadonlyMap<string, number>
  readonly queueReason: (runId: string) => string | undefined
  /** When a worker was last sent a dispatch, and how often it has declined one since a moment. */
  readonly lastDispatch: (workerId: string) => number
  readonly declines: (workerId: string, since: number) => number
  /** As the demand of a worker has it; undefined while nobody answers. */
  readonly attachSessions: (workerId: string) => number | undefined
  /** How much of each kind the host holds in memory. */
  readonly census: () => Readonly<Record<string, number>>
}

const everyRunEnds: Goal = {
  number: 'A',
  sentence: 'faults stop ⇒ every unfinished run ends, or waits with a reason',
  judge: (sight, crew, talk) => {
    const { grantedAt, queueReason } = talk
    for (const runId of sight.disk.runs.keys()) {
      const run = sight.run(runId)
      if (run === undefined || isTerminal(run)) continue
      const lease = sight.leasesOf(runId)[0]
      if (lease !== undefined) {
        // Each restart of the host lets a lease live anew.
        const since = sight.now() - Math.max(CALM, grantedAt.get(lease.id) ?? 0)
        const most = (lease.state === 'held' ? RUN_MS_MAX : 0) + TERM_MS + PATIENCE_MS
        if (since > most)
          return `run ${runId} is ${run.status}, its lease ${lease.id} is ${Math.round(since / 1000)} s old and ${lease.state}`
        continue
      }
      const reason = queueReason(runId)
      if (reason === undefined) return `run ${runId} waits and nobody knows why`
      const lie = lieIn(sight, crew, talk, reason)
      if (lie !== undefined) return `run ${runId} waits, it is said, because ${reason}; ${lie}`
    }
    return undefined
  },
}

/** Whether a reason for waiting is untrue of the fleet as it is. */
function lieIn(sight: Sight, crew: readonly Crew[], talk: Talk, reason: string): string | undefined {
  const online = crew.filter(({ isOn, isRegistered }) => isOn && isRegistered)
  if (reason.startsWith('no workers')) return online.length === 0 ? undefined : `${online.length} are`
  const active = online.filter(({ workerId }) => sight.workerState(workerId ?? '') === 'active')
  if (reason.startsWith('all workers are draining')) return active.length === 0 ? undefined : 'one is active'
  if (reason.startsWith('waiting for') || reason.startsWith('its pull request ')) return undefined
  const holder = /^worker (\S+) holds the sandbox$/.exec(reason)?.[1]
  const free = active.find(
    ({ worker, workerId = '', concurrency }) =>
      (holder === undefined || holder === worker) &&
      sight.leasesOn(workerId).length < concurrency &&
      // One that declined a moment ago, or again and again, is let be for a while.
      sight.now() - talk.lastDispatch(workerId) > PATIENCE_MS &&
      talk.declines(workerId, sight.now() - HOLD_MS_MAX) < 3,
  )
  return free === undefined ? undefined : `${free.worker} has room`
}

const everyWorkerOnline: Goal = {
  number: 'C',
  sentence: 'a worker with a good credential and a reachable host is online',
  judge: (sight, crew) => {
    const away = crew.find(
      ({ isOn, isRegistered, workerId }) =>
        isOn && !isRegistered && workerId !== undefined && sight.worker(workerId) !== undefined,
    )
    return away === undefined ? undefined : `${away.worker} (${away.workerId}) is not`
  },
}

/** From the calm on: a restart, a forgotten socket, the longest backoff. */
const TELLING_MS = 140_000

const everythingIsTold: Goal = {
  number: 'D10',
  sentence: 'what is finished on a worker reaches the host, and leaves the worker',
  judge: (sight, crew, { finishedAt }) => {
    // Each thing is said once on a connection, and none but a hostile one loses what is said in the middle of it.
    if (sight.hostile) return undefined
    for (const { worker, isOn, isRegistered } of crew) {
      const spool = sight.spoolOf(worker)
      if (!isOn || !isRegistered || spool === undefined) continue
      const late = recordsOn(spool).find(
        ({ leaseId, isFinished }) =>
          isFinished && sight.now() - Math.max(CALM, finishedAt.get(leaseId) ?? 0) > TELLING_MS,
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
  judge: (sight, crew, { attachSessions, census }) => {
    const seats = [...sight.seats].filter(({ isOpen }) => isOpen)
    for (const { worker, workerId = '', isOn, isRegistered } of crew) {
      if (!isOn || !isRegistered || sight.hostile || !sight.isClear(worker)) continue
      const here = seats.filter(({ runId }) => sight.run(runId)?.sandbox.workerId === workerId)
      const counted = attachSessions(workerId)
      if (counted !== undefined && counted !== here.length)
        return `${worker} is said to have ${counted} terminals open, and ${here.length} are`
    }
    const { booted = 0, terminals = 0 } = census()
    const looked = new Set(seats.map(({ runId }) => runId)).size
    if (terminals !== seats.length) return `${terminals} terminals are kept for ${seats.length} people`
    return booted === looked ? undefined : `${booted} sandboxes are booted for people at ${looked}`
  },
}

/** Younger than anything. */
const LATEST = '9'

const sessionsAreCosted: Goal = {
  number: 'S8',
  sentence: 'what is archived of people’s sessions is among the costs of their runs',
  judge: (sight) => {
    if (sight.hasJumped) return undefined
    for (const runId of sight.disk.runs.keys()) {
      const run = sight.run(runId)
      if (run?.agentSessionId === undefined || !isTerminal(run) || sight.guessed.has(runId)) continue
      const session = sight.disk.fact('session', `${run.sandbox.workerId}/${run.agentSessionId}`)
      // Before the first export since its boot, whatever came to the archive has come by another way.
      const { sinces, bootedAt } = { sinces: {}, bootedAt: undefined, ...session }
      const [since] = Object.values<string>(sinces)
      const from = since ?? (bootedAt === undefined ? LATEST : new Date(bootedAt).toISOString())
      const archived = [...sight.disk.usage.values()].filter(
        ({ key }) => key.sessionId === run.agentSessionId,
      )
      const used = archived.flatMap(({ text }) => typedIn(text, runId, from)).length * TOKENS
      const counted = sessionTokens(run.costs)
      if (counted < used) return `run ${runId} counts ${counted} tokens, and ${used} are archived`
    }
    return undefined
  },
}

function typedIn(text: string, runId: string, since: string): readonly unknown[] {
  const { entries } = JSON.parse(text) as { entries: readonly { readonly id: string; readonly at: string }[] }
  return entries.filter(({ id, at }) => id.startsWith(`${runId} typed `) && at > since)
}

export const goals: readonly Goal[] = [
  everyRunEnds,
  everyWorkerOnline,
  everythingIsTold,
  sessionsAreCounted,
  sessionsAreCosted,
]

/** Nothing goes on for ever: the runner counts what happens and says so under this name. */
export const ENDLESS: Pick<Law, 'number' | 'sentence'> = {
  number: 'B',
  sentence: 'no seed exceeds its budget of happenings',
}
/** The product noticed a bug of its own. */
export const COMPLAINT: Pick<Law, 'number' | 'sentence'> = {
  number: '0',
  sentence: 'no life throws, no effect fails, no host ends that nobody stopped',
}

/** Laws about leases and the runs they are for: one at a time, ended once, never forgotten. */
import type { Batch, Change } from '../disk.ts'
import type { Execution } from '../worker.ts'
import { fieldsOf, isTerminal, type Law, type Sight, TERMINAL } from './law.ts'

const oneLease: Law = {
  number: '1',
  sentence: 'at most one live lease a run',
  watch: (sight, broken) => ({
    landed: (batch) => {
      for (const change of livesIn(batch, 'lease')) {
        const lease = sight.lease(change.key)
        if (lease === undefined) continue
        const all = sight.leasesOf(lease.runId)
        if (all.length > 1) broken(`run ${lease.runId} has ${all.length} live leases`, { all })
      }
    },
  }),
}

/** A lease that lives, or that nobody ended but time. */
function isRightful(sight: Sight, leaseId: string): boolean {
  return sight.lease(leaseId) !== undefined || sight.howEnded(leaseId) === 'expired'
}

const oneExecution: Law = {
  number: '3',
  sentence:
    'executions of a run holding an unexpired lease ≤ 1; without paused processes, executions running at all ≤ 1',
  watch: (sight, broken) => ({
    started: (execution) => {
      for (const other of sight.executions) {
        if (other === execution || other.runId !== execution.runId) continue
        const facts = { one: placeOf(other), other: placeOf(execution) }
        if (other.leaseId === execution.leaseId) broken('one lease is executed twice', facts)
        if (other.process === execution.process && sight.spoolOf(execution.worker) !== undefined)
          broken('one daemon executes a run twice', facts)
        // Whoever wakes up finds an old offer, and has not heard yet what has become of it.
        if (sight.hostile || sight.isDrowsy(execution.process)) continue
        const unexpired = other.stopAt > sight.now()
        if (unexpired && isRightful(sight, other.leaseId) && isRightful(sight, execution.leaseId))
          broken('two executions hold unexpired leases', facts)
        if (!sight.disturbed && sight.howEnded(other.leaseId) !== 'fenced')
          broken('two executions run, and nothing was slow, silent or asleep', facts)
      }
    },
  }),
}

/** The nine tenths that a worker uses leave room for clocks that run apart. */
const promisesAreKept: Law = {
  number: '3',
  sentence: 'no lease expires before its worker, as it was promised, stops of its own accord',
  watch: (sight, broken) => ({
    landed: ({ changes }) => {
      if (sight.hostile) return
      for (const change of changes) {
        if (change.is !== 'key-value' || change.shelf !== 'ended-lease' || change.row === null) continue
        const { how } = { how: '', ...change.row.value }
        for (const execution of how === 'expired' ? sight.executions : [])
          if (execution.leaseId === change.key && execution.stopAt > sight.now())
            broken(`${change.key} expires and is executed`, placeOf(execution))
      }
    },
  }),
}

const placeOf = ({ leaseId, worker, runId, stopAt }: Execution) => ({ leaseId, worker, runId, stopAt })

const oneEnd: Law = {
  number: '4',
  sentence:
    'one terminal transition a lease; a terminal run is never dispatched without an explicit retry or follow-up',
  watch: (sight, broken) => {
    const gone = new Set<string>()
    const retries = new Map<string, number>()
    const before = new Map<string, string>()
    return {
      asked: ({ what, runId = '' }) => {
        if (what === 'retry' || what === 'follow up') retries.set(runId, (retries.get(runId) ?? 0) + 1)
      },
      landing: ({ changes }) => {
        before.clear()
        for (const change of changes) {
          if (change.is === 'run') before.set(change.key, sight.run(change.key)?.status ?? '')
          if (change.is !== 'key-value' || change.shelf !== 'ended-lease' || change.row === null) continue
          const known = sight.howEnded(change.key)
          if (known !== undefined)
            broken(`lease ${change.key} ended twice`, { first: known, second: change.row.value })
        }
      },
      landed: (batch) => {
        for (const change of livesIn(batch, 'lease')) {
          if (change.row === null) gone.add(change.key)
          else if (gone.has(change.key)) broken(`lease ${change.key} came back from the dead`)
        }
        for (const [id, was] of before) {
          const now = sight.run(id)?.status
          if (now === undefined || !TERMINAL.has(was) || now === was) continue
          const retried = retries.get(id) ?? 0
          if (retried === 0) broken(`run ${id} was ${was} and became ${now}, and nobody asked for it`)
          retries.set(id, retried - 1)
        }
      },
      hostSends: (_wire, frame) => {
        if (frame.type !== 'dispatch') return
        const run = sight.run(frame.lease.runId)
        if (isTerminal(run)) broken(`a ${run?.status} run is dispatched`, { runId: run?.id })
      },
    }
  },
}

const expiryLeadsOn: Law = {
  number: '6',
  sentence:
    'a lease that leaves by expiry leads to exactly one of: queued once, or completed by adoption (failed, the third time)',
  watch: (sight, broken) => {
    const unwanted = new Set<string>()
    return {
      asked: ({ what, runId = '' }) => {
        if (what === 'cancel') unwanted.add(runId)
        if (what === 'retry') unwanted.delete(runId)
      },
      landed: (batch) => {
        for (const change of batch.changes) {
          if (change.is !== 'key-value' || change.shelf !== 'ended-lease' || change.row === null) continue
          const { how, runId } = { how: '', runId: '', ...change.row.value }
          if (how !== 'expired' && how !== 'lost') continue
          const run = sight.run(runId)
          if (run === undefined) broken(`the run of lease ${change.key} is gone`, { how })
          if (run === undefined) return
          const queuedTimes = timesQueued(batch, runId)
          if (queuedTimes > 1) broken(`run ${runId} was queued ${queuedTimes} times for one lost lease`)
          const adopted = run.status === 'completed' && run.prUrl !== undefined
          const waits = run.status === 'queued' && sight.leasesOf(runId).length <= 1
          const cancelled = run.status === 'cancelled' && unwanted.has(runId)
          if (!adopted && !waits && !cancelled && run.status !== 'failed')
            broken(`run ${runId} is ${run.status} after its lease was ${how}`, { lease: change.key })
          if (adopted && queuedTimes > 0) broken(`run ${runId} was queued and adopted`)
        }
      },
    }
  },
}

function timesQueued({ changes }: Batch, runId: string): number {
  const lines = changes.flatMap((change) =>
    change.is === 'events' && change.key === runId ? change.lines : [],
  )
  return lines.filter((line) => line.includes('"type":"status"') && line.includes('"to":"queued"')).length
}

/** Not in the queue and not with a worker would be forgotten; in both would be executed twice. */
const nothingForgotten: Law = {
  number: '11',
  sentence:
    'after a restart queue and leases equal those before the crash; no unfinished run is in neither, none in both',
  watch: (sight, broken) => {
    const judge = (runId: string) => {
      const run = sight.run(runId)
      if (run === undefined) return
      const life = sight.disk.life('run', runId)
      const leases = sight.leasesOf(runId)
      const named = fieldsOf(life).lease
      if (isTerminal(run) && leases.length > 0)
        broken(`run ${runId} is ${run.status} and has a lease`, { leases })
      if (isTerminal(run)) return
      if (life === undefined) broken(`run ${runId} is ${run.status} and nobody looks after it`)
      if ((named ?? null) !== (leases[0]?.id ?? null))
        broken(`run ${runId} names lease ${String(named)}`, { leases, status: run.status })
      if (run.status !== 'queued' && leases.length === 0)
        broken(`run ${runId} is ${run.status} without a lease`)
    }
    let bootedAt = 0
    let before: readonly string[] = []
    const now = () => [...(sight.disk.lives.get('lease')?.keys() ?? [])].sort()
    return {
      booted: () => {
        bootedAt = sight.now()
        before = now()
        for (const runId of sight.disk.runs.keys()) judge(runId)
      },
      serving: () => {
        const after = now()
        if (after.join() !== before.join())
          broken('a restart changed the leases before anybody could have', { before, after })
      },
      landed: (batch) => {
        const runs = new Set<string>()
        for (const change of batch.changes) {
          if (change.is === 'run' || (change.is === 'snapshot' && change.kind === 'run')) runs.add(change.key)
          if (change.is === 'snapshot' && change.kind === 'lease') {
            const runId = fieldsOf(change.row?.value).runId
            if (typeof runId === 'string') runs.add(runId)
          }
          if (change.is !== 'key-value' || change.shelf !== 'ended-lease' || change.row === null) continue
          const { how } = { how: '', ...change.row.value }
          // Clocks run up to one hundredth apart.
          if (how === 'expired' && sight.now() - bootedAt < 120_000 * 0.98)
            broken(`lease ${change.key} expired ${Math.round(sight.now() - bootedAt)} ms after the start`)
        }
        for (const runId of runs) judge(runId)
      },
    }
  },
}

const withinCapacity: Law = {
  number: '23',
  sentence: 'the leases of a worker on disk are never more than it may execute at once',
  watch: (sight, broken) => {
    const most = new Map<string, number>()
    return {
      hostSends: (wire, frame) => {
        if (frame.type === 'registered') {
          const { capabilities } = sight.introduction(wire) ?? {}
          if (capabilities !== undefined) most.set(frame.workerId, capabilities.maxConcurrency)
        }
        if (frame.type !== 'dispatch') return
        const workerId = sight.registeredAs(wire) ?? ''
        const leases = sight.leasesOn(workerId)
        if (leases.length > (most.get(workerId) ?? 0))
          broken(`worker ${workerId} has ${leases.length} leases`, { most: most.get(workerId), leases })
      },
    }
  },
}

type LifeChange = Extract<Change, { is: 'snapshot' }>

function livesIn({ changes }: Batch, kind: string): LifeChange[] {
  return changes.filter((change): change is LifeChange => change.is === 'snapshot' && change.kind === kind)
}

export const leaseLaws: readonly Law[] = [
  oneLease,
  oneExecution,
  promisesAreKept,
  oneEnd,
  expiryLeadsOn,
  nothingForgotten,
  withinCapacity,
]

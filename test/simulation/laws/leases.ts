/** Laws about leases and their runs: one lease at a time, ended once, never forgotten. */
import type { DiskBatch, DiskChange } from '../sim-disk.ts'
import type { ObservedExecution } from '../sim-worker.ts'
import { frameChangesIn } from '../worker-disk.ts'
import {
  fieldsOf,
  isDamagedRun,
  isLeaseDamaged,
  isTerminal,
  type Law,
  type LawView,
  TERMINAL_STATUSES,
} from './law.ts'

const oneLease: Law = {
  number: '1',
  sentence: 'at most one live lease a run',
  observe: (view, fail) => ({
    onCommitted: (batch) => {
      for (const change of snapshotChangesIn(batch, 'lease')) {
        const lease = view.lease(change.key)
        if (lease === undefined) continue
        const all = view.leasesOf(lease.runId)
        if (all.length > 1) fail(`run ${lease.runId} has ${all.length} live leases`, { all })
      }
    },
  }),
}

/** Whether the lease is alive or ended only because its time ran out. One whose record is damaged ends in no other way. */
function isValidLease(view: LawView, leaseId: string): boolean {
  const isDamaged = view.hostDamage.has('lease', leaseId)
  return isDamaged || view.lease(leaseId) !== undefined || view.howEnded(leaseId) === 'expired'
}

const oneExecution: Law = {
  number: '3',
  sentence:
    'at most one execution of a run holds an unexpired lease; without paused processes, at most one runs at all',
  observe: (view, fail) => ({
    onExecutionStarted: (execution) => {
      for (const earlier of view.executions) {
        if (earlier === execution || earlier.runId !== execution.runId) continue
        const facts = { earlier: executionFacts(earlier), later: executionFacts(execution) }
        if (earlier.leaseId === execution.leaseId) fail('one lease is executed twice', facts)
        if (earlier.process === execution.process && view.workerDiskOf(execution.worker) !== undefined)
          fail('one daemon executes a run twice', facts)
        // A process that resumes may accept an old offer before it receives the frames about it.
        if (view.hasHostileLink || view.isPausedOrResuming(execution.process)) continue
        const unexpired = earlier.stopAt > view.now()
        if (unexpired && isValidLease(view, earlier.leaseId) && isValidLease(view, execution.leaseId))
          fail('two executions hold unexpired leases', facts)
        if (!view.isDisturbed && view.howEnded(earlier.leaseId) !== 'fenced')
          fail('two executions run, but nothing was slow, silent or paused', facts)
      }
    },
  }),
}

/** A worker uses nine tenths of the promised time; the rest covers clocks that run apart. */
const noEarlyExpiry: Law = {
  number: '3',
  sentence: 'no lease expires before its worker stops by itself as promised',
  observe: (view, fail) => ({
    onCommitted: ({ changes }) => {
      if (view.hasHostileLink) return
      for (const change of changes) {
        if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null) continue
        const { how } = { how: '', ...change.row.value }
        for (const execution of how === 'expired' ? view.executions : [])
          if (execution.leaseId === change.key && execution.stopAt > view.now())
            fail(`${change.key} expires while it is executed`, executionFacts(execution))
      }
    },
  }),
}

const promisedOnce: Law = {
  number: '3',
  sentence: 'a worker is never promised more than the term of its lease',
  observe: (view, fail) => ({
    onHostSends: (_connection, frame) => {
      if (frame.type !== 'lease-ack') return
      for (const { leaseId, remainingMs } of frame.leases) {
        const { termMs } = fieldsOf(view.disk.snapshot('lease', leaseId))
        if (remainingMs > Number(termMs)) fail(`${leaseId} has ${remainingMs} ms left`, { termMs })
      }
    },
  }),
}

const executionFacts = ({ leaseId, worker, runId, stopAt }: ObservedExecution) => ({
  leaseId,
  worker,
  runId,
  stopAt,
})

const oneEnd: Law = {
  number: '4',
  sentence: 'a lease ends once; an ended run is dispatched only after an explicit retry or follow-up',
  observe: (view, fail) => {
    const gone = new Set<string>()
    const retries = new Map<string, number>()
    const before = new Map<string, string>()
    return {
      onRequest: ({ operation, runId = '' }) => {
        if (operation === 'retry' || operation === 'follow up')
          retries.set(runId, (retries.get(runId) ?? 0) + 1)
      },
      onBeforeCommit: ({ changes }) => {
        before.clear()
        for (const change of changes) {
          if (change.is === 'run') before.set(change.key, view.run(change.key)?.status ?? '')
          if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null)
            continue
          const known = view.howEnded(change.key)
          if (known !== undefined)
            fail(`lease ${change.key} ended twice`, { first: known, second: change.row.value })
        }
      },
      onCommitted: (batch) => {
        for (const change of snapshotChangesIn(batch, 'lease')) {
          if (change.row === null) gone.add(change.key)
          else if (gone.has(change.key)) fail(`lease ${change.key} came back after its end`)
        }
        for (const [id, was] of before) {
          const now = view.run(id)?.status
          if (now === undefined || !TERMINAL_STATUSES.has(was) || now === was) continue
          const retried = retries.get(id) ?? 0
          if (retried === 0) fail(`run ${id} was ${was} and became ${now} without a request`)
          retries.set(id, retried - 1)
        }
      },
      onHostSends: (_connection, frame) => {
        if (frame.type !== 'dispatch') return
        const run = view.run(frame.lease.runId)
        if (isTerminal(run)) fail(`a ${run?.status} run is dispatched`, { runId: run?.id })
      },
    }
  },
}

const expiryHasOneOutcome: Law = {
  number: '6',
  sentence:
    'an expired lease has exactly one outcome: its run is queued once, or completed by adoption (failed, the third time)',
  observe: (view, fail) => {
    const unwanted = new Set<string>()
    return {
      onRequest: ({ operation, runId = '' }) => {
        if (operation === 'cancel') unwanted.add(runId)
        if (operation === 'retry') unwanted.delete(runId)
      },
      onCommitted: (batch) => {
        for (const change of batch.changes) {
          if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null)
            continue
          const { how, runId } = { how: '', runId: '', ...change.row.value }
          if (how !== 'expired' && how !== 'lost') continue
          if (isDamagedRun(view, runId)) continue
          const run = view.run(runId)
          if (run === undefined) fail(`the run of lease ${change.key} is gone`, { how })
          if (run === undefined) return
          const queuedTimes = timesQueued(batch, runId)
          if (queuedTimes > 1) fail(`run ${runId} was queued ${queuedTimes} times for one lost lease`)
          const adopted = run.status === 'completed' && run.prUrl !== undefined
          const waits = run.status === 'queued' && view.leasesOf(runId).length <= 1
          // A run without the record of its lease is also cancelled at once when its ticket leaves.
          const isUnwanted = unwanted.has(runId) || view.hostDamage.has('lease', change.key)
          const cancelled = run.status === 'cancelled' && isUnwanted
          if (!adopted && !waits && !cancelled && run.status !== 'failed')
            fail(`run ${runId} is ${run.status} after its lease was ${how}`, { lease: change.key })
          if (adopted && queuedTimes > 0) fail(`run ${runId} was queued and adopted`)
        }
      },
    }
  },
}

const unbegunCountsNothing: Law = {
  number: '6',
  sentence: 'a run that is given back before its agent began is queued at once, and counts no interruption',
  observe: (view, fail) => {
    const unbegun = new Set<string>()
    const begun = new Set<string>()
    const before = new Map<string, unknown>()
    const interruptionsOf = (runId: string) => fieldsOf(view.disk.snapshot('run', runId)).interruptions
    return {
      onAgentStarted: ({ leaseId }) => void begun.add(leaseId),
      onBeforeWorkerCommit: (_worker, { changes }) => {
        for (const { leaseId, stored } of frameChangesIn(changes)) {
          if (stored?.as !== 'end' || !stored.text.includes('"begun":false')) continue
          if (begun.has(leaseId)) fail(`the agent of ${leaseId} had begun`)
          unbegun.add(leaseId)
        }
      },
      // The first form has no word for it, and a worker on a hostile line may take its host for one of that form. Law D1
      // sees to it that the word is left out for no other reason.
      onWorkerSends: (_worker, _connection, frame) => {
        if (frame.type === 'run-complete' && frame.outcome.begun === undefined) unbegun.delete(frame.leaseId)
      },
      onBeforeCommit: (batch) => {
        before.clear()
        for (const { runId } of unbegunEnds(batch, unbegun)) before.set(runId, interruptionsOf(runId))
      },
      onCommitted: (batch) => {
        for (const { leaseId, runId } of unbegunEnds(batch, unbegun)) {
          // A person may have cancelled it meanwhile.
          if (view.run(runId)?.status !== 'queued') continue
          const facts = { leaseId, before: before.get(runId), now: interruptionsOf(runId) }
          if (facts.now !== facts.before) fail(`run ${runId} counts an interruption`, facts)
        }
      },
    }
  },
}

function unbegunEnds({ changes }: DiskBatch, unbegun: ReadonlySet<string>) {
  return changes.flatMap((change) => {
    if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null) return []
    const { how, runId } = { how: '', runId: '', ...change.row.value }
    return how === 'completed' && unbegun.has(change.key) ? [{ leaseId: change.key, runId }] : []
  })
}

/** A retry in the same commit queues a run that has ended, and is no outcome of the lease. */
function timesQueued({ changes }: DiskBatch, runId: string): number {
  const lines = changes.flatMap((change) =>
    change.is === 'events' && change.key === runId ? change.lines : [],
  )
  return lines.filter((line) =>
    /"type":"status","from":"(?!cancelled|failed|completed)[^"]*","to":"queued"/.test(line),
  ).length
}

/** A run that is neither queued nor leased would be forgotten; a run that is both would be executed twice. */
const noRunForgotten: Law = {
  number: '11',
  sentence: 'a restart changes neither queue nor leases; every unfinished run is in exactly one of them',
  observe: (view, fail) => {
    const judge = (runId: string) => {
      const run = view.run(runId)
      if (run === undefined) return
      const actorSnapshot = view.disk.snapshot('run', runId)
      const leases = view.leasesOf(runId)
      const named = fieldsOf(actorSnapshot).lease
      if (isDamagedRun(view, runId) || isLeaseDamaged(view, runId)) return
      if (isTerminal(run) && leases.length > 0)
        fail(`run ${runId} is ${run.status} but has a lease`, { leases })
      if (isTerminal(run)) return
      if (actorSnapshot === undefined) fail(`run ${runId} is ${run.status} but has no actor`)
      if ((named ?? null) !== (leases[0]?.id ?? null))
        fail(`run ${runId} names lease ${String(named)}`, { leases, status: run.status })
      if (run.status !== 'queued' && leases.length === 0)
        fail(`run ${runId} is ${run.status} without a lease`)
    }
    let bootedAt = 0
    let before: readonly string[] = []
    let orphaned: ReadonlySet<string> = new Set()
    const now = () =>
      [...(view.disk.snapshots.get('lease')?.keys() ?? [])].filter((id) => !orphaned.has(id)).sort()
    return {
      onHostStarting: () => {
        bootedAt = view.now()
        // A start ends the leases of runs with damaged records.
        const damaged = view.leases.filter(({ runId }) => isDamagedRun(view, runId))
        orphaned = new Set(damaged.map(({ id }) => id))
        before = now()
        for (const runId of view.disk.runs.keys()) judge(runId)
      },
      onHostServing: () => {
        const after = now()
        if (after.join() !== before.join())
          fail('a restart changed the leases before the host served requests', { before, after })
      },
      onCommitted: (batch) => {
        const runs = new Set<string>()
        for (const change of batch.changes) {
          if (change.is === 'run' || (change.is === 'snapshot' && change.kind === 'run')) runs.add(change.key)
          if (change.is === 'snapshot' && change.kind === 'lease') {
            const runId = fieldsOf(change.row?.value).runId
            if (typeof runId === 'string') runs.add(runId)
          }
          if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null)
            continue
          const { how } = { how: '', ...change.row.value }
          // Clocks differ by up to one percent.
          if (how === 'expired' && view.now() - bootedAt < view.graceMsMin * 0.98)
            fail(`lease ${change.key} expired ${Math.round(view.now() - bootedAt)} ms after the start`)
        }
        for (const runId of runs) judge(runId)
      },
    }
  },
}

const withinCapacity: Law = {
  number: '23',
  sentence: 'a worker never has more leases on disk than it may execute at once',
  observe: (view, fail) => {
    const most = new Map<string, number>()
    return {
      onHostSends: (connection, frame) => {
        if (frame.type === 'registered') {
          const { capabilities } = view.registerFrameOf(connection) ?? {}
          if (capabilities !== undefined) most.set(frame.workerId, capabilities.maxConcurrency)
        }
        if (frame.type !== 'dispatch') return
        const workerId = view.registeredAs(connection) ?? ''
        const leases = view.leasesOn(workerId)
        if (leases.length > (most.get(workerId) ?? 0))
          fail(`worker ${workerId} has ${leases.length} leases`, { most: most.get(workerId), leases })
      },
    }
  },
}

type SnapshotChange = Extract<DiskChange, { is: 'snapshot' }>

function snapshotChangesIn({ changes }: DiskBatch, kind: string): SnapshotChange[] {
  return changes.filter(
    (change): change is SnapshotChange => change.is === 'snapshot' && change.kind === kind,
  )
}

export const leaseLaws: readonly Law[] = [
  oneLease,
  oneExecution,
  noEarlyExpiry,
  promisedOnce,
  oneEnd,
  expiryHasOneOutcome,
  unbegunCountsNothing,
  noRunForgotten,
  withinCapacity,
]

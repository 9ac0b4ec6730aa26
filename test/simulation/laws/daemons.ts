/**
 * Laws about the product's daemon: what it writes to disk before sending, what it keeps until the host has it, when
 * it stops, and why it ends.
 */
import type { HostFrame, WorkerFrame } from '../../../protocol/frames.ts'
import { isDroppable } from '../reference-outbox.ts'
import type { SimConnection } from '../sim-connection.ts'
import type { DiskBatch, SimDisk } from '../sim-disk.ts'
import type { DaemonExecution, SimWorker } from '../sim-worker.ts'
import { executionRecordsOn, frameChangesIn, storedFrame } from '../worker-disk.ts'
import { isOnDisk, reportIdOf, type UnnumberedFrame } from './is-on-disk.ts'
import { isDamagedRun, type Law, type LawObserver, type LawView } from './law.ts'

/** Allows for rounding of clocks and of times in frames. */
const TOLERANCE_MS = 10
/** The fastest clock of a simulated machine, with room for rounding. */
const CLOCK_RATE_MAX = 1.02

/** The host's latest frames about each worker's leases, as the workers received them. */
class HostMessages {
  readonly observer: LawObserver
  readonly #acked = new Map<string, number>()
  readonly #released = new Set<string>()
  readonly #lostAt = new Map<string, number>()
  /** By worker and run: the latest lease that was dispatched. */
  readonly #offered = new Map<string, string>()
  readonly #unenrolled = new Set<string>()

  constructor(now: () => number) {
    this.observer = { onWorkerReceives: ({ worker }, frame) => this.#handle(worker, frame, now()) }
  }

  acked(worker: string, leaseId: string): number {
    return this.#acked.get(`${worker} ${leaseId}`) ?? 0
  }

  /** Whether the worker may forget the lease: the completion was acknowledged, or the lease was lost. */
  isReleased(worker: string, leaseId: string): boolean {
    return this.#released.has(`${worker} ${leaseId}`) || this.lostAt(worker, leaseId) !== undefined
  }

  lostAt(worker: string, leaseId: string): number | undefined {
    return this.#lostAt.get(`${worker} ${leaseId}`)
  }

  /** Whether a newer lease of the same run has reached this machine. */
  isSuperseded(worker: string, runId: string, leaseId: string): boolean {
    const latest = this.#offered.get(`${worker} ${runId}`)
    return latest !== undefined && latest !== leaseId
  }

  /** Whether the worker's enrollment is gone, or another process uses it. */
  isUnenrolled(worker: string): boolean {
    return this.#unenrolled.has(worker)
  }

  #handle(worker: string, frame: HostFrame, now: number): void {
    if (frame.type === 'lease-ack')
      for (const { leaseId, seq } of frame.leases)
        this.#acked.set(`${worker} ${leaseId}`, Math.max(seq, this.acked(worker, leaseId)))
    if (frame.type === 'run-complete-ack') this.#released.add(`${worker} ${frame.leaseId}`)
    if (frame.type === 'lease-lost' && this.lostAt(worker, frame.leaseId) === undefined)
      this.#lostAt.set(`${worker} ${frame.leaseId}`, now)
    if (frame.type === 'dispatch') {
      this.#offered.set(`${worker} ${frame.lease.runId}`, frame.lease.id)
      // Only a hostile line delivers a dispatch behind the word that its lease is lost, and the worker believes it then.
      this.#lostAt.delete(`${worker} ${frame.lease.id}`)
    }
    if (frame.type === 'revoked' || frame.type === 'rejected') this.#unenrolled.add(worker)
  }
}

const savedFirst: Law = {
  number: 'D1',
  sentence: 'a daemon sends reports, gaps and acceptances only after they are on its disk',
  observe: (view, fail) => {
    const messages = new HostMessages(() => view.now())
    /** Connections that are registered in the protocol's first form, which lacks later keys. */
    const inFirstForm = new WeakSet<SimConnection>()
    return {
      ...messages.observer,
      onWorkerSends: ({ plan }, connection, frame, text) => {
        if (frame.type === 'register' && frame.oldestProtocolVersion === undefined)
          inFirstForm.add(connection)
        const workerDisk = view.workerDiskOf(plan.id)
        if (workerDisk === undefined || !('leaseId' in frame) || frame.leaseId === undefined) return
        const { leaseId } = frame
        if (frame.type === 'dispatch-accepted' && workerDisk.snapshot('execution', leaseId) === undefined)
          fail(`${leaseId} is accepted, but its execution is not on disk`)
        // A worker whose host acknowledges less than before names the frames that it has trimmed since. A hostile line
        // delivers acknowledgements in the wrong order, which looks the same.
        const trimmedUpTo = messages.acked(plan.id, leaseId)
        for (const seq of frame.type === 'lease-gap' ? numbersOf(frame) : [])
          if (seq > trimmedUpTo && !isNamedLost(workerDisk, leaseId, seq))
            fail(`${seq} of ${leaseId} is named as lost, but the gap is not on disk`, { frame })
        if (!('seq' in frame) || frame.seq === undefined) return
        const saved = storedFrame(workerDisk, leaseId, frame.seq)
        const isSaved = (stored: string) =>
          stored === text || (inFirstForm.has(connection) && isInFirstForm(frame, JSON.parse(stored)))
        if (saved === undefined || saved.as === 'gap' || !isSaved(saved.text))
          fail(`${frame.type} ${frame.seq} of ${leaseId} is sent but not on disk`, { saved })
      },
    }
  },
}

/** Whether this is the stored frame without the keys that the first form lacks. */
function isInFirstForm(frame: WorkerFrame, stored: WorkerFrame): boolean {
  if (frame.type !== 'run-complete' || stored.type !== 'run-complete') return isPartOf(frame, stored)
  const { error = '', ...outcome } = frame.outcome
  const { error: storedError = '', ...storedOutcome } = stored.outcome
  // For a host that knows no `begun`, the error of a run whose agent did not begin says more.
  const isError = storedOutcome.begun === false ? error.includes(storedError) : error === storedError
  return isError && isPartOf({ ...frame, outcome }, { ...stored, outcome: storedOutcome })
}

/** Whether nothing is in the first value that the second lacks. */
function isPartOf(part: unknown, whole: unknown): boolean {
  if (typeof part !== 'object' || part === null || typeof whole !== 'object' || whole === null)
    return part === whole
  const entries = new Map(Object.entries(whole))
  return Object.entries(part).every(([key, value]) => isPartOf(value, entries.get(key)))
}

const oneFrameANumber: Law = {
  number: 'D2',
  sentence: 'a number never stands for two frames',
  observe: (view, fail) => {
    const texts = new Map<string, string>()
    return {
      onBeforeWorkerCommit: (_worker, { changes }) => {
        for (const { key, leaseId, seq, stored } of frameChangesIn(changes)) {
          if (stored === null || stored.as === 'gap') continue
          const before = texts.get(key)
          if (before !== undefined && before !== stored.text)
            fail(`${seq} of ${leaseId} was another frame before`, { before, now: stored.text })
          if (before === undefined && view.frameOf(leaseId, seq) !== undefined)
            fail(`${seq} of ${leaseId} was named as lost before`, { now: stored.text })
          texts.set(key, stored.text)
        }
      },
    }
  },
}

const trimmedAfterAck: Law = {
  number: '14',
  sentence: "a worker trims a frame only after an acknowledgement of it or the completion's",
  observe: (view, fail) => {
    const messages = new HostMessages(() => view.now())
    let gone: { readonly leaseId: string; readonly seq: number }[] = []
    return {
      ...messages.observer,
      onBeforeWorkerCommit: ({ plan }, { changes }) => {
        const workerDisk = view.workerDiskOf(plan.id)
        gone = frameChangesIn(changes).filter(
          ({ stored, leaseId, seq }) =>
            stored === null &&
            workerDisk !== undefined &&
            storedFrame(workerDisk, leaseId, seq) !== undefined,
        )
      },
      onWorkerCommitted: ({ plan }, batch) => {
        const workerDisk = view.workerDiskOf(plan.id)
        if (workerDisk === undefined) return
        for (const { leaseId, acked } of acknowledgementsIn(batch))
          if (acked > messages.acked(plan.id, leaseId))
            fail(`${leaseId} counts as acknowledged up to ${acked}`, {
              received: messages.acked(plan.id, leaseId),
            })
        for (const { leaseId, seq } of gone) {
          if (seq <= messages.acked(plan.id, leaseId) || messages.isReleased(plan.id, leaseId)) continue
          // The worker dropped the whole lease; another law says when it may.
          if (
            workerDisk.snapshot('execution', leaseId) === undefined ||
            isNamedLost(workerDisk, leaseId, seq)
          )
            continue
          fail(`${seq} of ${leaseId} leaves the disk`, { acked: messages.acked(plan.id, leaseId) })
        }
      },
    }
  },
}

function acknowledgementsIn({ changes }: DiskBatch): { readonly leaseId: string; readonly acked: number }[] {
  return changes.flatMap((change) => {
    if (change.is !== 'key-value' || change.collection !== 'outbox' || change.row === null) return []
    const { acked } = { acked: 0, ...change.row.value }
    return [{ leaseId: change.key, acked }]
  })
}

const numbersOf = ({ from, to }: { readonly from: number; readonly to: number }): number[] =>
  Array.from({ length: to - from + 1 }, (_, at) => from + at)

function isNamedLost(workerDisk: SimDisk, leaseId: string, seq: number): boolean {
  for (const [key, { value }] of workerDisk.keyValues.get('frame') ?? []) {
    if (!key.startsWith(`${leaseId}/`)) continue
    const { as, from } = { as: '', from: 0, ...value }
    if (as === 'gap' && from <= seq && seq <= Number(key.slice(leaseId.length + 1))) return true
  }
  return false
}

/** Whether only the host knows that it has the frame: the worker's record of that was damaged. */
const isKnownToHost = (view: LawView, leaseId: string, seq: number): boolean =>
  view.lostRows.has('outbox', leaseId) &&
  (view.lease(leaseId) === undefined || seq <= view.watermarkOf(leaseId).mark)

const onlyDroppableDropped: Law = {
  number: '9',
  sentence: 'a daemon names only droppable frames as lost',
  observe: (view, fail) => ({
    onWorkerCommitted: (_worker, { changes }) => {
      for (const { leaseId, seq, stored } of frameChangesIn(changes)) {
        if (stored?.as !== 'gap') continue
        for (let lost = stored.from; lost <= seq; lost++) {
          const type = view.frameOf(leaseId, lost)?.type ?? 'run-event'
          const isDamaged = view.lostRows.hasFrame(leaseId, lost) || isKnownToHost(view, leaseId, lost)
          if (!isDroppable(type) && !isDamaged) fail(`${type} ${lost} of ${leaseId} is dropped`)
        }
      }
    },
  }),
}

const finishedIsKept: Law = {
  number: 'D3',
  sentence: 'a completion stays on the worker’s disk until the host has it or the lease ended',
  observe: (view, fail) => {
    const messages = new HostMessages(() => view.now())
    let over: { readonly leaseId: string; readonly runId: string }[] = []
    return {
      ...messages.observer,
      onBeforeWorkerCommit: ({ plan }, { changes }) => {
        const workerDisk = view.workerDiskOf(plan.id)
        const gone = new Set(
          changes.flatMap((change) =>
            change.is === 'snapshot' && change.kind === 'execution' && change.row === null
              ? [change.key]
              : [],
          ),
        )
        over =
          workerDisk === undefined || gone.size === 0
            ? []
            : executionRecordsOn(workerDisk).filter(
                ({ leaseId, isFinished }) => isFinished && gone.has(leaseId),
              )
      },
      onWorkerCommitted: ({ plan }) => {
        for (const { leaseId, runId } of over) {
          if (messages.isReleased(plan.id, leaseId) || messages.isUnenrolled(plan.id)) continue
          if (!messages.isSuperseded(plan.id, runId, leaseId)) fail(`the completion of ${leaseId} is gone`)
        }
      },
    }
  },
}

const finishedIsClaimed: Law = {
  number: 'D4',
  sentence: 'a worker claims a finished lease until the host has its completion',
  observe: (view, fail) => {
    const messages = new HostMessages(() => view.now())
    return {
      ...messages.observer,
      onWorkerSends: ({ plan }, _connection, frame) => {
        const claims = claimsIn(frame)
        const workerDisk = view.workerDiskOf(plan.id)
        if (claims === undefined || workerDisk === undefined) return
        for (const { leaseId, runId, isFinished } of executionRecordsOn(workerDisk)) {
          if (!isFinished || claims.has(leaseId) || messages.isReleased(plan.id, leaseId)) continue
          if (!messages.isSuperseded(plan.id, runId, leaseId)) fail(`${leaseId} is not claimed`, { frame })
        }
      },
    }
  },
}

function claimsIn(frame: WorkerFrame): Set<string> | undefined {
  if (frame.type === 'register') return new Set(frame.activeLeases.map(({ id }) => id))
  return frame.type === 'heartbeat' ? new Set(frame.leases.map(({ id }) => id)) : undefined
}

const runningIsClaimed: Law = {
  number: 'D11',
  sentence: 'a worker claims a running execution until it exited, unless the host ended its lease',
  observe: (view, fail) => {
    const messages = new HostMessages(() => view.now())
    return {
      ...messages.observer,
      onWorkerSends: ({ plan }, _connection, frame) => {
        const claims = claimsIn(frame)
        if (claims === undefined || view.hasHostileLink) return
        for (const { worker, leaseId, runId } of view.executions) {
          if (worker !== plan.id || claims.has(leaseId) || messages.isReleased(worker, leaseId)) continue
          if (!messages.isSuperseded(worker, runId, leaseId)) fail(`${leaseId} runs but is not claimed`)
        }
      },
    }
  },
}

/** Faults that change a lease without its worker, so that the worker seems to deny it. */
const FORGING_FAULTS = new Set(['second socket', 'foreign claim'])

const DAMAGED = ['lease', 'mark'] as const

const interruptedIsReported: Law = {
  number: 'D5',
  sentence: 'a worker claims interrupted runs after its restart and reports them as interrupted',
  observe: (view, fail) => {
    const messages = new HostMessages(() => view.now())
    const interrupted = new Map<string, { readonly worker: string; readonly prUrl: string | undefined }>()
    const forged = new Set<string>()
    return {
      ...messages.observer,
      onFault: ({ plan }, fault) => void (FORGING_FAULTS.has(fault) && forged.add(plan.id)),
      onDaemonCrashed: ({ plan }) => {
        const workerDisk = view.workerDiskOf(plan.id)
        for (const { leaseId, isRunning, prUrl } of workerDisk === undefined
          ? []
          : executionRecordsOn(workerDisk))
          if (isRunning) interrupted.set(leaseId, { worker: plan.id, prUrl })
      },
      onBeforeWorkerCommit: (_worker, { changes }) => {
        for (const { leaseId, stored } of frameChangesIn(changes)) {
          const known = interrupted.get(leaseId)
          if (known === undefined || stored?.as !== 'end') continue
          const { outcome } = JSON.parse(stored.text) as Extract<WorkerFrame, { type: 'run-complete' }>
          if (outcome.status === 'failed' && known.prUrl !== undefined)
            fail(`${leaseId} had published but is reported as failed`, { outcome })
          const isAsked = outcome.begun === false || outcome.error?.startsWith('interrupted') === true
          if (outcome.status === 'failed' && !isAsked)
            fail(`${leaseId} is not reported as interrupted`, { outcome })
          if (outcome.status === 'completed' && known.prUrl === undefined)
            fail(`${leaseId} is reported as completed`, { outcome })
        }
      },
      onCommitted: ({ changes }) => {
        for (const change of changes) {
          if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null)
            continue
          const { how, runId } = { how: '', runId: '', ...change.row.value }
          const known = interrupted.get(change.key)
          if (how !== 'lost' || known === undefined || view.hasHostileLink) continue
          // No claim helps a lease that is damaged, or whose run or watermark is.
          if (isDamagedRun(view, runId) || DAMAGED.some((kind) => view.hostDamage.has(kind, change.key)))
            continue
          if (forged.has(known.worker) || messages.isReleased(known.worker, change.key)) continue
          if (isStillOnDisk(view, known.worker, change.key))
            fail(`${change.key} was interrupted and not claimed`)
        }
      },
    }
  },
}

function isStillOnDisk(view: LawView, worker: string, leaseId: string): boolean {
  const workerDisk = view.workerDiskOf(worker)
  const record =
    workerDisk === undefined
      ? undefined
      : executionRecordsOn(workerDisk).find((each) => each.leaseId === leaseId)
  return record?.isFinished === true || record?.isRunning === true
}

const stopsInTime: Law = {
  number: 'D6',
  sentence: 'a worker stops after nine tenths of the remaining time, counted from the acknowledged heartbeat',
  observe: (view, fail) => {
    const killed = new WeakSet<DaemonExecution>()
    const isLate = ({ stopAt, process }: DaemonExecution) =>
      view.now() > stopAt + TOLERANCE_MS && !view.isPausedOrResuming(process)
    const facts = ({ leaseId, worker, stopAt }: DaemonExecution) => ({ leaseId, worker, stopAt })
    return {
      onStopRequested: (execution, { how }) => {
        if (how !== 'kill' || killed.has(execution)) return
        killed.add(execution)
        if (isLate(execution)) fail('the execution is stopped too late', facts(execution))
      },
      onTick: () => {
        for (const execution of view.executions)
          if (isDaemonExecution(execution) && !execution.killed && isLate(execution))
            fail('the execution continues after its deadline', facts(execution))
      },
    }
  },
}

const isDaemonExecution = (execution: object): execution is DaemonExecution => 'killed' in execution

const lostLeasesStop: Law = {
  number: '17',
  sentence: 'after `lease-lost` the worker stops, and no effect of an ended lease reaches a code host',
  observe: (view, fail) => {
    const messages = new HostMessages(() => view.now())
    const lostFor = ({ worker, leaseId }: DaemonExecution) =>
      view.now() - (messages.lostAt(worker, leaseId) ?? view.now())
    return {
      ...messages.observer,
      onExecutionStarted: ({ leaseId, worker }) => {
        if (messages.lostAt(worker, leaseId) !== undefined) fail(`${leaseId} was lost before it begins`)
      },
      onTick: () => {
        for (const execution of view.executions) {
          if (!isDaemonExecution(execution) || execution.killed || view.isPausedOrResuming(execution.process))
            continue
          if (lostFor(execution) > TOLERANCE_MS) fail(`${execution.leaseId} is lost but still runs`)
        }
      },
      onPublished: ({ leaseId, runId, worker, stopAt, process }) => {
        if (messages.lostAt(worker, leaseId) !== undefined) fail(`${leaseId} was lost but publishes`)
        if (messages.isSuperseded(worker, runId, leaseId)) fail(`${leaseId} was superseded but publishes`)
        if (view.isPausedOrResuming(process)) return
        if (view.now() > stopAt + TOLERANCE_MS)
          fail(`${leaseId} exceeded its deadline but publishes`, { stopAt })
        if (view.howEnded(leaseId) === 'expired') fail(`${leaseId} has expired but publishes`)
      },
    }
  },
}

/** How long the host waits for an answer to its dispatch. */
const DISPATCH_ANSWER_MS = 10_000

const acceptedInTime: Law = {
  number: '25',
  sentence:
    'an execution begins only if its acceptance left in time on the connection of its dispatch, or the host has named its lease since',
  observe: (view, fail) => {
    const dispatches = new Map<string, { readonly connection: SimConnection; readonly at: number }>()
    const accepted = new Set<string>()
    const named = new Set<string>()
    return {
      onWorkerReceives: (connection, frame) => {
        if (frame.type === 'dispatch') dispatches.set(frame.lease.id, { connection, at: view.now() })
      },
      onHostSends: (connection, frame) => {
        if (frame.type !== 'lease-ack') return
        for (const { leaseId } of frame.leases) {
          const dispatch = dispatches.get(leaseId)
          const isLater = dispatch?.connection !== connection || view.now() > dispatch.at + DISPATCH_ANSWER_MS
          if (isLater) named.add(leaseId)
        }
      },
      onWorkerSends: (_worker, connection, frame) => {
        if (frame.type !== 'dispatch-accepted') return
        const dispatch = dispatches.get(frame.leaseId)
        if (
          dispatch?.connection === connection &&
          view.now() <= dispatch.at + DISPATCH_ANSWER_MS * CLOCK_RATE_MAX
        )
          accepted.add(frame.leaseId)
      },
      onExecutionStarted: ({ leaseId, worker }) => {
        if (view.workerDiskOf(worker) === undefined || accepted.has(leaseId) || named.has(leaseId)) return
        fail(`${leaseId} begins without an acceptance in time`, { dispatch: dispatches.get(leaseId)?.at })
      },
    }
  },
}

const noNeedlessResend: Law = {
  number: 'D7',
  sentence: 'a frame is sent again only on a new connection, or when the host repeats a number',
  observe: (view, fail) => {
    const highest = new WeakMap<SimConnection, Map<string, number>>()
    const acks = new WeakMap<
      SimConnection,
      Map<string, { readonly seq: number; readonly isRepeated: boolean }>
    >()
    return {
      onWorkerReceives: (connection, frame) => {
        if (frame.type !== 'lease-ack') return
        const known = acks.get(connection) ?? new Map()
        acks.set(connection, known)
        for (const { leaseId, seq } of frame.leases)
          known.set(leaseId, { seq, isRepeated: known.get(leaseId)?.seq === seq })
      },
      onWorkerSends: (_worker, connection, frame) => {
        if (!('leaseId' in frame) || frame.leaseId === undefined) return
        const seq = frame.type === 'lease-gap' ? frame.to : 'seq' in frame ? frame.seq : undefined
        if (seq === undefined) return
        const { leaseId } = frame
        const sent = highest.get(connection) ?? new Map<string, number>()
        highest.set(connection, sent)
        const last = sent.get(leaseId) ?? 0
        if (seq <= last && acks.get(connection)?.get(leaseId)?.isRepeated !== true && !view.hasHostileLink)
          fail(`${frame.type} ${seq} of ${leaseId} is sent again`, {
            last,
            ack: acks.get(connection)?.get(leaseId),
          })
        sent.set(leaseId, Math.max(last, seq))
      },
    }
  },
}

const reportedIsApplied: Law = {
  number: '5',
  sentence: 'undroppable reports of an execution are on the host’s disk when its run is completed',
  observe: (view, fail) => {
    const reported = new Map<string, UnnumberedFrame[]>()
    const crashed = new Set<string>()
    const unsteady = new Set<string>()
    const note = (worker: string, isUnfinished = (_: { readonly isRunning: boolean }) => true) => {
      const workerDisk = view.workerDiskOf(worker)
      for (const execution of workerDisk === undefined ? [] : executionRecordsOn(workerDisk))
        if (isUnfinished(execution)) crashed.add(execution.leaseId)
    }
    return {
      onReport: ({ leaseId, remote }, what) => {
        const report = reportOf(leaseId, remote, what)
        if (!isDroppable(report.type)) reported.set(leaseId, [...(reported.get(leaseId) ?? []), report])
      },
      onFault: ({ plan }, fault) => void (fault.startsWith('worker disk') && unsteady.add(plan.id)),
      onDaemonCrashed: ({ plan }) => note(plan.id),
      // A daemon that ends in good order writes everything to disk, if the disk accepts it. It stops waiting for an
      // execution that takes too long to end; what that reports later is read again from the sandbox.
      onDaemonEnded: ({ plan }) => note(plan.id, ({ isRunning }) => isRunning || unsteady.has(plan.id)),
      onCommitted: ({ changes }) => {
        for (const change of changes) {
          if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null)
            continue
          const { how, runId } = { how: '', runId: '', ...change.row.value }
          // Reports of the last moment before a crash never reached the disk.
          if (how !== 'completed' || crashed.has(change.key)) continue
          for (const report of reported.get(change.key) ?? [])
            if (!isOnDisk(view, NO_EVENTS_SEEN, runId, report))
              fail(`${report.type} (${reportIdOf(report)}) is missing at the completion`, { runId })
        }
      },
    }
  },
}

const NO_EVENTS_SEEN: ReadonlySet<string> = new Set()

function reportOf(
  leaseId: string,
  repo: string,
  reported: Parameters<NonNullable<LawObserver['onReport']>>[1],
): UnnumberedFrame {
  switch (reported.is) {
    case 'patch':
      return { type: 'run-patch', leaseId, patch: reported.patch }
    case 'event':
      return { type: 'run-event', leaseId, event: reported.event }
    case 'memories':
      return { type: 'run-memories', leaseId, repo, facts: [...reported.facts] }
    case 'usage':
      return { type: 'run-usage-snapshot', leaseId, snapshot: reported.snapshot }
    case 'artifact': {
      const { name, part, final, data } = reported
      return { type: 'run-artifact', leaseId, name, part, final, data }
    }
  }
}

/** The events that may end a daemon, by the kind of end that the daemon reports. */
const END_CAUSES: Readonly<Record<string, readonly string[]>> = {
  stopped: ['worker stop'],
  revoked: ['revoked'],
  unauthorized: ['rejected unauthorized'],
  'no-credential': ['rejected invalid-token', 'rejected expired-token'],
  replaced: ['second socket'],
  broken: ['worker disk broken'],
  // The newer of the two has registered first.
  protocol: ['second socket'],
  malformed: [],
}

const endsForCause: Law = {
  number: 'D8',
  sentence: 'a daemon ends only on request, or when it cannot continue',
  observe: (view, fail) => {
    const causes = new Map<string, Set<string>>()
    const add = (worker: string, cause: string) =>
      causes.set(worker, (causes.get(worker) ?? new Set()).add(cause))
    return {
      onFault: ({ plan }, fault) => void add(plan.id, fault),
      onWorkerReceives: (connection, frame) => {
        if (frame.type === 'revoked') add(connection.worker, 'revoked')
        if (frame.type === 'rejected') add(connection.worker, `rejected ${frame.code}`)
      },
      onDaemonEnded: ({ plan }: SimWorker, { is, detail }) => {
        const known = causes.get(plan.id) ?? new Set<string>()
        // Its run is over, or there was none for long: the controller's law says when that is right.
        if (plan.job !== undefined && (is === 'stopped' || is === 'unreported')) return
        if (!view.hasHostileLink && END_CAUSES[is]?.some((cause) => known.has(cause)) !== true)
          fail(`${plan.id} ends: ${is} (${detail})`, { known: [...known] })
        // A broken disk outlasts a process, so its cause stays valid for the next one.
        causes.set(plan.id, new Set([...known].filter((cause) => cause === 'worker disk broken')))
      },
    }
  },
}

const discardedAtRest: Law = {
  number: 'D9',
  sentence: 'a sandbox is discarded only when nothing runs in it',
  observe: (view, fail) => ({
    onSandboxDiscarded: ({ plan }, runId) => {
      for (const { runId: running, worker, leaseId } of view.executions)
        if (worker === plan.id && running === runId) fail(`run ${runId} still runs under ${leaseId}`)
    },
  }),
}

export const daemonLaws: readonly Law[] = [
  savedFirst,
  oneFrameANumber,
  trimmedAfterAck,
  onlyDroppableDropped,
  finishedIsKept,
  finishedIsClaimed,
  runningIsClaimed,
  interruptedIsReported,
  stopsInTime,
  lostLeasesStop,
  acceptedInTime,
  noNeedlessResend,
  reportedIsApplied,
  endsForCause,
  discardedAtRest,
]

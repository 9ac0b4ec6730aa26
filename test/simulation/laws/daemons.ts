/**
 * Laws about the product's daemon: what it puts on its disk before it speaks, what it keeps until the host has it, when
 * it stops, and for what reasons it ends.
 */
import type { HostFrame, WorkerFrame } from '../../../protocol/frames.ts'
import type { Batch, Disk } from '../disk.ts'
import type { Wire } from '../network.ts'
import { isDroppable } from '../outbox.ts'
import type { DaemonExecution, SimWorker } from '../worker.ts'
import { frameOn, framesIn, recordsOn } from '../worker-disk.ts'
import { isOnDisk, type Report, wordOf } from './applied.ts'
import type { Law, Sight, Watch } from './law.ts'

/** Rounding of clocks, and of times in frames. */
const LATE_MS = 10

/** What the host has told each worker of its leases. */
class Hearsay {
  readonly watch: Watch
  readonly #acked = new Map<string, number>()
  readonly #released = new Set<string>()
  readonly #lostAt = new Map<string, number>()
  /** By worker and run, the latest lease for it. */
  readonly #offered = new Map<string, string>()
  readonly #banished = new Set<string>()

  constructor(now: () => number) {
    this.watch = { workerHears: ({ worker }, frame) => this.#hear(worker, frame, now()) }
  }

  acked(worker: string, leaseId: string): number {
    return this.#acked.get(`${worker} ${leaseId}`) ?? 0
  }

  /** Completed and acknowledged, or lost: nobody has to keep anything of it. */
  isReleased(worker: string, leaseId: string): boolean {
    return this.#released.has(`${worker} ${leaseId}`) || this.lostAt(worker, leaseId) !== undefined
  }

  lostAt(worker: string, leaseId: string): number | undefined {
    return this.#lostAt.get(`${worker} ${leaseId}`)
  }

  /** A newer lease of the same run has come to this machine. */
  isSuperseded(worker: string, runId: string, leaseId: string): boolean {
    const latest = this.#offered.get(`${worker} ${runId}`)
    return latest !== undefined && latest !== leaseId
  }

  /** Its enrollment is over, or another uses it. */
  isBanished(worker: string): boolean {
    return this.#banished.has(worker)
  }

  #hear(worker: string, frame: HostFrame, now: number): void {
    if (frame.type === 'lease-ack')
      for (const { leaseId, seq } of frame.leases)
        this.#acked.set(`${worker} ${leaseId}`, Math.max(seq, this.acked(worker, leaseId)))
    if (frame.type === 'run-complete-ack') this.#released.add(`${worker} ${frame.leaseId}`)
    if (frame.type === 'lease-lost' && this.lostAt(worker, frame.leaseId) === undefined)
      this.#lostAt.set(`${worker} ${frame.leaseId}`, now)
    if (frame.type === 'dispatch') this.#offered.set(`${worker} ${frame.lease.runId}`, frame.lease.id)
    if (frame.type === 'revoked' || frame.type === 'rejected') this.#banished.add(worker)
  }
}

const savedFirst: Law = {
  number: 'D1',
  sentence: 'a daemon says only what is on its disk: reports, gaps, acceptances',
  watch: (sight, broken) => ({
    workerSends: ({ plan }, _wire, frame, text) => {
      const spool = sight.spoolOf(plan.id)
      if (spool === undefined || !('leaseId' in frame) || frame.leaseId === undefined) return
      const { leaseId } = frame
      if (frame.type === 'dispatch-accepted' && spool.life('execution', leaseId) === undefined)
        broken(`${leaseId} is accepted, and no record of it is on disk`)
      for (const seq of frame.type === 'lease-gap' ? numbersOf(frame) : [])
        if (!isNamedLost(spool, leaseId, seq))
          broken(`${seq} of ${leaseId} is named as lost, and is not on disk`, { frame })
      if (!('seq' in frame) || frame.seq === undefined) return
      const saved = frameOn(spool, leaseId, frame.seq)
      if (saved === undefined || saved.as === 'gap' || saved.text !== text)
        broken(`${frame.type} ${frame.seq} of ${leaseId} is sent and not on disk`, { saved })
    },
  }),
}

const oneFrameANumber: Law = {
  number: 'D2',
  sentence: 'a number never stands for two frames',
  watch: (sight, broken) => {
    const texts = new Map<string, string>()
    return {
      spooling: (_worker, { changes }) => {
        for (const { key, leaseId, seq, spooled } of framesIn(changes)) {
          if (spooled === null || spooled.as === 'gap') continue
          const before = texts.get(key)
          if (before !== undefined && before !== spooled.text)
            broken(`${seq} of ${leaseId} was another frame before`, { before, now: spooled.text })
          if (before === undefined && sight.stamped(leaseId, seq) !== undefined)
            broken(`${seq} of ${leaseId} was named as lost before`, { now: spooled.text })
          texts.set(key, spooled.text)
        }
      },
    }
  },
}

const trimmedAfterAck: Law = {
  number: '14',
  sentence: "a worker trims a frame only after an acknowledgement of it or the completion's",
  watch: (sight, broken) => {
    const hearsay = new Hearsay(() => sight.now())
    let gone: { readonly leaseId: string; readonly seq: number }[] = []
    return {
      ...hearsay.watch,
      spooling: ({ plan }, { changes }) => {
        const spool = sight.spoolOf(plan.id)
        gone = framesIn(changes).filter(
          ({ spooled, leaseId, seq }) =>
            spooled === null && spool !== undefined && frameOn(spool, leaseId, seq) !== undefined,
        )
      },
      spooled: ({ plan }, batch) => {
        const spool = sight.spoolOf(plan.id)
        if (spool === undefined) return
        for (const { leaseId, acked } of ackedIn(batch))
          if (acked > hearsay.acked(plan.id, leaseId))
            broken(`${leaseId} counts as acknowledged up to ${acked}`, {
              heard: hearsay.acked(plan.id, leaseId),
            })
        for (const { leaseId, seq } of gone) {
          if (seq <= hearsay.acked(plan.id, leaseId) || hearsay.isReleased(plan.id, leaseId)) continue
          // Its whole lease is over: another law says when it may be.
          if (spool.life('execution', leaseId) === undefined || isNamedLost(spool, leaseId, seq)) continue
          broken(`${seq} of ${leaseId} leaves the disk`, { acked: hearsay.acked(plan.id, leaseId) })
        }
      },
    }
  },
}

function ackedIn({ changes }: Batch): { readonly leaseId: string; readonly acked: number }[] {
  return changes.flatMap((change) => {
    if (change.is !== 'key-value' || change.shelf !== 'outbox' || change.row === null) return []
    const { acked } = { acked: 0, ...change.row.value }
    return [{ leaseId: change.key, acked }]
  })
}

const numbersOf = ({ from, to }: { readonly from: number; readonly to: number }): number[] =>
  Array.from({ length: to - from + 1 }, (_, at) => from + at)

function isNamedLost(spool: Disk, leaseId: string, seq: number): boolean {
  for (const [key, { value }] of spool.facts.get('frame') ?? []) {
    if (!key.startsWith(`${leaseId}/`)) continue
    const { as, from } = { as: '', from: 0, ...value }
    if (as === 'gap' && from <= seq && seq <= Number(key.slice(leaseId.length + 1))) return true
  }
  return false
}

const onlyDroppableDropped: Law = {
  number: '9',
  sentence: 'what a daemon names as lost is droppable',
  watch: (sight, broken) => ({
    spooled: (_worker, { changes }) => {
      for (const { leaseId, seq, spooled } of framesIn(changes)) {
        if (spooled?.as !== 'gap') continue
        for (let lost = spooled.from; lost <= seq; lost++) {
          const type = sight.stamped(leaseId, lost)?.type ?? 'run-event'
          if (!isDroppable(type)) broken(`${type} ${lost} of ${leaseId} is given up`)
        }
      }
    },
  }),
}

const finishedIsKept: Law = {
  number: 'D3',
  sentence:
    'nothing finished is lost: a completion leaves the disk when the host has it, or its lease is over',
  watch: (sight, broken) => {
    const hearsay = new Hearsay(() => sight.now())
    let over: { readonly leaseId: string; readonly runId: string }[] = []
    return {
      ...hearsay.watch,
      spooling: ({ plan }, { changes }) => {
        const spool = sight.spoolOf(plan.id)
        const gone = new Set(
          changes.flatMap((change) =>
            change.is === 'snapshot' && change.kind === 'execution' && change.row === null
              ? [change.key]
              : [],
          ),
        )
        over =
          spool === undefined || gone.size === 0
            ? []
            : recordsOn(spool).filter(({ leaseId, isFinished }) => isFinished && gone.has(leaseId))
      },
      spooled: ({ plan }) => {
        for (const { leaseId, runId } of over) {
          if (hearsay.isReleased(plan.id, leaseId) || hearsay.isBanished(plan.id)) continue
          if (!hearsay.isSuperseded(plan.id, runId, leaseId)) broken(`the completion of ${leaseId} is gone`)
        }
      },
    }
  },
}

const finishedIsClaimed: Law = {
  number: 'D4',
  sentence: 'what is finished is claimed until the host has it',
  watch: (sight, broken) => {
    const hearsay = new Hearsay(() => sight.now())
    return {
      ...hearsay.watch,
      workerSends: ({ plan }, _wire, frame) => {
        const claims = claimsIn(frame)
        const spool = sight.spoolOf(plan.id)
        if (claims === undefined || spool === undefined) return
        for (const { leaseId, runId, isFinished } of recordsOn(spool)) {
          if (!isFinished || claims.has(leaseId) || hearsay.isReleased(plan.id, leaseId)) continue
          if (!hearsay.isSuperseded(plan.id, runId, leaseId)) broken(`${leaseId} is not claimed`)
        }
      },
    }
  },
}

function claimsIn(frame: WorkerFrame): Set<string> | undefined {
  if (frame.type === 'register') return new Set(frame.activeLeases.map(({ id }) => id))
  return frame.type === 'heartbeat' ? new Set(frame.leases.map(({ id }) => id)) : undefined
}

/** After a kill nobody waits longer for processes to go; then a daemon that ends takes them along. */
const DYING_MS = 10_000

const dyingIsClaimed: Law = {
  number: 'D11',
  sentence: 'what runs is claimed until it is gone, unless the host has ended its lease',
  watch: (sight, broken) => {
    const hearsay = new Hearsay(() => sight.now())
    const killedAt = new Map<string, number>()
    return {
      ...hearsay.watch,
      ordered: ({ leaseId }, { how }) => {
        if (how === 'kill' && !killedAt.has(leaseId)) killedAt.set(leaseId, sight.now())
      },
      workerSends: ({ plan }, _wire, frame) => {
        const claims = claimsIn(frame)
        if (claims === undefined || sight.hostile) return
        for (const { worker, leaseId, runId } of sight.executions) {
          if (worker !== plan.id || claims.has(leaseId) || hearsay.isReleased(worker, leaseId)) continue
          if (hearsay.isSuperseded(worker, runId, leaseId)) continue
          const dyingMs = sight.now() - (killedAt.get(leaseId) ?? sight.now())
          if (dyingMs < DYING_MS - LATE_MS * 10) broken(`${leaseId} runs and is not claimed`, { dyingMs })
        }
      },
    }
  },
}

/** What may happen to a lease behind its worker's back, so that its worker seems to deny it. */
const FORGERIES = new Set(['second socket', 'foreign claim'])

const interruptedIsReported: Law = {
  number: 'D5',
  sentence: 'interrupted runs are reported: claimed after the restart, and told as what they are',
  watch: (sight, broken) => {
    const hearsay = new Hearsay(() => sight.now())
    const interrupted = new Map<string, { readonly worker: string; readonly prUrl: string | undefined }>()
    const forged = new Set<string>()
    return {
      ...hearsay.watch,
      struck: ({ plan }, fault) => void (FORGERIES.has(fault) && forged.add(plan.id)),
      crashed: ({ plan }) => {
        const spool = sight.spoolOf(plan.id)
        for (const { leaseId, isUnderWay, prUrl } of spool === undefined ? [] : recordsOn(spool))
          if (isUnderWay) interrupted.set(leaseId, { worker: plan.id, prUrl })
      },
      spooling: (_worker, { changes }) => {
        for (const { leaseId, spooled } of framesIn(changes)) {
          const known = interrupted.get(leaseId)
          if (known === undefined || spooled?.as !== 'end') continue
          const { outcome } = JSON.parse(spooled.text) as Extract<WorkerFrame, { type: 'run-complete' }>
          if (outcome.status === 'failed' && known.prUrl !== undefined)
            broken(`${leaseId} had published, and is told as failed`, { outcome })
          if (outcome.status === 'failed' && outcome.error?.startsWith('interrupted') !== true)
            broken(`${leaseId} is not told as interrupted`, { outcome })
          if (outcome.status === 'completed' && known.prUrl === undefined)
            broken(`${leaseId} is told as completed`, { outcome })
        }
      },
      landed: ({ changes }) => {
        for (const change of changes) {
          if (change.is !== 'key-value' || change.shelf !== 'ended-lease' || change.row === null) continue
          const { how } = { how: '', ...change.row.value }
          const known = interrupted.get(change.key)
          if (how !== 'lost' || known === undefined || sight.hostile) continue
          if (forged.has(known.worker) || hearsay.isReleased(known.worker, change.key)) continue
          if (isHeld(sight, known.worker, change.key)) broken(`${change.key} was interrupted and not claimed`)
        }
      },
    }
  },
}

function isHeld(sight: Sight, worker: string, leaseId: string): boolean {
  const spool = sight.spoolOf(worker)
  const record = spool === undefined ? undefined : recordsOn(spool).find((one) => one.leaseId === leaseId)
  return record?.isFinished === true || record?.isUnderWay === true
}

const stopsInTime: Law = {
  number: 'D6',
  sentence: 'a worker stops by nine tenths of what remains, from the heartbeat that was answered',
  watch: (sight, broken) => {
    const killed = new WeakSet<DaemonExecution>()
    const isLate = ({ stopAt, process }: DaemonExecution) =>
      sight.now() > stopAt + LATE_MS && !sight.isDrowsy(process)
    const facts = ({ leaseId, worker, stopAt }: DaemonExecution) => ({ leaseId, worker, stopAt })
    return {
      ordered: (execution, { how }) => {
        if (how !== 'kill' || killed.has(execution)) return
        killed.add(execution)
        if (isLate(execution)) broken('it is stopped too late', facts(execution))
      },
      ticked: () => {
        for (const execution of sight.executions)
          if (isDaemons(execution) && !execution.killed && isLate(execution))
            broken('it goes on', facts(execution))
      },
    }
  },
}

const isDaemons = (execution: object): execution is DaemonExecution => 'killed' in execution

const deadAreStopped: Law = {
  number: '17',
  sentence: 'after `lease-lost` the worker stops, and no effect of a dead lease reaches a code host',
  watch: (sight, broken) => {
    const hearsay = new Hearsay(() => sight.now())
    const lostFor = ({ worker, leaseId }: DaemonExecution) =>
      sight.now() - (hearsay.lostAt(worker, leaseId) ?? sight.now())
    return {
      ...hearsay.watch,
      ticked: () => {
        for (const execution of sight.executions) {
          if (!isDaemons(execution) || execution.killed || sight.isDrowsy(execution.process)) continue
          if (lostFor(execution) > LATE_MS) broken(`${execution.leaseId} is lost and goes on`)
        }
      },
      published: ({ leaseId, runId, worker, stopAt, process }) => {
        if (hearsay.lostAt(worker, leaseId) !== undefined) broken(`${leaseId} was lost and publishes`)
        if (hearsay.isSuperseded(worker, runId, leaseId)) broken(`${leaseId} was superseded and publishes`)
        if (sight.isDrowsy(process)) return
        if (sight.now() > stopAt + LATE_MS) broken(`${leaseId} has run out and publishes`, { stopAt })
        if (sight.howEnded(leaseId) === 'expired') broken(`${leaseId} has expired and publishes`)
      },
    }
  },
}

const noStorms: Law = {
  number: 'D7',
  sentence: 'a frame is sent again only on a new line, or when the host repeats a number',
  watch: (sight, broken) => {
    const highest = new WeakMap<Wire, Map<string, number>>()
    const acks = new WeakMap<Wire, Map<string, { readonly seq: number; readonly isRepeated: boolean }>>()
    return {
      workerHears: (wire, frame) => {
        if (frame.type !== 'lease-ack') return
        const known = acks.get(wire) ?? new Map()
        acks.set(wire, known)
        for (const { leaseId, seq } of frame.leases)
          known.set(leaseId, { seq, isRepeated: known.get(leaseId)?.seq === seq })
      },
      workerSends: (_worker, wire, frame) => {
        if (!('leaseId' in frame) || frame.leaseId === undefined) return
        const seq = frame.type === 'lease-gap' ? frame.to : 'seq' in frame ? frame.seq : undefined
        if (seq === undefined) return
        const { leaseId } = frame
        const sent = highest.get(wire) ?? new Map<string, number>()
        highest.set(wire, sent)
        const last = sent.get(leaseId) ?? 0
        if (seq <= last && acks.get(wire)?.get(leaseId)?.isRepeated !== true && !sight.hostile)
          broken(`${frame.type} ${seq} of ${leaseId} is sent again`, {
            last,
            ack: acks.get(wire)?.get(leaseId),
          })
        sent.set(leaseId, Math.max(last, seq))
      },
    }
  },
}

const toldIsApplied: Law = {
  number: '5',
  sentence: 'what an execution has told and may not be dropped is there when its run is completed',
  watch: (sight, broken) => {
    const told = new Map<string, Report[]>()
    const crashed = new Set<string>()
    const unsteady = new Set<string>()
    const note = (worker: string) => {
      const spool = sight.spoolOf(worker)
      for (const { leaseId } of spool === undefined ? [] : recordsOn(spool)) crashed.add(leaseId)
    }
    return {
      told: ({ leaseId, remote }, what) => {
        const report = reportOf(leaseId, remote, what)
        if (!isDroppable(report.type)) told.set(leaseId, [...(told.get(leaseId) ?? []), report])
      },
      struck: ({ plan }, fault) => void (fault.startsWith('worker disk') && unsteady.add(plan.id)),
      crashed: ({ plan }) => note(plan.id),
      // In good order everything is put on disk, if that takes it.
      daemonEnds: ({ plan }) => unsteady.has(plan.id) && note(plan.id),
      landed: ({ changes }) => {
        for (const change of changes) {
          if (change.is !== 'key-value' || change.shelf !== 'ended-lease' || change.row === null) continue
          const { how, runId } = { how: '', runId: '', ...change.row.value }
          // What was told in the last moment before a crash was never on disk.
          if (how !== 'completed' || crashed.has(change.key)) continue
          for (const report of told.get(change.key) ?? [])
            if (!isOnDisk(sight, NOTHING_SEEN, runId, report))
              broken(`${report.type} (${wordOf(report)}) is not there at the completion`, { runId })
        }
      },
    }
  },
}

const NOTHING_SEEN: ReadonlySet<string> = new Set()

function reportOf(leaseId: string, repo: string, told: Parameters<NonNullable<Watch['told']>>[1]): Report {
  switch (told.is) {
    case 'patch':
      return { type: 'run-patch', leaseId, patch: told.patch }
    case 'event':
      return { type: 'run-event', leaseId, event: told.event }
    case 'memories':
      return { type: 'run-memories', leaseId, repo, facts: [...told.facts] }
    case 'usage':
      return { type: 'run-usage-snapshot', leaseId, snapshot: told.snapshot }
    case 'artifact': {
      const { name, part, final, data } = told
      return { type: 'run-artifact', leaseId, name, part, final, data }
    }
  }
}

/** What alone may end a daemon, by how it says that it has ended. */
const CAUSES: Readonly<Record<string, readonly string[]>> = {
  stopped: ['worker stop'],
  revoked: ['revoked'],
  unauthorized: ['rejected unauthorized'],
  'no-credential': ['rejected invalid-token', 'rejected expired-token'],
  replaced: ['second socket'],
  broken: ['worker disk broken'],
  protocol: [],
  malformed: [],
}

const endsForCause: Law = {
  number: 'D8',
  sentence: 'a daemon ends only when it is told to, or can not go on',
  watch: (sight, broken) => {
    const causes = new Map<string, Set<string>>()
    const add = (worker: string, cause: string) =>
      causes.set(worker, (causes.get(worker) ?? new Set()).add(cause))
    return {
      struck: ({ plan }, fault) => void add(plan.id, fault),
      workerHears: (wire, frame) => {
        if (frame.type === 'revoked') add(wire.worker, 'revoked')
        if (frame.type === 'rejected') add(wire.worker, `rejected ${frame.code}`)
      },
      daemonEnds: ({ plan }: SimWorker, { is, detail }) => {
        const known = causes.get(plan.id) ?? new Set<string>()
        if (!sight.hostile && CAUSES[is]?.some((cause) => known.has(cause)) !== true)
          broken(`${plan.id} ends: ${is} (${detail})`, { known: [...known] })
        // The disk stays broken for longer than one of its processes.
        causes.set(plan.id, new Set([...known].filter((cause) => cause === 'worker disk broken')))
      },
    }
  },
}

const discardedAtRest: Law = {
  number: 'D9',
  sentence: 'a sandbox is discarded only when nothing runs in it',
  watch: (sight, broken) => ({
    sandboxDiscarded: ({ plan }, runId) => {
      for (const { runId: running, worker, leaseId } of sight.executions)
        if (worker === plan.id && running === runId) broken(`run ${runId} still runs under ${leaseId}`)
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
  dyingIsClaimed,
  interruptedIsReported,
  stopsInTime,
  deadAreStopped,
  noStorms,
  toldIsApplied,
  endsForCause,
  discardedAtRest,
]

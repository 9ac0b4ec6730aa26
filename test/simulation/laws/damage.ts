/**
 * Law 36: what is damaged on the disk of a worker is named by the worker and in the logs of the runs; what is damaged on
 * the disk of the host is in the list of what needs a person, and stays as it is.
 */
import type { DiskChange } from '../sim-disk.ts'
import { isDamagedRun, type Law, type LawView } from './law.ts'

const damageIsNamed: Law = {
  number: '36',
  sentence: 'a worker names what is damaged on its disk before it registers',
  observe: (view, fail) => {
    const unnamed = new Map<string, Set<string>>()
    return {
      onRowsDamaged: ({ plan }, rows) => {
        const names = unnamed.get(plan.id) ?? new Set()
        unnamed.set(plan.id, names)
        for (const { collection, key } of rows) names.add(`${collection} ${key}`)
      },
      onLog: (text) => {
        if (unnamed.size === 0 || !text.includes('is damaged')) return
        for (const names of unnamed.values())
          for (const name of names) if (text.includes(`${name} is damaged`)) names.delete(name)
      },
      onWorkerSends: ({ plan }, _connection, { type }) => {
        const [name] = type === 'register' ? (unnamed.get(plan.id) ?? []) : []
        const isThere = name !== undefined && isStillDamaged(view, plan.id, name)
        if (isThere) fail(`${plan.id} says nothing about ${name}`)
      },
    }
  },
}

/** A commit that was in flight at the crash may have written the row again. */
function isStillDamaged(view: LawView, worker: string, name: string): boolean {
  const [collection = '', key = ''] = name.split(' ')
  return view.workerDiskOf(worker)?.isDamaged(collection, key) === true
}

const damageIsReported: Law = {
  number: '36',
  sentence: 'a worker tells the host which lost frames were damaged, and no others',
  observe: (view, fail) => {
    const acked = new Map<string, number>()
    return {
      onWorkerReceives: (_connection, frame) => {
        if (frame.type !== 'lease-ack') return
        for (const { leaseId, seq } of frame.leases)
          acked.set(leaseId, Math.max(seq, acked.get(leaseId) ?? 0))
      },
      onWorkerSends: (_worker, _connection, frame) => {
        if (frame.type !== 'lease-gap') return
        const { leaseId, from, to, damaged = false } = frame
        const isDamaged = numbersOf([from, to]).some((seq) => view.lostRows.hasFrame(leaseId, seq))
        // A host that knows less than before is told what it had acknowledged, whatever became of it.
        if (to <= (acked.get(leaseId) ?? 0)) return
        if (isDamaged !== damaged)
          fail(`${from} to ${to} of ${leaseId} ${damaged ? 'are not' : 'are'} damaged`, { frame })
      },
    }
  },
}

const WORDS = /reports? (\d+)(?: to (\d+))? of this run (?:is|are) damaged in the database of its worker/

const damageIsInTheLog: Law = {
  number: '36',
  sentence: 'the log of a run names the reports that were damaged before the host had them',
  observe: (view, fail) => {
    let unnamed: string[] = []
    /** By lease: what its worker called dropped, before the row that said so was damaged. */
    const dropped = new Map<string, Ranges>()
    return {
      // This host does not know the frames that the earlier one had not stored.
      onHostStarting: () => dropped.clear(),
      onHostReceives: (_connection, frame) => {
        if (frame?.type !== 'lease-gap' || frame.damaged === true) return
        const { leaseId, from, to } = frame
        dropped.set(leaseId, [...(dropped.get(leaseId) ?? []), [from, to]])
      },
      onBeforeCommit: ({ changes }) => {
        if (view.lostRows.isEmpty) return
        unnamed = changes.flatMap((change) => {
          if (change.is !== 'key-value' || change.collection !== 'mark' || change.row === null) return []
          const { lost: before } = view.watermarkOf(change.key)
          const { lost } = { lost: [] as Ranges, ...change.row.value }
          const named = namedIn(changes, view.lease(change.key)?.runId ?? '')
          const known = [...before, ...named, ...(dropped.get(change.key) ?? [])]
          return lost
            .flatMap(numbersOf)
            .filter((seq) => view.lostRows.hasFrame(change.key, seq) && !isWithin(known, seq))
            .map((seq) => `${seq} of ${change.key}`)
        })
      },
      onCommitted: () => {
        if (unnamed.length > 0) fail(`the log does not name ${unnamed.join(', ')}`)
      },
    }
  },
}

type Ranges = readonly (readonly [number, number])[]

const numbersOf = ([from, to]: Ranges[number]): number[] =>
  Array.from({ length: to - from + 1 }, (_, at) => from + at)

const isWithin = (ranges: Ranges, seq: number): boolean =>
  ranges.some(([from, to]) => from <= seq && seq <= to)

/** The ranges that the events of a commit name as damaged. */
function namedIn(changes: readonly DiskChange[], runId: string): Ranges {
  return changes.flatMap((change) =>
    change.is === 'events' && change.key === runId
      ? change.lines.flatMap((line): [number, number][] => {
          const found = WORDS.exec(line)
          return found === null ? [] : [[Number(found[1]), Number(found[2] ?? found[1])]]
        })
      : [],
  )
}

/** The list of what needs a person takes as long as many steps of the simulation. */
const ASKED_EVERY_MS = 20_000
/** Rows whose earlier content can't be made again after damage. */
const SUMS: ReadonlySet<string> = new Set(['day-costs', 'memory'])

const damageOfHostIsNamed: Law = {
  number: '36',
  sentence: 'a host names what is damaged on its disk, and replaces no sum by a smaller one',
  observe: (view, fail) => {
    let askedAt = 0
    return {
      onTick: () => {
        if (view.hostDamage.isEmpty || view.now() - askedAt < ASKED_EVERY_MS) return
        askedAt = view.now()
        const unnamed = view.unnamedDamage() ?? []
        if (unnamed.length > 0) fail('the host says nothing about what is damaged', { unnamed })
      },
      onBeforeCommit: ({ changes }) => {
        for (const change of view.hostDamage.isEmpty ? [] : changes) {
          if (change.is !== 'key-value' || !SUMS.has(change.collection)) continue
          if (change.row !== null && view.disk.isDamaged(change.collection, change.key))
            fail(`the damaged ${change.collection} of ${change.key} begins again`, { now: change.row.value })
        }
      },
    }
  },
}

const unreadLeaseGoesOn: Law = {
  number: '3',
  sentence: 'a lease whose watermark is damaged goes on until its worker is there, or its time is over',
  observe: (view, fail) => {
    const seen = new Set<string>()
    return {
      onHostStarting: () => seen.clear(),
      onHostSends: (_connection, frame) => {
        if (frame.type === 'registered') seen.add(frame.workerId)
      },
      onCommitted: ({ changes }) => {
        for (const change of view.hostDamage.isEmpty ? [] : changes) {
          if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null)
            continue
          const { how, runId, workerId } = { how: '', runId: '', workerId: '', ...change.row.value }
          // A lease whose record is gone too has waited its whole term.
          const isGone = view.hostDamage.has('lease', change.key)
          const isJudged = view.hostDamage.has('mark', change.key) && !isGone && !isDamagedRun(view, runId)
          if (isJudged && how === 'lost' && !seen.has(workerId))
            fail(`${change.key} is lost, and ${workerId} may still execute ${runId}`)
        }
      },
    }
  },
}

export const damageLaws: readonly Law[] = [
  damageOfHostIsNamed,
  unreadLeaseGoesOn,
  damageIsNamed,
  damageIsReported,
  damageIsInTheLog,
]

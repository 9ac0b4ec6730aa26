/**
 * Laws about numbered frames: applied once, in order, none skipped, none acknowledged that is not on disk.
 *
 * Every frame of a simulated worker has a word of its own in what it reports, so what was applied can be read off the
 * disk: event lines, artifacts, memories, the usage archive, the run's record.
 */
import type { Batch } from '../disk.ts'
import type { Wire } from '../network.ts'
import { isDroppable } from '../outbox.ts'
import { isOnDisk, WORD } from './applied.ts'
import type { Law, Mark, Sight } from './law.ts'

const nameOf = (leaseId: string, seq: number): string => `${leaseId} ${seq}`

/** What the event logs show of each lease. */
interface Logged {
  readonly leaseId: string
  readonly word: string
  readonly runId: string
  /** NaN: nobody entitled to has said it. */
  readonly seq: number
}

function loggedIn(sight: Sight, { changes }: Batch): Logged[] {
  return changes.flatMap((change) => {
    if (change.is !== 'events') return []
    return change.lines.flatMap((line) => {
      const [, word = '', leaseId = ''] = WORD.exec(line) ?? []
      if (word === '') return []
      return [{ leaseId, word, runId: change.key, seq: sight.numberOf(word) ?? Number.NaN }]
    })
  })
}

/** A batch's effect on one lease's mark; `after` undefined: the lease is over. */
interface Move {
  readonly leaseId: string
  readonly before: Mark
  readonly after: Mark | undefined
}

function movesIn(sight: Sight, { changes }: Batch): Move[] {
  return changes.flatMap((change) => {
    if (change.is !== 'key-value' || change.shelf !== 'mark') return []
    const after = change.row === null ? undefined : { mark: 0, lost: [], ...change.row.value }
    return [{ leaseId: change.key, before: sight.markOf(change.key), after }]
  })
}

const isLost = ({ lost }: Mark, seq: number): boolean => lost.some(([from, to]) => from <= seq && seq <= to)

const marksAreTrue: Law = {
  number: '13',
  sentence: 'the mark is the largest number with every frame up to it applied or in a recorded gap',
  watch: (sight, broken) => {
    let moves: Move[] = []
    const runs = new Map<string, string>()
    const seen = new Set<string>()
    const highest = new Map<string, number>()
    return {
      landing: (batch) => {
        moves = movesIn(sight, batch)
        for (const { leaseId } of moves) {
          const runId = sight.lease(leaseId)?.runId
          if (runId !== undefined) runs.set(leaseId, runId)
        }
        for (const { leaseId, seq, word } of loggedIn(sight, batch)) {
          seen.add(word)
          highest.set(leaseId, Math.max(highest.get(leaseId) ?? 0, seq))
        }
      },
      landed: (batch) => {
        for (const { leaseId, before, after } of moves) {
          if (after === undefined) continue
          if (after.mark < before.mark) broken(`the mark of ${leaseId} falls`, { before, after })
          const runId = runs.get(leaseId) ?? sight.lease(leaseId)?.runId ?? ''
          for (let seq = before.mark + 1; seq <= after.mark; seq++) {
            const frame = sight.stamped(leaseId, seq)
            if (frame === undefined) broken(`nobody sent ${nameOf(leaseId, seq)}`, { before, after })
            if (isLost(after, seq) || frame === undefined) continue
            if (!isOnDisk(sight, seen, runId, frame))
              broken(`${frame.type} ${nameOf(leaseId, seq)} counts as applied and is not on disk`, {
                before,
                after,
              })
          }
        }
        for (const { leaseId, seq } of loggedIn(sight, batch)) {
          if (sight.lease(leaseId) !== undefined && seq > sight.markOf(leaseId).mark)
            broken(`${nameOf(leaseId, seq)} is applied beyond the mark`, { mark: sight.markOf(leaseId) })
        }
      },
    }
  },
}

const gapsAreHonest: Law = {
  number: '9',
  sentence: 'every earlier frame is applied or inside a recorded gap, and gaps hold only droppable frames',
  watch: (sight, broken) => {
    const announced = new Map<string, [number, number][]>()
    const judge = (leaseId: string, mark: Mark) => {
      for (const [from, to] of mark.lost) {
        for (let seq = from; seq <= to; seq++) {
          const type = sight.stamped(leaseId, seq)?.type ?? 'nothing'
          if (!isDroppable(type)) broken(`${type} ${nameOf(leaseId, seq)} is in a gap`, { mark })
          if (!announced.get(leaseId)?.some(([a, b]) => a <= seq && seq <= b))
            broken(`${nameOf(leaseId, seq)} is in a gap that its worker did not name`, { mark })
        }
      }
    }
    return {
      hostHears: (wire, frame) => {
        if (frame?.type !== 'lease-gap') return
        const mine = sight.lease(frame.leaseId)?.workerId === sight.registeredAs(wire)
        if (!mine) return
        const gaps = announced.get(frame.leaseId) ?? []
        announced.set(frame.leaseId, gaps)
        gaps.push([frame.from, frame.to])
      },
      landed: ({ changes }) => {
        for (const change of changes) {
          if (change.is !== 'key-value' || change.shelf !== 'mark' || change.row === null) continue
          judge(change.key, { mark: 0, lost: [], ...change.row.value })
        }
      },
    }
  },
}

const completionIsLast: Law = {
  number: '5',
  sentence: 'a completed run has every never-droppable frame of its lease applied',
  watch: (sight, broken) => {
    let ended: { leaseId: string; runId: string; mark: Mark }[] = []
    const seen = new Set<string>()
    const gaps = new Map<string, [number, number][]>()
    return {
      hostHears: (wire, frame) => {
        if (frame?.type !== 'lease-gap') return
        if (sight.lease(frame.leaseId)?.workerId !== sight.registeredAs(wire)) return
        const known = gaps.get(frame.leaseId) ?? []
        gaps.set(frame.leaseId, known)
        known.push([frame.from, frame.to])
      },
      landing: (batch) => {
        for (const { word } of loggedIn(sight, batch)) seen.add(word)
        ended = batch.changes.flatMap((change) => {
          if (change.is !== 'key-value' || change.shelf !== 'ended-lease' || change.row === null) return []
          const { how, runId } = { how: '', runId: '', ...change.row.value }
          return how === 'completed' ? [{ leaseId: change.key, runId, mark: sight.markOf(change.key) }] : []
        })
      },
      landed: () => {
        for (const { leaseId, runId, mark } of ended) {
          for (let seq = 1; ; seq++) {
            const frame = sight.stamped(leaseId, seq)
            if (frame === undefined)
              broken(`${leaseId} was completed, and its worker never said so`, { mark })
            if (frame === undefined || frame.type === 'run-complete') break
            if (isOnDisk(sight, seen, runId, frame)) continue
            const named = gaps.get(leaseId)?.some(([from, to]) => from <= seq && seq <= to) === true
            if (!isDroppable(frame.type) || !named)
              broken(`${frame.type} ${nameOf(leaseId, seq)} is not there at the completion`, { runId, mark })
          }
        }
      },
    }
  },
}

const appliedOnce: Law = {
  number: '10',
  sentence: 'a frame is applied at most once; costs are the sum of distinct executions',
  watch: (sight, broken) => {
    const seen = new Map<string, number>()
    return {
      landed: (batch) => {
        for (const { leaseId, seq } of loggedIn(sight, batch)) {
          const last = seen.get(leaseId) ?? 0
          if (!(seq > last)) broken(`${nameOf(leaseId, seq)} is applied after ${last}`, { leaseId })
          seen.set(leaseId, seq)
        }
        for (const change of batch.changes) {
          if (change.is !== 'run' || change.row === null) continue
          // What people's sessions cost has a law of its own.
          const executed = change.row.value.costs.filter(({ label }) => !label.startsWith('attach '))
          const models = executed.map(({ model }) => model)
          if (new Set(models).size < models.length)
            broken(`run ${change.key} counts an execution twice`, { costs: change.row.value.costs })
        }
      },
    }
  },
}

const acksAreDurable: Law = {
  number: '12',
  sentence: 'an acknowledged number is on disk, and never falls',
  watch: (sight, broken) => {
    const told = new Map<string, number>()
    return {
      hostSends: (wire, frame) => {
        if (frame.type !== 'lease-ack') return
        for (const { leaseId, seq } of frame.leases) {
          const { mark } = sight.markOf(leaseId)
          if (seq > mark) broken(`${seq} of ${leaseId} is acknowledged, on disk is ${mark}`)
          if (seq < (told.get(leaseId) ?? 0))
            broken(`${leaseId} was acknowledged up to ${told.get(leaseId)}, now ${seq}`)
          told.set(leaseId, seq)
          const owner = sight.lease(leaseId)?.workerId
          if (owner !== undefined && owner !== sight.registeredAs(wire))
            broken(`${leaseId} of ${owner} is acknowledged to another`, { wire: wire.worker })
        }
      },
    }
  },
}

const trimmedAfterAck: Law = {
  number: '14',
  sentence: "a worker trims a frame only after an acknowledgement of it or the completion's",
  watch: (_sight, broken) => {
    const acked = new Map<string, number>()
    return {
      workerHears: (_wire, frame) => {
        if (frame.type !== 'lease-ack') return
        for (const { leaseId, seq } of frame.leases)
          acked.set(leaseId, Math.max(acked.get(leaseId) ?? 0, seq))
      },
      trimmed: (leaseId, upTo) => {
        if (upTo > (acked.get(leaseId) ?? 0)) broken(`${leaseId} was trimmed up to ${upTo}`)
      },
    }
  },
}

const completionAcked: Law = {
  number: '16',
  sentence: '`run-complete-ack` only when the completion is on disk',
  watch: (sight, broken) => ({
    hostSends: (_wire, frame) => {
      if (frame.type !== 'run-complete-ack') return
      const how = sight.howEnded(frame.leaseId)
      if (how !== 'completed') broken(`${frame.leaseId} is acknowledged, on disk it is ${how ?? 'not over'}`)
    },
  }),
}

const deadHaveNoEffect: Law = {
  number: '17',
  sentence: 'no frame of a dead lease, of a foreign worker or of a replaced connection has an effect',
  watch: (sight, broken) => {
    /** By lease: what its own worker, on its current connection, has delivered. */
    const delivered = new Map<string, Set<number>>()
    const gaps = new Map<string, [number, number][]>()
    const mine = (wire: Wire, leaseId: string) => {
      const workerId = sight.registeredAs(wire)
      return (
        workerId !== undefined &&
        sight.currentWire(workerId) === wire &&
        sight.lease(leaseId)?.workerId === workerId
      )
    }
    return {
      hostHears: (wire, frame) => {
        if (frame === undefined || !('leaseId' in frame) || frame.leaseId === undefined) return
        if (!mine(wire, frame.leaseId)) return
        if (frame.type === 'lease-gap') {
          const known = gaps.get(frame.leaseId) ?? []
          gaps.set(frame.leaseId, known)
          known.push([frame.from, frame.to])
        } else if ('seq' in frame && frame.seq !== undefined) {
          const known = delivered.get(frame.leaseId) ?? new Set()
          delivered.set(frame.leaseId, known.add(frame.seq))
        }
      },
      landing: (batch) => {
        for (const { leaseId, seq, runId } of loggedIn(sight, batch)) {
          if (Number.isNaN(seq)) broken(`a stolen word stands in the log of ${runId}`)
          if (sight.lease(leaseId) === undefined)
            broken(`${nameOf(leaseId, seq)} is applied, and its lease is over`, {
              how: sight.howEnded(leaseId),
            })
        }
        for (const { leaseId, before, after } of movesIn(sight, batch)) {
          for (let seq = before.mark + 1; seq <= (after?.mark ?? 0); seq++) {
            const came = delivered.get(leaseId)?.has(seq) === true
            const named = gaps.get(leaseId)?.some(([from, to]) => from <= seq && seq <= to) === true
            if (!came && !named)
              broken(`${nameOf(leaseId, seq)} counts, and nobody entitled to has delivered it`)
          }
        }
      },
      landed: ({ changes }) => {
        for (const change of changes) {
          if (change.is === 'run' && change.row?.text.includes(' stolen"') === true)
            broken(`a stolen word stands in the record of ${change.key}`)
        }
      },
    }
  },
}

const logsAreWhole: Law = {
  number: '22',
  sentence: 'the event log is the applied events in order, without a hole',
  watch: (sight, broken) => ({
    landing: ({ changes }) => {
      const next = new Map<string, number>()
      for (const change of changes) {
        if (change.is !== 'events') continue
        const first = next.get(change.key) ?? sight.disk.events.get(change.key)?.length ?? 0
        if (change.first !== first)
          broken(`events of ${change.key} begin at ${change.first}, not at ${first}`)
        if (change.count !== change.lines.length)
          broken(`${change.count} events of ${change.key} are ${change.lines.length} lines`)
        for (const [at, line] of change.lines.entries()) {
          const event: unknown = JSON.parse(line)
          const { index, runId } = { index: -1, runId: '', ...Object(event) }
          if (index !== first + at || runId !== change.key)
            broken(`event ${index} of ${runId} stands at ${first + at} of ${change.key}`)
        }
        next.set(change.key, first + change.lines.length)
      }
    },
  }),
}

export const frameLaws: readonly Law[] = [
  completionIsLast,
  gapsAreHonest,
  appliedOnce,
  acksAreDurable,
  marksAreTrue,
  trimmedAfterAck,
  completionAcked,
  deadHaveNoEffect,
  logsAreWhole,
]

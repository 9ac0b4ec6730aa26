/**
 * Laws about numbered frames: applied once, in order, without gaps, and never acknowledged before they are on disk.
 *
 * Every report of a simulated worker contains an id of its own. So the laws read from the disk which frames were
 * applied: from event lines, artifacts, memories, usage files and the run's record.
 */
import { isDroppable } from '../reference-outbox.ts'
import type { SimConnection } from '../sim-connection.ts'
import type { DiskBatch } from '../sim-disk.ts'
import { isOnDisk, REPORT_ID, type UnnumberedFrame } from './is-on-disk.ts'
import type { Law, LawView, WatermarkRecord } from './law.ts'

const frameName = (leaseId: string, seq: number): string => `${leaseId} ${seq}`

/** A report of an execution that appears in an event log. */
interface LoggedReport {
  readonly leaseId: string
  readonly reportId: string
  readonly runId: string
  /** NaN when no entitled worker sent the report. */
  readonly seq: number
}

function loggedReportsIn(view: LawView, { changes }: DiskBatch): LoggedReport[] {
  return changes.flatMap((change) => {
    if (change.is !== 'events') return []
    return change.lines.flatMap((line) => {
      const [, reportId = '', leaseId = ''] = REPORT_ID.exec(line) ?? []
      if (reportId === '') return []
      return [{ leaseId, reportId, runId: change.key, seq: view.seqOfReport(reportId) ?? Number.NaN }]
    })
  })
}

/** The change of one lease's watermark in a batch; `after` is undefined when the lease ended. */
interface WatermarkChange {
  readonly leaseId: string
  readonly before: WatermarkRecord
  readonly after: WatermarkRecord | undefined
}

function watermarkChangesIn(view: LawView, { changes }: DiskBatch): WatermarkChange[] {
  return changes.flatMap((change) => {
    if (change.is !== 'key-value' || change.collection !== 'mark') return []
    const after = change.row === null ? undefined : { mark: 0, lost: [], ...change.row.value }
    return [{ leaseId: change.key, before: view.watermarkOf(change.key), after }]
  })
}

const isRecordedLost = ({ lost }: WatermarkRecord, seq: number): boolean =>
  lost.some(([from, to]) => from <= seq && seq <= to)

/** Behind a flood a log has no room left, even for a line. Its end then says how much was left out. */
const mayBeLeftOut = (frame: UnnumberedFrame, mark: WatermarkRecord, before?: WatermarkRecord): boolean =>
  frame.type === 'run-event' &&
  frame.event.type === 'log' &&
  (mark.leftOutBytes ?? 0) > (before?.leftOutBytes ?? 0)

const watermarkIsTrue: Law = {
  number: '13',
  sentence: 'the watermark is the largest number with every frame up to it applied or in a recorded gap',
  observe: (view, fail) => {
    let moves: WatermarkChange[] = []
    const runs = new Map<string, string>()
    const seen = new Set<string>()
    const highest = new Map<string, number>()
    return {
      onBeforeCommit: (batch) => {
        moves = watermarkChangesIn(view, batch)
        for (const { leaseId } of moves) {
          const runId = view.lease(leaseId)?.runId
          if (runId !== undefined) runs.set(leaseId, runId)
        }
        for (const { leaseId, seq, reportId } of loggedReportsIn(view, batch)) {
          seen.add(reportId)
          highest.set(leaseId, Math.max(highest.get(leaseId) ?? 0, seq))
        }
      },
      onCommitted: (batch) => {
        for (const { leaseId, before, after } of moves) {
          if (after === undefined) continue
          if (after.mark < before.mark) fail(`the watermark of ${leaseId} decreases`, { before, after })
          const runId = runs.get(leaseId) ?? view.lease(leaseId)?.runId ?? ''
          for (let seq = before.mark + 1; seq <= after.mark; seq++) {
            const frame = view.frameOf(leaseId, seq)
            if (frame === undefined) fail(`no worker sent ${frameName(leaseId, seq)}`, { before, after })
            if (isRecordedLost(after, seq) || frame === undefined) continue
            if (mayBeLeftOut(frame, after, before)) continue
            if (!isOnDisk(view, seen, runId, frame))
              fail(`${frame.type} ${frameName(leaseId, seq)} counts as applied but is not on disk`, {
                before,
                after,
              })
          }
        }
        for (const { leaseId, seq } of loggedReportsIn(view, batch)) {
          if (view.lease(leaseId) !== undefined && seq > view.watermarkOf(leaseId).mark)
            fail(`${frameName(leaseId, seq)} is applied beyond the watermark`, {
              mark: view.watermarkOf(leaseId),
            })
        }
      },
    }
  },
}

const gapsAreAnnounced: Law = {
  number: '9',
  sentence: 'every earlier frame is applied or inside a recorded gap, and gaps hold only droppable frames',
  observe: (view, fail) => {
    const announced = new Map<string, [number, number][]>()
    const judge = (leaseId: string, mark: WatermarkRecord) => {
      for (const [from, to] of mark.lost) {
        for (let seq = from; seq <= to; seq++) {
          const type = view.frameOf(leaseId, seq)?.type ?? 'nothing'
          if (!isDroppable(type) && !view.lostRows.hasFrame(leaseId, seq))
            fail(`${type} ${frameName(leaseId, seq)} is in a gap`, { mark })
          if (!announced.get(leaseId)?.some(([a, b]) => a <= seq && seq <= b))
            fail(`${frameName(leaseId, seq)} is in a gap that its worker did not name`, { mark })
        }
      }
    }
    return {
      onHostReceives: (connection, frame) => {
        if (frame?.type !== 'lease-gap') return
        const isOwn = view.lease(frame.leaseId)?.workerId === view.registeredAs(connection)
        if (!isOwn) return
        const gaps = announced.get(frame.leaseId) ?? []
        announced.set(frame.leaseId, gaps)
        gaps.push([frame.from, frame.to])
      },
      onCommitted: ({ changes }) => {
        for (const change of changes) {
          if (change.is !== 'key-value' || change.collection !== 'mark' || change.row === null) continue
          judge(change.key, { mark: 0, lost: [], ...change.row.value })
        }
      },
    }
  },
}

const completionIsLast: Law = {
  number: '5',
  sentence: 'a completed run has every never-droppable frame of its lease applied',
  observe: (view, fail) => {
    let ended: { leaseId: string; runId: string; mark: WatermarkRecord }[] = []
    const seen = new Set<string>()
    const gaps = new Map<string, [number, number][]>()
    return {
      onHostReceives: (connection, frame) => {
        if (frame?.type !== 'lease-gap') return
        if (view.lease(frame.leaseId)?.workerId !== view.registeredAs(connection)) return
        const known = gaps.get(frame.leaseId) ?? []
        gaps.set(frame.leaseId, known)
        known.push([frame.from, frame.to])
      },
      onBeforeCommit: (batch) => {
        for (const { reportId } of loggedReportsIn(view, batch)) seen.add(reportId)
        ended = batch.changes.flatMap((change) => {
          if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null)
            return []
          const { how, runId } = { how: '', runId: '', ...change.row.value }
          return how === 'completed'
            ? [{ leaseId: change.key, runId, mark: view.watermarkOf(change.key) }]
            : []
        })
      },
      onCommitted: () => {
        for (const { leaseId, runId, mark } of ended) {
          for (let seq = 1; ; seq++) {
            const frame = view.frameOf(leaseId, seq)
            if (frame === undefined)
              fail(`${leaseId} was completed, but its worker never reported it`, { mark })
            if (frame === undefined || frame.type === 'run-complete') break
            if (isOnDisk(view, seen, runId, frame) || mayBeLeftOut(frame, mark)) continue
            const named = gaps.get(leaseId)?.some(([from, to]) => from <= seq && seq <= to) === true
            const isExempt = isDroppable(frame.type) || view.lostRows.hasFrame(leaseId, seq)
            if (!isExempt || !named)
              fail(`${frame.type} ${frameName(leaseId, seq)} is missing at the completion`, {
                runId,
                mark,
              })
          }
        }
      },
    }
  },
}

const appliedOnce: Law = {
  number: '10',
  sentence: 'a frame is applied at most once; costs are the sum of distinct executions',
  observe: (view, fail) => {
    const seen = new Map<string, number>()
    return {
      onCommitted: (batch) => {
        for (const { leaseId, seq } of loggedReportsIn(view, batch)) {
          const last = seen.get(leaseId) ?? 0
          if (!(seq > last)) fail(`${frameName(leaseId, seq)} is applied after ${last}`, { leaseId })
          seen.set(leaseId, seq)
        }
        for (const change of batch.changes) {
          if (change.is !== 'run' || change.row === null) continue
          // Another law checks the costs of people's terminal sessions.
          const executed = change.row.value.costs.filter(({ label }) => !label.startsWith('attach '))
          const models = executed.map(({ model }) => model)
          if (new Set(models).size < models.length)
            fail(`run ${change.key} counts an execution twice`, { costs: change.row.value.costs })
        }
      },
    }
  },
}

const acknowledgedIsDurable: Law = {
  number: '12',
  sentence: 'an acknowledged number is on disk and never decreases',
  observe: (view, fail) => {
    const lastAcked = new Map<string, number>()
    return {
      onHostSends: (connection, frame) => {
        if (frame.type !== 'lease-ack') return
        for (const { leaseId, seq } of frame.leases) {
          const { mark } = view.watermarkOf(leaseId)
          if (seq > mark) fail(`${seq} of ${leaseId} is acknowledged, but the disk has ${mark}`)
          if (seq < (lastAcked.get(leaseId) ?? 0))
            fail(`${leaseId} was acknowledged up to ${lastAcked.get(leaseId)}, now ${seq}`)
          lastAcked.set(leaseId, seq)
          const owner = view.lease(leaseId)?.workerId
          if (owner !== undefined && owner !== view.registeredAs(connection))
            fail(`${leaseId} of ${owner} is acknowledged to another worker`, {
              connection: connection.worker,
            })
        }
      },
    }
  },
}

const trimmedAfterAcknowledgement: Law = {
  number: '14',
  sentence: "a worker trims a frame only after an acknowledgement of it or the completion's",
  observe: (_sight, fail) => {
    const acked = new Map<string, number>()
    return {
      onWorkerReceives: (_connection, frame) => {
        if (frame.type !== 'lease-ack') return
        for (const { leaseId, seq } of frame.leases)
          acked.set(leaseId, Math.max(acked.get(leaseId) ?? 0, seq))
      },
      onOutboxTrimmed: (leaseId, upTo) => {
        if (upTo > (acked.get(leaseId) ?? 0)) fail(`${leaseId} was trimmed up to ${upTo}`)
      },
    }
  },
}

const completionAckIsDurable: Law = {
  number: '16',
  sentence: '`run-complete-ack` only when the completion is on disk',
  observe: (view, fail) => ({
    onHostSends: (_connection, frame) => {
      if (frame.type !== 'run-complete-ack') return
      const how = view.howEnded(frame.leaseId)
      if (how !== 'completed') fail(`${frame.leaseId} is acknowledged, on disk it is ${how ?? 'not over'}`)
    },
  }),
}

const completedIsNeverLost: Law = {
  number: '16',
  sentence: 'a late frame of a completed lease is never answered with `lease-lost`',
  observe: (view, fail) => ({
    onHostSends: (connection, frame) => {
      if (frame.type !== 'lease-lost' || view.howEnded(frame.leaseId) !== 'completed') return
      // With a damaged record of the end no host knows the lease. The worker reports its costs once more.
      if (!view.hostDamage.has('ended-lease', frame.leaseId))
        fail(`${frame.leaseId} is completed, but ${connection.worker} receives that it is lost`)
    },
  }),
}

const endedLeasesHaveNoEffect: Law = {
  number: '17',
  sentence: 'no frame of an ended lease, of a foreign worker or of a replaced connection has an effect',
  observe: (view, fail) => {
    /** By lease: the numbers that its own worker delivered on its current connection. */
    const delivered = new Map<string, Set<number>>()
    const gaps = new Map<string, [number, number][]>()
    const isOwn = (connection: SimConnection, leaseId: string) => {
      const workerId = view.registeredAs(connection)
      return (
        workerId !== undefined &&
        view.currentConnection(workerId) === connection &&
        view.lease(leaseId)?.workerId === workerId
      )
    }
    return {
      onHostReceives: (connection, frame) => {
        if (frame === undefined || !('leaseId' in frame) || frame.leaseId === undefined) return
        if (!isOwn(connection, frame.leaseId)) return
        if (frame.type === 'lease-gap') {
          const known = gaps.get(frame.leaseId) ?? []
          gaps.set(frame.leaseId, known)
          known.push([frame.from, frame.to])
        } else if ('seq' in frame && frame.seq !== undefined) {
          const known = delivered.get(frame.leaseId) ?? new Set()
          delivered.set(frame.leaseId, known.add(frame.seq))
        }
      },
      onBeforeCommit: (batch) => {
        for (const { leaseId, seq, runId } of loggedReportsIn(view, batch)) {
          if (Number.isNaN(seq)) fail(`the log of ${runId} holds a foreign worker’s report`)
          if (view.lease(leaseId) === undefined)
            fail(`${frameName(leaseId, seq)} is applied after its lease ended`, {
              how: view.howEnded(leaseId),
            })
        }
        for (const { leaseId, before, after } of watermarkChangesIn(view, batch)) {
          for (let seq = before.mark + 1; seq <= (after?.mark ?? 0); seq++) {
            const came = delivered.get(leaseId)?.has(seq) === true
            const named = gaps.get(leaseId)?.some(([from, to]) => from <= seq && seq <= to) === true
            if (!came && !named)
              fail(`${frameName(leaseId, seq)} counts, but no entitled worker delivered it`)
          }
        }
      },
      onCommitted: ({ changes }) => {
        for (const change of changes) {
          if (change.is === 'run' && change.row?.text.includes(' stolen"') === true)
            fail(`the record of ${change.key} holds a foreign worker’s report`)
        }
      },
    }
  },
}

const logsHaveNoHoles: Law = {
  number: '22',
  sentence: 'the event log holds the applied events in order, without gaps',
  observe: (view, fail) => ({
    onBeforeCommit: ({ changes }) => {
      const next = new Map<string, number>()
      for (const change of changes) {
        if (change.is !== 'events') continue
        const first = next.get(change.key) ?? view.disk.events.get(change.key)?.length ?? 0
        if (change.first !== first) fail(`events of ${change.key} begin at ${change.first}, not at ${first}`)
        if (change.count !== change.lines.length)
          fail(`${change.count} events of ${change.key} are ${change.lines.length} lines`)
        for (const [at, line] of change.lines.entries()) {
          const event: unknown = JSON.parse(line)
          const { index, runId } = { index: -1, runId: '', ...Object(event) }
          if (index !== first + at || runId !== change.key)
            fail(`event ${index} of ${runId} is at position ${first + at} of ${change.key}`)
        }
        next.set(change.key, first + change.lines.length)
      }
    },
  }),
}

export const frameLaws: readonly Law[] = [
  completionIsLast,
  gapsAreAnnounced,
  appliedOnce,
  acknowledgedIsDurable,
  watermarkIsTrue,
  trimmedAfterAcknowledgement,
  completionAckIsDurable,
  completedIsNeverLost,
  endedLeasesHaveNoEffect,
  logsHaveNoHoles,
]

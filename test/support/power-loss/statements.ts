/** Statements are what a host and a worker had sent over TCP before an entry of a recording. */

import type { CostEntry } from '../../../protocol/cost.ts'
import type { DashboardFrame } from '../../../protocol/dashboard.ts'
import type {
  HostFrame,
  HostFrameOf,
  JobFollowUp,
  WorkerFrame,
  WorkerFrameOf,
} from '../../../protocol/frames.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { Run, type RunEvent } from '../../../protocol/run.ts'
import type { Entry } from './recorded-disk.ts'

const SENT = '>'
const HEAD_END = '\r\n\r\n'
const TEXT_FRAME = 1
const RUN_ANSWER = /^HTTP\/1\.1 200 .*?\r\n\r\n(\{"id":"run-.*)$/s
const checkRun = createChecker(Run)
const RUN_ID = /run-[0-9a-f]{32}/g
/** The names of settings that the recording patches: every mention of one says that it is there. */
const PATCHED = /patched-\d+/g

export class Statements {
  /** Runs as the host showed them last. */
  readonly runs = new Map<string, Run>()
  /** Runs that the host named. */
  readonly runIds = new Set<string>()
  readonly events: RunEvent[] = []
  readonly patched = new Set<string>()
  /** By run: the end that a follow-up had taken back when the host showed the run last. */
  readonly earlierEnds = new Map<string, string>()
  readonly runOfLease = new Map<string, string>()
  /** By lease: the follow-up that it executes. */
  readonly followUps = new Map<string, JobFollowUp>()
  /** By lease: the highest number that the host acknowledged. */
  readonly acknowledged = new Map<string, number>()
  /** By lease: frames that the worker has sent, each once and by number. */
  readonly reported = new Map<string, Map<number, WorkerFrame & { readonly seq: number }>>()
  /** By lease: the costs that the worker has sent behind the lease's end. */
  readonly settlements = new Map<string, readonly CostEntry[]>()
  /** By lease: the usage of these costs. */
  readonly settledUsage = new Map<string, WorkerFrameOf<'run-usage-snapshot'>>()
  /** Leases whose settlement the host acknowledged. */
  readonly settled = new Set<string>()
  isEnrolled = false

  constructor(entries: readonly Entry[], before: number) {
    for (const { text } of textsIn(entries.slice(0, before))) this.#read(text)
  }

  /** The leases of a run in their order. */
  leasesOf(runId: string): string[] {
    return [...this.runOfLease].flatMap(([leaseId, id]) => (id === runId ? [leaseId] : []))
  }

  /** The end of an execution as the worker has reported it. */
  completionOf(leaseId: string): WorkerFrameOf<'run-complete'> | undefined {
    const frames = [...(this.reported.get(leaseId)?.values() ?? [])]
    return frames.find((frame) => frame.type === 'run-complete')
  }

  #read(text: string): void {
    for (const [name] of text.matchAll(PATCHED)) this.patched.add(name)
    for (const [id] of text.matchAll(RUN_ID)) this.runIds.add(id)
    const answered = runIn(text)
    if (answered !== undefined) this.#show(answered)
    if (!text.startsWith('{')) return
    const frame = JSON.parse(text) as HostFrame | WorkerFrame | DashboardFrame
    if (frame.type === 'registered') this.isEnrolled = true
    if (frame.type === 'dispatch') this.#dispatch(frame)
    if (frame.type === 'lease-costs') this.settlements.set(frame.leaseId, frame.costs)
    if (frame.type === 'lease-costs-ack') this.settled.add(frame.leaseId)
    if (frame.type === 'run-usage-snapshot' && frame.endedLeaseId !== undefined)
      this.settledUsage.set(frame.endedLeaseId, frame)
    if (frame.type === 'lease-ack')
      for (const { leaseId, seq } of frame.leases) this.#acknowledge(leaseId, seq)
    if (frame.type === 'run-complete-ack') this.#acknowledge(frame.leaseId, Number.POSITIVE_INFINITY)
    if (frame.type === 'hello') for (const run of frame.runs) this.#show(run)
    if (frame.type === 'run-updated') this.#show(frame.run)
    if (frame.type === 'run-event' && !('leaseId' in frame)) this.events.push(frame.event)
    if ('leaseId' in frame && 'seq' in frame) this.#report(frame as WorkerFrame)
  }

  #show(run: Run): void {
    const before = this.runs.get(run.id)?.finishedAt
    if (before !== undefined && run.finishedAt === undefined) this.earlierEnds.set(run.id, before)
    this.runs.set(run.id, run)
  }

  #dispatch({ lease, job }: HostFrameOf<'dispatch'>): void {
    this.runOfLease.set(lease.id, lease.runId)
    if (job.followUp !== undefined) this.followUps.set(lease.id, job.followUp)
  }

  #acknowledge(leaseId: string, seq: number): void {
    this.acknowledged.set(leaseId, Math.max(seq, this.acknowledged.get(leaseId) ?? 0))
  }

  #report(frame: WorkerFrame): void {
    if (!('seq' in frame) || frame.seq === undefined || frame.leaseId === undefined) return
    const frames = this.reported.get(frame.leaseId) ?? new Map()
    frames.set(frame.seq, frame)
    this.reported.set(frame.leaseId, frames)
  }
}

/** A text and the entry that ends it. */
export interface SentText {
  readonly at: number
  readonly text: string
}

export function textsIn(entries: readonly Entry[]): SentText[] {
  const connections = new Map<number, Connection>()
  return entries.flatMap(({ kind, inode, data }, at) => {
    if (kind !== SENT) return []
    const connection = connections.get(inode) ?? new Connection()
    connections.set(inode, connection)
    return connection.read(data).map((text) => ({ at, text }))
  })
}

/** Returns the run with which the host answers a request; undefined for any other text. */
export function runIn(text: string): Run | undefined {
  const [, body] = RUN_ANSWER.exec(text) ?? []
  const checked = body === undefined ? undefined : checkRun(JSON.parse(body))
  return checked?.ok === true ? checked.value : undefined
}

/** One direction of a connection: HTTP, and behind an upgrade the frames of a WebSocket. */
class Connection {
  #rest = Buffer.alloc(0)
  #is: 'new' | 'http' | 'socket' = 'new'

  /** Returns texts of HTTP as they are sent, and each whole frame. */
  read(data: Buffer): string[] {
    if (this.#is === 'http') return [data.toString()]
    this.#rest = Buffer.concat([this.#rest, data])
    if (this.#is === 'new') {
      const end = this.#rest.indexOf(HEAD_END)
      if (end < 0) return []
      this.#is = /^upgrade: *websocket/im.test(this.#rest.toString('latin1', 0, end)) ? 'socket' : 'http'
      if (this.#is === 'http') return [this.#rest.toString()]
      this.#rest = this.#rest.subarray(end + HEAD_END.length)
    }
    const texts: string[] = []
    for (let frame = this.#take(); frame !== undefined; frame = this.#take())
      if (frame.kind === TEXT_FRAME) texts.push(frame.text)
    return texts
  }

  #take(): { readonly kind: number; readonly text: string } | undefined {
    const bytes = this.#rest
    if (bytes.length < 2) return undefined
    const [first = 0, second = 0] = bytes
    // Neither side splits its frames or compresses them.
    if ((first & 0xf0) !== 0x80) throw new Error('a frame is split or compressed')
    const short = second & 0x7f
    const start = 2 + (short === 126 ? 2 : short === 127 ? 8 : 0)
    const isMasked = second > 0x7f
    const from = start + (isMasked ? 4 : 0)
    if (bytes.length < from) return undefined
    const length =
      short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short
    if (bytes.length < from + length) return undefined
    const payload = Buffer.from(bytes.subarray(from, from + length))
    if (isMasked)
      for (let i = 0; i < length; i++) payload[i] = (payload[i] ?? 0) ^ (bytes[start + (i % 4)] ?? 0)
    this.#rest = bytes.subarray(from + length)
    return { kind: first & 0x0f, text: payload.toString() }
  }
}

/**
 * A bare server that receives reporting frames. Arguments: a folder; `sink` or `ladder`.
 *
 * `sink` counts and acknowledges frames. `ladder` does the necessary work: it parses and validates, drops repeated
 * frames, appends to one journal, and syncs it before it acknowledges and publishes to dashboards. Frames that
 * arrive during a sync share the next one. Prints its port.
 */
import { closeSync, fdatasync, openSync, write } from 'node:fs'
import { join } from 'node:path'
import { Compile } from 'typebox/compile'
import { type WorkerFrame, type WorkerFrameOf, workerFrames } from '../../protocol/frames.ts'
import { type BareWorker, createBareServer, decodeText, listen } from './bare-server.ts'
import { WATCH_PATH } from './dashboard-protocol.ts'
import { dispatchFrame, leaseIdOf } from './dispatch-frame.ts'
import { ACK_FRAMES, EVENT_FRAME_BYTES } from './worker-load-protocol.ts'

interface ReportingLease {
  readonly id: string
  readonly runId: string
  readonly worker: BareWorker
  mark: number
  durable: number
  sentAckSeq: number
}

const [folder = '', mode] = process.argv.slice(2)
const leases = new Map<BareWorker, ReportingLease>()
const checkEvent = Compile(workerFrames['run-event'])
const journal = openSync(join(folder, 'journal.jsonl'), 'a')
let next = 0
let lines: string[] = []
let completions: (() => void)[] = []
let isSyncing = false
let isScheduled = false

const app = createBareServer({
  onRegister: (worker, { activeLeases }) => {
    const [claimed] = activeLeases
    const known = [...leases.values()].find(({ id }) => id === claimed?.id)
    if (known === undefined) grant(worker)
    else {
      leases.delete(known.worker)
      leases.set(worker, { ...known, worker })
    }
  },
  onFrame: mode === 'sink' ? countFrame : handleFrame,
})
app.ws(WATCH_PATH, {
  maxBackpressure: 64 * 1024 * 1024,
  open: (socket) => {
    socket.send('{"type":"hello"}')
    socket.subscribe('all')
  },
})
listen(app)
process.on('exit', () => closeSync(journal))

function grant(worker: BareWorker): void {
  const at = next++
  const lease = { id: leaseIdOf(at), runId: `run-${at}`, worker, mark: 0, durable: 0, sentAckSeq: 0 }
  leases.set(worker, lease)
  worker.socket.send(dispatchFrame(lease.id, lease.runId))
}

function sendAck(lease: ReportingLease): void {
  lease.sentAckSeq = lease.durable
  const ack = {
    leaseId: lease.id,
    seq: lease.durable,
    expiresAt: '2026-01-31T12:00:00.000Z',
    remainingMs: 165_000,
  }
  lease.worker.socket.send(JSON.stringify({ type: 'lease-ack', leases: [ack] }))
}

function completeLease(lease: ReportingLease): void {
  lease.worker.socket.send(`{"type":"run-complete-ack","leaseId":"${lease.id}"}`)
  grant(lease.worker)
}

// ---- sink --------------------------------------------------------------------------------------------------------

function countFrame(worker: BareWorker, bytes: ArrayBuffer): void {
  const lease = leases.get(worker)
  if (lease === undefined) return
  if (bytes.byteLength === EVENT_FRAME_BYTES) {
    lease.durable += 1
    if (lease.durable - lease.sentAckSeq >= ACK_FRAMES) sendAck(lease)
    return
  }
  const frame = JSON.parse(decodeText(bytes)) as WorkerFrame
  if (frame.type === 'heartbeat') sendAck(lease)
  else if (frame.type === 'run-complete') completeLease(lease)
}

// ---- ladder ------------------------------------------------------------------------------------------------------

function handleFrame(worker: BareWorker, bytes: ArrayBuffer): void {
  const lease = leases.get(worker)
  if (lease === undefined) return
  const frame = JSON.parse(decodeText(bytes)) as WorkerFrame
  if (frame.type === 'run-event') applyEvent(lease, frame)
  else if (frame.type === 'heartbeat') sendAck(lease)
  else if (frame.type === 'run-complete') {
    lines.push(JSON.stringify(frame))
    completions.push(() => completeLease(lease))
    scheduleSync()
  }
}

function applyEvent(lease: ReportingLease, frame: WorkerFrameOf<'run-event'>): void {
  if (!checkEvent.Check(frame)) throw new Error('not an event')
  if (frame.seq !== lease.mark + 1) return
  lease.mark = frame.seq
  lines.push(JSON.stringify({ runId: lease.runId, index: frame.seq, ...frame.event }))
  scheduleSync()
}

function scheduleSync(): void {
  if (isScheduled || isSyncing) return
  isScheduled = true
  setImmediate(syncLines)
}

function syncLines(): void {
  isScheduled = false
  if (isSyncing || (lines.length === 0 && completions.length === 0)) return
  const [events, completed, marks] = [
    lines,
    completions,
    [...leases.values()].map((lease) => [lease, lease.mark] as const),
  ]
  lines = []
  completions = []
  isSyncing = true
  write(journal, `${events.join('\n')}\n`, (error) => {
    if (error !== null) throw error
    fdatasync(journal, (error) => {
      if (error !== null) throw error
      isSyncing = false
      for (const json of events) app.publish('all', `{"type":"run-event","event":${json}}`)
      for (const [lease, mark] of marks) {
        lease.durable = mark
        if (lease.durable - lease.sentAckSeq >= ACK_FRAMES) sendAck(lease)
      }
      for (const end of completed) end()
      scheduleSync()
    })
  })
}

/**
 * What taking in reporting frames costs without a product around it. Arguments: a folder; `sink` or `ladder`.
 *
 * `sink` counts frames and answers for them. `ladder` does what has to be done: parses, compares with the schema, drops
 * what it has had, appends to one journal, and syncs that before it acknowledges and publishes to whoever watches; what
 * arrives during a sync shares the next. Says its port.
 */
import { closeSync, fdatasync, openSync, write } from 'node:fs'
import { join } from 'node:path'
import { Compile } from 'typebox/compile'
import { type WorkerFrame, type WorkerFrameOf, workerFrames } from '../../protocol/frames.ts'
import { type BareWorker, bareDoor, dispatchText, leaseIdOf, listen, textOf } from './bare-server.ts'
import { WATCH_PATH } from './dashboard-protocol.ts'
import { ACK_FRAMES, EVENT_FRAME_BYTES } from './worker-load-protocol.ts'

interface Lease {
  readonly id: string
  readonly runId: string
  readonly worker: BareWorker
  mark: number
  durable: number
  told: number
}

const [folder = '', how] = process.argv.slice(2)
const leases = new Map<BareWorker, Lease>()
const checkEvent = Compile(workerFrames['run-event'])
const journal = openSync(join(folder, 'journal.jsonl'), 'a')
let next = 0
let lines: string[] = []
let endings: (() => void)[] = []
let syncing = false
let due = false

const app = bareDoor({
  joined: (worker, { activeLeases }) => {
    const [claimed] = activeLeases
    const known = [...leases.values()].find(({ id }) => id === claimed?.id)
    if (known === undefined) grant(worker)
    else {
      leases.delete(known.worker)
      leases.set(worker, { ...known, worker })
    }
  },
  heard: how === 'sink' ? count : take,
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
  const lease = { id: leaseIdOf(at), runId: `run-${at}`, worker, mark: 0, durable: 0, told: 0 }
  leases.set(worker, lease)
  worker.socket.send(dispatchText(lease.id, lease.runId))
}

function tell(lease: Lease): void {
  lease.told = lease.durable
  const standing = {
    leaseId: lease.id,
    seq: lease.durable,
    expiresAt: '2026-01-31T12:00:00.000Z',
    remainingMs: 165_000,
  }
  lease.worker.socket.send(JSON.stringify({ type: 'lease-ack', leases: [standing] }))
}

function finish(lease: Lease): void {
  lease.worker.socket.send(`{"type":"run-complete-ack","leaseId":"${lease.id}"}`)
  grant(lease.worker)
}

// ---- sink --------------------------------------------------------------------------------------------------------

function count(worker: BareWorker, bytes: ArrayBuffer): void {
  const lease = leases.get(worker)
  if (lease === undefined) return
  if (bytes.byteLength === EVENT_FRAME_BYTES) {
    lease.durable += 1
    if (lease.durable - lease.told >= ACK_FRAMES) tell(lease)
    return
  }
  const frame = JSON.parse(textOf(bytes)) as WorkerFrame
  if (frame.type === 'heartbeat') tell(lease)
  else if (frame.type === 'run-complete') finish(lease)
}

// ---- ladder ------------------------------------------------------------------------------------------------------

function take(worker: BareWorker, bytes: ArrayBuffer): void {
  const lease = leases.get(worker)
  if (lease === undefined) return
  const frame = JSON.parse(textOf(bytes)) as WorkerFrame
  if (frame.type === 'run-event') apply(lease, frame)
  else if (frame.type === 'heartbeat') tell(lease)
  else if (frame.type === 'run-complete') {
    lines.push(JSON.stringify(frame))
    endings.push(() => finish(lease))
    stir()
  }
}

function apply(lease: Lease, frame: WorkerFrameOf<'run-event'>): void {
  if (!checkEvent.Check(frame)) throw new Error('not an event')
  if (frame.seq !== lease.mark + 1) return
  lease.mark = frame.seq
  lines.push(JSON.stringify({ runId: lease.runId, index: frame.seq, ...frame.event }))
  stir()
}

function stir(): void {
  if (due || syncing) return
  due = true
  setImmediate(cut)
}

function cut(): void {
  due = false
  if (syncing || (lines.length === 0 && endings.length === 0)) return
  const [events, ended, marks] = [
    lines,
    endings,
    [...leases.values()].map((lease) => [lease, lease.mark] as const),
  ]
  lines = []
  endings = []
  syncing = true
  write(journal, `${events.join('\n')}\n`, (problem) => {
    if (problem !== null) throw problem
    fdatasync(journal, (problem) => {
      if (problem !== null) throw problem
      syncing = false
      for (const json of events) app.publish('all', `{"type":"run-event","event":${json}}`)
      for (const [lease, mark] of marks) {
        lease.durable = mark
        if (lease.durable - lease.told >= ACK_FRAMES) tell(lease)
      }
      for (const end of ended) end()
      stir()
    })
  })
}

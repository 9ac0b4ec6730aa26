/**
 * A host without actors whose queue is filled by requests: the durable steps of a run, by hand, on uWebSockets.js and
 * lmdb-js.
 *
 * A queued run is on disk before its request is answered, a lease before its dispatch is sent, and a completion before
 * it is acknowledged. Puts in the same turn of the event loop share a transaction. Nothing is validated. Argument: a
 * folder. Prints its port.
 */
import type { WorkerFrame, WorkerFrameOf } from '../../protocol/frames.ts'
import type { Run } from '../../protocol/run.ts'
import { type BareWorker, createBareServer, decodeText, listen } from './bare-server.ts'
import { dispatchFrame, leaseIdOf } from './dispatch-frame.ts'
import { groupCommit } from './group-commit.ts'
import { waitingRun } from './stored-runs.ts'

interface QueueLease {
  readonly run: Run
  readonly events: string[]
  mark: number
}

const table = groupCommit.ofRecords<object>(process.argv[2] ?? '')
const leases = new Map<string, QueueLease>()
/** Runs from `nextRun` on wait for a worker. */
let queue: Run[] = []
let nextRun = 0
const freeSlots: BareWorker[] = []
let runs = 0
let grants = 0

const app = createBareServer({
  onRegister: (worker) => {
    for (let slot = 0; slot < worker.slots; slot++) freeSlots.push(worker)
    grantLeases()
  },
  onFrame: (worker, bytes) => handleFrame(worker, JSON.parse(decodeText(bytes)) as WorkerFrame),
})

app.post('/api/tickets/:id/run', (response) => {
  let gone = false
  response.onAborted(() => {
    gone = true
  })
  const run = waitingRun(runs++)
  void table.put(`run/${run.id}`, run).then(() => {
    const text = JSON.stringify(run)
    if (!gone) response.cork(() => response.end(text))
  })
  queue.push(run)
  grantLeases()
})
listen(app)

function grantLeases(): void {
  while (nextRun < queue.length && freeSlots.length > 0) {
    grantLease(freeSlots.pop() as BareWorker, queue[nextRun++] as Run)
  }
  if (nextRun < queue.length) return
  queue = []
  nextRun = 0
}

function grantLease(worker: BareWorker, run: Run): void {
  const id = leaseIdOf(grants++)
  leases.set(id, { run, events: [], mark: 0 })
  const kept = { id, runId: run.id, workerId: 'wk-1', termMs: 165_000, grantedAt: run.createdAt }
  void table.put(`lease/${id}`, kept).then(() => worker.socket.send(dispatchFrame(id, run.id)))
}

function handleFrame(worker: BareWorker, frame: WorkerFrame): void {
  if (frame.type === 'heartbeat') return
  const lease = 'leaseId' in frame && frame.leaseId !== undefined ? leases.get(frame.leaseId) : undefined
  if (lease === undefined) throw new Error(`a frame without a known lease: ${frame.type}`)
  const { run, events } = lease
  if (frame.type === 'dispatch-accepted') void table.put(`run/${run.id}`, { ...run, status: 'preparing' })
  else if (frame.type === 'run-event' && frame.seq === lease.mark + 1) {
    lease.mark = frame.seq
    events.push(JSON.stringify({ runId: run.id, index: lease.mark, ...frame.event }))
  } else if (frame.type === 'run-complete') completeRun(worker, lease, frame)
}

function completeRun(worker: BareWorker, lease: QueueLease, frame: WorkerFrameOf<'run-complete'>): void {
  const { run, events } = lease
  const id = frame.leaseId
  leases.delete(id)
  if (events.length > 0) void table.put(`events/${run.id}`, { lines: `${events.join('\n')}\n` })
  void table.put(`run/${run.id}`, { ...run, ...frame.outcome })
  void table
    .remove(`lease/${id}`)
    .then(() => worker.socket.send(`{"type":"run-complete-ack","leaseId":"${id}"}`))
  freeSlots.push(worker)
  grantLeases()
}

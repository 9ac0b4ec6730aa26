/**
 * A host without actors: the same frames and durable steps, by hand, on uWebSockets.js and lmdb-js.
 *
 * A lease is on disk before its dispatch is sent, and a completion before it is acknowledged; puts in the same turn
 * of the event loop share a transaction. An accepted run is written without waiting. Frames are not validated, and
 * the queue never ends. Argument: a folder. Prints its port.
 */
import type { WorkerFrame } from '../../protocol/frames.ts'
import { type BareWorker, createBareServer, decodeText, listen } from './bare-server.ts'
import { dispatchFrame, leaseIdOf } from './dispatch-frame.ts'
import { groupCommit } from './group-commit.ts'
import { waitingRun } from './stored-runs.ts'

interface CycleLease {
  readonly id: string
  readonly runId: string
  readonly run: object
  readonly events: string[]
  mark: number
}

const table = groupCommit.ofRecords<object>(process.argv[2] ?? '')
const leases = new Map<string, CycleLease>()
let next = 0

listen(
  createBareServer({
    onRegister: (worker) => {
      for (let slot = 0; slot < worker.slots; slot++) grant(worker)
    },
    onFrame: (worker, bytes) => handleFrame(worker, JSON.parse(decodeText(bytes)) as WorkerFrame),
  }),
)

function grant(worker: BareWorker): void {
  const at = next++
  const run = waitingRun(at)
  const lease: CycleLease = { id: leaseIdOf(at), runId: run.id, run, events: [], mark: 0 }
  leases.set(lease.id, lease)
  const kept = {
    id: lease.id,
    runId: lease.runId,
    workerId: 'wk-1',
    termMs: 165_000,
    grantedAt: run.createdAt,
  }
  void table
    .put(`lease/${lease.id}`, kept)
    .then(() => worker.socket.send(dispatchFrame(lease.id, lease.runId)))
}

function handleFrame(worker: BareWorker, frame: WorkerFrame): void {
  if (frame.type === 'heartbeat') return
  const lease = 'leaseId' in frame && frame.leaseId !== undefined ? leases.get(frame.leaseId) : undefined
  if (lease === undefined) throw new Error(`a frame without a known lease: ${frame.type}`)
  if (frame.type === 'dispatch-accepted')
    void table.put(`run/${lease.runId}`, { ...lease.run, status: 'preparing' })
  else if (frame.type === 'run-event' && frame.seq === lease.mark + 1) {
    lease.mark = frame.seq
    lease.events.push(JSON.stringify({ runId: lease.runId, index: lease.mark, ...frame.event }))
  } else if (frame.type === 'run-complete') {
    leases.delete(lease.id)
    const { events, id, runId, run } = lease
    if (events.length > 0) void table.put(`events/${runId}`, { lines: `${events.join('\n')}\n` })
    void table.put(`run/${runId}`, { ...run, ...frame.outcome })
    void table
      .remove(`lease/${id}`)
      .then(() => worker.socket.send(`{"type":"run-complete-ack","leaseId":"${id}"}`))
    grant(worker)
  }
}

/**
 * The floor of a dispatch: a request arrives, one record is written to disk, a frame is sent on an open socket.
 *
 * The server looks up, decides and remembers nothing. The server also holds idle sockets to measure their memory. Argument:
 * a folder. Prints its port.
 */
import type { WorkerFrame } from '../../protocol/frames.ts'
import { type BareWorker, createBareServer, decodeText, listen } from './bare-server.ts'
import { dispatchFrame, leaseIdOf } from './dispatch-frame.ts'
import { groupCommit } from './group-commit.ts'

const table = groupCommit.ofRecords<object>(process.argv[2] ?? '')
let worker: BareWorker | undefined
let next = 0

const app = createBareServer({
  onRegister: (registered) => {
    worker = registered
  },
  onFrame: (sender, bytes) => {
    const frame = JSON.parse(decodeText(bytes)) as WorkerFrame
    if (frame.type === 'run-complete')
      sender.socket.send(`{"type":"run-complete-ack","leaseId":"${frame.leaseId}"}`)
    else if (frame.type === 'heartbeat')
      sender.socket.send(`{"type":"heartbeat-ack","state":"active","echo":${frame.sentAt}}`)
  },
})

app.post('/api/tickets/:id/run', (response) => {
  let gone = false
  response.onAborted(() => {
    gone = true
  })
  const id = leaseIdOf(next++)
  const runId = `run-${id}`
  void table.put(id, { id, runId, workerId: 'wk-1', termMs: 165_000 }).then(() => {
    worker?.socket.send(dispatchFrame(id, runId))
    if (!gone) response.cork(() => response.writeStatus('202 Accepted').end('{}'))
  })
})
listen(app)

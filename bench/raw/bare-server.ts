/**
 * The common part of all bare servers of the worker benches: uWebSockets.js, `register` without checks, and
 * dispatches.
 *
 * The servers speak the product's frames with the same number of bytes and check nothing.
 */
import uWS, { type TemplatedApp, type WebSocket } from 'uWebSockets.js'
import type { HostFrameOf, WorkerFrameOf } from '../../protocol/frames.ts'
import { WORKER_PATH } from './worker-load-protocol.ts'

export interface BareWorker {
  readonly socket: WebSocket<{ worker?: BareWorker }>
  readonly slots: number
}

export interface BareServerHandlers {
  onRegister(worker: BareWorker, frame: WorkerFrameOf<'register'>): void
  onFrame(worker: BareWorker, bytes: ArrayBuffer): void
}

let workers = 0

export function createBareServer({ onRegister, onFrame }: BareServerHandlers): TemplatedApp {
  const app = uWS.App()
  app.ws<{ worker?: BareWorker }>(WORKER_PATH, {
    maxPayloadLength: 1024 * 1024,
    maxBackpressure: 64 * 1024 * 1024,
    message: (socket, bytes) => {
      const data = socket.getUserData()
      if (data.worker !== undefined) {
        onFrame(data.worker, bytes)
        return
      }
      const frame = JSON.parse(decodeText(bytes)) as WorkerFrameOf<'register'>
      data.worker = { socket, slots: frame.capabilities.maxConcurrency }
      const workerId = `wk-${++workers}`
      socket.send(registeredFrame(workerId))
      onRegister(data.worker, frame)
    },
  })
  return app
}

/** The product's own worker reads this frame, too. */
function registeredFrame(workerId: string): string {
  const frame: HostFrameOf<'registered'> = {
    type: 'registered',
    protocolVersion: 1,
    heartbeatIntervalMs: 15_000,
    hostVersion: '0.1.0',
    workerId,
    name: 'worker',
    state: 'active',
    credential: 'anything',
  }
  return JSON.stringify(frame)
}

export function listen(app: TemplatedApp): void {
  app.listen('127.0.0.1', 0, (socket) => {
    if (socket === false) throw new Error('cannot listen')
    console.log(uWS.us_socket_local_port(socket))
  })
}

export const decodeText = (bytes: ArrayBuffer): string => Buffer.from(bytes).toString('utf8')

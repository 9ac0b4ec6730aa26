/** The frames of the simulated workers are valid, and the stored runs equal what a host writes. */
import uWS from 'uWebSockets.js'
import { expect, test } from '@jest/globals'
import { leaseKind } from '../../../actors/leases/lease.machine.ts'
import { runKind } from '../../../actors/runs/run.machine.ts'
import type { ActorKind } from '../../../actors/runtime/actor-kind.ts'
import { workerKind } from '../../../actors/workers/worker.machine.ts'
import { finishedRunWrites, heldRunWrites, waitingRunWrites } from '../../../bench/raw/stored-runs.ts'
import { WebSocketClient } from '../../../bench/raw/websocket-client.ts'
import { completeFrame, EVENT_FRAME_BYTES, eventFrame } from '../../../bench/raw/worker-load-protocol.ts'
import { readWorkerFrame } from '../../../protocol/frames.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { Run } from '../../../protocol/run.ts'

const LEASE = `ls-${'0'.repeat(32)}`

test('reporting frames are valid, and have the length that all parts of the bench expect', () => {
  for (const seq of [1, 999, 10_000]) {
    const text = eventFrame(LEASE, seq)
    expect(text).toHaveLength(EVENT_FRAME_BYTES)
    expect(readWorkerFrame(text, true)).toMatchObject({ ok: true })
  }
  expect(readWorkerFrame(completeFrame(LEASE, 7), true)).toMatchObject({ ok: true })
})

test('a host can read every stored record', () => {
  const kinds: Readonly<Record<string, ActorKind>> = { run: runKind, lease: leaseKind, worker: workerKind }
  const isRun = createChecker(Run)
  for (const write of [...finishedRunWrites(0), ...heldRunWrites(1, 0), ...waitingRunWrites(2)]) {
    if (write.table === 'run') expect(isRun(write.run)).toMatchObject({ ok: true })
    else if (write.table !== 'snapshot' || write.record === null)
      throw new Error(`unexpected write to ${write.table}`)
    else expect(kinds[write.kind]?.codec?.decode(write.record)).toMatchObject({ is: 'snapshot' })
  }
})

test('a WebSocket client sends and receives frames of every length, in order', async () => {
  const app = uWS.App().ws('/', {
    maxPayloadLength: 1024 * 1024,
    message: (socket, bytes, isBinary) => void socket.send(bytes, isBinary),
  })
  const listening = await new Promise<uWS.us_listen_socket>((resolve, reject) => {
    app.listen('127.0.0.1', 0, (socket) =>
      socket === false ? reject(new Error('no port')) : resolve(socket),
    )
  })
  const texts = [1, 125, 126, 65_535, 65_536, 300_000, 2].map((length, at) => String(at).repeat(length))
  const received: string[] = []
  let all = (): void => {}
  const echoed = new Promise<void>((resolve) => {
    all = resolve
  })
  const client = await WebSocketClient.open({
    port: uWS.us_socket_local_port(listening),
    path: '/',
    onText: (bytes) => {
      received.push(bytes.toString())
      if (received.length === texts.length) all()
    },
  })
  for (const text of texts) client.send(text)
  await echoed
  client.destroy()
  app.close()
  expect(received).toEqual(texts)
})

/**
 * A server for dashboards: the product's listeners with an API that pushes on demand, or bare uWebSockets.js
 * publishing.
 *
 * Argument: `ours` or `raw`. Prints its port. For each number on its input it publishes that many events of one
 * busy run, a batch per turn of the event loop, and prints `done`.
 */
import uWS from 'uWebSockets.js'
import { createInterface } from 'node:readline'
import { realClock } from '../../bin/process/clock.ts'
import { chooseProgramListener } from '../../bin/process/program-listener.ts'
import type { DashboardPush } from '../../protocol/dashboard.ts'
import { createFakeHostApi } from '../../test/support/fake-host-api.ts'
import { openHostServer } from '../../transport/server.ts'
import { noMeters, noTrail, silentLog } from '../silent-log.ts'
import { eventOf, WATCH_PATH, WATCH_TOKEN } from './dashboard-protocol.ts'

/** Frames that one turn of the event loop typically brings in. */
const BATCH = 16

const publish = process.argv[2] === 'ours' ? await startProductServer() : startBareServer()
for await (const line of createInterface({ input: process.stdin })) {
  await publishBurst(Number(line))
  console.log('done')
}
process.exit(0)

async function publishBurst(count: number): Promise<void> {
  for (let at = 0; at < count; at++) {
    publish(eventOf(at))
    if (at % BATCH === BATCH - 1) await new Promise((resolve) => setImmediate(resolve))
  }
}

type Publish = (push: DashboardPush) => void

async function startProductServer(): Promise<Publish> {
  const hostApi = createFakeHostApi()
  const opened = await openHostServer({
    hostApi,
    listener: chooseProgramListener().listener,
    token: WATCH_TOKEN,
    clock: realClock,
    log: silentLog,
    meters: noMeters,
    trail: noTrail,
    version: '0',
    openApi: () => ({}),
    metricsText: () => '',
    management: { host: '127.0.0.1', port: 0 },
  })
  if (!opened.ok) throw new Error(opened.refusal.message)
  console.log(opened.value.managementPort)
  return hostApi.push
}

function startBareServer(): Publish {
  const app = uWS.App()
  app.ws(WATCH_PATH, {
    maxBackpressure: 64 * 1024 * 1024,
    open: (socket) => {
      socket.send('{"type":"hello"}')
      socket.subscribe('all')
    },
  })
  app.listen('127.0.0.1', 0, (socket) => {
    if (socket === false) throw new Error('cannot listen')
    console.log(uWS.us_socket_local_port(socket))
  })
  // Serializes each event once.
  return (push) => void app.publish('all', JSON.stringify(push))
}

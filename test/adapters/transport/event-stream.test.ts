/** The events of a run over a real socket: a long log is streamed, however slowly and by however many it is read. */
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { fetch } from 'undici'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import type { EventBatches, Store } from '../../../core/ports/store.ts'
import { yes } from '../../../core/result.ts'
import { openStore } from '../../../store/store.ts'
import { startTurnMeter } from '../../support/cpu-time.ts'
import { fakeRun } from '../../support/fake-host-api.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { closeAfterTest, openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'
import { logEvent, putEvents, runId } from '../store/samples.ts'

const MIB = 1024 * 1024
/** No turn of the event loop may be longer. */
const TURN_MS_MAX = 200
const ID = runId(1)
const headers = { authorization: `Bearer ${TOKEN}` }

/** A server whose only run has this log. */
async function serve(read: () => EventBatches) {
  const server = await openTestServer()
  server.hostApi.runEvents = () => yes({ events: read() })
  server.hostApi.runsById.set(ID, fakeRun(ID, 'completed'))
  return { ...server, eventsUrl: `${server.url}/api/runs/${ID}/events` }
}

async function openLog(): Promise<Store> {
  const store = await openStore({
    dataDir: tempFolder(),
    clock: realClock,
    random: realRandom,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: 0,
  })
  closeAfterTest(() => store.close())
  return store
}

/** Writes events of about 300 bytes. Returns the index of the next event. */
async function fill(store: Store, from: number, mib: number): Promise<number> {
  const countPerMib = Math.floor(MIB / 320)
  let next = from
  for (let n = 0; n < mib; n++) {
    const chunk = Array.from({ length: countPerMib }, (_, i) => logEvent(ID, next + i, 'x'.repeat(200)))
    await store.database.commit([putEvents(ID, chunk)])
    next += countPerMib
  }
  return next
}

/** A client that asks for the events, and reads nothing of the answer. */
function askWithoutReading(port: number): Socket {
  const socket = connect({ port, host: '127.0.0.1' })
  socket.pause()
  socket.on('error', () => {})
  socket.write(
    `GET /api/runs/${ID}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`,
  )
  closeAfterTest(() => socket.destroy())
  return socket
}

async function readChunks(url: string): Promise<Buffer> {
  const response = await fetch(url, { headers })
  expect(response.status).toBe(200)
  const chunks: Uint8Array[] = []
  for await (const chunk of response.body ?? []) chunks.push(chunk)
  return Buffer.concat(chunks)
}

test('a long log arrives completely, partly from the file and partly from the database', async () => {
  const store = await openLog()
  const server = await serve(() => store.events.read(ID))
  const inFile = await fill(store, 0, 3)
  await until('the log is in its file', () => store.events.storedBytes(ID) > 2 * MIB)
  const count = await fill(store, inFile, 2)
  const events: unknown = JSON.parse((await readChunks(server.eventsUrl)).toString())
  expect(events).toEqual(Array.from({ length: count }, (_, i) => logEvent(ID, i, 'x'.repeat(200))))
})

test('readers of a long log, slow and fast, neither hold memory nor block the event loop', async () => {
  const store = await openLog()
  await fill(store, 0, 48)
  await sleep(1_500)
  const server = await serve(() => store.events.read(ID))
  const before = process.memoryUsage().rss
  const stopMeter = startTurnMeter()
  for (let n = 0; n < 40; n++) askWithoutReading(server.port)
  await sleep(500)
  let peak = 0
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss)
  }, 20)
  closeAfterTest(() => clearInterval(watch))
  const read = async () => {
    const response = await fetch(server.eventsUrl, { headers })
    let bytes = 0
    for await (const chunk of response.body ?? []) bytes += chunk.length
    return bytes
  }
  const sizes = await Promise.all([read(), read(), read()])
  const longestMs = stopMeter()
  clearInterval(watch)
  expect(new Set(sizes).size).toBe(1)
  expect(sizes[0]).toBeGreaterThan(40 * MIB)
  expect(longestMs).toBeLessThan(TURN_MS_MAX)
  // 43 copies of the log would be 2 GiB.
  expect(peak - before).toBeLessThan(256 * MIB)
})

test('a reader that goes away ends the read', async () => {
  const reading = { batches: 0, hasEnded: false }
  async function* endless(): EventBatches {
    try {
      for (;;) {
        reading.batches += 1
        await sleep(1)
        yield [JSON.stringify('x'.repeat(100_000))]
      }
    } finally {
      reading.hasEnded = true
    }
  }
  const { port } = await serve(endless)
  const socket = askWithoutReading(port)
  await until('the socket is full', async () => {
    const before = reading.batches
    await sleep(200)
    return before > 1 && reading.batches === before
  })
  socket.destroy()
  await until('the read has ended', () => reading.hasEnded)
})

test('a log that cannot be read answers 500, and a log that breaks off does not look complete', async () => {
  let batches: string[][] = []
  async function* failing(): EventBatches {
    yield* batches
    throw new Error('the disk is gone')
  }
  const { eventsUrl } = await serve(failing)
  const answer = await fetch(eventsUrl, { headers })
  expect([answer.status, await answer.json()]).toEqual([500, { error: expect.any(String) }])
  batches = [['{}']]
  // A compressed answer would not have begun yet.
  const plain = { headers: { ...headers, 'accept-encoding': 'identity' } }
  await expect(fetch(eventsUrl, plain).then((broken) => broken.text())).rejects.toThrow()
})

test('a run without events has an empty list', async () => {
  const { eventsUrl } = await serve(async function* (): EventBatches {
    yield []
  })
  const answer = await fetch(eventsUrl, { headers })
  expect([await answer.text(), answer.headers.get('content-type')]).toEqual(['[]', 'application/json'])
})

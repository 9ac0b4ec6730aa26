/** Artifact downloads over a real socket: long bodies in chunks, and malicious names. */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { fetch } from 'undici'
import type { ArtifactFile } from '../../../actors/api/host-api.ts'
import { fakeRun } from '../../support/fake-host-api.ts'
import { createRawClient, requestText } from '../../support/raw-client.ts'
import { closeAfterTest, openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const MIB = 1024 * 1024
const headers = { authorization: `Bearer ${TOKEN}` }
const AUTH = ['Host: localhost', `Authorization: Bearer ${TOKEN}`]

/** Observes one read of an artifact. */
interface ReadObservation {
  pieces: number
  ended: boolean
}

function fileOf(
  given: Partial<ArtifactFile> & { readonly of?: () => AsyncIterable<Uint8Array> },
  reading?: ReadObservation,
): ArtifactFile {
  const { of, ...rest } = given
  return {
    is: 'file',
    size: 0,
    contentType: 'text/plain; charset=utf-8',
    download: false,
    async *read() {
      try {
        for await (const piece of of?.() ?? []) {
          if (reading !== undefined) reading.pieces += 1
          yield piece
        }
      } finally {
        if (reading !== undefined) reading.ended = true
      }
    },
    ...rest,
  }
}

/** Yields chunks of 64 KiB whose bytes encode their position. */
async function* countedBytes(size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < size; at += 65_536) {
    const piece = Buffer.alloc(Math.min(65_536, size - at))
    for (let i = 0; i < piece.length; i += 4096) piece.writeUInt8(((at + i) >> 12) & 0xff, i)
    yield piece
  }
}

/** Fails, or ends, before the first chunk. */
async function* failingRead(why: string): AsyncGenerator<Uint8Array> {
  if (why !== '') throw new Error(why)
  yield Buffer.alloc(0)
}

async function open() {
  const server = await openTestServer()
  server.hostApi.runsById.set('run-1', fakeRun('run-1', 'completed'))
  const reading: ReadObservation = { pieces: 0, ended: false }
  const put = (name: string, file: Parameters<typeof fileOf>[0]): void =>
    void server.hostApi.artifacts.set(name, fileOf(file, reading))
  const get = (name: string) => fetch(`${server.url}/api/runs/run-1/artifacts/${name}`, { headers })
  return { ...server, reading, put, get }
}

test('an artifact is sent completely, with its type and a sandbox policy', async () => {
  const { put, get, reading } = await open()
  put('log.txt', {
    size: 5,
    of: async function* () {
      yield Buffer.from('he')
      yield Buffer.alloc(0)
      yield Buffer.from('llo')
    },
  })
  const reply = await get('log.txt')
  expect(reply.status).toBe(200)
  expect(await reply.text()).toBe('hello')
  expect(Object.fromEntries(reply.headers)).toMatchObject({
    'content-length': '5',
    'content-type': 'text/plain; charset=utf-8',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "sandbox; default-src 'none'",
    'cache-control': 'no-store',
  })
  expect(reply.headers.has('content-disposition')).toBe(false)
  expect(reading.ended).toBe(true)
})

test('a download has its name as an attachment, whatever the name is', async () => {
  const { put, get } = await open()
  const name = `ä "quoted"; *'(x).html`
  put(name, { size: 1, download: true, contentType: 'application/octet-stream', of: () => countedBytes(1) })
  const reply = await get(encodeURIComponent(name))
  expect(reply.headers.get('content-disposition')).toBe(
    "attachment; filename*=UTF-8''%C3%A4%20%22quoted%22%3B%20%2A%27%28x%29.html",
  )
})

test('an empty artifact has an empty body', async () => {
  const { put, get } = await open()
  put('empty', {})
  const reply = await get('empty')
  expect([reply.status, reply.headers.get('content-length'), await reply.text()]).toEqual([200, '0', ''])
})

test('names that leave the folder are refused, raw and encoded, and missing artifacts are 404', async () => {
  const { port, put } = await open()
  put('..', { size: 1, of: () => countedBytes(1) })
  const client = createRawClient(port)
  closeAfterTest(() => client.close())
  const statusOf = async (name: string) =>
    (await client.ask(requestText('GET', `/api/runs/run-1/artifacts/${name}`, AUTH))).status
  for (const name of ['..', '%2e%2e', '..%2fx', '%2fetc%2fpasswd', '..%5cx', 'a%00b', '.'])
    expect([name, await statusOf(name)]).toEqual([name, 400])
  for (const name of ['%252e%252e%252fx', 'missing'])
    expect([name, await statusOf(name)]).toEqual([name, 404])
  for (const name of ['../../x', 'a/b', '']) expect([name, await statusOf(name)]).toEqual([name, 404])
  expect(await statusOf('x'.repeat(1025))).toBe(400)
  expect(await statusOf('%ff')).toBe(400)
  const elsewhere = await client.ask(requestText('GET', '/api/runs/run-9/artifacts/x', AUTH))
  expect(elsewhere.status).toBe(404)
})

test('a file that cannot be opened answers 500, without any of its bytes', async () => {
  const { put, get, log } = await open()
  put('gone', {
    size: 5,
    of: () => failingRead('replaced meanwhile'),
  })
  put('short', { size: 5, of: async function* () {} })
  for (const name of ['gone', 'short']) {
    const reply = await get(name)
    expect([reply.status, await reply.json()]).toEqual([500, { error: expect.stringMatching(/failed/) }])
  }
  expect(log.lines.join()).toMatch(/replaced meanwhile[\s\S]*ended before its first chunk/)
})

test('a read that fails half-way closes the connection, so that no client takes a half for the whole', async () => {
  const { put, get, log, url } = await open()
  put('broken', {
    size: 2 * MIB,
    of: async function* () {
      yield* countedBytes(MIB)
      throw new Error('disk trouble')
    },
  })
  put('shorter', { size: 2 * MIB, of: () => countedBytes(MIB) })
  for (const name of ['broken', 'shorter']) {
    const reply = await get(name)
    expect(reply.headers.get('content-length')).toBe(String(2 * MIB))
    await expect(reply.arrayBuffer()).rejects.toThrow()
  }
  expect(log.lines.join()).toContain('disk trouble')
  expect((await fetch(`${url}/api/health`)).status).toBe(200)
})

test('a large artifact arrives unchanged', async () => {
  const { put, get } = await open()
  const size = 9 * MIB + 77
  put('large', { size, of: () => countedBytes(size) })
  const got = Buffer.from(await (await get('large')).arrayBuffer())
  const pieces: Uint8Array[] = []
  for await (const piece of countedBytes(size)) pieces.push(piece)
  const expected = Buffer.concat(pieces)
  expect(got.equals(expected)).toBe(true)
})

test('256 MiB for a client that does not read cost few chunks, and a disconnect ends the read', async () => {
  const { put, port, reading, server } = await open()
  const size = 256 * MIB
  put('huge', { size, of: () => countedBytes(size) })
  const before = process.memoryUsage().rss
  const slow = connect(port, '127.0.0.1')
  slow.pause()
  slow.on('error', () => {})
  slow.write(requestText('GET', '/api/runs/run-1/artifacts/huge', AUTH))
  await until('the first pieces have been read', () => reading.pieces > 2)
  let last = -1
  await until('the server stops reading', async () => {
    const same = reading.pieces === last
    last = reading.pieces
    await sleep(50)
    return same
  })
  expect(reading.pieces).toBeLessThan(160)
  slow.resume()
  await until('the server reads on', () => reading.pieces > last + 100)
  slow.pause()
  expect(reading.ended).toBe(false)
  slow.destroy()
  await until('the reading has ended', () => reading.ended)
  expect(reading.pieces).toBeLessThan(4096)
  expect((process.memoryUsage().rss - before) / MIB).toBeLessThan(64)
  await server.close('nothing is waited for')
})

test('a pending download gets a limited time when the server stops', async () => {
  const { put, port, server, reading } = await open()
  put('huge', { size: 256 * MIB, of: () => countedBytes(256 * MIB) })
  const slow = connect(port, '127.0.0.1')
  closeAfterTest(() => slow.destroy())
  slow.pause()
  slow.on('error', () => {})
  slow.write(requestText('GET', '/api/runs/run-1/artifacts/huge', AUTH))
  await until('the download has begun', () => reading.pieces > 0)
  await server.close('stop')
  await until('the reading has ended', () => reading.ended)
})

test('the next request on the same connection receives its own reply', async () => {
  const { put, port } = await open()
  put('log.txt', { size: 3 * MIB, of: () => countedBytes(3 * MIB) })
  const client = createRawClient(port)
  closeAfterTest(() => client.close())
  for (let round = 0; round < 3; round++) {
    const reply = await client.ask(requestText('GET', '/api/runs/run-1/artifacts/log.txt', AUTH))
    expect([reply.status, reply.headers.get('content-length')]).toEqual([200, String(3 * MIB)])
    expect((await client.ask(requestText('GET', '/api/health', ['Host: localhost']))).status).toBe(200)
  }
})

test('a client that disconnects before the artifact is found leaves no read open', async () => {
  const { put, port, reading, hostApi } = await open()
  put('log.txt', { size: MIB, of: () => countedBytes(MIB) })
  const find = hostApi.artifact
  let [asked, answered] = [false, false]
  let answer = (): void => {}
  const hungUp = new Promise<void>((resolve) => {
    answer = resolve
  })
  hostApi.artifact = async (id, name) => {
    asked = true
    await hungUp
    answered = true
    return find(id, name)
  }
  const client = connect(port, '127.0.0.1')
  client.write(requestText('GET', '/api/runs/run-1/artifacts/log.txt', AUTH))
  await until('the store is asked for the artifact', () => asked)
  client.destroy()
  // The library notices the disconnect later.
  await sleep(100)
  answer()
  await until('the store has answered', () => answered)
  await sleep(50)
  expect([reading.pieces, reading.ended]).not.toEqual([1, false])
})

/** Tests of tunnels whose TLS hello names a host, through the real proxy, with a real server and client behind it. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createServer as createTlsServer, connect as startTls } from 'node:tls'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import { type EgressProxy, openEgressProxy } from '../../../../worker/sandbox/egress/egress-proxy.ts'
import { forwardAfterHello } from '../../../../worker/sandbox/egress/forward-after-hello.ts'
import { WILDCARD_NAMES_MAX } from '../../../../worker/sandbox/egress/policy.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { until } from '../../../support/until.ts'

const folder = tempFolder()
const [keyFile, certFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
const made = [
  'req',
  '-x509',
  '-newkey',
  'ec',
  '-pkeyopt',
  'ec_paramgen_curve:prime256v1',
  '-nodes',
  '-days',
  '2',
]
execFileSync('openssl', [...made, '-subj', '/CN=a.example.org', '-keyout', keyFile, '-out', certFile], {
  stdio: 'ignore',
})

const accepted: Socket[] = []
const receivedBytes = (): number => accepted.reduce((sum, { bytesRead }) => sum + bytesRead, 0)
const server = createTlsServer({ key: readFileSync(keyFile), cert: readFileSync(certFile) }, (socket) => {
  socket.on('error', () => {}).end('hello')
}).on('connection', (socket: Socket) => void accepted.push(socket.on('error', () => {})))
server.on('tlsClientError', () => {})
let proxy: EgressProxy
let socketPath = ''
const lines: string[] = []
const asked: string[] = []
const portOfServer = (): number => (server.address() as AddressInfo).port

beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
beforeEach(async () => {
  accepted.length = 0
  lines.length = 0
  asked.length = 0
  socketPath = join(tempFolder(), 'egress.sock')
  proxy = await openEgressProxy({
    network: 'allowlist',
    allowedHosts: [`a.example.org:${portOfServer()}`, `*.zone.example:${portOfServer()}`],
    socketPath,
    clock: realClock,
    log: (line) => void lines.push(line),
    resolve: async (host) => {
      asked.push(host)
      return ['127.0.0.1']
    },
    mayReach: () => true,
  })
})
afterEach(() => proxy.close())
afterAll(() => void server.close())

async function openTunnel(host: string): Promise<Socket> {
  const socket = connect({ path: socketPath })
  socket.on('error', () => {})
  const authority = `${host}:${portOfServer()}`
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
  await once(socket, 'data')
  return socket
}

/** The server’s words inside TLS; undefined when the tunnel breaks. */
async function ask(host: string, servername?: string): Promise<string | undefined> {
  const socket = await openTunnel(host)
  return new Promise((resolve) => {
    const tls = startTls({
      socket,
      rejectUnauthorized: false,
      ...(servername === undefined ? {} : { servername }),
    })
    tls.on('data', (bytes) => resolve(String(bytes)))
    tls.on('error', () => resolve(undefined)).on('close', () => resolve(undefined))
  })
}

describe('a tunnel', () => {
  test('passes when its hello names its host', async () => {
    expect(await ask('a.example.org', 'a.example.org')).toBe('hello')
    await proxy.close()
    expect(lines.join('\n')).toMatch(/a\.example\.org:\d+ allowed/)
  })

  test.each([
    ['another host', 'hidden.example.org', /refused: its TLS hello names another host, hidden\.example\.org/],
    ['no host', undefined, /refused: its TLS hello names no host/],
  ])('is closed when its hello names %s, and the server hears nothing', async (_what, servername, line) => {
    expect(await ask('a.example.org', servername)).toBeUndefined()
    await until('the refusal is logged', () => lines.some((each) => line.test(each)))
    expect(receivedBytes()).toBe(0)
    expect(proxy.totals()).toMatchObject({ allowed: 0, refused: 1 })
  })

  test('on another port passes without TLS', async () => {
    const socket = await openTunnel('a.example.org')
    socket.write('no TLS at all')
    await until('the server hears it', () => receivedBytes() > 0)
    socket.destroy()
  })
})

describe('names below a wildcard', () => {
  test('are logged, and so many that a run cannot speak through them', async () => {
    const names = Array.from({ length: WILDCARD_NAMES_MAX }, (_, n) => `x${n}.zone.example`)
    for (const name of names) (await openTunnel(name)).destroy()
    expect(lines).toContain(
      `egress: x0.zone.example is name 1 of ${WILDCARD_NAMES_MAX} below wildcards, by *.zone.example`,
    )
    const refused = await openTunnel('secret.zone.example')
    refused.destroy()
    await until('it is refused', () => proxy.totals().refused === 1)
    expect(lines.at(-1)).toMatch(/secret\.zone\.example:\d+ refused: .*add "secret\.zone\.example"/)
    expect(asked).toEqual(names)
    expect(await ask('x0.zone.example', 'x0.zone.example')).toBe('hello')
  })
})

/** Sends bytes through the check, and returns what arrives behind it, and the reason of a refusal. */
async function sendTo(port: number, host: string, ...pieces: readonly (string | Buffer)[]) {
  const path = join(tempFolder(), 'socket')
  const listening = createServer({ allowHalfOpen: true })
  listening.listen(path)
  await once(listening, 'listening')
  const pairOf = async (): Promise<[Socket, Socket]> => {
    const accepted = once(listening, 'connection')
    const near = connect({ path, allowHalfOpen: true }).on('error', () => {})
    const [far] = await accepted
    return [near, far.on('error', () => {})]
  }
  const [client, inner] = await pairOf()
  const [outer, target] = await pairOf()
  let arrived = ''
  target.setEncoding('latin1').on('data', (part: string) => {
    arrived += part
  })
  let refusal: string | undefined
  forwardAfterHello({ host, port, isLiteral: /^[\d.]+$/.test(host) }, (why) => {
    refusal = why
  })(inner, outer)
  const over = new Promise((resolve) => target.on('end', resolve).on('close', resolve))
  for (const piece of pieces) client.write(piece)
  client.end()
  await over
  for (const socket of [client, inner, outer, target]) socket.destroy()
  listening.close()
  return { arrived, refusal }
}

describe('on port 443', () => {
  const sendThrough = (host: string, ...pieces: readonly (string | Buffer)[]) => sendTo(443, host, ...pieces)

  test('only TLS passes', async () => {
    expect(await sendThrough('a.example.org', 'GET / HTTP/1.1\r\n')).toEqual({
      arrived: '',
      refusal: expect.stringMatching(/TLS hello$/),
    })
    expect(await sendThrough('a.example.org', Buffer.from([22, 3, 1]))).toEqual({
      arrived: '',
      refusal: expect.stringMatching(/breaks off$/),
    })
    const endless = Buffer.concat(
      Array.from({ length: 3 }, () => Buffer.from([22, 3, 1, 0x40, 0, ...Buffer.alloc(1 << 14, 1)])),
    )
    expect(await sendThrough('a.example.org', endless)).toMatchObject({ arrived: '' })
    expect(await sendThrough('a.example.org')).toEqual({ arrived: '', refusal: undefined })
  })
})

describe('on port 80', () => {
  const GET = 'GET /x HTTP/1.1\r\n'

  test('a request for the host passes, as the only one', async () => {
    const sent = ['Accept: a\r\nConnection: keep-alive\r\nHost: A.example.org:80\r\n', '\r\nbody']
    expect(await sendTo(80, 'a.example.org', GET, ...sent)).toEqual({
      arrived: `${GET}Accept: a\r\nHost: A.example.org:80\r\nConnection: close\r\n\r\nbody`,
      refusal: undefined,
    })
    expect(await sendTo(80, 'a.example.org')).toEqual({ arrived: '', refusal: undefined })
  })

  test.each([
    ['another host', `${GET}Host: b.example.org\r\n\r\n`],
    ['no host', `${GET}\r\n`],
    ['two hosts', `${GET}Host: a.example.org\r\nHost: b.example.org\r\n\r\n`],
    ['a folded host', `${GET}Host: a.example.org\r\n b.example.org\r\n\r\n`],
    ['a host after a lone line feed', `${GET}X: a\nHost: b.example.org\r\nHost: a.example.org\r\n\r\n`],
    ['an address', 'GET http://b.example.org/ HTTP/1.1\r\nHost: a.example.org\r\n\r\n'],
    ['no end', `${GET}Host: a.example.org\r\n`],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ])('a request with %s is refused', async (_what, text) => {
    expect(await sendTo(80, 'a.example.org', text)).toEqual({
      arrived: '',
      refusal: expect.stringMatching(/HTTP/),
    })
  })
})

test.each([80, 8080])('on port %i what begins like TLS is no other protocol', async (port) => {
  for (const bytes of [Buffer.from([22, 3, 1]), Buffer.from([22, 3, 1, 0, 0, 1, 2, 3])])
    expect(await sendTo(port, 'a.example.org', bytes)).toEqual({
      arrived: '',
      refusal: expect.stringMatching(/TLS hello/),
    })
})

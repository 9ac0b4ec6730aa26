/** The worker's connection on real sockets: what the listener receives, and that it closes exactly once. */
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { describe, expect, test } from '@jest/globals'
import { realClock } from '../../../bin/process/clock.ts'
import { provePeer } from '../../../client/peer-owner.ts'
import type { DialledConnection } from '../../../core/daemon/ports.ts'
import { parseFingerprint } from '../../../core/fleet/token.ts'
import type { WorkerAuth } from '../../../protocol/frames.ts'
import { WORKER_FRAME_BYTES_MAX } from '../../../protocol/limits.ts'
import type { DialPin } from '../../../worker/dial-network.ts'
import { createDialer, type DialerOptions } from '../../../worker/dialer.ts'
import { createRecordingLog } from '../../support/recording-log.ts'
import { encodeCloseFrame, type SocketPeer, startSocketServer } from '../../support/socket-server.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { closeAfterTest, openTestServer } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const PROOF: WorkerAuth = { kind: 'credential', workerId: 'wk-1', secret: 'wc-secret' }

interface Dialled {
  readonly connection: DialledConnection
  readonly events: string[]
  readonly ended: Promise<string>
}

function dial(url: string, parts: Partial<DialerOptions> = {}, proof = PROOF): Dialled {
  const events: string[] = []
  let end: (reason: string) => void = () => {}
  const ended = new Promise<string>((resolve) => {
    end = resolve
  })
  const connection = createDialer({
    url: () => url,
    clock: realClock,
    log: createRecordingLog(),
    provePeer,
    ...parts,
  }).dial(
    {
      onOpen: () => void events.push('opened'),
      onText: (text) => void events.push(`received ${text.length > 50 ? text.length : text}`),
      onClose: (reason) => {
        events.push(`closed: ${reason}`)
        end(reason)
      },
    },
    proof,
  )
  closeAfterTest(() => connection.close())
  return { connection, events, ended }
}

const plain = (port: number): string => `ws://127.0.0.1:${port}/ws/worker`

/** A TCP listener that does not speak WebSocket. */
async function listener(answer: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>()
  const server: Server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    answer(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

describe('a connection', () => {
  test('to a real host carries frames both ways and sends no Origin header', async () => {
    const server = await openTestServer()
    for (const port of [server.port, server.fleetPort]) {
      const { connection, events } = dial(plain(port))
      await until('the connection is open', () => events.includes('opened'))
      connection.send('{"type":"x"}')
      const at = () => server.hostApi.workerConnections.at(-1)
      await until('the host has the frame', () => at()?.frames.length === 1)
      expect(at()?.frames).toEqual(['{"type":"x"}'])
      at()?.link.send('{"type":"y"}')
      await until('the worker has the reply', () => events.length === 2)
      expect(events).toEqual(['opened', 'received {"type":"y"}'])
    }
  })

  test('carries frames of the maximum size and reports its backlog', async () => {
    const { port, peers } = await startSocketServer(undefined, (peer) => void peer.socket.pause())
    const { connection, events } = dial(plain(port))
    await until('the connection is open', () => events.includes('opened'))
    for (let n = 0; n < 16; n++) connection.send('x'.repeat(WORKER_FRAME_BYTES_MAX))
    expect(connection.backlogBytes()).toBeGreaterThan(8 * WORKER_FRAME_BYTES_MAX)
    peers[0]?.socket.resume()
    await until('all frames are sent', () => connection.backlogBytes() === 0)
    await until('all frames have arrived', () => peers[0]?.receivedTexts.length === 16)
  })

  test('delivers messages in order, up to the close frame', async () => {
    const { port } = await startSocketServer(undefined, (peer) => {
      for (let n = 0; n < 5; n++) peer.send(`${n}`)
      peer.socket.write(encodeCloseFrame(1008, 'replaced'))
      peer.socket.end()
    })
    const { events, ended } = dial(plain(port))
    await ended
    expect(events).toEqual([
      'opened',
      ...[0, 1, 2, 3, 4].map((n) => `received ${n}`),
      expect.stringMatching(/^closed: .*\(1008: replaced\)$/),
    ])
  })

  test.each<[string, (peer: SocketPeer) => void, RegExp]>([
    ['vanishes', ({ socket }) => void socket.destroy(), /the connection broke/],
    ['sends bytes', (peer) => peer.send(Buffer.from([1, 2]), 2), /not text/],
    [
      'sends too much',
      (peer) => peer.send('x'.repeat(WORKER_FRAME_BYTES_MAX + 1)),
      /connection broke|1009|exceeds/,
    ],
    ['sends no UTF-8', (peer) => peer.send(Buffer.from([0xff, 0xfe])), /connection broke|1007/],
  ])('to a peer that %s closes once', async (_what, does, reason) => {
    const { port } = await startSocketServer(undefined, does)
    const { connection, events, ended } = dial(plain(port))
    expect(await ended).toMatch(reason)
    connection.send('into the void')
    connection.close()
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(events.filter((what) => what.startsWith('closed'))).toHaveLength(1)
    expect(events.filter((what) => what.startsWith('received'))).toEqual([])
  })

  test('closed by the worker ends soon, even if the peer never answers the close frame', async () => {
    const { port } = await startSocketServer()
    const { connection, events, ended } = dial(plain(port))
    await until('the connection is open', () => events.includes('opened'))
    connection.close()
    expect(events).toEqual(['opened'])
    connection.send('too late')
    expect(await ended).toBe('closed')
  })

  test('closed while it is being dialled never opens', async () => {
    const { port, peers } = await startSocketServer()
    const { connection, events, ended } = dial(plain(port))
    connection.close()
    connection.close()
    expect(events).toEqual([])
    expect(await ended).toMatch(/before it was open/)
    expect(events).toHaveLength(1)
    expect(peers).toHaveLength(0)
  })
})

describe('no connection', () => {
  test('to a port without a listener', async () => {
    // No other process of this machine gets a port in this range meanwhile.
    const address = '127.0.0.77'
    const gone = createServer()
    await new Promise<void>((resolve) => gone.listen(0, address, resolve))
    const { port } = gone.address() as AddressInfo
    await new Promise((resolve) => gone.close(resolve))
    expect(await dial(`ws://${address}:${port}/ws/worker`).ended).toMatch(/ECONNREFUSED/)
  })

  test('proves the worker in headers of the upgrade request, and never in the address or the log', async () => {
    const requests: string[] = []
    const port = await listener((socket) => socket.once('data', (bytes) => requests.push(bytes.toString())))
    const log = createRecordingLog()
    const proofs: WorkerAuth[] = [
      PROOF,
      { kind: 'pairing', token: 'wp-token' },
      { kind: 'join', key: 'wj-key' },
    ]
    for (const proof of proofs) {
      const count = requests.length
      const { connection } = dial(plain(port), { log }, proof)
      await until('the request arrived', () => requests.length > count)
      connection.close()
    }
    expect(requests.map((text) => text.split('\r\n')[0])).toEqual(Array(3).fill('GET /ws/worker HTTP/1.1'))
    expect(requests[0]).toMatch(/^authorization: Bearer wc-secret\r$/im)
    expect(requests[0]).toMatch(/^x-switchyard-worker: wk-1\r$/im)
    expect(requests[1]).toMatch(/^authorization: Bearer wp-token\r$/im)
    expect(requests[1]).not.toMatch(/x-switchyard-worker/i)
    expect(requests[2]).toMatch(/^authorization: Bearer wj-key\r$/im)
    expect(JSON.stringify(log.lines)).not.toMatch(/wc-secret|wp-token/)
  })

  test('is logged once per reason', async () => {
    const log = createRecordingLog()
    const dialer = createDialer({ url: () => 'ws://127.0.0.1:6000/', clock: realClock, log, provePeer })
    for (let n = 0; n < 3; n++)
      await new Promise<string>((closed) =>
        dialer.dial({ onOpen: () => {}, onText: () => {}, onClose: closed }, PROOF),
      )
    expect(log.lines.map(({ level }) => level)).toEqual(['warn', 'debug', 'debug'])
  })

  test('to a port that WebSockets may not use', async () => {
    expect(await dial('ws://127.0.0.1:6000/ws/worker').ended).toMatch(/may not use this port/)
  })

  test('to an unknown host name', async () => {
    // An unreachable name server is asked several times.
    const { ended } = dial('ws://nobody.invalid/ws/worker', { connectMsMax: 50_000 })
    expect(await ended).toMatch(/nobody\.invalid/)
  })

  test('to a server that is not a host', async () => {
    const port = await listener(
      (socket) =>
        void socket.once('data', () => socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n')),
    )
    expect(await dial(plain(port)).ended).toMatch(/answered 404 .* --host/)
  })

  test('to a server that does not answer in HTTP', async () => {
    const port = await listener((socket) => void socket.write('SSH-2.0-OpenSSH_9.2\r\n'))
    // Its first words come before or after the request.
    expect(await dial(plain(port)).ended).toMatch(/before it is asked|does not speak HTTP; check --host/)
  })

  test('after a redirect: the credential goes only to the configured host', async () => {
    const port = await listener(
      (socket) =>
        void socket.once('data', () =>
          socket.end('HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n'),
        ),
    )
    expect(await dial(plain(port)).ended).toMatch(/answered 302/)
  })

  test('to a peer that accepts and then stays silent', async () => {
    const port = await listener(() => {})
    const { events, ended } = dial(plain(port), { connectMsMax: 150 })
    expect(await ended).toMatch(/no answer within|timeout|Timeout/i)
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(events).toHaveLength(1)
  })

  test('to an invalid address', async () => {
    expect(await dial('not a url').ended).toMatch(/\w/)
  })
})

/** A self-signed certificate for this machine. @param options of openssl, which name or make the key */
function makeCertificate(name: string, ...options: readonly string[]): { cert: string; fingerprint: string } {
  const certFile = join(CERTIFICATES, `${name}.pem`)
  const named = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
  const made = ['req', '-x509', '-nodes', '-days', '2', ...named, '-out', certFile, ...options]
  execFileSync('openssl', made, { stdio: 'ignore' })
  const cert = readFileSync(certFile, 'utf8')
  return { cert, fingerprint: new X509Certificate(cert).fingerprint256 }
}

const CERTIFICATES = tempFolder()
const newKey = (file: string) => [
  '-newkey',
  'ec',
  '-pkeyopt',
  'ec_paramgen_curve:prime256v1',
  '-keyout',
  file,
]

describe('a connection to a pinned host', () => {
  const [keyFile, foreignKeyFile] = [join(CERTIFICATES, 'key.pem'), join(CERTIFICATES, 'foreign-key.pem')]
  const own = makeCertificate('own', ...newKey(keyFile))
  const renewed = makeCertificate('renewed', '-key', keyFile)
  const foreign = makeCertificate('foreign', ...newKey(foreignKeyFile))
  const key = readFileSync(keyFile, 'utf8')
  const pinOf = (fingerprint: string) => {
    const digits = parseFingerprint(fingerprint)
    if (!digits.ok) throw new Error(digits.refusal.message)
    return { fingerprint: digits.value }
  }

  /** Dials a host with this certificate; returns the key that was accepted. */
  async function acceptedKey(
    cert: string,
    pin: DialPin,
    parts: Partial<DialerOptions> = {},
  ): Promise<string> {
    const { port } = await startSocketServer({ cert, key }, (peer) => peer.send('hello'))
    let accepted = ''
    const onAccepted = (found: string) => {
      accepted = found
    }
    const { events } = dial(`wss://127.0.0.1:${port}/ws/worker`, {
      authorities: [],
      ...parts,
      pin: { ...pin, onAccepted },
    })
    await until('the greeting has arrived', () => events.length > 1)
    expect(events).toEqual(['opened', 'received hello'])
    return accepted
  }

  test('needs no authority, and a renewed certificate of the same key is accepted', async () => {
    const pin = pinOf(own.fingerprint)
    const found = await acceptedKey(own.cert, pin)
    expect(await acceptedKey(renewed.cert, { ...pin, key: found })).toBe(found)
    expect(await acceptedKey(renewed.cert, pinOf(found))).toBe(found)
  })

  test.each([
    ['directly', undefined],
    ['through a proxy', ''],
    ['not through the proxy', '127.0.0.1'],
  ])('%s sends nothing to another host, although an authority vouches for it', async (_, noProxy) => {
    let received = ''
    const impostor = createTlsServer({ cert: foreign.cert, key: readFileSync(foreignKeyFile) }, (socket) => {
      closeAfterTest(() => socket.destroy())
      socket.on('error', () => {})
      socket.on('data', (bytes) => {
        received += String(bytes)
      })
    })
    await new Promise<void>((resolve) => impostor.listen(0, '127.0.0.1', resolve))
    closeAfterTest(() => impostor.close())
    const { port } = impostor.address() as AddressInfo
    const proxies = { http: '', https: `http://127.0.0.1:${await tunnelTo(port)}`, noProxy: noProxy ?? '' }
    const { ended } = dial(`wss://127.0.0.1:${port}/ws/worker`, {
      authorities: [foreign.cert],
      pin: pinOf(own.fingerprint),
      ...(noProxy === undefined ? {} : { proxies }),
    })
    const reason = await ended
    expect(reason).toContain(`is not the pinned one, but ${foreign.fingerprint}`)
    expect(reason).toContain('--fingerprint')
    expect(received).toBe('')
  })

  test('goes through a proxy', async () => {
    const { port } = await startSocketServer({ cert: own.cert, key }, (peer) => peer.send('hello'))
    const proxies = { http: '', https: `http://127.0.0.1:${await tunnelTo(port)}`, noProxy: '' }
    const pin = pinOf(own.fingerprint)
    const { events } = dial(`wss://127.0.0.1:${port}/ws/worker`, { authorities: [], pin, proxies })
    await until('the greeting has arrived', () => events.length > 1)
    expect(events).toEqual(['opened', 'received hello'])
  })

  test('is never unencrypted', async () => {
    const { port, peers } = await startSocketServer()
    const { ended } = dial(plain(port), { pin: pinOf(own.fingerprint) })
    expect(await ended).toMatch(/encrypted/)
    expect(peers).toEqual([])
  })
})

/** A proxy whose every tunnel leads to this port. */
const tunnelTo = (port: number, onTunnel: (line: string) => void = () => {}): Promise<number> =>
  listener((socket) => {
    socket.once('data', (bytes) => {
      onTunnel(bytes.toString().split('\r\n')[0] ?? '')
      const far = connect(port, '127.0.0.1')
      closeAfterTest(() => far.destroy())
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      far.on('error', () => {})
      far.pipe(socket).pipe(far)
    })
  })

describe('an encrypted connection', () => {
  const keyFile = join(CERTIFICATES, 'named-key.pem')
  const { cert } = makeCertificate('named', ...newKey(keyFile))
  const tls = { cert, key: readFileSync(keyFile, 'utf8') }

  test('is refused if no authority vouches for the host, and the message names --ca-file', async () => {
    const { port, peers } = await startSocketServer(tls)
    const { ended } = dial(`wss://localhost:${port}/ws/worker`, { authorities: [] })
    expect(await ended).toMatch(/self.signed certificate.*--ca-file/)
    expect(peers).toHaveLength(0)
  })

  test('opens to a host that a named authority vouches for', async () => {
    const { port } = await startSocketServer(tls, (peer) => peer.send('hello'))
    const { events } = dial(`wss://localhost:${port}/ws/worker`, { authorities: [tls.cert] })
    await until('the greeting has arrived', () => events.length === 2)
    expect(events).toEqual(['opened', 'received hello'])
  })

  test('is refused if the certificate is for another name', async () => {
    const { port } = await startSocketServer(tls)
    const { ended } = dial(`wss://ip6-localhost:${port}/ws/worker`, { authorities: [tls.cert] })
    expect(await ended).toMatch(/altnames|ECONNREFUSED|ENOTFOUND/)
  })

  test('goes through the proxy, which sees only the host name', async () => {
    const { port } = await startSocketServer(tls, (peer) => peer.send('hello'))
    const asked: string[] = []
    const proxy = await tunnelTo(port, (line) => void asked.push(line))
    const proxies = { http: '', https: `http://127.0.0.1:${proxy}`, noProxy: '' }
    const { events } = dial(`wss://localhost:${port}/ws/worker`, { authorities: [tls.cert], proxies })
    await until('the greeting has arrived', () => events.length === 2)
    expect(events).toEqual(['opened', 'received hello'])
    expect(asked).toEqual([`CONNECT localhost:${port} HTTP/1.1`])

    const direct = { ...proxies, noProxy: 'localhost' }
    const second = dial(`wss://localhost:${port}/ws/worker`, { authorities: [tls.cert], proxies: direct })
    await until('the greeting has arrived', () => second.events.length === 2)
    expect(asked).toHaveLength(1)
  })
})

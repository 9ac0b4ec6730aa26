/**
 * Tests of the egress proxy on a real Unix socket, with real servers behind it.
 *
 * The servers listen on this machine's loopback, which no sandbox may reach. Tests with traffic allow it by `mayReach`;
 * the others check that it is refused.
 */
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, statSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import {
  CONNECTIONS_MAX,
  type EgressProxy,
  type EgressProxyOptions,
  ESTABLISHED,
  HEAD_BYTES_MAX,
  HEAD_MS_MAX,
  IDLE_MS_MAX,
  openEgressProxy,
} from '../../../../worker/sandbox/egress/egress-proxy.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { until } from '../../../support/until.ts'

const cleanups: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

// ---- helpers -----------------------------------------------------------------------------------------------------

/** Starts a server on loopback and returns its port. */
async function startServer(serve: (socket: Socket) => void, host = '127.0.0.1'): Promise<number> {
  const sockets = new Set<Socket>()
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    serve(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  cleanups.push(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  return (server.address() as AddressInfo).port
}

const startEchoServer = () => startServer((socket) => void socket.pipe(socket))

interface OpenedProxy extends EgressProxy {
  readonly path: string
  readonly lines: string[]
}

async function openProxy(order: Partial<EgressProxyOptions> = {}): Promise<OpenedProxy> {
  const path = join(tempFolder(), 'egress.sock')
  const lines: string[] = []
  const egress = await openEgressProxy({
    network: 'open',
    allowedHosts: [],
    socketPath: path,
    clock: realClock,
    log: (line) => void lines.push(line),
    resolve: async () => ['127.0.0.1'],
    ...order,
  })
  cleanups.push(() => egress.close())
  return { ...egress, path, lines }
}

/** Allows traffic to this machine's loopback. */
const loopbackAllowed = { mayReach: (address: string) => address === '127.0.0.1' }

interface TestClient {
  readonly socket: Socket
  text(): string
  /** The first line of the reply. */
  status(): Promise<string>
  /** Everything received, once the connection is closed. */
  whole(): Promise<string>
}

function connectClient(path: string, request?: string): TestClient {
  const socket = connect({ path, allowHalfOpen: true })
  cleanups.push(() => void socket.destroy())
  let text = ''
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()))
  socket.on('error', () => {}).setEncoding('latin1')
  socket.on('data', (part: string) => {
    text += part
  })
  socket.on('end', () => socket.end())
  if (request !== undefined) socket.write(request, 'latin1')
  const status = async () => {
    await until('the first line of the reply is there', () => text.includes('\r\n'))
    return text.split('\r\n')[0] ?? ''
  }
  return { socket, text: () => text, status, whole: async () => closed.then(() => text) }
}

const requestConnect = (path: string, authority: string, more = '') =>
  connectClient(path, `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n${more}`)

// ---- tests -------------------------------------------------------------------------------------------------------

describe('a tunnel', () => {
  test('forwards bytes both ways, starting with those sent along with the request', async () => {
    const egress = await openProxy(loopbackAllowed)
    const client = requestConnect(egress.path, `example.org:${await startEchoServer()}`, 'first ')
    expect(await client.status()).toMatch(/^HTTP\/1\.1 200 /)
    client.socket.end('second')
    expect(await client.whole()).toMatch(/\r\n\r\nfirst second$/)
  })

  test('closes each half separately', async () => {
    const egress = await openProxy(loopbackAllowed)
    const port = await startServer((socket) => {
      let received = ''
      socket.on('data', (bytes) => {
        received += bytes
      })
      socket.on('end', () => socket.end(`heard ${received}`))
    })
    const client = requestConnect(egress.path, `example.org:${port}`, 'all')
    client.socket.end()
    expect(await client.whole()).toMatch(/heard all$/)
  })

  test('forwards megabytes unchanged, and a stalled reader stalls the writer', async () => {
    const total = 48 * 1024 * 1024
    let sent = 0
    const piece = Buffer.alloc(64 * 1024, 7)
    const port = await startServer((socket) => {
      const pump = () => {
        while (sent < total) {
          sent += piece.length
          if (!socket.write(piece)) return void socket.once('drain', pump)
        }
        socket.end()
      }
      pump()
    })
    const egress = await openProxy(loopbackAllowed)
    const socket = connect({ path: egress.path })
    cleanups.push(() => void socket.destroy())
    socket.pause()
    socket.write(`CONNECT example.org:${port} HTTP/1.1\r\n\r\n`)
    let before = -1
    await until('the writer stops', async () => {
      const same = sent > 0 && sent === before
      before = sent
      await new Promise((resolve) => setTimeout(resolve, 100))
      return same
    })
    expect(sent).toBeLessThan(total / 2)
    let got = 0
    socket.on('data', (bytes) => {
      got += bytes.length
    })
    socket.resume()
    await new Promise((resolve) => socket.on('close', resolve))
    expect(got).toBe(total + ESTABLISHED.length)
    await until('the connection is logged', () => egress.lines.length === 1)
    expect(egress.totals()).toMatchObject({ connections: 0, allowed: 1, bytesIn: total })
  })

  test('ends when the server or the client fails', async () => {
    const egress = await openProxy(loopbackAllowed)
    const accepted: Socket[] = []
    const port = await startServer((socket) => void accepted.push(socket))
    const first = requestConnect(egress.path, `example.org:${port}`)
    await until('the server has accepted the first connection', () => accepted.length === 1)
    accepted[0]?.resetAndDestroy()
    await first.whole()

    const two = requestConnect(egress.path, `example.org:${port}`)
    await until('the server has accepted a second connection', () => accepted.length === 2)
    const gone = new Promise((resolve) => accepted[1]?.resume().on('end', resolve))
    two.socket.destroy()
    await gone
    accepted[1]?.end()
    await until('no connection is left', () => egress.totals().connections === 0)
  })

  test('is closed after ten idle minutes; any byte restarts the time', async () => {
    const clock = new ManualClock()
    const egress = await openProxy({ ...loopbackAllowed, clock })
    const client = requestConnect(egress.path, `example.org:${await startEchoServer()}`)
    await client.status()
    await clock.advance(IDLE_MS_MAX - 1)
    client.socket.write('awake')
    await until('the server has echoed', () => client.text().endsWith('awake'))
    await clock.advance(IDLE_MS_MAX - 1)
    expect(client.socket.closed).toBe(false)
    await clock.advance(1)
    await client.whole()
    await until('the connection is logged', () => egress.lines.length === 1)
    expect(clock.timers).toBe(0)
  })

  test('ends when the proxy closes, which also removes the socket and may be repeated', async () => {
    const clock = new ManualClock()
    const egress = await openProxy({ ...loopbackAllowed, clock })
    const port = await startEchoServer()
    const clients = [
      requestConnect(egress.path, `example.org:${port}`),
      requestConnect(egress.path, `example.org:${port}`),
    ]
    await Promise.all(clients.map((client) => client.status()))
    const silent = connectClient(egress.path)
    await until('three connections are open', () => egress.totals().connections === 3)
    await Promise.all([egress.close(), egress.close()])
    await Promise.all([...clients, silent].map((client) => client.whole()))
    expect(() => statSync(egress.path)).toThrow('ENOENT')
    expect(egress.lines).toHaveLength(2)
    expect(clock.timers).toBe(0)
  })
})

describe('refused requests', () => {
  const allowlist = { network: 'allowlist', allowedHosts: ['example.org'] } as const

  test('an unlisted name: the reply says what to add, and the name is not resolved', async () => {
    const asked: string[] = []
    const resolve = async (host: string) => {
      asked.push(host)
      return ['127.0.0.1']
    }
    const egress = await openProxy({ ...allowlist, ...loopbackAllowed, resolve })
    const reply = await requestConnect(egress.path, 'evil.example:443').whole()
    const [head = '', body = ''] = reply.split('\r\n\r\n')
    expect(head.split('\r\n')).toEqual([
      'HTTP/1.1 403 Forbidden',
      'content-type: text/plain',
      `content-length: ${body.length}`,
      'connection: close',
    ])
    expect(body).toMatch(/evil\.example:443: .*sandbox\.allowedHosts; add "evil\.example" .*\n$/)
    expect(asked).toEqual([])
    expect(egress.lines).toEqual([
      expect.stringMatching(/^egress: evil\.example:443 refused: .*add "evil\.example" /),
    ])
  })

  test.each([
    ['another port', 'example.org:22'],
    ['a literal', '127.0.0.1:443'],
    ['decimal', '2130706433:443'],
    ['hex', '0x7f000001:443'],
    ['octal', '0177.0.0.1:443'],
    ['IPv6', '[::1]:443'],
    ['mapped', '[::ffff:127.0.0.1]:443'],
    ['localhost', 'localhost:443'],
    ['a suffix look-alike', 'notexample.org:443'],
    ['a prefix look-alike', 'example.org.evil.test:443'],
    ['upper case', 'EXAMPLE.org:443'],
    ['a trailing dot', 'example.org.:443'],
    ['a user', 'example.org:443@evil.test:443'],
    ['percent', 'example.org%00:443'],
    ['NUL', 'example.org\0:443'],
    ['no port', 'example.org'],
  ])('%s: %j', async (_, authority) => {
    const egress = await openProxy({ ...allowlist, mayReach: () => true })
    expect(await requestConnect(egress.path, authority).status()).toMatch(/^HTTP\/1\.1 40[03] /)
    expect(egress.totals()).toMatchObject({ allowed: 0, refused: 1 })
  })

  test.each([
    'GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n',
    'POST http://example.org/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc',
    'GET / HTTP/1.1\r\nHost: example.org\r\n\r\n',
    'OPTIONS * HTTP/1.1\r\n\r\n',
  ])('a method other than CONNECT: %j', async (request) => {
    const egress = await openProxy({ ...allowlist, ...loopbackAllowed })
    const answer = await connectClient(egress.path, request).whole()
    expect(answer).toMatch(/^HTTP\/1\.1 405 Method Not Allowed\r\n/)
    expect(answer).toContain('supports only CONNECT; use an https:// address')
  })

  test.each([
    'CONNECT example.org:443\r\n\r\n',
    'CONNECT  example.org:443 HTTP/1.1\r\n\r\n',
    'CONNECT example.org:443 HTTP/2.0\r\n\r\n',
    'connect example.org:443 HTTP/1.1\r\n\r\n',
    ' CONNECT example.org:443 HTTP/1.1\r\n\r\n',
    'CONNECT example.org:443 HTTP/1.1\nHost: a\r\n\r\n',
    '\r\n\r\n',
    '\x16\x03\x01\x02\0\x01\0\r\n\r\n',
    'PRI * HTTP/2.0\r\n\r\n',
  ])('a request that is not HTTP/1: %j', async (request) => {
    const egress = await openProxy({ ...allowlist, ...loopbackAllowed })
    expect(await connectClient(egress.path, request).status()).toBe('HTTP/1.1 400 Bad Request')
  })

  describe.each(['open', 'allowlist'] as const)('addresses, with the network %s', (network) => {
    test.each([
      ['loopback', ['127.0.0.1']],
      ['this machine, in IPv6', ['::1']],
      ['the metadata service', ['169.254.169.254']],
      ['one that is public and one that is not', ['1.1.1.1', '127.0.0.1']],
      ['the same the other way round', ['10.0.0.1', '1.1.1.1']],
      ['a private one in IPv6 clothes', ['::ffff:10.0.0.1']],
      ['something that is no address', ['localhost']],
    ])('a name at %s is refused', async (_, addresses) => {
      let connections = 0
      const port = await startServer(() => {
        connections += 1
      })
      const egress = await openProxy({
        network,
        allowedHosts: [`example.org:${port}`],
        resolve: async () => addresses,
      })
      const answer = await requestConnect(egress.path, `example.org:${port}`).whole()
      expect(answer).toMatch(/^HTTP\/1\.1 403 Forbidden\r\n/)
      expect(answer).toContain('the host is not at a public address')
      expect(connections).toBe(0)
    })
  })

  test('a literal address is checked like a resolved one, also with an open network', async () => {
    const egress = await openProxy()
    for (const authority of [
      '127.0.0.1:80',
      '169.254.169.254:80',
      '[::1]:80',
      '[fd00:ec2::254]:80',
      '[::ffff:127.0.0.1]:80',
    ]) {
      expect(await requestConnect(egress.path, authority).status()).toBe('HTTP/1.1 403 Forbidden')
    }
  })

  test('a name is resolved only once, so a second answer has no effect', async () => {
    const answers = [['127.0.0.1'], ['10.0.0.1']]
    const egress = await openProxy({ ...loopbackAllowed, resolve: async () => answers.shift() ?? [] })
    const client = requestConnect(egress.path, `example.org:${await startEchoServer()}`)
    expect(await client.status()).toMatch(/ 200 /)
    expect(answers).toEqual([['10.0.0.1']])
  })

  test('entries of allowedHosts that allow nothing are logged when the proxy opens', async () => {
    const egress = await openProxy({ network: 'allowlist', allowedHosts: ['localhost', 'example.org'] })
    expect(egress.lines).toEqual([
      expect.stringMatching(/^egress: sandbox.allowedHosts has "localhost", which/),
    ])
  })
})

describe('failed connections', () => {
  test('a missing server, an unknown name, unreachable name servers', async () => {
    const answers: Record<string, () => Promise<string[]>> = {
      'none.example': async () => [],
      'lost.example': async () => Promise.reject(new Error('no name server answered')),
      'dead.example': async () => ['127.0.0.1'],
    }
    const egress = await openProxy({ ...loopbackAllowed, resolve: async (host) => answers[host]?.() ?? [] })
    const free = await startServer(() => {})
    await cleanups.pop()?.()
    for (const host of Object.keys(answers)) {
      expect(await requestConnect(egress.path, `${host}:${free}`).status()).toBe('HTTP/1.1 502 Bad Gateway')
    }
    expect(egress.lines).toEqual([
      expect.stringMatching(`^egress: none.example:${free} failed: .*no such host`),
      expect.stringMatching(`^egress: lost.example:${free} failed: .*could not be resolved`),
      expect.stringMatching(`^egress: dead.example:${free} failed: .*refused`),
    ])
    expect(egress.totals()).toMatchObject({ allowed: 0, refused: 0, failed: 3 })
  })

  test('after a dead address the next is tried', async () => {
    const egress = await openProxy({
      mayReach: () => true,
      resolve: async () => ['::1', '127.0.0.1'],
    })
    const port = await startEchoServer()
    expect(await requestConnect(egress.path, `example.org:${port}`).status()).toMatch(/ 200 /)
    const ipv6 = await startServer((socket) => void socket.pipe(socket), '::1').catch(() => undefined)
    if (ipv6 !== undefined)
      expect(await requestConnect(egress.path, `example.org:${ipv6}`).status()).toMatch(/ 200 /)
  })
})

test('at most three addresses are tried, IPv4 first', async () => {
  const addresses = ['::1', '::1', '::1', '127.0.0.1']
  const egress = await openProxy({ mayReach: () => true, resolve: async () => addresses })
  const port = await startEchoServer()
  expect(await requestConnect(egress.path, `example.org:${port}`).status()).toMatch(/ 200 /)
  addresses.splice(0, 4, '127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.1')
  expect(await requestConnect(egress.path, `example.org:${port}`).status()).toMatch(/ 502 /)
})

describe('a server that never answers', () => {
  /** A stopped server with a full accept queue: the kernel drops further connections. */
  async function deaf(): Promise<number> {
    const program =
      "const s = require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => console.log(s.address().port))"
    const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
    cleanups.push(() => void child.kill('SIGKILL'))
    const port = await new Promise<number>((resolve) =>
      child.stdout.once('data', (text) => resolve(Number(text))),
    )
    child.kill('SIGSTOP')
    await Promise.all(Array.from({ length: 8 }, () => waitedFor(port)))
    return port
  }

  /** Resolves when connected, or after longer than loopback ever takes. */
  function waitedFor(port: number): Promise<void> {
    return new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', resolve)
      cleanups.push(() => void socket.destroy())
      socket.setTimeout(200, resolve).on('error', () => {})
    })
  }

  test('is abandoned after seven seconds', async () => {
    const clock = new ManualClock()
    const egress = await openProxy({ ...loopbackAllowed, clock })
    const port = await deaf()
    const client = requestConnect(egress.path, `example.org:${port}`)
    await until('the proxy dials the server', () => clock.timers === 1 && egress.totals().connections === 1)
    await until('the proxy has replied', async () => {
      await clock.advance(1_000)
      return client.text() !== ''
    })
    expect(await client.status()).toBe('HTTP/1.1 502 Bad Gateway')
    expect(egress.lines).toEqual([`egress: example.org:${port} failed: the host did not answer`])
    expect(clock.monotonic()).toBeGreaterThanOrEqual(7_000)
  })

  test('does not delay the closing of the proxy; nor does a silent name server', async () => {
    const clock = new ManualClock()
    const port = await deaf()
    const egress = await openProxy({ ...loopbackAllowed, clock })
    const unnamed = await openProxy({ ...loopbackAllowed, clock, resolve: () => new Promise(() => {}) })
    const clients = [
      requestConnect(egress.path, `example.org:${port}`),
      requestConnect(unnamed.path, 'example.org:443'),
    ]
    await until(
      'both connections are open',
      () => egress.totals().connections + unnamed.totals().connections === 2,
    )
    await until('the proxy dials the server', () => clock.timers === 1)
    await Promise.all([egress.close(), unnamed.close()])
    await Promise.all(clients.map((client) => client.whole()))
    expect(clock.timers).toBe(0)
    expect([...egress.lines, ...unnamed.lines]).toEqual([])
  })
})

describe('hostile clients', () => {
  test('a request that is not complete within ten seconds is refused, even if bytes keep arriving', async () => {
    const clock = new ManualClock()
    const egress = await openProxy({ ...loopbackAllowed, clock })
    const client = connectClient(egress.path, 'CONNECT exa')
    await until('the connection is open', () => egress.totals().connections === 1)
    await clock.advance(HEAD_MS_MAX - 1)
    client.socket.write('mple')
    await clock.advance(1)
    expect(await client.status()).toBe('HTTP/1.1 408 Request Timeout')
    await client.whole()
  })

  test('an endless head is refused', async () => {
    const egress = await openProxy(loopbackAllowed)
    const client = connectClient(
      egress.path,
      `CONNECT example.org:443 HTTP/1.1\r\nx: ${'y'.repeat(HEAD_BYTES_MAX)}`,
    )
    expect(await client.status()).toMatch(/^HTTP\/1\.1 431 /)
    const whole = connectClient(
      egress.path,
      `CONNECT example.org:443 HTTP/1.1\r\nx: ${'y'.repeat(HEAD_BYTES_MAX)}\r\n\r\n`,
    )
    expect(await whole.status()).toMatch(/^HTTP\/1\.1 431 /)
  })

  test('a client that closes its half before the request is disconnected', async () => {
    const egress = await openProxy(loopbackAllowed)
    const client = connectClient(egress.path, 'CONNECT exam')
    client.socket.end()
    expect(await client.whole()).toBe('')
    await until('no connection is left', () => egress.totals().connections === 0)
    expect(egress.lines).toEqual([])
  })

  test('a refused client that neither reads nor closes is disconnected after a second', async () => {
    const clock = new ManualClock()
    const egress = await openProxy({ clock })
    const socket = connect({ path: egress.path, allowHalfOpen: true })
    cleanups.push(() => void socket.destroy())
    socket.on('error', () => {}).pause()
    socket.write('CONNECT example.org:443 HTTP/1.1\r\n\r\n')
    await until('the request is refused', () => egress.totals().refused === 1)
    await clock.advance(1_000)
    await until('no connection is left', () => egress.totals().connections === 0)
  })

  test('a refused client that is still sending can read the reason', async () => {
    const egress = await openProxy({ clock: new ManualClock() })
    const client = connectClient(egress.path, 'POST http://example.org/ HTTP/1.1\r\n\r\n')
    client.socket.end(Buffer.alloc(4 * 1024 * 1024))
    expect(await client.whole()).toContain('supports only CONNECT')
    expect(client.socket.bytesWritten).toBeGreaterThan(4 * 1024 * 1024)
  })

  test('connections above the limit are refused, and the others continue', async () => {
    const egress = await openProxy(loopbackAllowed)
    const port = await startEchoServer()
    const clients = Array.from({ length: CONNECTIONS_MAX }, () =>
      requestConnect(egress.path, `example.org:${port}`),
    )
    const statuses = await Promise.all(clients.map((client) => client.status()))
    expect(new Set(statuses)).toEqual(new Set([ESTABLISHED.trim()]))
    const beyond = await requestConnect(egress.path, `example.org:${port}`).whole()
    expect(beyond).toContain('there are 256 connections already')
    clients[0]?.socket.destroy()
    await until('a connection is free', () => egress.totals().connections < CONNECTIONS_MAX)
    expect(await requestConnect(egress.path, `example.org:${port}`).status()).toMatch(/ 200 /)
    clients[1]?.socket.write('still here')
    await until('the server has echoed', () => clients[1]?.text().endsWith('still here') === true)
  })

  test('a loop of refused requests does not fill the log', async () => {
    const clock = new ManualClock()
    const egress = await openProxy({ clock })
    for (let batch = 0; batch < 5; batch += 1) {
      const clients = Array.from({ length: 50 }, () => requestConnect(egress.path, 'example.org:443'))
      await Promise.all(clients.map((client) => client.whole()))
    }
    expect(egress.lines).toHaveLength(100)
    await clock.advance(2_000)
    await requestConnect(egress.path, 'example.org:443').whole()
    expect(egress.lines.slice(100)).toEqual([
      'egress: 150 more lines left out',
      expect.stringMatching(/^egress: example.org:443 refused: /),
    ])
  })

  test('targets are logged as short printable text', async () => {
    const egress = await openProxy()
    await requestConnect(egress.path, `\x1b[31m\u202e${'a'.repeat(3_000)}:443`).whole()
    expect(egress.lines).toHaveLength(1)
    expect(egress.lines[0]).toMatch(/^egress: [ -~]{99}… refused: /)
  })
})

describe('the socket', () => {
  test('may be in a folder whose path is longer than a socket address', async () => {
    const folder = join(tempFolder(), 'x'.repeat(120), 'y'.repeat(120))
    mkdirSync(folder, { recursive: true })
    const path = join(folder, 'egress.sock')
    const egress = await openEgressProxy({
      network: 'open',
      allowedHosts: [],
      socketPath: path,
      clock: realClock,
      log: () => {},
    })
    expect(statSync(path).isSocket()).toBe(true)
    // Opens again over a socket that a killed worker would leave.
    const again = await openEgressProxy({
      network: 'open',
      allowedHosts: [],
      socketPath: path,
      clock: realClock,
      log: () => {},
    })
    await again.close()
    await egress.close()
    expect(() => statSync(path)).toThrow('ENOENT')
  })

  test('with an owner accepts no other user', async () => {
    if (process.geteuid?.() !== 0) return console.log('skipped: only root can give a socket away')
    const folder = tempFolder()
    execFileSync('chmod', ['755', folder])
    const path = join(folder, 'egress.sock')
    const egress = await openEgressProxy({
      network: 'open',
      allowedHosts: [],
      socketPath: path,
      owner: { uid: 61_001, gid: 61_001 },
      clock: realClock,
      log: () => {},
    })
    cleanups.push(() => egress.close())
    expect(statSync(path)).toMatchObject({ uid: 61_001, gid: 61_001, mode: 0o140600 })
    const tried = (uid: number) =>
      execFileSync(
        'setpriv',
        [
          ...['--reuid', String(uid), '--regid', String(uid), '--clear-groups', '--', process.execPath, '-e'],
          `require('net').connect(${JSON.stringify(path)}, () => { console.log('in'); process.exit() }).on('error', (e) => console.log(e.code))`,
        ],
        { encoding: 'utf8', env: {} },
      )
    // The proxy runs in this process, which is blocked meanwhile, so only the kernel accepts or refuses.
    expect(tried(61_001)).toBe('in\n')
    expect(tried(61_002)).toBe('EACCES\n')
  })

  test('in a missing folder is an error', async () => {
    const socketPath = join(tempFolder(), 'missing', 'egress.sock')
    const order = { network: 'open', allowedHosts: [], socketPath, clock: realClock, log: () => {} } as const
    await expect(openEgressProxy(order)).rejects.toThrow(/ENOENT.*missing/)
  })
})

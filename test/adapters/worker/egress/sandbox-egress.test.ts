/**
 * Tests of network access from inside a real sandbox: bubblewrap with its own network namespace, the bundled bridge, and
 * the proxy outside. Under root the sandbox runs as another user, as in a worker.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { chmodSync, existsSync, readFileSync } from 'node:fs'
import { createServer as createHttp } from 'node:http'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { networkInterfaces } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import { openEgressProxy } from '../../../../worker/sandbox/egress/egress-proxy.ts'
import {
  EGRESS_BRIDGE,
  EGRESS_PORT,
  openSandboxEgress,
  type SandboxEgress,
} from '../../../../worker/sandbox/egress/sandbox-egress.ts'
import { EGRESS_SOCKET } from '../../../../worker/sandbox/inside-paths.ts'
import { isRoot, testIf } from '../../../support/skips.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { until } from '../../../support/until.ts'

const root = dirname(dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url))))))
const sandboxUser = isRoot ? { uid: 61_001, gid: 61_001 } : undefined
const owner = sandboxUser === undefined ? {} : { owner: sandboxUser }

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterAll(async () => {
  for (const clean of cleanups.reverse()) await clean()
})

// ---- the sandbox -----------------------------------------------------------------------------------------------------

let tools = ''
let shippedEgress: SandboxEgress
const lines: string[] = []
/** The network-related part of the launcher's argument list. */
const ISOLATION_OPTIONS =
  '--unshare-user --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup --disable-userns --die-with-parent ' +
  '--cap-drop ALL --new-session --uid 1000 --gid 1000 --clearenv --setenv PATH /usr/local/bin:/usr/bin:/bin --ro-bind /usr /usr ' +
  '--symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --tmpfs /run --dir /etc'

interface SandboxParts {
  readonly socket?: string
  readonly bridge?: boolean
  readonly environment?: Readonly<Record<string, string>>
}

function startInSandbox(
  command: readonly string[],
  { socket, bridge = true, environment = {} }: SandboxParts,
): ChildProcess {
  const options = [
    ...ISOLATION_OPTIONS.split(' '),
    ...Object.entries(environment).flatMap(([name, value]) => ['--setenv', name, value]),
    ...(socket === undefined ? [] : ['--ro-bind', socket, EGRESS_SOCKET]),
    ...(bridge ? ['--ro-bind', tools, dirname(EGRESS_BRIDGE)] : []),
    ...['--json-status-fd', '3', '--remount-ro', '/run', '--remount-ro', '/', '--chdir', '/tmp'],
  ]
  return spawn('/usr/bin/bwrap', [...options, '--', ...command], {
    ...sandboxUser,
    env: {},
    cwd: '/',
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
  })
}

interface CommandEnd {
  readonly code: number | null
  readonly output: string
  readonly complaint: string
}

async function awaitEnd(child: ChildProcess, stdin?: string | Buffer): Promise<CommandEnd> {
  const [output, complaint] = [collectText(child.stdout), collectText(child.stderr)]
  child.stdin?.on('error', () => {}).end(stdin)
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  return { code, output: output(), complaint: complaint() }
}

function collectText(stream: NodeJS.ReadableStream | null): () => string {
  let text = ''
  stream?.setEncoding('utf8').on('data', (part: string) => {
    text += part
  })
  return () => text
}

/** Runs a command in the sandbox with network access to public addresses only. */
const runInside = (command: readonly string[], stdin?: string | Buffer) =>
  awaitEnd(startInSandbox(shippedEgress.wrapCommand(command), openParts()), stdin)

function openParts(): SandboxParts {
  if (shippedEgress.socketPath === undefined) throw new Error('there is no way out')
  return { socket: shippedEgress.socketPath, environment: shippedEgress.environment }
}

function socketPath(): string {
  const folder = tempFolder()
  chmodSync(folder, 0o711)
  return folder
}

beforeAll(async () => {
  tools = socketPath()
  execFileSync(join(root, 'node_modules', '.bin', 'esbuild'), [
    join(root, 'worker/inside/egress-bridge.ts'),
    ...['--bundle', '--platform=node', '--format=cjs', '--log-level=error'],
    `--outfile=${join(tools, 'egress-bridge.js')}`,
  ])
  chmodSync(join(tools, 'egress-bridge.js'), 0o644)
  const log = (line: string) => void lines.push(line)
  const order = { allowedHosts: ['example.org'], folder: socketPath(), ...owner, log, clock: realClock }
  shippedEgress = await openSandboxEgress({ network: 'allowlist', ...order })
  cleanups.push(() => shippedEgress.close())
})

// ---- tests -------------------------------------------------------------------------------------------------------

describe('the command behind the bridge', () => {
  test('keeps its exit code or signal, also when it does not exist', async () => {
    const [seven, killed, missing] = await Promise.all([
      runInside(['sh', '-c', 'echo out; echo err >&2; exit 7']),
      runInside(['sh', '-c', 'kill -TERM $$']),
      runInside(['/no/such/program']),
    ])
    expect(seven).toEqual({ code: 7, output: 'out\n', complaint: 'err\n' })
    expect(killed).toMatchObject({ code: 128 + 15, output: '' })
    expect(missing).toMatchObject({ code: 127, complaint: expect.stringContaining('/no/such/program') })
  })

  test('gets its arguments and input unchanged', async () => {
    const words = ['', 'a b', "it's", '$HOME `id`', '*', '-n', 'ü\n']
    const program = 'process.stdout.write(JSON.stringify(process.argv.slice(1)))'
    expect(JSON.parse((await runInside(['node', '-e', program, '--', ...words])).output)).toEqual(words)
    const input = randomBytes(1024 * 1024)
    const { output } = await runInside(['sha256sum'], input)
    expect(output).toContain(createHash('sha256').update(input).digest('hex'))
  })

  test('is the started process, without children, descriptors or variables of the bridge', async () => {
    const program = `
      const fs = require('fs')
      const children = fs.readFileSync('/proc/self/task/' + process.pid + '/children', 'utf8').trim()
      const pipes = [0, 1, 2].every((fd) => fs.fstatSync(fd).isFIFO() || fs.fstatSync(fd).isSocket())
      console.log(JSON.stringify({ pid: process.pid, children, pipes, bridge: process.env.bridge }))`
    const plain = await awaitEnd(startInSandbox(['node', '-e', program], openParts()))
    const wrapped = await runInside(['node', '-e', program])
    expect(JSON.parse(wrapped.output)).toEqual(JSON.parse(plain.output))
    const descriptors = ['/bin/ls', '/proc/self/fd']
    expect((await runInside(descriptors)).output).toBe(
      (await awaitEnd(startInSandbox(descriptors, openParts()))).output,
    )
  })

  test('is interrupted as without a bridge, and the bridge keeps running', async () => {
    const program = `
      process.on('SIGINT', () => require('net').connect(${EGRESS_PORT}, '127.0.0.1', () => { console.log('interrupted, bridged'); process.exit(5) }))
      setInterval(() => {}, 1000); console.log('ready')`
    const child = startInSandbox(shippedEgress.wrapCommand(['node', '-e', program]), openParts())
    const status = collectText((child.stdio[3] as NodeJS.ReadableStream | null) ?? null)
    const output = collectText(child.stdout)
    const over = new Promise((resolve) => child.on('close', resolve))
    const init = () => Number(/"child-pid": (\d+)/.exec(status())?.[1])
    await until('the command is ready', () => output() === 'ready\n' && init() > 0)
    const [command = 0] = readFileSync(`/proc/${init()}/task/${init()}/children`, 'utf8')
      .split(' ')
      .map(Number)
    process.kill(command, 'SIGINT')
    expect(await over).toBe(5)
    expect(output()).toBe('ready\ninterrupted, bridged\n')
  })

  test('may signal its whole process group without losing the network', async () => {
    const script = `trap '' INT TERM HUP QUIT; kill -INT 0; kill -TERM 0; kill -HUP 0; kill -QUIT 0; exec node -e "
      require('net').connect(${EGRESS_PORT}, '127.0.0.1', () => { console.log('bridged'); process.exit() })"`
    expect(await runInside(['sh', '-c', script])).toMatchObject({ code: 0, output: 'bridged\n' })
  })

  test('does not start when the bridge fails, and the reason is printed', async () => {
    const { socket = '', environment = {} } = openParts()
    const done = await awaitEnd(
      startInSandbox(shippedEgress.wrapCommand(['echo', 'started']), { socket, environment, bridge: false }),
    )
    expect(done).toMatchObject({ code: 69, output: '' })
    expect(done.complaint).toMatch(
      /^switchyard: the network access of the sandbox could not be opened: .*egress-bridge/s,
    )
    const taken = `node -e "require('net').createServer().listen(${EGRESS_PORT}, '127.0.0.1')" & while ! grep -q ${EGRESS_PORT.toString(16).toUpperCase()} /proc/net/tcp; do :; done; exec "$@"`
    const second = await awaitEnd(
      startInSandbox(
        ['sh', '-c', taken, 'sh', ...shippedEgress.wrapCommand(['echo', 'started'])],
        openParts(),
      ),
    )
    expect(second).toMatchObject({ code: 69, output: '', complaint: expect.stringContaining('EADDRINUSE') })
  })

  test('without a network has no socket, no variables, and no wrapper', async () => {
    const none = await openSandboxEgress({
      network: 'none',
      allowedHosts: [],
      folder: '/nowhere',
      log: () => {},
      clock: realClock,
    })
    expect(none.socketPath).toBeUndefined()
    expect(none.environment).toEqual({})
    expect(none.wrapCommand(['a', 'b'])).toEqual(['a', 'b'])
    await none.close()
  })
})

describe('the bridge by itself', () => {
  async function bridged(path: string): Promise<number> {
    const port = await freePort()
    const child = spawn(process.execPath, [join(tools, 'egress-bridge.js'), String(port), path])
    cleanups.push(() => child.kill('SIGKILL'))
    const printed = collectText(child.stdout)
    await until('the bridge listens', () => printed() === 'listening')
    return port
  }

  test('after a clean close, a slow reader still gets all bytes', async () => {
    const total = 8 * 1024 * 1024 + 1_000
    const path = join(tempFolder(), 'socket')
    const far = createServer({ allowHalfOpen: true }, (socket) => {
      socket.resume().on('end', () => socket.end(Buffer.alloc(total)))
    })
    await listenOn(far, { path })
    const client = connect({ port: await bridged(path), host: '127.0.0.1', allowHalfOpen: true })
    client.end()
    let got = 0
    client.on('data', (bytes) => {
      got += bytes.length
      client.pause()
      setTimeout(() => client.resume(), 1)
    })
    await new Promise((resolve) => client.on('close', resolve))
    expect(got).toBe(total)
  })

  test('a failing program ends only its own connection', async () => {
    const path = join(tempFolder(), 'socket')
    let closedSockets = 0
    await listenOn(
      createServer((socket) =>
        socket
          .on('error', () => {})
          .on('close', () => (closedSockets += 1))
          .write('hello'),
      ),
      { path },
    )
    const port = await bridged(path)
    for (const count of [1, 2]) {
      const client = connect(port, '127.0.0.1')
      await new Promise((resolve) => client.once('data', resolve))
      client.resetAndDestroy()
      await until('its connection is closed', () => closedSockets === count)
    }
  })

  test('a program notices when the proxy is unreachable', async () => {
    const client = connect(await bridged(join(tempFolder(), 'nobody')), '127.0.0.1')
    const error = await new Promise((resolve) =>
      client
        .resume()
        .on('error', resolve)
        .on('end', () => resolve('a clean end')),
    )
    expect(error).toMatchObject({ code: 'ECONNRESET' })
  })
})

test('closing logs the totals', async () => {
  const logged: string[] = []
  const order = { network: 'open', allowedHosts: [], folder: tempFolder(), clock: realClock } as const
  const egress = await openSandboxEgress({ ...order, log: (line) => void logged.push(line) })
  const socket = connect(egress.socketPath ?? '', () => socket.write('CONNECT 127.0.0.1:80 HTTP/1.1\r\n\r\n'))
  await new Promise((resolve) => socket.resume().on('close', resolve))
  await egress.close()
  expect(logged).toEqual([
    expect.stringMatching(/^egress: 127.0.0.1:80 refused: the host is not at a public address/),
    'egress: closed after 0 connections, 0 bytes out, 0 bytes in; 1 refused, 0 failed',
  ])
})

describe('programs inside', () => {
  // Without curl, the Node probes below still test the same.
  const withCurl = testIf(existsSync('/usr/bin/curl'), 'needs curl')
  const served = { bodies: 0 }
  let site = 0
  let socket = ''

  beforeAll(async () => {
    const server = createHttp((request, response) => {
      served.bodies += 1
      response.end(`hello from ${request.headers.host}`)
    })
    site = await listenOn(server)
    socket = join(socketPath(), 'egress.sock')
    const egress = await openEgressProxy({
      network: 'allowlist',
      allowedHosts: [`example.org:${site}`],
      socketPath: socket,
      ...owner,
      log: (line) => void lines.push(line),
      clock: realClock,
      resolve: async () => ['127.0.0.1'],
      mayReach: (address) => address === '127.0.0.1',
    })
    cleanups.push(() => egress.close())
  })

  const asked = (command: readonly string[]) =>
    awaitEnd(
      startInSandbox(shippedEgress.wrapCommand(command), { socket, environment: shippedEgress.environment }),
    )
  const curl = (...args: string[]) => asked(['curl', '-sS', '--max-time', '10', ...args])

  withCurl('curl gets through the proxy that the variables name, and nowhere without it', async () => {
    const url = `http://example.org:${site}/`
    expect(await curl('--proxytunnel', url)).toEqual({
      code: 0,
      output: `hello from example.org:${site}`,
      complaint: '',
    })
    expect(await curl('--noproxy', '*', url)).toMatchObject({
      output: '',
      complaint: expect.stringContaining('resolve host'),
    })
    expect(await curl('--noproxy', '*', `http://127.0.0.1:${site}/`)).toMatchObject({ code: 7, output: '' })
    expect((await curl(url)).output).toContain('supports only CONNECT')
    expect(await curl('-v', '--proxytunnel', `http://other.example:${site}/`)).toMatchObject({
      output: '',
      complaint: expect.stringContaining('403'),
    })
  })

  withCurl('many at once', async () => {
    const script = `for i in $(seq 40); do curl -sS -p http://example.org:${site}/ & done; wait`
    const { output } = await asked(['sh', '-c', script])
    expect(output.split('hello from')).toHaveLength(41)
  })

  describe('the network probes', () => {
    /** Raw requests to the proxy, of which the first line of the reply is checked. */
    const attempts: Readonly<Record<string, () => string>> = {
      control: () => `CONNECT example.org:${site} HTTP/1.1`,
      'other name': () => `CONNECT other.example:${site} HTTP/1.1`,
      'other port': () => 'CONNECT example.org:443 HTTP/1.1',
      literal: () => `CONNECT 127.0.0.1:${site} HTTP/1.1`,
      decimal: () => `CONNECT 2130706433:${site} HTTP/1.1`,
      hex: () => `CONNECT 0x7f000001:${site} HTTP/1.1`,
      octal: () => `CONNECT 017700000001:${site} HTTP/1.1`,
      short: () => `CONNECT 127.1:${site} HTTP/1.1`,
      IPv6: () => `CONNECT [::1]:${site} HTTP/1.1`,
      mapped: () => `CONNECT [::ffff:127.0.0.1]:${site} HTTP/1.1`,
      localhost: () => `CONNECT localhost:${site} HTTP/1.1`,
      'suffix look-alike': () => `CONNECT notexample.org:${site} HTTP/1.1`,
      'prefix look-alike': () => `CONNECT example.org.evil.test:${site} HTTP/1.1`,
      'upper case': () => `CONNECT EXAMPLE.ORG:${site} HTTP/1.1`,
      'trailing dot': () => `CONNECT example.org.:${site} HTTP/1.1`,
      userinfo: () => `CONNECT user@example.org:${site} HTTP/1.1`,
      percent: () => `CONNECT example%2eorg:${site} HTTP/1.1`,
      NUL: () => `CONNECT example.org\0.evil.test:${site} HTTP/1.1`,
      'absolute GET': () => `GET http://example.org:${site}/ HTTP/1.1`,
    }

    /** The same program runs inside and, as the control, outside. */
    const direct = `
      const net = require('net'), dgram = require('dgram')
      const [tcp, own, ownPort, udp, abstract, patience] = process.argv.slice(1)
      // Public targets are not awaited.
      const reach = (options, ms = Number(patience)) => new Promise((resolve) => {
        const socket = net.connect(options, () => { socket.destroy(); resolve('reached') })
        socket.setTimeout(ms, () => { socket.destroy(); resolve('silence') }).on('error', (error) => resolve(error.code))
      })
      const ask = (port, host, ms = Number(patience)) => new Promise((resolve) => {
        const socket = dgram.createSocket('udp4')
        const end = (how) => { clearTimeout(timer); try { socket.close() } catch {}; resolve(how) }
        const timer = setTimeout(end, ms, 'silence')
        socket.on('message', () => end('reached')).on('error', (error) => end(error.code))
        socket.send('?', port, host, (error) => error && end(error.code))
      })
      const attempts = {
        loopback: reach({ host: '127.0.0.1', port: Number(tcp) }),
        'own address': reach({ host: own, port: Number(ownPort) }),
        udp: ask(Number(udp), '127.0.0.1'),
        abstract: reach({ path: '\\0' + abstract }),
        metadata: reach({ host: '169.254.169.254', port: 80 }, 600),
        public: reach({ host: '1.1.1.1', port: 443 }, 600),
        'public UDP 53': ask(53, '1.1.1.1', 600),
      }
      const found = async ([name, how]) => [name, await how]
      Promise.all(Object.entries(attempts).map(found)).then((all) => console.log(JSON.stringify(Object.fromEntries(all))))`

    /** Sends each line to the proxy, and prints the status by name. */
    const asker = `
      const net = require('net'), attempts = JSON.parse(process.argv[1])
      const ask = (line) => new Promise((resolve) => {
        let text = ''
        const socket = net.connect(${EGRESS_PORT}, '127.0.0.1', () => socket.write(line + '\\r\\nHost: example.org\\r\\n\\r\\n', 'latin1'))
        socket.setEncoding('latin1').on('data', (part) => { text += part; if (text.includes('\\r\\n')) socket.destroy() })
        socket.on('close', () => resolve(text.split(' ')[1])).on('error', () => {})
      })
      const main = async () => {
        const statuses = {}
        for (const [name, line] of Object.entries(attempts)) statuses[name] = await ask(line)
        console.log(JSON.stringify(statuses))
      }
      main()`

    test('through the proxy reach only the listed name at its port, spelt as listed', async () => {
      const before = served.bodies
      const requests = Object.fromEntries(Object.entries(attempts).map(([name, line]) => [name, line()]))
      const { output, complaint } = await asked(['node', '-e', asker, JSON.stringify(requests)])
      expect(complaint).toBe('')
      const { control, ...others } = JSON.parse(output)
      expect(control).toBe('200')
      expect(Object.keys(others)).toHaveLength(18)
      expect(Object.values(others).filter((status) => !/^40[035]$/.test(String(status)))).toEqual([])
      expect(served.bodies).toBe(before)
    })

    test('cannot reach a name that resolves to this machine, whatever is listed', async () => {
      const folder = socketPath()
      const strict = await openEgressProxy({
        network: 'open',
        allowedHosts: [],
        socketPath: join(folder, 'egress.sock'),
        ...owner,
        log: () => {},
        clock: realClock,
        resolve: async () => ['127.0.0.1'],
      })
      cleanups.push(() => strict.close())
      const inner = { socket: join(folder, 'egress.sock'), environment: shippedEgress.environment }
      const requests = { name: `CONNECT example.org:${site} HTTP/1.1` }
      const done = await awaitEnd(
        startInSandbox(shippedEgress.wrapCommand(['node', '-e', asker, JSON.stringify(requests)]), inner),
      )
      expect(JSON.parse(done.output)).toEqual({ name: '403' })
    })

    test('around the proxy reach nothing, although everything on this machine answers outside', async () => {
      const abstract = `switchyard-test-${process.pid}`
      const tcp = await listenOn(createServer((socket) => socket.end()))
      const ownAddress = Object.values(networkInterfaces())
        .flatMap((addresses = []) => addresses)
        .find(({ internal, family }) => !internal && family === 'IPv4')?.address
      const ownPort =
        ownAddress === undefined
          ? 0
          : await listenOn(
              createServer((socket) => socket.end()),
              ownAddress,
            )
      const udp = createSocket('udp4').on('message', (_, from) => udp.send('!', from.port, from.address))
      await new Promise<void>((resolve) => udp.bind(0, '127.0.0.1', resolve))
      cleanups.push(() => udp.close())
      await listenOn(
        createServer((socket) => socket.end()),
        { path: `\0${abstract}` },
      )

      const args = [tcp, ownAddress ?? '127.0.0.1', ownPort, udp.address().port, abstract].map(String)
      const command = ['node', '-e', direct, ...args]
      const outside = await awaitEnd(
        spawn('/usr/bin/env', [...command, '30000'], {
          cwd: '/tmp',
          env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
        }),
      )
      expect(JSON.parse(outside.output)).toMatchObject({
        loopback: 'reached',
        udp: 'reached',
        abstract: 'reached',
        ...(ownAddress === undefined ? {} : { 'own address': 'reached' }),
      })
      const within = [...command, '600']
      for (const done of await Promise.all([asked(within), awaitEnd(startInSandbox(within, {}))])) {
        const found = JSON.parse(done.output)
        expect(Object.keys(found)).toHaveLength(7)
        expect(Object.entries(found).filter(([, how]) => how === 'reached')).toEqual([])
        expect(found).toMatchObject({
          metadata: 'ENETUNREACH',
          public: 'ENETUNREACH',
          'public UDP 53': 'ENETUNREACH',
        })
      }
    })
  })
})

/** Finds a free port outside the ephemeral range, so that no other process gets it before its use. */
async function freePort(): Promise<number> {
  for (let port = 20_000 + (process.pid % 10_000); ; port += 1) {
    const server = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
    })
    await new Promise((resolve) => server.close(resolve))
    if (isFree) return port
  }
}

async function listenOn(server: Server, at: string | { path: string } = '127.0.0.1'): Promise<number> {
  await new Promise<void>((resolve) => {
    if (typeof at === 'string') server.listen(0, at, resolve)
    else server.listen(at, resolve)
  })
  cleanups.push(() => new Promise((resolve) => server.close(resolve)))
  const address = server.address()
  return typeof address === 'object' && address !== null ? (address as AddressInfo).port : 0
}

/** `switchyard worker` as a person uses it, and the host's local worker: real processes, files and signals. */
import { execFileSync } from 'node:child_process'
import { createHash, X509Certificate } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { FleetResponse, WorkerView } from '../../protocol/worker.ts'
import {
  type CommandProcess,
  commandPath,
  configWithAnyPort,
  keepForFile,
  runCommand,
  sandboxFolder,
  serve,
} from '../support/command-process.ts'
import { freePort } from '../support/free-ports.ts'
import { drawSeed, Random } from '../support/random.ts'
import { testAsRoot } from '../support/skips.ts'
import { encodeCloseFrame, startSocketServer } from '../support/socket-server.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const HERE = 'http://127.0.0.1:1'
/** A failing worker is restarted, and dials, with growing pauses. */
const SEEN_MS_MAX = 45_000
/** A generous limit for a busy machine. */
const ENDED_MS_MAX = 15_000
const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8)

function hostFolder(config: string): string {
  const dataDir = tempFolder()
  writeFileSync(join(dataDir, 'config.json'), config, { mode: 0o600 })
  return dataDir
}

async function createTokenFile(host: CommandProcess): Promise<string> {
  const { body } = await host.request('/api/workers/pairing-tokens', { method: 'POST' })
  const path = join(tempFolder(), 'token')
  writeFileSync(path, `${(body as { token: string }).token}\n`, { mode: 0o600 })
  return path
}

/** Starts a worker with its own folder, which dials the running host. */
async function startWorker(
  host: CommandProcess,
  args: readonly string[] = [],
  dataDir = join(tempFolder(), 'worker'),
) {
  const { url } = await host.waitForLaunch()
  return runCommand(
    ['worker', '--host', url, '--data-dir', dataDir, '--log-level', 'debug', ...args],
    dataDir,
  )
}

let shared: CommandProcess | undefined
/** A host for all tests that only start workers; each test has workers of its own. */
function sharedHost(): CommandProcess {
  shared ??= keepForFile(serve(hostFolder(configWithAnyPort()), ['--log-level', 'debug']))
  return shared
}

const fleet = async (host: CommandProcess): Promise<readonly WorkerView[]> =>
  ((await host.request('/api/workers')).body as FleetResponse).workers

/** Waits until the only worker matches, or the only one with this id. */
async function waitForWorker(
  host: CommandProcess,
  what: string,
  isSo: (worker: WorkerView) => boolean,
  id?: string,
) {
  let seen: readonly WorkerView[] = []
  const found = async () => {
    seen = (await fleet(host)).filter((worker) => id === undefined || worker.id === id)
    return seen.length === 1 && seen.every(isSo)
  }
  await until(what, found, SEEN_MS_MAX).catch((error) => {
    throw new Error(`${error.message}\n${JSON.stringify(seen)}\n${host.err()}`)
  })
  return seen[0] as WorkerView
}

const isOnline = ({ connection }: WorkerView): boolean => connection === 'online'
const isOffline = ({ connection }: WorkerView): boolean => connection === 'offline'

async function startEnrolledWorker(host: CommandProcess, args: readonly string[] = []) {
  const token = await createTokenFile(host)
  const worker = await startWorker(host, ['--token-file', token, ...args])
  const credential = join(worker.dataDir, 'credential.json')
  await until('it has its credential', () => existsSync(credential))
  const { workerId } = JSON.parse(readFileSync(credential, 'utf8')) as { readonly workerId: string }
  const view = await waitForWorker(host, 'the worker is online', isOnline, workerId)
  return { worker, view, token }
}

const isGone = (pid: number): boolean => !existsSync(`/proc/${pid}/exe`) || stateOf(pid) === 'Z'
const stateOf = (pid: number): string | undefined => {
  try {
    return /\) (\w)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]
  } catch {
    return undefined
  }
}

/** Ignores a process that has already ended. */
function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

describe('wrong use ends with 2, the flag and a hint', () => {
  const put = (text: string): string => {
    const path = join(tempFolder(), 'file')
    writeFileSync(path, text, { mode: 0o600 })
    return path
  }

  test.each<[string, readonly string[], RegExp]>([
    ['no host', [], /--host is missing.*https:\/\/host\.example:4401/],
    [
      'a host that is no address',
      ['--host', 'host.example'],
      /--host: not the address of a host; write it like/,
    ],
    ['a line that others read', ['--host', 'http://192.0.2.7:4401'], /--host: .*--insecure/],
    ['no runs at once', ['--host', HERE, '--concurrency', '0'], /--concurrency.*from 1 to 64/],
    ['too many runs at once', ['--host', HERE, '--concurrency', '65'], /--concurrency.*from 1 to 64/],
    ['some runs at once', ['--host', HERE, '--concurrency', 'some'], /--concurrency.*from 1 to 64/],
    [
      'a name that nobody sees',
      ['--host', HERE, '--name', ' \u200b '],
      /--name: must have a visible character/,
    ],
    ['a negative wait', ['--host', HERE, '--drain-seconds', '-1'], /--drain-seconds/],
    [
      'a certificate that is none',
      ['--host', 'https://192.0.2.7', '--ca-file', put('x')],
      /--ca-file: .*PEM/,
    ],
    [
      'a token that is none',
      ['--host', HERE, '--token-file', put('hello')],
      /--token-file: .*no pairing token/,
    ],
    ['a word that is none', ['--host', HERE, '--bogus'], /--bogus/],
  ])('%s', async (_what, args, fault) => {
    const ended = runCommand(['worker', ...args, '--data-dir', join(tempFolder(), 'worker')])
    expect(await ended.exit).toBe(2)
    expect(ended.err()).toMatch(fault)
  })

  test('a folder with other files', async () => {
    const shared = tempFolder()
    chmodSync(shared, 0o755)
    writeFileSync(join(shared, 'letter.txt'), '')
    const ended = runCommand(['worker', '--host', HERE, '--data-dir', shared])
    expect(await ended.exit).toBe(2)
    expect(ended.err()).toContain('--data-dir')
    expect(readdirSync(shared)).toEqual(['letter.txt'])
  })
})

describe('a worker', () => {
  test('enrolls with a token file, which is then deleted; its credential is its owner’s; idle, it stays under 120 MiB', async () => {
    const host = sharedHost()
    const { worker, view, token } = await startEnrolledWorker(host, ['--name', 'anvil', '--concurrency', '3'])
    expect(view).toMatchObject({ name: 'anvil', state: 'active', activeRuns: 0 })
    expect(view.local).toBeUndefined()
    expect(view.capabilities).toMatchObject({
      gitVersion: expect.stringMatching(/^\d+\.\d+/),
      os: 'linux',
      provider: 'bwrap',
      maxConcurrency: 3,
      version: '0.1.0',
    })
    await until('the token file is gone', () => !existsSync(token))
    const credential = join(worker.dataDir, 'credential.json')
    expect([mode(worker.dataDir), mode(credential)]).toEqual(['700', '600'])
    expect(JSON.parse(readFileSync(credential, 'utf8'))).toMatchObject({ workerId: view.id })

    const output = [host.err(), worker.err(), worker.out()].join('\n')
    expect(output).not.toMatch(/w[pc]-[\w-]{20}/)
    for (const part of ['cmdline', 'environ'])
      expect(readFileSync(`/proc/${worker.process.pid}/${part}`, 'utf8')).not.toMatch(/w[pc]-[\w-]{20}/)

    // A worker loads no modules of the host, so an idle one is small.
    const loaded = (pid: number | undefined) => /uws/i.test(readFileSync(`/proc/${pid}/maps`, 'utf8'))
    expect([loaded(host.process.pid), loaded(worker.process.pid)]).toEqual([true, false])
    const kib = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${worker.process.pid}/status`, 'utf8'))?.[1])
    expect(kib).toBeLessThan(120 * 1024)
  })

  testAsRoot('deletes the sandboxes of a data directory that was deleted days ago', async () => {
    const gone = join(tempFolder(), 'gone')
    const folder = join(sandboxFolder(), createHash('sha256').update(gone).digest('hex').slice(0, 16))
    mkdirSync(join(folder, 'sandboxes/run-1'), { recursive: true })
    const record = join(folder, 'belongs-to')
    writeFileSync(record, `${gone}\n${statSync(dirname(gone)).dev}\n`)
    utimesSync(record, 1_700_000_000, 1_700_000_000)
    await startEnrolledWorker(sharedHost())
    await until('the folder is deleted', () => !existsSync(folder))
  })

  test('stops on each signal, and comes back without a token, also after kill −9', async () => {
    const host = sharedHost()
    const { worker, view } = await startEnrolledWorker(host)
    let running = worker
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGKILL'] as const) {
      running.process.kill(signal)
      expect([signal, await running.exit]).toEqual([signal, signal === 'SIGKILL' ? 'SIGKILL' : 0])
      await waitForWorker(host, `the host notices ${signal}`, isOffline, view.id)
      running = await startWorker(host, [], worker.dataDir)
      await waitForWorker(host, 'it is back', isOnline, view.id)
    }
  })

  test('reconnects after its host stopped or died', async () => {
    const config = configWithAnyPort({ server: { port: await freePort() } })
    let host = serve(hostFolder(config))
    const { view } = await startEnrolledWorker(host)
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      host.process.kill(signal)
      await host.exit
      host = serve(host.dataDir)
      expect((await waitForWorker(host, 'it is back', isOnline)).id).toBe(view.id)
    }
  })

  test('finds a host of this machine by its data directory, also at another port', async () => {
    const dataDir = hostFolder(configWithAnyPort())
    let host = serve(dataDir, ['--port', String(await freePort())])
    await host.waitForLaunch()
    const folder = join(tempFolder(), 'worker')
    const own = ['worker', '--host-data-dir', dataDir, '--data-dir', folder]
    runCommand([...own, '--token-file', await createTokenFile(host)], folder)
    const { id } = await waitForWorker(host, 'it is online', isOnline)
    // The host shows the worker before its answer has arrived there.
    await until('it has its credential', () => existsSync(join(folder, 'credential.json')))
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      host.process.kill(signal)
      await host.exit
      host = serve(dataDir, ['--port', String(await freePort())])
      expect((await waitForWorker(host, 'it is back', isOnline)).id).toBe(id)
    }
    expect(await runCommand(['worker', 'drain', '--data-dir', folder, '--wait']).exit).toBe(0)
    const twice = runCommand([...own, '--host', HERE])
    expect([await twice.exit, twice.err()]).toEqual([2, expect.stringMatching(/--host: leave it out/)])
  })

  test('waits for a host that is not running yet', async () => {
    const dataDir = hostFolder(configWithAnyPort({ server: { port: await freePort() } }))
    const first = serve(dataDir)
    const { worker, view } = await startEnrolledWorker(first)
    worker.process.kill('SIGTERM')
    await worker.exit
    const { url } = await first.waitForLaunch()
    first.process.kill('SIGTERM')
    await first.exit
    const early = runCommand(['worker', '--host', url, '--data-dir', worker.dataDir, '--log-level', 'debug'])
    await until('it has tried', () => /ECONNREFUSED/.test(early.err()))
    const second = serve(dataDir)
    expect((await waitForWorker(second, 'it is there', isOnline)).id).toBe(view.id)
  })

  test('reaches the fleet listener over TLS only with the configured authority', async () => {
    const folder = tempFolder()
    const tls = { certFile: join(folder, 'cert.pem'), keyFile: join(folder, 'key.pem') }
    const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=host']
    const named = ['-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', tls.keyFile, '-out', tls.certFile]
    execFileSync('openssl', [...made, ...named], { stdio: 'ignore' })
    const host = serve(hostFolder(configWithAnyPort({ fleet: { host: '127.0.0.1', port: 0, tls } })))
    const { fleetUrl = '' } = await host.waitForLaunch()
    const { fingerprint256: fingerprint } = new X509Certificate(readFileSync(tls.certFile))
    const body = { name: 'fleet' }
    for (const path of ['/api/workers/pairing-tokens', '/api/workers/join-keys'])
      expect((await host.request(path, { method: 'POST', body })).body).toMatchObject({ fingerprint })
    const dataDir = join(tempFolder(), 'worker')
    const args = [
      'worker',
      '--host',
      fleetUrl,
      '--data-dir',
      dataDir,
      '--token-file',
      await createTokenFile(host),
    ]
    // A variable that turns Node's own checks off changes nothing.
    const wary = runCommand(args, dataDir, { NODE_TLS_REJECT_UNAUTHORIZED: '0' })
    await until('the log names the missing option', () => wary.err().includes('--ca-file'))
    wary.process.kill('SIGTERM')
    expect(await wary.exit).toBe(0)
    runCommand([...args, '--ca-file', tls.certFile])
    await waitForWorker(host, 'the worker is online', isOnline)
    const own = ['--host', fleetUrl, '--data-dir', dataDir]
    const preview = ['supervise', ...own, '--driver', 'command', '--stop-command', 'false', '--dry-run']
    const [careless, trusting] = [runCommand(preview), runCommand([...preview, '--ca-file', tls.certFile])]
    await until('one is answered, and one is not', () =>
      [careless.err().includes('--ca-file'), trusting.err().includes('would ')].every(Boolean),
    )
    const drain = ['worker', 'drain', ...own]
    const [unsure, drained] = [runCommand(drain), runCommand([...drain, '--ca-file', tls.certFile])]
    expect([await unsure.exit, await drained.exit]).toEqual([69, 0])
    // Without options the worker's own way to its host is used.
    expect(await runCommand(['worker', 'drain', '--data-dir', dataDir, '--wait']).exit).toBe(0)
  })

  test('pins its host by the fingerprint of the pairing answer, and a renewed certificate of the same key is accepted', async () => {
    const folder = tempFolder()
    const tls = { certFile: join(folder, 'cert.pem'), keyFile: join(folder, 'key.pem') }
    const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-keyout', tls.keyFile]
    const certify = (...key: readonly string[]) =>
      execFileSync(
        'openssl',
        ['req', '-x509', '-nodes', '-days', '2', '-subj', '/CN=switchyard', '-out', tls.certFile, ...key],
        { stdio: 'ignore' },
      )
    certify(...ec)
    const port = await freePort()
    const config = configWithAnyPort({ fleet: { host: '127.0.0.1', port, tls } })
    let host = serve(hostFolder(config))
    const restartHost = async () => {
      host.process.kill('SIGTERM')
      await host.exit
      host = serve(host.dataDir)
      await host.waitForLaunch()
    }
    await host.waitForLaunch()
    const minted = (await host.request('/api/workers/pairing-tokens', { method: 'POST' })).body
    const { token, fingerprint } = minted as { readonly token: string; readonly fingerprint: string }
    const tokenFile = join(folder, 'token')
    writeFileSync(tokenFile, token, { mode: 0o600 })
    const dataDir = join(tempFolder(), 'worker')
    const own = ['--host', `https://127.0.0.1:${port}`, '--data-dir', dataDir]
    const first = runCommand(['worker', ...own, '--token-file', tokenFile, '--fingerprint', fingerprint])
    const { id } = await waitForWorker(host, 'the worker is online', isOnline)
    await until(
      'it knows the key, and has its credential',
      () =>
        readFileSync(join(dataDir, 'host.json'), 'utf8').includes('hostKey') &&
        existsSync(join(dataDir, 'credential.json')),
    )
    first.process.kill('SIGTERM')
    expect(await first.exit).toBe(0)

    certify('-key', tls.keyFile)
    await restartHost()
    // The option is not repeated: the data directory holds the pin.
    const second = runCommand(['worker', ...own])
    expect((await waitForWorker(host, 'the worker is back', isOnline)).id).toBe(id)
    const preview = ['supervise', ...own, '--driver', 'command', '--stop-command', 'false', '--dry-run']
    const supervisor = runCommand(preview)
    await until('the supervisor is answered', () => supervisor.err().includes('would '))
    expect(await runCommand(['worker', 'drain', '--data-dir', dataDir]).exit).toBe(0)

    certify(...ec)
    await restartHost()
    await until('the log says how to accept the new key', () =>
      /not the pinned one, but [0-9A-F:]{95}; .*--fingerprint/.test(second.err()),
    )
    expect(await runCommand(['worker', 'drain', '--data-dir', dataDir]).exit).toBe(69)
    second.process.kill('SIGTERM')
    await second.exit
    const { fingerprint256 } = new X509Certificate(readFileSync(tls.certFile))
    runCommand(['worker', ...own, '--fingerprint', fingerprint256])
    expect((await waitForWorker(host, 'the new key is accepted', isOnline)).id).toBe(id)
  })

  test('stays connected while drained by an operator, until enabled again', async () => {
    const host = sharedHost()
    const { view } = await startEnrolledWorker(host)
    await host.request(`/api/workers/${view.id}/drain`, { method: 'POST' })
    await waitForWorker(
      host,
      'draining',
      ({ state, connection }) => state === 'draining' && connection === 'online',
      view.id,
    )
    await host.request(`/api/workers/${view.id}/enable`, { method: 'POST' })
    await waitForWorker(host, 'enabled', ({ state }) => state === 'active', view.id)
  })
})

describe('a worker ends', () => {
  test('77, its credential deleted, when it is revoked', async () => {
    const host = sharedHost()
    const { worker, view } = await startEnrolledWorker(host)
    const credential = join(worker.dataDir, 'credential.json')
    await host.request(`/api/workers/${view.id}`, { method: 'DELETE' })
    expect(await worker.exit).toBe(77)
    expect(existsSync(credential)).toBe(false)
    expect(worker.err()).toMatch(/switchyard: .*\w/)
  })

  test('77 with an unknown token; the file stays', async () => {
    const host = sharedHost()
    const before = await fleet(host)
    const path = join(tempFolder(), 'token')
    writeFileSync(path, `wp-${'x'.repeat(43)}`, { mode: 0o600 })
    const worker = await startWorker(host, ['--token-file', path])
    expect(await worker.exit).toBe(77)
    expect(existsSync(path)).toBe(true)
    expect(await fleet(host)).toHaveLength(before.length)
  })

  test('77 with neither token nor credential', async () => {
    const host = sharedHost()
    const worker = await startWorker(host)
    expect(await worker.exit).toBe(77)
    expect(worker.err()).toMatch(/switchyard: .*token/)
  })

  test('not with a used token beside a valid credential, but with 77 if it was revoked while offline', async () => {
    const host = sharedHost()
    const { worker, view } = await startEnrolledWorker(host)
    worker.process.kill('SIGTERM')
    await worker.exit
    const path = join(tempFolder(), 'token')
    writeFileSync(path, `wp-${'x'.repeat(43)}`, { mode: 0o600 })
    const again = await startWorker(host, ['--token-file', path], worker.dataDir)
    await waitForWorker(host, 'it is back', isOnline, view.id)

    again.process.kill('SIGTERM')
    await again.exit
    await host.request(`/api/workers/${view.id}`, { method: 'DELETE' })
    expect(await (await startWorker(host, [], worker.dataDir)).exit).toBe(77)
    expect(existsSync(join(worker.dataDir, 'credential.json'))).toBe(false)
  })

  test('75 if another worker uses its folder, which is not affected, or its credential', async () => {
    const host = sharedHost()
    const { worker, view } = await startEnrolledWorker(host)
    const second = await startWorker(host, [], worker.dataDir)
    expect(await second.exit).toBe(75)
    expect(second.err()).toContain(`process ${worker.process.pid}`)
    expect((await waitForWorker(host, 'the first is there', isOnline, view.id)).connectedAt).toBe(
      view.connectedAt,
    )

    const stolen = join(tempFolder(), 'worker')
    mkdirSync(stolen, { mode: 0o700 })
    const credential = readFileSync(join(worker.dataDir, 'credential.json'))
    writeFileSync(join(stolen, 'credential.json'), credential, { mode: 0o600 })
    await startWorker(host, [], stolen)
    expect(await worker.exit).toBe(75)
  })

  test.each([
    ['protocol', 'this host speaks version 9'],
    ['malformed', 'the first frame was no register'],
  ])('76 if the host answers %s', async (code, reason) => {
    const { port } = await startSocketServer(undefined, (peer) => {
      peer.send(JSON.stringify({ type: 'rejected', code, reason }))
      peer.socket.write(encodeCloseFrame(1008, code))
    })
    const token = join(tempFolder(), 'token')
    writeFileSync(token, `wp-${'x'.repeat(43)}`, { mode: 0o600 })
    const args = ['--data-dir', join(tempFolder(), 'worker'), '--token-file', token]
    const worker = runCommand(['worker', '--host', `http://127.0.0.1:${port}`, ...args])
    expect(await worker.exit).toBe(76)
    expect(worker.err()).toContain(reason)
  })

  test('70 if sandboxes cannot be created, naming the option for another folder', async () => {
    const file = join(tempFolder(), 'file')
    writeFileSync(file, '')
    const args = ['--data-dir', join(tempFolder(), 'worker'), '--sandbox-dir', file]
    const worker = runCommand(['worker', '--host', HERE, ...args])
    expect(await worker.exit).toBe(70)
    expect(worker.err()).toMatch(/^switchyard: no folder for sandboxes: .*; name .* --sandbox-dir$/m)
    expect(worker.err()).not.toMatch(/^ +at /m)
  })

  test('77 without a crash as a user without a home folder', async () => {
    const args = ['--data-dir', join(tempFolder(), 'worker')]
    const worker = runCommand(['worker', '--host', HERE, ...args], '', { HOME: join(tempFolder(), 'none') })
    expect(await worker.exit).toBe(77)
    expect(worker.err()).toContain('this machine is not paired')
  })

  test('with 70 or 0, but soon, after a second signal', async () => {
    const host = sharedHost()
    const { worker } = await startEnrolledWorker(host)
    worker.process.kill('SIGTERM')
    await new Promise((resolve) => setTimeout(resolve, 1_100))
    worker.process.kill('SIGTERM')
    expect([0, 70]).toContain(await worker.exit)
  })

  // Only root can hide a program.
  testAsRoot('69 where there is no sandbox, with the reason', async () => {
    const script = `mount --bind /dev/null /usr/bin/bwrap && exec "$@"`
    const args = [
      process.execPath,
      commandPath,
      'worker',
      '--host',
      HERE,
      '--data-dir',
      join(tempFolder(), 'worker'),
    ]
    let ended: { status?: number; stderr?: Buffer } = {}
    try {
      execFileSync('unshare', ['-m', 'sh', '-c', script, 'sh', ...args], { stdio: 'pipe' })
    } catch (error) {
      ended = error as typeof ended
    }
    expect(ended.status).toBe(69)
    expect(String(ended.stderr)).toMatch(/bubblewrap|bwrap/)
  })
})

describe('the local worker of a host', () => {
  const alone = (more: object = {}): string => JSON.stringify({ server: { port: 0 }, ...more })
  const pids = (host: CommandProcess): number[] =>
    [...host.err().matchAll(/"workerPid":(\d+),"msg":"the local worker was started"/g)].map(([, pid]) =>
      Number(pid),
    )
  const theLocal = async (host: CommandProcess): Promise<WorkerView> => {
    const view = await waitForWorker(host, 'the local worker is online', isOnline)
    const credential = join(host.dataDir, 'worker', 'credential.json')
    const isKept = () => existsSync(credential) && readFileSync(credential, 'utf8').includes(view.id)
    await until('it has its credential', isKept)
    return view
  }
  /** Never returns 0, because `kill 0` signals the whole process group. */
  function lastPid(host: CommandProcess): number {
    const pid = pids(host).at(-1)
    if (pid === undefined) throw new Error('the host’s log names no started worker')
    return pid
  }

  /** A host for the tests that leave it and its worker running. */
  let kept: CommandProcess | undefined
  const keptHost = (): CommandProcess => {
    kept ??= keepForFile(serve(hostFolder(alone()), ['--log-level', 'debug']))
    return kept
  }

  test('is enrolled automatically as local, and can be neither renamed nor revoked', async () => {
    const host = keptHost()
    const view = await theLocal(host)
    expect(view).toMatchObject({ local: true, capabilities: { maxConcurrency: 2 } })
    const folder = join(host.dataDir, 'worker')
    expect([mode(folder), mode(join(folder, 'credential.json'))]).toEqual(['700', '600'])
    await until('the token is gone', () => !existsSync(join(folder, 'token')))
    expect((await host.request(`/api/workers/${view.id}`, { method: 'DELETE' })).status).toBe(400)
    const rename = { method: 'POST', body: { name: 'x' } }
    expect((await host.request(`/api/workers/${view.id}/rename`, rename)).status).toBe(400)
    expect(host.err()).toContain('local worker: ')
    expect(host.err()).not.toMatch(/w[pc]-[\w-]{20}/)
  })

  test('inherits no descriptors of the host, and has its own process group', async () => {
    const host = keptHost()
    await theLocal(host)
    const pid = lastPid(host)
    const open = openFiles(pid)
    const databases = open.filter((path) => path.endsWith('data.mdb'))
    expect(databases.length).toBeGreaterThan(0)
    for (const path of databases) expect(path).toContain(join(host.dataDir, 'worker'))
    expect(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[2]).toBe(String(pid))
  })

  test('comes back as the same worker after a kill', async () => {
    const host = keptHost()
    const { id } = await theLocal(host)
    const first = lastPid(host)
    process.kill(first, 'SIGKILL')
    await until('another process', () => lastPid(host) !== first)
    expect((await waitForWorker(host, 'it is back', isOnline)).id).toBe(id)
  })

  test('does not run under a host with --no-local-worker, where it counts as any other worker', async () => {
    const dataDir = hostFolder(alone())
    const first = serve(dataDir)
    const { id } = await theLocal(first)
    first.process.kill('SIGTERM')
    await first.exit
    const host = serve(dataDir, ['--no-local-worker'])
    const { url } = await host.waitForLaunch()
    // The configuration still says true, and a worker of a service goes on in the same folder.
    const folder = join(dataDir, 'worker')
    const service = runCommand(['worker', '--host', url, '--data-dir', folder])
    const view = await waitForWorker(host, 'it is online', isOnline)
    expect([view.id, view.local]).toEqual([id, undefined])
    expect(pids(host)).toEqual([])
    service.process.kill('SIGTERM')
    expect(await service.exit).toBe(0)
    expect((await host.request(`/api/workers/${id}`, { method: 'DELETE' })).status).toBe(200)
  })

  test('follows the configuration: another concurrency, off, and on again', async () => {
    const host = keptHost()
    const { id } = await theLocal(host)
    const change = (patch: object) => host.request('/api/settings', { method: 'PUT', body: { patch } })
    await change({ sandbox: { concurrency: 5 } })
    const wider = (worker: WorkerView) => isOnline(worker) && worker.capabilities?.maxConcurrency === 5
    expect((await waitForWorker(host, 'five at once', wider)).id).toBe(id)
    const pid = lastPid(host)
    await change({ worker: { local: false } })
    await until('it is gone', () => isGone(pid))
    await waitForWorker(host, 'it is offline', isOffline)
    await change({ worker: { local: true } })
    expect((await waitForWorker(host, 'it is back', isOnline)).id).toBe(id)
  })

  test('ends when its host ends, is the same one under the next, and is enrolled again after losing its credential', async () => {
    let host = serve(hostFolder(alone()))
    const { id } = await theLocal(host)
    const endHost = async (signal: 'SIGTERM' | 'SIGKILL') => {
      const pid = lastPid(host)
      const began = performance.now()
      host.process.kill(signal)
      expect(await host.exit).toBe(signal === 'SIGTERM' ? 0 : 'SIGKILL')
      await until('the worker is gone', () => isGone(pid))
      expect(performance.now() - began).toBeLessThan(ENDED_MS_MAX)
    }
    for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
      await endHost(signal)
      host = serve(host.dataDir)
      expect((await theLocal(host)).id).toBe(id)
    }
    await endHost('SIGTERM')
    rmSync(join(host.dataDir, 'worker', 'credential.json'))
    const fresh = await theLocal(serve(host.dataDir))
    expect(fresh.id).not.toBe(id)
    expect(fresh.local).toBe(true)
  })

  test('is enrolled again if the host was restored from a backup that does not know it', async () => {
    const dataDir = hostFolder(alone({ worker: { local: false } }))
    const [state, backup] = [join(dataDir, 'state'), join(dataDir, 'backup')]
    const endHost = async (host: CommandProcess): Promise<void> => {
      host.process.kill('SIGTERM')
      expect(await host.exit).toBe(0)
    }
    const before = serve(dataDir)
    await until('the host serves', () => before.err().includes('switchyard is serving'))
    await endHost(before)
    cpSync(state, backup, { recursive: true })
    writeFileSync(join(dataDir, 'config.json'), alone())
    const host = serve(dataDir)
    const { id } = await theLocal(host)
    await endHost(host)
    rmSync(state, { recursive: true })
    cpSync(backup, state, { recursive: true })
    const fresh = await theLocal(serve(dataDir))
    expect(fresh.id).not.toBe(id)
    expect(fresh.local).toBe(true)
  })

  const CYCLES = Number(process.env.KILL_CYCLES ?? 5)
  const seed = drawSeed()
  test(
    `exists exactly once after ${CYCLES} kills of host or worker (SEED=${seed})`,
    async () => {
      const random = new Random(seed)
      let host = serve(hostFolder(alone()))
      for (let cycle = 0; cycle < CYCLES; cycle++) {
        await until('a local worker was started', () => pids(host).length > 0)
        // A random time between its start and well after its enrollment.
        await new Promise((resolve) => setTimeout(resolve, random.below(1_500)))
        const pid = lastPid(host)
        if (random.chance(0.5)) {
          killIfThere(pid)
        } else {
          host.process.kill('SIGKILL')
          await host.exit
          host = serve(host.dataDir)
        }
      }
      const view = await theLocal(host)
      expect(view.local).toBe(true)
    },
    60_000 + CYCLES * 5_000,
  )
})

/** The process opens and closes other files meanwhile. */
function openFiles(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)]
    } catch {
      return []
    }
  })
}

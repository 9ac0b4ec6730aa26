/** The local worker process: its arguments, what it must not inherit, and how it ends. */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import type { LocalWorkerOptions, LocalWorkerProcess } from '../../../core/ports/machines.ts'
import { createLocalWorker, type LocalWorkerPorts } from '../../../providers/local-worker.ts'
import { inheritableDescriptors } from '../../../store/lmdb/descriptors.ts'
import { openWorkerStore } from '../../../store/worker-store.ts'
import { createRecordingLog, noMeters, type RecordingLog } from '../../support/recording-log.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { closeAfterTest } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

/** A fake worker that logs its arguments and environment, then waits. */
const SCRIPT = `
import { readdirSync, readlinkSync, writeSync } from 'node:fs'
const say = (level, msg, more = {}) => writeSync(2, JSON.stringify({ level, time: 1, pid: 7, msg, ...more }) + '\\n')
const open = readdirSync('/proc/self/fd').flatMap((fd) => {
  try { return [[Number(fd), readlinkSync('/proc/self/fd/' + fd)]] } catch { return [] }
})
const { SWITCHYARD_TOKEN, SWITCHYARD_SANDBOX_DIR, SECRET_OF_ITS_OWN } = process.env
const own = { SWITCHYARD_TOKEN, SWITCHYARD_SANDBOX_DIR, SECRET_OF_ITS_OWN }
say(30, 'given', { args: process.argv.slice(2), open, ...own, group: process.pid })
say(50, 'sore')
writeSync(2, 'not JSON\\n')
writeSync(1, 'on the other stream\\n')
process.on('SIGTERM', () => { say(30, 'draining'); process.exit(0) })
process.stdin.resume().on('close', () => { say(20, 'let go of'); process.exit(3) })
writeSync(2, 'ready\\n')
`

const INSTALLATION = 'in-00000000000000aa'

interface LocalWorkerBench {
  readonly log: RecordingLog
  readonly dataDir: string
  readonly invitations: string[]
  start(order?: Partial<LocalWorkerOptions>): Promise<LocalWorkerProcess>
  loggedFields(message: string): object | undefined
}

function createLocalWorkerBench(given: Partial<LocalWorkerPorts> = {}): LocalWorkerBench {
  const folder = tempFolder()
  const script = join(folder, 'program.mjs')
  writeFileSync(script, SCRIPT)
  const dataDir = join(folder, 'worker')
  const log = createRecordingLog()
  const invitations: string[] = []
  const port = createLocalWorker({
    program: [process.execPath, script],
    dataDir,
    installation: INSTALLATION,
    url: () => 'http://127.0.0.1:4400',
    name: '-anvil',
    localRepos: [],
    privateCodeHosts: [],
    logLevel: 'debug',
    sharesActors: true,
    environment: {
      ...process.env,
      SWITCHYARD_TOKEN: 'the host’s',
      SWITCHYARD_SANDBOX_DIR: '/srv/sandboxes',
      SECRET_OF_ITS_OWN: 'kept',
    },
    inheritable: () => [],
    clock: realClock,
    log,
    ...given,
  })
  const invite = () => {
    invitations.push(`wp-${invitations.length}`)
    return invitations.at(-1) ?? ''
  }
  const loggedFields = (message: string) =>
    log.lines.find((line) => line.message === `local worker: ${message}`)
  return {
    log,
    dataDir,
    invitations,
    loggedFields,
    start: async (order = {}) => {
      const started = await port.start({
        concurrency: 3,
        codeHostFolder: null,
        codeHostOrigin: null,
        enrollAgain: false,
        createPairingToken: invite,
        ...order,
      })
      if (!started.ok) throw new Error(started.refusal.message)
      closeAfterTest(() => started.value.kill())
      await until('it is ready', () => loggedFields('ready') !== undefined)
      return started.value
    },
  }
}

test('receives the host, the data directory and the concurrency as arguments, and its token in a file', async () => {
  const { start, loggedFields, dataDir, invitations, log } = createLocalWorkerBench()
  await start()
  // Not `pid`, because each log line has the host's `pid` already.
  const begun = log.lines.find(({ message }) => /worker was started$/.test(message))
  expect(begun?.fields).toEqual({ workerPid: expect.any(Number) })
  const tokenFile = join(dataDir, 'token')
  expect(loggedFields('given')).toMatchObject({
    level: 'info',
    fields: {
      args: [
        ...['worker', '--host', 'http://127.0.0.1:4400', '--data-dir', dataDir, '--name=-anvil'],
        ...['--concurrency', '3', '--end-with-stdin', '--log-level', 'debug', '--log-format', 'json'],
        ...['--token-file', tokenFile, '--share-actors'],
      ],
      workerPid: 7,
      SWITCHYARD_SANDBOX_DIR: '/srv/sandboxes',
      SECRET_OF_ITS_OWN: 'kept',
    },
  })
  expect(JSON.stringify(loggedFields('given'))).not.toContain('the host’s')
  expect(readFileSync(tokenFile, 'utf8')).toBe('wp-0\n')
  expect([statSync(tokenFile).mode & 0o777, statSync(dataDir).mode & 0o777]).toEqual([0o600, 0o700])
  expect(invitations).toHaveLength(1)
})

test('a worker with a credential receives no pairing token, unless it enrolls again', async () => {
  const { start, dataDir, invitations, loggedFields, log } = createLocalWorkerBench()
  const first = await start()
  writeFileSync(join(dataDir, 'credential.json'), '{}')
  first.stop()
  await first.ended
  log.lines.length = 0
  const second = await start()
  expect(invitations).toHaveLength(1)
  expect(JSON.stringify(loggedFields('given'))).not.toContain('--token-file')
  expect(existsSync(join(dataDir, 'token'))).toBe(false)
  second.stop()
  await second.ended
  log.lines.length = 0
  await start({ enrollAgain: true })
  expect(invitations).toHaveLength(2)
  expect(existsSync(join(dataDir, 'credential.json'))).toBe(false)
})

test.each([
  [INSTALLATION, 0],
  ['in-00000000000000bb', 1],
])('a credential of the installation %s needs %s pairing tokens', async (installation, tokens) => {
  const { start, dataDir, invitations } = createLocalWorkerBench()
  mkdirSync(dataDir, { mode: 0o700 })
  writeFileSync(join(dataDir, 'credential.json'), JSON.stringify({ installation }))
  await start()
  expect(invitations).toHaveLength(tokens)
})

test('its log lines are forwarded with their level, and so is other output', async () => {
  const { start, log, loggedFields } = createLocalWorkerBench()
  await start()
  // Either of the two streams may be read first.
  await until('the other stream', () => loggedFields('on the other stream') !== undefined)
  const worded = log.lines.map(({ level, message }) => `${level} ${message}`)
  expect(worded).toEqual(
    expect.arrayContaining([
      'error local worker: sore',
      'warn local worker: not JSON',
      'warn local worker: on the other stream',
    ]),
  )
})

test('an open database of the host is not inherited', async () => {
  const parts = {
    clock: realClock,
    random: realRandom,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: 0,
  }
  const workerStore = await openWorkerStore({ dataDir: tempFolder(), ...parts })
  closeAfterTest(() => workerStore.close())
  const careless = createLocalWorkerBench()
  await careless.start()
  expect(JSON.stringify(careless.loggedFields('given'))).toContain('data.mdb')
  const careful = createLocalWorkerBench({ inheritable: inheritableDescriptors })
  await careful.start()
  expect(JSON.stringify(careful.loggedFields('given'))).not.toContain('data.mdb')
})

test('drain sends a signal, stop closes its input, kill ends it', async () => {
  const { start, loggedFields } = createLocalWorkerBench()
  const drained = await start()
  drained.drain()
  expect(await drained.ended).toEqual({ code: 0 })
  expect(loggedFields('draining')).toBeDefined()

  const stopped = await start()
  stopped.stop()
  expect(await stopped.ended).toEqual({ code: 3 })

  const killed = await start()
  killed.kill()
  expect(await killed.ended).toEqual({ signal: 'SIGKILL' })
  killed.kill()
  killed.drain()
  killed.stop()
})

test('receives the folders and hosts that git may use: those of the command line, and the code host’s', async () => {
  const { start, loggedFields } = createLocalWorkerBench({
    localRepos: ['/srv/more'],
    privateCodeHosts: ['git.corp.example'],
  })
  await start({ codeHostFolder: 'code', codeHostOrigin: '10.0.0.5:8443' })
  const { args } = Object(loggedFields('given')).fields
  expect(args.filter((arg: string) => /local-repos|private-code-host/.test(arg))).toEqual([
    '--local-repos=/srv/more',
    // A relative path of the configuration starts at the host's working directory.
    `--local-repos=${resolve('code')}`,
    '--private-code-host=git.corp.example',
    '--private-code-host=10.0.0.5:8443',
  ])
})

test('a missing program and a host that does not listen yet are refused', async () => {
  const order: LocalWorkerOptions = {
    concurrency: 1,
    codeHostFolder: null,
    codeHostOrigin: null,
    enrollAgain: false,
    createPairingToken: () => 'wp-',
  }
  const parts = (more: Partial<LocalWorkerPorts>): LocalWorkerPorts => ({
    program: ['/nowhere/node'],
    dataDir: join(tempFolder(), 'worker'),
    installation: INSTALLATION,
    url: () => 'http://127.0.0.1:1',
    name: 'x',
    localRepos: [],
    privateCodeHosts: [],
    logLevel: 'info',
    sharesActors: false,
    environment: {},
    inheritable: () => [],
    clock: realClock,
    log: createRecordingLog(),
    ...more,
  })
  expect(await createLocalWorker(parts({})).start(order)).toMatchObject({
    ok: false,
    refusal: { message: expect.stringContaining('/nowhere/node') },
  })
  expect(await createLocalWorker(parts({ url: () => undefined })).start(order)).toMatchObject({ ok: false })
})

/** A host whose database is lost says so and stops, and no start takes the loss for a new installation. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { FleetResponse } from '../../protocol/worker.ts'
import { EMPTIED } from '../../store/worker-store.ts'
import { compileC } from '../support/child-process.ts'
import { type CommandProcess, configWithAnyPort, runCommand, serve } from '../support/command-process.ts'
import { freePort } from '../support/free-ports.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const BROKEN = 70
const START_MS_MAX = 30_000
const TICKET = {
  identifier: 'LOST-1',
  title: 'Keep me',
}

const installationOf = (dataDir: string): string =>
  JSON.parse(readFileSync(join(dataDir, 'installation.json'), 'utf8')).id

const stateOf = (dataDir: string) => join(dataDir, 'state')
const dataOf = (dataDir: string) => join(stateOf(dataDir), 'data.mdb')

const losses: readonly (readonly [string, (dataDir: string) => void])[] = [
  ['truncated', (dataDir) => truncateSync(dataOf(dataDir), 0)],
  ['removed', (dataDir) => rmSync(stateOf(dataDir), { recursive: true })],
]

/** Creates a data directory with a local tracker that has one ticket. */
function newDirectory(): string {
  const dataDir = tempFolder()
  const tickets = join(dataDir, 'tickets')
  mkdirSync(tickets)
  writeFileSync(
    join(tickets, `${TICKET.identifier}.md`),
    `---\ntitle: ${TICKET.title}\nstate: Todo\n---\nNothing.\n`,
  )
  const config = configWithAnyPort({ tracker: { driver: 'local', path: tickets } })
  writeFileSync(join(dataDir, 'config.json'), config, { mode: 0o600 })
  return dataDir
}

async function runIds(host: CommandProcess): Promise<readonly string[]> {
  return ((await host.request('/api/runs')).body as { id: string }[]).map(({ id }) => id)
}

async function serveWithRun(dataDir: string): Promise<{ host: CommandProcess; ids: readonly string[] }> {
  const host = serve(dataDir)
  await host.waitForLaunch()
  await until('the ticket is queued', async () => (await runIds(host)).length === 1)
  return { host, ids: await runIds(host) }
}

async function pairingToken(host: CommandProcess): Promise<string> {
  const { body } = await host.request('/api/workers/pairing-tokens', { method: 'POST', body: {} })
  return (body as { token: string }).token
}

async function isOnline(host: CommandProcess): Promise<boolean> {
  const { workers } = (await host.request('/api/workers')).body as FleetResponse
  return workers.some(({ connection }) => connection === 'online')
}

async function stop(host: CommandProcess): Promise<void> {
  host.process.kill('SIGTERM')
  expect(await host.exit).toBe(0)
}

/** Expects that a start is refused with the command that restores the folder. */
async function expectRefusal(dataDir: string, ...words: readonly string[]): Promise<void> {
  const refused = serve(dataDir)
  expect(await refused.exit).toBe(BROKEN)
  for (const word of [...words, 'cp -a', stateOf(dataDir)]) expect(refused.err()).toContain(word)
}

test.each(losses)(
  'a database that is %s under a running host ends it, and is not begun anew',
  async (how, lose) => {
    const dataDir = newDirectory()
    const { host } = await serveWithRun(dataDir)
    const { url } = await host.waitForLaunch()
    lose(dataDir)
    // Without a connection the host has ended already. A check of the file answers for the next milliseconds too.
    const health = () =>
      fetch(`${url}/api/health`).then(
        (response) => response.status,
        () => 0,
      )
    await until('the host is unhealthy or has ended', async () => [0, 503].includes(await health()), 500)
    expect(await host.exit).toBe(BROKEN)
    expect(host.err()).toContain(`${dataOf(dataDir)} was ${how}`)
    await expectRefusal(dataDir)
    await expectRefusal(dataDir)
  },
)

test('a host whose idle database is removed stops by itself', async () => {
  const dataDir = newDirectory()
  const { host } = await serveWithRun(dataDir)
  rmSync(stateOf(dataDir), { recursive: true })
  expect(await host.exit).toBe(BROKEN)
})

test('the saved content of a removed database is restored, and its runs are there again', async () => {
  const dataDir = newDirectory()
  const { host, ids } = await serveWithRun(dataDir)
  rmSync(stateOf(dataDir), { recursive: true })
  expect(await host.exit).toBe(BROKEN)
  const [saved = ''] = readdirSync(dataDir).filter((name) => name.startsWith('state.rescued-'))
  await expectRefusal(dataDir, `cp -a ${join(dataDir, saved)}/. ${stateOf(dataDir)}`)
  cpSync(join(dataDir, saved), stateOf(dataDir), { recursive: true })
  const again = serve(dataDir)
  await again.waitForLaunch()
  expect(await runIds(again)).toEqual(ids)
  await stop(again)
})

test('a host does not end before the content of a removed database is saved, and says where it is', async () => {
  const dataDir = newDirectory()
  // LMDB writes the copy in two parts, so the copy takes longer than closing the store may.
  const LD_PRELOAD = compileC('test/support/slow-copy.c', ['-shared', '-fPIC', '-O1'])
  const host = serve(dataDir, [], { LD_PRELOAD, SLOW_COPY_SECONDS: '4' })
  await host.waitForLaunch()
  rmSync(stateOf(dataDir), { recursive: true })
  expect(await host.exit).toBe(BROKEN)
  const [saved = ''] = readdirSync(dataDir).filter((name) => name.startsWith('state.rescued-'))
  expect(saved).not.toContain('.part')
  expect(host.err()).toContain(`its content is saved in ${join(dataDir, saved)}`)
}, 60_000)

test('a database that is lost while the host is stopped is restored from a backup', async () => {
  const dataDir = newDirectory()
  const { host, ids } = await serveWithRun(dataDir)
  await stop(host)
  const backup = join(tempFolder(), 'backup')
  cpSync(stateOf(dataDir), backup, { recursive: true })
  for (const [, lose] of losses) {
    lose(dataDir)
    await expectRefusal(dataDir, 'BACKUP')
    expect(existsSync(join(dataDir, 'launch.json'))).toBe(false)
    cpSync(backup, stateOf(dataDir), { recursive: true })
    const again = serve(dataDir)
    await again.waitForLaunch()
    expect(await runIds(again)).toEqual(ids)
    await stop(again)
  }
})

test('a foreign database is refused', async () => {
  const [dataDir, foreign] = [newDirectory(), newDirectory()]
  for (const each of [dataDir, foreign]) await stop((await serveWithRun(each)).host)
  cpSync(stateOf(foreign), stateOf(dataDir), { recursive: true })
  await expectRefusal(dataDir, installationOf(foreign), join(dataDir, 'installation.json'))
})

test('a worker whose database is emptied while it works stops, and goes on with a word about what is lost', async () => {
  const [dataDir, workerDir] = [tempFolder(), tempFolder()]
  const config = configWithAnyPort()
  writeFileSync(join(dataDir, 'config.json'), config, { mode: 0o600 })
  const host = serve(dataDir)
  const { url } = await host.waitForLaunch()
  const tokenFile = join(tempFolder(), 'token')
  writeFileSync(tokenFile, await pairingToken(host), { mode: 0o600 })
  const command = ['worker', '--host', url, '--data-dir', workerDir, '--token-file', tokenFile]
  const first = runCommand(command, workerDir)
  await until('the worker is online', () => isOnline(host), START_MS_MAX)
  truncateSync(dataOf(workerDir), 0)
  expect(await first.exit).toBe(BROKEN)
  expect(first.err()).toContain(dataOf(workerDir))
  const again = runCommand(command, workerDir)
  const isWarned = () => `${again.out()}${again.err()}`.includes(EMPTIED)
  await until('the worker reports its loss', isWarned, START_MS_MAX)
  await until('the worker is back', () => isOnline(host), START_MS_MAX)
}, 90_000)

test('a worker keeps its credential at a host of another installation, and is back when its own returns', async () => {
  const fleetPort = await freePort()
  const [dataDir, foreign, workerDir] = [tempFolder(), tempFolder(), tempFolder()]
  const config = configWithAnyPort({ fleet: { host: '127.0.0.1', port: fleetPort } })
  for (const each of [dataDir, foreign]) writeFileSync(join(each, 'config.json'), config, { mode: 0o600 })
  const host = serve(dataDir)
  const tokenFile = join(tempFolder(), 'token')
  writeFileSync(tokenFile, await pairingToken(host), { mode: 0o600 })
  const place = ['--host', `http://127.0.0.1:${fleetPort}`, '--data-dir', workerDir]
  const worker = runCommand(['worker', ...place, '--token-file', tokenFile], workerDir)
  const credential = join(workerDir, 'credential.json')
  await until('the worker is enrolled', () => existsSync(credential))
  const stored = readFileSync(credential, 'utf8')
  expect(JSON.parse(stored)).toMatchObject({ installation: installationOf(dataDir) })
  await stop(host)

  const wrongHost = serve(foreign)
  await wrongHost.waitForLaunch()
  await until(
    'the worker met the wrong host',
    () => `${worker.out()}${worker.err()}`.includes(installationOf(foreign)),
    30_000,
  )
  await stop(wrongHost)
  expect(readFileSync(credential, 'utf8')).toBe(stored)

  const again = serve(dataDir)
  await until('the worker is online', () => isOnline(again), START_MS_MAX)
  expect(worker.process.exitCode).toBeNull()
}, 90_000)

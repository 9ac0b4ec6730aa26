/** The worker package on a machine without a checkout: in a root of its own, against a real host. */
import { spawn, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { testAsRoot } from '../support/skips.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { closeAfterTest } from '../support/test-resources.ts'
import { commandBesidePrograms, commandInEmptyRoot, unpackWorker } from '../support/unpacked-worker.ts'

const unpacked = unpackWorker()
const TEST_MS_MAX = 300_000

const run = ([program, words]: [string, string[]]) => spawnSync(program, words, { encoding: 'utf8' })
const WORKER = ['worker', '--host', 'http://127.0.0.1:9', '--data-dir', '/tmp/worker']

test('beside Node alone it says its version and its commands', () => {
  const version = run(commandInEmptyRoot(unpacked, ['version', '--json']))
  expect([version.status, version.stderr]).toEqual([0, ''])
  expect(JSON.parse(version.stdout)).toMatchObject({ version: '0.1.0', arch: process.arch })
  expect(run(commandInEmptyRoot(unpacked, ['--help'])).stdout.match(/^ {2}\w+/gm)).toEqual(
    ['worker', 'supervise', 'version', 'help'].map((name) => `  ${name}`),
  )
})

test('beside Node alone the supervisor and the drain of the own worker start', () => {
  const supervise = ['supervise', '--host', 'http://127.0.0.1:9', '--driver', 'command']
  const drain = ['worker', 'drain', '--data-dir', '/tmp/worker', '--host', 'http://127.0.0.1:9']
  const answers = [supervise, drain].map((words) => run(commandInEmptyRoot(unpacked, words)))
  expect(answers.map(({ status, stderr }) => [status, stderr])).toEqual([
    [2, expect.stringMatching(/--stop-command is missing/)],
    [2, expect.stringMatching(/no worker of the data directory \/tmp\/worker is enrolled/)],
  ])
})

test('beside Node alone the worker names bubblewrap, and the command that installs it', () => {
  const { status, stderr } = run(commandInEmptyRoot(unpacked, WORKER))
  expect([status, stderr]).toEqual([
    69,
    expect.stringMatching(/bubblewrap is not installed.*apt-get install/),
  ])
})

testAsRoot('without git it names git, and the command that installs it', () => {
  const { status, stderr } = run(commandBesidePrograms(unpacked, WORKER, { missing: ['/usr/bin/git'] }))
  expect([status, stderr]).toEqual([69, expect.stringMatching(/git does not start.*apt-get install git/)])
})

testAsRoot(
  'a worker from the package executes a run, and executes it again after kill −9',
  async () => {
    const system = await LocalSystem.open()
    const folder = tempFolder()
    const { body } = await system.host.request('/api/workers/pairing-tokens', { method: 'POST' })
    const tokenFile = join(folder, 'token')
    writeFileSync(tokenFile, (body as { token: string }).token, { mode: 0o600 })
    const start = (...more: readonly string[]) => {
      const [program, words] = commandBesidePrograms(
        unpacked,
        [
          ...['worker', '--host', `http://127.0.0.1:${system.fleetPort}`, '--data-dir', join(folder, 'data')],
          ...[`--local-repos=${system.code}`, ...more],
        ],
        { folders: [folder, system.folder] },
      )
      const worker = spawn(program, words, { stdio: 'ignore' })
      closeAfterTest(() => worker.kill('SIGKILL'))
      return worker
    }
    const first = start('--token-file', tokenFile)
    await system.waitForOnlineWorkers(1)
    system.writeTicket('ENG-1', ['write hello.txt', '  Hello!', 'commit Say hello', 'say Done.'])
    expect((await system.waitForEnd('ENG-1')).status).toBe('completed')
    expect(system.pulls('plain')).toHaveLength(1)

    system.writeTicket('ENG-2', [`run ${GATE}`])
    const interrupted = await system.waitForStatus('ENG-2', 'running')
    await system.waitForGate(interrupted)
    first.kill('SIGKILL')
    start()
    await system.waitForRun(
      'ENG-2',
      'executed again by the next process',
      (run) => run.status === 'running' && run.startedAt !== interrupted.startedAt,
    )
  },
  TEST_MS_MAX,
)

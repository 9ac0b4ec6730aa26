/** A supervisor, its worker and their host as real processes, with the scripted agent. */
import { once } from 'node:events'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { FleetResponse, WorkerView } from '../../protocol/worker.ts'
import { type CommandProcess, keepForFile, runCommand } from '../support/command-process.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { until } from '../support/until.ts'

const QUICK = ['--poll-seconds', '1', '--idle-seconds', '1', '--up-seconds', '0', '--log-level', 'debug']

let system: LocalSystem
const urlOf = () => `http://127.0.0.1:${system.fleetPort}`

beforeAll(async () => {
  system = await LocalSystem.open()
  keepForFile(system.host)
})
afterAll(() => system.waitForNoProcesses())

async function findWorker(name: string): Promise<WorkerView | undefined> {
  const { body } = await system.host.request('/api/workers')
  return (body as FleetResponse).workers.find((worker) => worker.name === name)
}

async function waitForWorker(name: string, expected: Partial<WorkerView>): Promise<WorkerView> {
  let seen: WorkerView | undefined
  const keys = Object.keys(expected) as (keyof WorkerView)[]
  await until(
    `${name} to be ${JSON.stringify(expected)}`,
    async () => {
      seen = await findWorker(name)
      return keys.every((key) => seen?.[key] === expected[key])
    },
    60_000,
  )
  if (seen === undefined) throw new Error('no worker')
  return seen
}

async function mintTokenFile(name: string): Promise<string> {
  const { body } = await system.host.request('/api/workers/pairing-tokens', { method: 'POST' })
  const file = join(system.folder, `token-${name}`)
  writeFileSync(file, (body as { token: string }).token, { mode: 0o600 })
  return file
}

const supervise = (name: string, args: readonly string[], workerArgs: readonly string[] = []) => {
  const dataDir = join(system.folder, name)
  const rest = workerArgs.length === 0 ? [] : ['--', ...workerArgs]
  return runCommand(
    ['supervise', '--host', urlOf(), '--data-dir', dataDir, ...QUICK, ...args, ...rest],
    dataDir,
  )
}

const changeState = (id: string, verb: 'drain' | 'enable') =>
  system.host.request(`/api/workers/${id}/${verb}`, { method: 'POST' })

const count = (process: CommandProcess, text: string): number => process.err().split(text).length - 1
const STARTING = 'starting the worker'

describe('the driver process', () => {
  const workerArgs = () => ['--name', 'forge', '--concurrency', '2', `--local-repos=${system.code}`]

  test('stops an idle worker, starts it for work, and leaves an operator’s drain and every run alone', async () => {
    const tokenFile = await mintTokenFile('forge')
    const first = supervise('forge', [], [...workerArgs(), '--token-file', tokenFile])
    const { id } = await waitForWorker('forge', { connection: 'online' })

    system.writeTicket('ENG-1', [`run ${GATE}`])
    await system.waitForGate(await system.waitForStatus('ENG-1', 'running'))
    const polls = count(first, 'the worker is idle')
    // The supervisor dies. Its worker goes on with the run, and ends after it.
    const isGone = once(first.process, 'exit')
    first.process.kill('SIGKILL')
    await isGone
    const second = supervise('forge', [], workerArgs())
    await until('the second supervisor finds the folder in use', () =>
      second.err().includes('ended by itself'),
    )
    system.openGates(await system.waitForStatus('ENG-1', 'running'))
    expect((await system.waitForEnd('ENG-1')).status).toBe('completed')
    expect(count(first, 'the worker is idle')).toBe(polls)

    await until('the worker is stopped', () => second.err().includes('the worker has stopped'), 60_000)
    expect(await waitForWorker('forge', { connection: 'offline', state: 'active' })).not.toHaveProperty(
      'drainedBy',
    )

    await changeState(id, 'drain')
    const starts = count(second, STARTING)
    system.writeTicket('ENG-2', [`run ${GATE}`])
    await system.waitForStatus('ENG-2', 'queued')
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    expect(count(second, STARTING)).toBe(starts)
    expect(await findWorker('forge')).toMatchObject({ state: 'draining', drainedBy: ['operator'] })
    await changeState(id, 'enable')
    const run = await system.waitForStatus('ENG-2', 'running')
    await system.waitForGate(run)

    second.process.kill('SIGTERM')
    await until('the signal was received', () => second.err().includes('stopping'))
    system.openGates(run)
    expect((await system.waitForEnd('ENG-2')).status).toBe('completed')
    expect(await second.exit).toBe(0)
  }, 180_000)

  test('ends with the exit code of a worker that a new start cannot help', async () => {
    const wrong = supervise('wrong', [], ['--name', ' '])
    expect(await wrong.exit).toBe(2)
    expect(wrong.err()).toContain('command line was refused')
  })
})

describe('the driver command', () => {
  test('runs the commands without a shell, tries a failing one again, and leaves the worker at its end', async () => {
    const worker = await system.pairWorker(['--name', 'anvil'])
    const script = join(system.folder, 'stop')
    const tried = join(system.folder, 'tried $HOME')
    writeFileSync(
      script,
      `#!/bin/sh\n[ -e "$1" ] || { touch "$1"; sleep 60; }\nkill -TERM ${worker.process.pid}; while kill -0 ${worker.process.pid} 2>/dev/null; do sleep 0.1; done\n`,
    )
    chmodSync(script, 0o755)
    const started = join(system.folder, 'started')
    const commands = [
      '--stop-command',
      JSON.stringify([script, tried]),
      '--start-command',
      `touch '${started}'`,
    ]
    const limit = ['--command-seconds', '1']
    const supervisor = supervise('worker1', ['--driver', 'command', ...commands, ...limit])
    await until('the stop has failed', () => supervisor.err().includes('took longer than 1 s'), 60_000)
    expect(existsSync(tried)).toBe(true)
    expect(await worker.exit).toBe(0)
    await waitForWorker('anvil', { connection: 'offline', state: 'active' })
    system.writeTicket('ENG-3', ['say Hello.'])
    await until('the start command has run', () => existsSync(started), 60_000)
    const again = system.startWorker(worker.dataDir, ['--name', 'anvil'])
    expect((await system.waitForEnd('ENG-3')).status).toBe('completed')
    supervisor.process.kill('SIGTERM')
    expect(await supervisor.exit).toBe(0)
    expect((await findWorker('anvil'))?.connection).toBe('online')
    again.process.kill('SIGTERM')
    expect(await again.exit).toBe(0)
  }, 120_000)

  test('--dry-run says what it would do, with a copy of the credential, and changes nothing', async () => {
    const worker = await system.pairWorker(['--name', 'mica'])
    const copy = join(system.folder, 'copy.json')
    writeFileSync(copy, readFileSync(join(worker.dataDir, 'credential.json')), { mode: 0o600 })
    const commands = ['--driver', 'command', '--stop-command', 'false']
    const preview = supervise('nowhere', [...commands, '--credential-file', copy, '--dry-run'])
    await until('it would drain', () => preview.err().includes('would drain the worker'), 60_000)
    expect(await findWorker('mica')).toMatchObject({ state: 'active', connection: 'online' })
    const [first = 0, last = 0] = preview
      .err()
      .split('\n')
      .filter((line) => line.includes('would '))
      .map((line) => Date.parse(JSON.parse(line).time))
    expect(last - first).toBeLessThan(10_000)
    preview.process.kill('SIGTERM')
    expect(await preview.exit).toBe(0)
    worker.process.kill('SIGTERM')
    await worker.exit
  }, 60_000)
})

test.each<[string, readonly string[], RegExp]>([
  ['without a host', [], /--host is missing/],
  ['without encryption', ['--host', 'http://192.0.2.1:1'], /add --insecure/],
  [
    'without a stop command',
    ['--host', 'http://127.0.0.1:1', '--driver', 'command'],
    /--stop-command is missing/,
  ],
  [
    'with a command for a process',
    ['--host', 'http://127.0.0.1:1', '--stop-command', 'x'],
    /--driver command/,
  ],
  ['with an open quote', ['--stop-command', "a 'b"], /a quote is not closed/],
  ['with two hosts', ['--host', 'http://127.0.0.1:1', '--', '--host=x'], /--host=x: write it before --/],
])('%s it is wrong use', async (_, args, message) => {
  const command = runCommand(['supervise', ...args])
  expect([await command.exit, command.err()]).toEqual([2, expect.stringMatching(message)])
})

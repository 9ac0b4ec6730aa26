/**
 * Two hosts on one data directory, and two workers on one: in two containers of one machine, and on two machines. One
 * owns the directory, the other ends with 75, and nothing is done twice.
 */
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import { REGISTERED_MESSAGE } from '../../actors/daemon/host-connection.ts'
import type { Run } from '../../protocol/run.ts'
import { type CommandProcess, readLaunch, runCommand } from '../support/command-process.ts'
import { GATE, isOver, LocalSystem } from '../support/local-system.ts'
import {
  IN_CONTAINER,
  onOtherMachine,
  testWithContainers,
  withoutKernelLocks,
} from '../support/namespaces.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 180_000
/** The configured ports are those of the first host. */
const OTHER_PORTS = ['--port', '0', '--fleet-port', '0']

function story(title: string, body: () => Promise<void>): void {
  testWithContainers(title, body, TEST_MS_MAX)
}

const serveIn = (
  before: readonly string[],
  { dataDir }: LocalSystem,
  args: readonly string[] = [],
): CommandProcess =>
  runCommand(['serve', '--data-dir', dataDir, ...OTHER_PORTS, ...args], dataDir, {}, undefined, before)

async function expectRefusal(refused: CommandProcess, message: RegExp): Promise<void> {
  expect([await refused.exit, refused.err()]).toEqual([75, expect.stringMatching(message)])
}

async function runsOf(system: LocalSystem): Promise<Run[]> {
  return (await system.host.request('/api/runs?limit=1000')).body as Run[]
}

async function expectDoneOnce(system: LocalSystem, identifiers: readonly string[]): Promise<void> {
  for (const identifier of identifiers) expect((await system.waitForEnd(identifier)).status).toBe('completed')
  const runs = (await runsOf(system)).map(({ ticket }) => ticket.identifier)
  expect(runs.sort()).toEqual([...identifiers].sort())
  expect(system.pulls('plain').map(({ headBranch }) => headBranch)).toHaveLength(identifiers.length)
}

async function kill({ process, exit }: CommandProcess): Promise<void> {
  process.kill('SIGKILL')
  await exit
}

story(
  'a second host in another container ends with 75 while tickets flow, and the directory opens afterwards',
  async () => {
    const system = await LocalSystem.open({ local: true })
    await system.waitForOnlineWorkers(1)
    const tickets = ['ENG-1', 'ENG-2', 'ENG-3', 'ENG-4']
    const write = (identifier: string) =>
      system.writeTicket(identifier, [`write ${identifier}.txt`, '  x', 'commit Say it'])
    for (const identifier of tickets.slice(0, 2)) write(identifier)
    const owner = new RegExp(`in use by another switchyard \\(process ${system.host.process.pid} .*since 2`)
    await Promise.all([
      expectRefusal(serveIn(IN_CONTAINER, system), owner),
      expectRefusal(serveIn(IN_CONTAINER, system, ['--take-over']), /cannot be taken over/),
      expectRefusal(serveIn(IN_CONTAINER, system, ['--take-over=exclusive-volume']), owner),
    ])
    for (const identifier of tickets.slice(2)) write(identifier)
    await expectDoneOnce(system, tickets)

    await kill(system.host)
    await system.useHost(serveIn(IN_CONTAINER, system))
    await expectDoneOnce(system, tickets)
    await expectRefusal(serveIn([], system), /in use by another switchyard \(process 1 in another container/)
    await kill(system.host)
    await system.startHost()
    await expectDoneOnce(system, tickets)
  },
)

story('a host whose directory another machine took over commits nothing more and ends with 75', async () => {
  const system = await LocalSystem.open({ hostEnv: withoutKernelLocks() })
  system.writeTicket('ENG-1', ['say hello'])
  await system.waitForStatus('ENG-1', 'queued')
  const first = system.host
  const machine = onOtherMachine()
  await expectRefusal(serveIn(machine, system), /cannot see whether[\s\S]*switchyard serve --take-over/)
  first.process.kill('SIGSTOP')
  system.writeTicket('ENG-2', ['say hello'])

  await system.useHost(serveIn(machine, system, ['--take-over']))
  await system.waitForStatus('ENG-2', 'queued')
  const launch = readLaunch(system.dataDir)
  const runs = await runsOf(system)
  // The host that was stopped polls the tracker as soon as it goes on.
  system.writeTicket('ENG-3', ['say hello'])
  first.process.kill('SIGCONT')
  await expectRefusal(first, /another switchyard has taken over .* \(process 1 on /)

  await system.waitForStatus('ENG-3', 'queued')
  const after = await runsOf(system)
  expect(after.map(({ ticket }) => ticket.identifier).sort()).toEqual(['ENG-1', 'ENG-2', 'ENG-3'])
  expect(after.filter(({ ticket }) => ticket.identifier !== 'ENG-3')).toEqual(runs)
  expect(readLaunch(system.dataDir)).toEqual(launch)
  await kill(system.host)
  // Nothing says whether that machine is gone for good; a volume that it had alone does.
  await expectRefusal(serveIn([], system), /cannot see whether/)
  await system.useHost(serveIn(onOtherMachine(), system, ['--take-over=exclusive-volume']))
  expect(await runsOf(system)).toEqual(after)
})

story('a host without its lock file refuses a second one, and goes on with a new lock file', async () => {
  const system = await LocalSystem.open()
  await kill(system.host)
  await system.useHost(serveIn(IN_CONTAINER, system))
  const owner = firstInside(system.host)
  process.kill(owner, 'SIGSTOP')
  const lock = lockOf(system)
  rmSync(lock)
  // Each is the first process of its container, as is the owner.
  await expectRefusal(serveIn(IN_CONTAINER, system), /process 1, whose lock file is missing/)
  process.kill(owner, 'SIGCONT')
  await until('the lock file is there again', () => existsSync(lock))
  await expectRefusal(serveIn(IN_CONTAINER, system), /process 1 in another container/)
  system.writeTicket('ENG-1', ['say hello'])
  await system.waitForStatus('ENG-1', 'queued')
  await kill(system.host)
})

function lockOf({ dataDir }: LocalSystem): string {
  return join(dataDir, readdirSync(dataDir).find((name) => name.startsWith('lock.')) ?? '')
}

function firstInside({ process: { pid } }: CommandProcess): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim())
}

story(
  'a second worker in another container ends with 75, and one that was taken over does, too',
  async () => {
    const system = await LocalSystem.open({ workerEnv: withoutKernelLocks() })
    const first = await system.pairWorker()
    const second = (args: readonly string[]) =>
      system.startWorker(first.dataDir, args, undefined, IN_CONTAINER)
    system.writeTicket('ENG-1', [`run ${GATE}`, 'write a.txt', '  x', 'commit Say it'])
    const run = await system.waitForStatus('ENG-1', 'running')
    await system.waitForGate(run)
    await expectRefusal(second([]), /cannot see whether[\s\S]*switchyard worker --take-over/)
    await expectRefusal(second(['--take-over=exclusive-volume']), /cannot see whether/)

    first.process.kill('SIGSTOP')
    const taker = second(['--take-over'])
    await until('the other worker is registered', () => taker.err().includes(REGISTERED_MESSAGE))
    first.process.kill('SIGCONT')
    await expectRefusal(first, /another switchyard has taken over .* in another container/)
    await until('the interrupted run is over', async () => {
      const now = await system.findRun('ENG-1')
      if (now !== undefined && !isOver(now)) system.openGates(now)
      return now !== undefined && isOver(now)
    })
    system.writeTicket('ENG-2', ['write b.txt', '  x', 'commit Say it'])
    expect((await system.waitForEnd('ENG-2')).status).toBe('completed')
    expect((await runsOf(system)).map(({ ticket }) => ticket.identifier).sort()).toEqual(['ENG-1', 'ENG-2'])
    await system.waitForNoProcesses()
    await kill(taker)
  },
)

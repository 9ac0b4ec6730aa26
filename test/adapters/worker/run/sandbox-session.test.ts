/** A repository's scripts in a real sandbox: their output, their end, and their background processes. */
import { once } from 'node:events'
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, describe, expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import type { ExecutionReport } from '../../../../core/daemon/ports.ts'
import type { Job } from '../../../../protocol/frames.ts'
import { type HeldProcess, startHeld } from '../../../../worker/run/agent/agent-launch.ts'
import { nodeInside } from '../../../../worker/run/disk/sandbox-location.ts'
import type { ExecutorDependencies } from '../../../../worker/run/execution/executor-dependencies.ts'
import { SandboxSession } from '../../../../worker/run/sandbox-session.ts'
import { machineMemoryBytes, memoryShareMib } from '../../../../worker/sandbox/cgroup.ts'
import type { SandboxOrder } from '../../../../worker/sandbox/driver.ts'
import { createOwnedFolder, sandboxUserOf } from '../../../../worker/sandbox/folders.ts'
import { thisMachine } from '../../../../worker/sandbox/local-machine.ts'
import { findSandbox } from '../../../../worker/sandbox/registry.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'
import { FIRST_SANDBOX_NUMBER } from '../../../support/sandbox.ts'

const machine = thisMachine()
const sandbox = await findSandbox()
if (!sandbox.ok) throw new Error(`these tests need a sandbox: ${sandbox.detail}`)
const launcher = sandbox.createLauncher(realClock)

const top = mkdtempSync(join(tmpdir(), 'switchyard-room-'))
chmodSync(top, 0o711)
afterAll(() => rmSync(top, { recursive: true, force: true }))

let made = 0
const DEFAULT_MIB = 2_049

async function createSession(
  job: Partial<Job> = {},
  nodeProgram = process.execPath,
  wrapCommand = (line: readonly string[]) => line,
) {
  made += 1
  const root = join(top, `run-${made}`)
  mkdirSync(root)
  chmodSync(root, 0o711)
  const sandboxUser = sandboxUserOf(FIRST_SANDBOX_NUMBER + made, machine)
  const inside = (name: string) => join(root, name)
  for (const name of ['work', 'home', 'out', 'exchange']) await createOwnedFolder(inside(name), sandboxUser)
  const printed: string[] = []
  const orders: SandboxOrder[] = []
  const report = (sent: ExecutionReport) => {
    if (sent.is === 'event' && sent.event.type === 'log')
      printed.push(`${sent.event.stream}: ${sent.event.text}`)
  }
  const dependencies = {
    clock: realClock,
    log: createRecordingLog(),
    launcher: {
      ...launcher,
      launch: (order: SandboxOrder) => {
        orders.push(order)
        return launcher.launch(order)
      },
    },
    userFor: () => sandboxUser,
    node: nodeInside(nodeProgram),
    insidePrograms: '/usr/bin',
    gitconfig: '',
    memoryMib: DEFAULT_MIB,
  } as unknown as ExecutorDependencies
  const folders = {
    root,
    work: inside('work'),
    home: inside('home'),
    out: inside('out'),
    exchange: inside('exchange'),
    staging: inside('desk'),
    number: made,
  }
  return {
    printed,
    orders,
    session: new SandboxSession({
      dependencies,
      job: { ...job, run: { id: `run-${made}` } } as unknown as Job,
      folders,
      egress: { environment: {}, wrapCommand, allow: () => {}, close: async () => {} },
      reporter: { report, waitForCapacity: async () => {} },
    }),
  }
}

test('Node of a home folder has a path inside that tells nothing of the machine', async () => {
  const own = join(top, 'node')
  copyFileSync('/bin/echo', own)
  chmodSync(own, 0o755)
  const { session, printed } = await createSession({}, own)
  await session.runScript('echo "$PATH"; "$SWITCHYARD_NODE" works; env')
  expect(printed.join('\n')).toContain(':/opt/switchyard-node:')
  expect(printed.join('\n')).toMatch(/\bworks$/m)
  expect(printed.join('\n')).not.toContain(top)
  await session.close()
})

test('processes and memory are limited as the job says', async () => {
  const limits = { maxProcesses: 99, memoryMib: 300 }
  const { session, orders } = await createSession({
    sandbox: { network: 'none', allowedHosts: [], exposeCodehostToken: false, ...limits },
  })
  await session.runScript('true')
  expect(orders).toEqual([expect.objectContaining(limits)])
  await session.close()
})

test('a sandbox without a limit has the share of the machine that the worker allows', async () => {
  const { session, orders } = await createSession()
  await session.runScript('true')
  expect(orders).toEqual([expect.objectContaining({ memoryMib: DEFAULT_MIB })])
  await session.close()
  expect(memoryShareMib(64 * 1024 ** 3, 4)).toBe(16 * 1024)
  expect(memoryShareMib(6 * 1024 ** 3, 4)).toBe(2 * 1024)
  expect(machineMemoryBytes()).toBeGreaterThan(0)
  expect(machineMemoryBytes()).toBeLessThanOrEqual(totalmem())
})

describe("a repository's script", () => {
  test.each([
    ['plain output', 'echo one; echo two >&2', 0, ['stderr: two', 'stdout: one']],
    [
      'output that is opened anew',
      'echo one > /dev/stdout; echo two > /dev/stderr',
      0,
      ['stderr: two', 'stdout: one'],
    ],
    ['an exit code', 'echo no; exit 7', 7, ['stdout: no']],
    ['nothing to read', 'cat; echo end', 0, ['stdout: end']],
    ['escapes', "printf '\\033[31mred\\033[0m\\n'", 0, ['stdout: red']],
  ])('%s', async (_, script, code, lines) => {
    const { session, printed } = await createSession()
    expect(await session.runScript(script)).toMatchObject({ code })
    expect(printed.sort()).toEqual(lines)
    await session.close()
  })

  test('its background processes are killed and not waited for', async () => {
    const { session, printed } = await createSession()
    expect(await session.runScript('sleep 600 & echo done')).toMatchObject({ code: 0 })
    expect(printed).toEqual(['stdout: done'])
    await session.close()
  })

  test('is ended by a stop, and none starts after it', async () => {
    const { session } = await createSession()
    const ended = session.runScript('sleep 600')
    session.stop()
    expect(await ended).not.toMatchObject({ code: 0 })
    expect(await session.runScript('echo again')).toEqual({})
    await session.close()
  })
})

describe('a command on hold', () => {
  const command = ['/bin/sh', '-c', 'echo begun > /work/begun; cat; exit 7']
  const isSandboxReady = ({ process: { stdout } }: HeldProcess) => once(stdout, 'data')
  /** Stands for the bridge to the network, which comes before the command. */
  const wrapCommand = (line: readonly string[]) => ['/bin/sh', '-c', 'echo ready; exec "$@"', 'sh', ...line]

  test('begins after its network, with the input that is its own', async () => {
    const { session } = await createSession({}, process.execPath, wrapCommand)
    const held = startHeld(session, { command, stdin: 'first\nsecond\n', withEgress: true })
    if (held === undefined) throw new Error('the session was stopped')
    await isSandboxReady(held)
    expect(readdirSync(session.folders.work)).toEqual([])
    held.begin()
    const { stdout, stderr, ended } = held.process
    expect(await Promise.all([text(stdout), text(stderr), ended])).toEqual([
      'first\nsecond\n',
      '',
      { code: 7 },
    ])
    expect(readdirSync(session.folders.work)).toEqual(['begun'])
    await session.close()
  })

  test.each(['discarding', 'stopping the session'])(
    'never begins after %s, and leaves nothing',
    async (how) => {
      const { session } = await createSession({}, process.execPath, wrapCommand)
      const held = startHeld(session, { command, withEgress: true })
      if (held === undefined) throw new Error('the session was stopped')
      await isSandboxReady(held)
      if (how === 'discarding') held.discard()
      else session.stop()
      held.begin()
      held.discard()
      await session.waitUntilEmpty()
      expect(readdirSync(session.folders.work)).toEqual([])
      expect(startHeld(session, { command }) === undefined).toBe(how !== 'discarding')
      await session.close()
    },
  )
})

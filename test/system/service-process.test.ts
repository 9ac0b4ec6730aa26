/**
 * Host and worker as services: what they say to the service manager, through the real `systemd-notify`, and the control
 * group that the manager delegates to them.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { FleetResponse, WorkerView } from '../../protocol/worker.ts'
import { MemoryGroups } from '../../worker/sandbox/cgroup-v1.ts'
import { compileC } from '../support/child-process.ts'
import { commandPath, configWithAnyPort, readLaunch, runCommand, serve } from '../support/command-process.ts'
import { describeIf, testIf } from '../support/skips.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { closeAfterTest } from '../support/test-resources.ts'
import { until } from '../support/until.ts'

const WATCHDOG_MS = 600
const canNotify = spawnSync('systemd-notify', ['--version']).status === 0

interface Manager {
  /** The variables of a service. */
  readonly env: NodeJS.ProcessEnv
  /** The messages, without those by which systemd-notify waits for their receipt. */
  readonly messages: () => string[]
}

async function openManager(): Promise<Manager> {
  const socket = join(tempFolder(), 'notify')
  const listener = spawn(compileC('test/support/notify-socket.c', ['-O1']), [socket])
  closeAfterTest(() => listener.kill('SIGKILL'))
  let out = ''
  listener.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  await until('the manager listens', () => out.startsWith('bound\n'))
  const messages = () =>
    out
      .split('\n')
      .slice(1, -1)
      .map((line) => line.replace(/^\d+; /, ''))
      .filter((message) => message !== 'BARRIER=1')
  return { env: { NOTIFY_SOCKET: socket, WATCHDOG_USEC: String(WATCHDOG_MS * 1_000) }, messages }
}

function hostFolder(): string {
  const dataDir = tempFolder()
  writeFileSync(join(dataDir, 'config.json'), configWithAnyPort())
  return dataDir
}

describeIf(canNotify, 'needs systemd-notify')('to the service manager', () => {
  test('a host says that it is ready when it listens, works, and stops', async () => {
    const { env, messages } = await openManager()
    const host = serve(hostFolder(), [], env)
    // Each message is sent by a process of its own, so a busy machine may change their order.
    const ready = () => messages().find((message) => message.startsWith('READY=1'))
    await until('the host is ready', () => ready() !== undefined)
    const launch = readLaunch(host.dataDir)
    expect(ready()).toBe(`READY=1; WATCHDOG=1; STATUS=serves ${launch?.url}`)
    const count = () => messages().filter((message) => message.includes('WATCHDOG=1')).length
    await until('the watchdog hears more', () => count() >= 3)

    host.process.kill('SIGTERM')
    expect(await host.exit).toBe(0)
    await until('the manager heard of the stop', () =>
      messages().some((each) => each.startsWith('STOPPING=1')),
    )
  })

  test('a host that can not start is never ready', async () => {
    const { env, messages } = await openManager()
    const dataDir = tempFolder()
    writeFileSync(join(dataDir, 'config.json'), '{ "server": { "port": "none" } }')
    expect(await serve(dataDir, [], env).exit).toBe(78)
    expect(messages()).toEqual([])
  })

  test('a worker is ready whether its host answers or not, and says which', async () => {
    const host = serve(hostFolder())
    const { url } = await host.waitForLaunch()
    const { body } = await host.request('/api/workers/pairing-tokens', { method: 'POST' })
    const token = join(tempFolder(), 'token')
    writeFileSync(token, (body as { token: string }).token, { mode: 0o600 })
    const { env, messages } = await openManager()
    const worker = runCommand(
      ['worker', '--host', url, '--data-dir', tempFolder(), '--token-file', token],
      '',
      env,
    )
    await until('the worker is connected', () => messages().some((each) => / connected to /.test(each)))
    const ready = messages().find((message) => message.startsWith('READY=1'))
    expect(ready).toMatch(/^READY=1; WATCHDOG=1; STATUS=serving, 0 runs, /)
    host.process.kill('SIGTERM')
    await host.exit
    await until('the worker misses its host', () => messages().at(-1)?.includes('not connected to') === true)
    worker.process.kill('SIGTERM')
    expect(await worker.exit).toBe(0)
    await until('the manager heard of the stop', () =>
      messages().some((each) => each.startsWith('STOPPING=1')),
    )
  })
})

// ---- control groups ------------------------------------------------------------------------------------------------

const top = ['/sys/fs/cgroup', '/sys/fs/cgroup/unified'].find((folder) => readOrEmpty(folder, 'cgroup.procs'))
const group = join(top ?? '', `switchyard-test-${process.pid}.service`)

function readOrEmpty(folder: string, file: string): string {
  try {
    return readFileSync(join(folder, file), 'utf8')
  } catch {
    return ''
  }
}

function canMakeGroup(): boolean {
  try {
    mkdirSync(group)
    rmdirSync(group)
    return true
  } catch {
    return false
  }
}

/** Starts a program as the only member of the group, as a service manager does. */
function startInGroup(args: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  const script = 'echo $$ > "$GROUP/cgroup.procs" && exec "$0" "$@"'
  const child = spawn('/bin/sh', ['-c', script, process.execPath, commandPath, ...args], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, GROUP: group, ...env },
    stdio: 'ignore',
  })
  closeAfterTest(async () => {
    child.kill('SIGKILL')
    await until('the group is empty', () => /^populated 0$/m.test(readOrEmpty(group, 'cgroup.events')))
    rmdirSync(join(group, 'switchyard-programs'))
    rmdirSync(group)
  })
  return child
}

testIf(canMakeGroup(), 'needs a cgroup v2')(
  'a host leaves the group that is delegated to it, so that its worker can make groups below it',
  async () => {
    const { env } = await openManager()
    mkdirSync(group)
    const dataDir = tempFolder()
    writeFileSync(join(dataDir, 'config.json'), configWithAnyPort({ worker: { local: true } }))
    const host = startInGroup(['serve', '--data-dir', dataDir], env)
    let worker: WorkerView | undefined
    await until('the local worker is online', async () => {
      const launch = readLaunch(dataDir)
      if (launch?.pid !== host.pid) return false
      const headers = { authorization: `Bearer ${launch?.token}` }
      const answer = await fetch(`${launch?.url}/api/workers`, { headers })
      worker = ((await answer.json()) as FleetResponse).workers[0]
      return worker?.connection === 'online'
    })
    const programs = readOrEmpty(join(group, 'switchyard-programs'), 'cgroup.procs').trim().split('\n')
    expect(programs).toContain(String(host.pid))
    expect(programs.length).toBeGreaterThan(1)
    // The kernel enables controllers below a group only while the group itself has no members.
    expect(readOrEmpty(group, 'cgroup.procs')).toBe('')
    const controllers = readOrEmpty(group, 'cgroup.controllers').trim().split(' ')
    const isDelegated = controllers.includes('memory') && controllers.includes('pids')
    // Where the memory controller belongs to version 1, a worker that is root uses its groups.
    const isLimited = isDelegated || MemoryGroups.find() !== undefined
    expect(worker?.capabilities?.limits).toBe(isLimited ? 'cgroup' : 'rlimit')
    const ofWorker = programs.filter((pid) => /worker/.test(readOrEmpty(`/proc/${pid}`, 'cmdline')))
    expect(ofWorker.map((pid) => readOrEmpty(`/proc/${pid}`, 'environ').includes('NOTIFY_SOCKET='))).toEqual([
      false,
    ])
  },
)

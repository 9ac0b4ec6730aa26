/** A person in a retained sandbox: the agent's session in a terminal, with real isolation. */

import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { no, yes } from '../../../../core/result.ts'
import type { RunCredentials } from '../../../../protocol/frames.ts'
import type { ClosableExecutor } from '../../../../worker/executor.ts'
import { openSandboxEgress } from '../../../../worker/sandbox/egress/sandbox-egress.ts'
import { removeFolderTree } from '../../../../worker/sandbox/folders.ts'
import { runTypeScript } from '../../../support/child-process.ts'
import { confirmedClock } from '../../../support/confirmed-clock.ts'
import {
  bootSandbox,
  executeJob,
  jobOf,
  KEY,
  openTerminal,
  openTestExecutor,
  RUN,
  SHELL,
  SIZE,
  SLOTS_FROM,
} from '../../../support/resumed-sandbox.ts'
import { ORDINARY_UID } from '../../../support/sandbox.ts'
import { isRoot, testAsRoot } from '../../../support/skips.ts'
import { until } from '../../../support/until.ts'

let folder = ''
let executor: ClosableExecutor

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'switchyard-booted-'))
  executor = await openTestExecutor(folder)
})
afterEach(async () => {
  await executor.discard(RUN)
  await executor.close()
  await removeFolderTree(folder)
})

const disk = () => join(folder, 'sandboxes', RUN)

async function steppedIn(more: Pick<RunCredentials, 'keyInSandbox'> = {}) {
  await executeJob(executor)
  const person = openTerminal(await bootSandbox(executor, KEY, more))
  await person.waitForText('scripted agent · ')
  await person.waitForText('> ')
  return person
}

async function shell() {
  const job = jobOf(['say hello'])
  await executeJob(executor, { ...job, agent: { ...job.agent, command: SHELL } })
  const person = openTerminal(await bootSandbox(executor))
  await person.waitForText('$ ')
  return person
}

describe('the terminal', () => {
  test('runs the session, echoes input, follows a resize, and ends with the agent’s exit code', async () => {
    const { session, waitForText: sees, ended, booted: sandbox } = await steppedIn()
    session.input('sa')
    await sees('sa')
    session.input('y Grüße, 世界\r')
    await sees('y Grüße, 世界')
    await sees('\r\nGrüße, 世界\r\n')
    session.input('exit 7\r')
    expect(await ended).toBe(7)
    await sandbox.close()
  })

  test('has a size, which can change, and job control', async () => {
    const { session, waitForText: sees, ended, booted: sandbox } = await shell()
    session.input('stty size; tput cols\n')
    await sees('30 100\r\n100\r\n')
    session.resize({ cols: 133, rows: 41 })
    session.input('stty size\n')
    await sees('41 133\r\n')
    const sleep = `sleep 6${process.pid}`
    session.input(`${sleep}\n`)
    // Wait, because ^Z before that would stop the shell, which then drops unread input.
    await until('the command sleeps', () => commandLines(sleep).length > 0)
    session.input('\u001a')
    await sees('Stopped')
    session.input('bg; jobs; kill -9 $$\n')
    await sees('Running')
    expect(await ended).toBe(137)
    await sandbox.close()
  })

  test('exists once: its messages are stored, and the next boot resumes them', async () => {
    const { session, waitForText: sees, booted: sandbox } = await steppedIn()
    session.input('say remember the milk\r')
    await sees('\r\nremember the milk\r\n')
    const first = await sandbox.close()
    expect(await sandbox.close()).toBe(first)
    const again = openTerminal(await bootSandbox(executor))
    await again.waitForText('remember the milk')
    await again.waitForText('> ')
    again.session.input('say and the bread\r')
    await again.waitForText('\r\nand the bread\r\n')
    const second = await again.booted.close()
    const count = (usage: typeof first) => usage.flatMap(({ entries }) => entries).length
    expect([count(second) - count(first), count(first) > 1]).toEqual([1, true])
    const sessions = new Set([...first, ...second].map(({ sessionId }) => sessionId))
    expect([...sessions]).toEqual([sandbox.sessionId])
    expect(readFileSync(join(disk(), 'work', 'kept.txt'), 'utf8')).toBe('kept\n')
  })

  test('blocks while paused, loses no output, and still accepts input', async () => {
    const bytes = 50 * 1024 * 1024
    await executeJob(executor)
    let [received, lines, tail, most, paused] = [0, 0, '', 0, true]
    const held = () => {
      collectGarbage()
      const { heapUsed, external } = process.memoryUsage()
      return heapUsed + external
    }
    let ready = () => {}
    const prompted = new Promise<void>((resolve) => {
      ready = resolve
    })
    const sandbox = await bootSandbox(executor)
    const session = sandbox.open(SIZE, {
      onOutput: (data) => {
        if (paused && received > 0) paused = false
        received += data.length
        tail = (tail + data).slice(-200)
        lines += data.split('\n').length - 1
        if (tail.endsWith('> ') || tail.includes('/exit leaves')) ready()
      },
      onExit: () => {},
    })
    await prompted
    const before = held()
    session.pause()
    session.input(`flood ${bytes}\r`)
    session.resume()
    for (let pauses = 0; pauses < 5; pauses += 1) {
      await until('a megabyte more has arrived', () => received > (pauses + 1) * 1024 * 1024)
      session.pause()
      await new Promise((resolve) => setTimeout(resolve, 50))
      const soFar = received
      await new Promise((resolve) => setTimeout(resolve, 100))
      expect(received - soFar).toBeLessThanOrEqual(64 * 1024)
      most = Math.max(most, held())
      session.resume()
    }
    await until('all output has arrived', () => tail.includes(`${bytes} bytes`), 100_000)
    expect(lines).toBeGreaterThanOrEqual(bytes / 64)
    expect(received).toBeGreaterThanOrEqual(bytes + bytes / 64)
    expect(most - before).toBeLessThan(20 * 1024 * 1024)
    await sandbox.close()
  }, 180_000)

  test('can be interrupted during a flood of unread output', async () => {
    const { session, waitForText: sees, ended, booted: sandbox } = await shell()
    const yes = `yes nothing but ${process.pid}`
    session.input(`${yes}\n`)
    await sees(`but ${process.pid}\r\nnothing but ${process.pid}`)
    session.pause()
    session.input('\u0003')
    await until('the command is gone', () => commandLines(yes).length === 0)
    session.input('exit 4\n')
    session.resume()
    expect(await ended).toBe(4)
    await sandbox.close()
  })

  test('that is opened after closing says so and ends', async () => {
    await executeJob(executor)
    const sandbox = await bootSandbox(executor)
    await sandbox.close()
    const late = openTerminal(sandbox)
    expect(await late.ended).toBe(137)
    expect(late.text()).toContain('closed')
  })

  test('of an agent that cannot start shows the reason and ends', async () => {
    const job = jobOf(['say hello'])
    await executeJob(executor, {
      ...job,
      agent: { ...job.agent, command: SHELL.replace('sh -i', '/no/such') },
    })
    const { ended, text, booted: sandbox } = openTerminal(await bootSandbox(executor))
    expect(await ended).not.toBe(0)
    expect(text()).toContain('not found')
    await sandbox.close()
  })
})

describe('after closing', () => {
  test('no credential is on the disk, neither then nor meanwhile', async () => {
    const { session, waitForText: sees, booted: sandbox } = await steppedIn({ keyInSandbox: true })
    session.input(
      'run grep -c -e "$(echo $ANTHROPIC_API_KEY | tail -c 21)" $CLAUDE_CONFIG_DIR/.claude.json\r',
    )
    await sees(/\r\n1\r\n/)
    session.input('run cat /proc/$PPID/environ | tr "\\\\0" "\\\\n" | grep -c ^ANTHROPIC\r')
    await sees(/\r\n1\r\n/)
    expect(holding(KEY.slice(-20))).toEqual([])
    await sandbox.close()
    expect(holding(KEY.slice(-20))).toEqual([])
    expect(holding('sk-ant')).toEqual([])
  })

  test('no credential was in the sandbox at all, unless the configuration asks for it', async () => {
    const { session, waitForText: sees, booted: sandbox } = await steppedIn()
    session.input('run printenv ANTHROPIC_API_KEY ANTHROPIC_BASE_URL\r')
    await sees(/\r\nsk-ant-api03-placeholder[\w-]+\r\nhttp:\/\/127\.0\.0\.1:61081\r\n/)
    const search = `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline $(find / -xdev -type f -size -100k -readable -not -path "/usr/*" -not -path "/proc/*" 2>/dev/null)`
    session.input(`run ${search} 2>/dev/null | grep -ac must-not-stay-any[w]here || true\r`)
    await sees(/\r\n0\r\n/)
    await sandbox.close()
  })

  test('no process is left', async () => {
    const { session, waitForText: sees, booted: sandbox } = await steppedIn()
    // Unique, unless another process on this machine sleeps equally long.
    const sleep = `sleep 87654.${process.pid}`
    // Processes that remain in the command's group are killed with it.
    const left = `(setsid sh -c ': > up; exec ${sleep}' >/dev/null 2>&1 </dev/null &)`
    session.input(`run ${left}; until [ -e up ]; do sleep 0.01; done; echo also\r`)
    await sees(/\r\nalso\r\n/)
    await until('the command sleeps', () => commandLines(sleep).length > 0)
    await sandbox.close()
    expect(commandLines(sleep)).toEqual([])
  })

  test('or killing the worker, no process and no credential is left, and the sandbox boots again', async () => {
    await executor.close()
    const child = runTypeScript('test/support/resumed-sandbox-worker.ts', [
      JSON.stringify({ folder, slotsFrom: SLOTS_FROM, does: 'stay' }),
    ])
    await until('the worker process waits', () => child.lines.includes('staying') || child.errors.length > 0)
    expect(child.errors).toEqual([])
    // Other tests may run agents at the same time.
    const { agent } = JSON.parse(readFileSync(join(disk(), 'sandbox.json'), 'utf8'))
    const resumed = `--resume ${agent.session}`
    expect(commandLines(resumed).length).toBeGreaterThan(0)
    child.process.kill('SIGKILL')
    await child.ended
    await until('no process of the sandbox is left', () => commandLines(join(disk())).length === 0)
    await until('no agent is left', () => commandLines(resumed).length === 0)
    expect(holding(KEY.slice(-20))).toEqual([])
    executor = await openTestExecutor(folder)
    const again = openTerminal(await bootSandbox(executor))
    await again.waitForText('scripted agent · ')
    await again.booted.close()
  })
})

describe('the isolation', () => {
  test.each([
    ['none', 'way: \r\n'],
    ['allowlist', 'way: http://127.0.0.1:'],
  ] as const)('are those of the run, also after a restart: %s', async (network, proxyLine) => {
    const job = jobOf(['say hello'], {
      sandbox: { network, allowedHosts: ['api.example.com'], maxProcesses: 99, exposeCodehostToken: true },
      credentials: { codehost: 'a-token-of-the-code-host' },
    })
    await executeJob(executor, { ...job, agent: { ...job.agent, command: SHELL } })
    await executor.close()
    const rules: object[] = []
    executor = await openTestExecutor(folder, {
      openEgress: (options) => {
        rules.push({ network: options.network, allowedHosts: options.allowedHosts })
        return openSandboxEgress(options)
      },
    })
    const { session, waitForText: sees, booted: sandbox } = openTerminal(await bootSandbox(executor))
    expect(rules).toEqual([{ network, allowedHosts: ['api.example.com'] }])
    await sees('$ ')
    session.input('echo "way: $HTTPS_PROXY"; cat /run/cred/codehost\n')
    await sees(proxyLine)
    await sees('No such file')
    expect(holding('a-token-of-the-code-host')).toEqual([])
    await sandbox.close()
  })
})

describe('a sandbox cannot be booted', () => {
  const refusal = async () => {
    const answer = await executor.boot({ runId: RUN, credentials: {} })
    return answer.ok ? 'booted' : answer.refusal.kind
  }

  test('if it does not exist or has expired', async () => {
    expect(await refusal()).toBe('gone')
    await executeJob(executor, jobOf(['say hello'], { retentionHours: 0 }))
    expect(await refusal()).toBe('gone')
  })

  test('if its folder is gone', async () => {
    await executeJob(executor)
    rmSync(join(disk(), 'work'), { recursive: true })
    expect(await refusal()).toBe('gone')
  })

  test('twice, nor during an execution; and no execution starts in a booted one', async () => {
    const job = jobOf(['say hello'])
    const reporter = { report: () => {}, waitForCapacity: async () => {} }
    const execution = executor.start({ leaseId: 'ls-1', workerId: 'wk-1', job }, reporter, () => {})
    await execution.prepare()
    expect(await refusal()).toBe('conflict')
    await execution.finish(await execution.runAgent())
    await execution.whenExited()
    const sandbox = await bootSandbox(executor)
    expect(await refusal()).toBe('conflict')
    expect(await executor.refusalOf(job, () => false)).toMatch(/^busy: /)
    await sandbox.close()
    expect(await executor.refusalOf(job, () => false)).toBe(undefined)
  })

  test('if its agent cannot be located; a later boot still works', async () => {
    const own = mkdtempSync(join(tmpdir(), 'switchyard-booted-'))
    const { createAgentDrivers } = await import('../../../../worker/agents/registry.ts')
    const drivers = createAgentDrivers({ path: '/usr/bin:/bin', home: '/root', hasOwnUsers: isRoot })
    let isWell = true
    const find = () => (isWell ? drivers.agentA.locate() : Promise.reject(new Error('too many open files')))
    const there = await openTestExecutor(own, {
      drivers: { ...drivers, agentA: { ...drivers.agentA, locate: find } },
    })
    await executeJob(there)
    isWell = false
    const answer = await there.boot({ runId: RUN, credentials: {} })
    expect(answer.ok ? 'booted' : answer.refusal.kind).toBe('failed')
    isWell = true
    await (await bootSandbox(there)).close()
    await there.close()
    await removeFolderTree(own)
  })

  test('after its disk is discarded, which closes an open terminal', async () => {
    const { booted: sandbox } = await steppedIn()
    await executor.discard(RUN)
    expect(existsSync(disk())).toBe(false)
    expect(await refusal()).toBe('gone')
    await sandbox.close()
  })
})

test('a visited sandbox counts as unpushed, even if the worker dies before the person leaves', async () => {
  const own = mkdtempSync(join(tmpdir(), 'switchyard-booted-'))
  const nothing = { commits: 0, diff: { files: 0, additions: 0, deletions: 0, text: '' } }
  const there = await openTestExecutor(own, {
    gitSources: {
      checkOut: async () => yes({ base: 'a' }),
      bundle: async () => yes(undefined),
      collect: async () => yes(nothing),
      publish: async () => no('failed', 'nothing is published here'),
      followUps: {} as never,
    },
  })
  await executeJob(there)
  const isUnpushed = () =>
    JSON.parse(readFileSync(join(own, 'sandboxes', RUN, 'sandbox.json'), 'utf8')).unpushed
  expect(isUnpushed()).toBe(false)
  const person = openTerminal(await bootSandbox(there))
  await person.waitForText('> ')
  await until('the sandbox is recorded as unpushed', isUnpushed)
  await person.booted.close()
  await there.close()
  await removeFolderTree(own)
})

test('the disk of a booted sandbox is not reclaimed', async () => {
  let now = 0
  const late = mkdtempSync(join(tmpdir(), 'switchyard-booted-'))
  const { realClock } = await import('../../../../bin/process/clock.ts')
  const clock = { ...realClock, now: () => realClock.now() + now }
  const there = await openTestExecutor(late, { clock, retentionClock: confirmedClock(clock) })
  await executeJob(there)
  const sandbox = await bootSandbox(there)
  now = 2 * 3_600_000
  expect(await there.reclaim(() => false)).toEqual([])
  expect(existsSync(join(late, 'sandboxes', RUN, 'work'))).toBe(true)
  await sandbox.close()
  // A person may have left work in it, so the host is asked.
  expect(await there.reclaim(() => false)).toMatchObject([{ runId: RUN }])
  await there.close()
  await removeFolderTree(late)
})

testAsRoot('a worker that is an ordinary user does the same', async () => {
  const own = mkdtempSync(join(tmpdir(), 'switchyard-booted-'))
  chmodSync(own, 0o700)
  chownSync(own, ORDINARY_UID, ORDINARY_UID)
  const task = { uid: ORDINARY_UID, folder: own, does: 'all' }
  const child = runTypeScript('test/support/resumed-sandbox-worker.ts', [JSON.stringify(task)])
  expect([await child.ended, child.errors]).toEqual([0, []])
  expect(JSON.parse(child.lines.at(-1) ?? '{}')).toEqual({ code: 3, entries: 3 })
  rmSync(own, { recursive: true, force: true })
})

/** Forces garbage collection, so that only referenced objects count. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
}

/** Files on the run's disk that contain this text. */
function holding(text: string): string[] {
  return readdirSync(disk(), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, path, name }) => join(parentPath ?? path, name))
    .filter((path) => readFileSync(path).includes(text))
}

function commandLines(text: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map((name) => {
      try {
        return readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ')
      } catch {
        return ''
      }
    })
    .filter((line) => line.includes(text))
}

/** `switchyard quickstart` as a new user runs it: from an empty folder to pull requests. */
import { type ExecFileSyncOptions, execFileSync } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { bareRepositoryPath } from '../../bin/quickstart/sample-repository.ts'
import type { Run } from '../../protocol/run.ts'
import { readLaunch, runCommand } from '../support/command-process.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const QUIET: ExecFileSyncOptions = { stdio: ['ignore', 'pipe', 'ignore'] }
const quickstart = (dataDir: string, ...args: string[]) =>
  runCommand(['quickstart', '--data-dir', dataDir, ...args], dataDir)

function branchesIn(dataDir: string): string[] {
  const bare = bareRepositoryPath(join(dataDir, 'code'))
  return execFileSync('git', ['-C', bare, 'branch', '--format=%(refname:short)'], QUIET)
    .toString()
    .trim()
    .split('\n')
}

/** A folder that other users may enter: then a worker that is root keeps its sandboxes in it, and cleanup is complete. */
function openFolder(): string {
  const folder = tempFolder()
  chmodSync(folder, 0o711)
  return folder
}

const stateOf = (dataDir: string, ticket: string): string | undefined =>
  /^state: (.*)$/m.exec(readFileSync(join(dataDir, 'tickets', `${ticket}.md`), 'utf8'))?.[1]

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe('three tickets become three pull requests', () => {
  test('at the first start, and at the second with three more', async () => {
    const dataDir = openFolder()
    const first = quickstart(dataDir)
    expect([await first.exit, first.err()]).toEqual([0, ''])
    for (const ticket of ['GREET-1', 'GREET-2', 'GREET-3']) {
      expect(first.out()).toMatch(new RegExp(`\\d+\\.\\d s {2}${ticket} +queued`))
      expect(first.out()).toMatch(new RegExp(`\\d+\\.\\d s {2}${ticket} +completed\\b.*pull request`))
    }
    expect(first.out().match(/^ {2}pull request {2}\S+/gm)).toHaveLength(3)
    expect(first.out().match(/^ {2}cost +\d+ tokens in, \d+ out/gm)).toHaveLength(3)
    expect(first.out()).toMatch(/^ *\+.*\|\| 'stranger'$/m)
    expect(first.out()).toContain('What next')
    expect(first.out()).toMatch(/Start it again: node \S+switchyard\.js serve --data-dir \S+/)
    expect(branchesIn(dataDir)).toHaveLength(4)
    const pulls = readdirSync(join(dataDir, 'code', 'acme', 'greeter.pulls')).filter((name) =>
      name.endsWith('.json'),
    )
    expect(pulls).toHaveLength(3)
    expect(readLaunch(dataDir)).toBeUndefined()

    const second = quickstart(dataDir, '--json')
    expect(await second.exit).toBe(0)
    const runs = JSON.parse(second.out()) as Run[]
    expect(runs.map(({ ticket, status, prState }) => `${ticket.identifier} ${status} ${prState}`)).toEqual([
      'GREET-4 completed open',
      'GREET-5 completed open',
      'GREET-6 completed open',
    ])
    expect(second.err()).toContain('What next')
    await until('the tickets are up for review', () => stateOf(dataDir, 'GREET-1') === 'In Review')
  }, 300_000)

  test('with --keep the host keeps running until Ctrl-C', async () => {
    const dataDir = openFolder()
    const kept = quickstart(dataDir, '--keep')
    await until('it is done', () => kept.out().includes('What next'), 130_000)
    const launch = readLaunch(dataDir)
    expect(isAlive(launch?.pid ?? 0)).toBe(true)
    expect(kept.out()).not.toContain(launch?.token)
    kept.process.kill('SIGINT')
    expect(await kept.exit).toBe(0)
    expect(isAlive(launch?.pid ?? 0)).toBe(false)
  }, 200_000)
})

describe('an early end', () => {
  test('Ctrl-C stops the host too', async () => {
    const dataDir = openFolder()
    const started = quickstart(dataDir)
    await until('the host is there', () => readLaunch(dataDir) !== undefined)
    const pid = readLaunch(dataDir)?.pid ?? 0
    started.process.kill('SIGINT')
    expect(await started.exit).toBe(130)
    expect(isAlive(pid)).toBe(false)
    expect(readLaunch(dataDir)).toBeUndefined()
  })

  test('a folder that a host uses already has its own exit code and message', async () => {
    const dataDir = openFolder()
    const first = quickstart(dataDir, '--keep')
    await until('the host is there', () => readLaunch(dataDir) !== undefined)
    const second = quickstart(dataDir)
    expect(await second.exit).toBe(75)
    expect(second.err()).toContain('is in use by another switchyard')
    expect(second.err()).not.toContain('is serving')
    first.process.kill('SIGTERM')
    await first.exit
  })

  test('a host that dies is reported', async () => {
    const dataDir = openFolder()
    const started = quickstart(dataDir)
    await until('the host is there', () => readLaunch(dataDir) !== undefined)
    process.kill(readLaunch(dataDir)?.pid ?? 0, 'SIGKILL')
    expect(await started.exit).toBe(70)
    expect(started.err()).toMatch(/the host ended/)
  })

  test('a killed quickstart stops its host', async () => {
    const dataDir = openFolder()
    const started = quickstart(dataDir)
    await until('the host is there', () => readLaunch(dataDir) !== undefined)
    const pid = readLaunch(dataDir)?.pid ?? 0
    started.process.kill('SIGKILL')
    await until('the host is gone', () => !isAlive(pid))
    expect(readLaunch(dataDir)).toBeUndefined()
  })

  test('an existing configuration is not changed', async () => {
    const dataDir = openFolder()
    writeFileSync(join(dataDir, 'config.json'), '{"server": {"port": 0}}')
    const started = quickstart(dataDir)
    expect(await started.exit).toBe(78)
    expect(started.err()).toContain('is not the example')
  })
})

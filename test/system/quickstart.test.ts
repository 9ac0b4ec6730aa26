/** `switchyard quickstart` as a new user runs it: from an empty folder to pull requests. */
import { type ExecFileSyncOptions, execFileSync } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { exampleFolder, prepareFolder } from '../../bin/programs/quickstart/data-folder.ts'
import { bareRepositoryPath } from '../../bin/programs/quickstart/sample-repository.ts'
import type { Run } from '../../protocol/run.ts'
import { commandPath, readLaunch, runCommand } from '../support/command-process.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { runInTerminal } from '../support/terminal-host.ts'
import { until } from '../support/until.ts'

const QUIET: ExecFileSyncOptions = { stdio: ['ignore', 'pipe', 'ignore'] }
const quickstart = (dataDir: string, ...args: string[]) =>
  runCommand(['quickstart', '--data-dir', dataDir, ...args], dataDir, {}, commandPath)

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

/** The printed command that contains a word. */
const commandWith = (printed: string, word: string): string =>
  printed.split('\n').find((line) => line.includes(word)) ?? ''

describe('three tickets become three pull requests', () => {
  test('at the first start, and at the second with three more', async () => {
    const dataDir = openFolder()
    const first = quickstart(dataDir)
    expect([await first.exit, first.err()]).toEqual([0, ''])
    for (const ticket of ['GREET-1', 'GREET-2', 'GREET-3']) {
      expect(first.out()).toMatch(new RegExp(`\\d+\\.\\ds ${ticket} +queued`))
      expect(first.out()).toMatch(new RegExp(`\\d+\\.\\ds ${ticket} +completed, greeter#[123]`))
    }
    expect(first.out().match(/^ {2}pull request {2}greeter#\d, \d files?, \+\d+ -\d+$/gm)).toHaveLength(3)
    expect(first.out().match(/^ {2}cost +made up \(~\$0\.\d+\): no model was asked$/gm)).toHaveLength(3)
    expect(first.out()).toMatch(/^ *\+.*\|\| 'stranger'$/m)
    expect(first.out()).toContain('What next')
    expect(first.out()).toMatch(/^ {2}node \S+switchyard\.js serve --data-dir \S+$/m)
    expect(first.out()).not.toContain('\x1b')
    expect(branchesIn(dataDir)).toHaveLength(4)
    const pulls = readdirSync(join(dataDir, 'code', 'acme', 'greeter.pulls')).filter((name) =>
      name.endsWith('.json'),
    )
    expect(pulls).toHaveLength(3)
    expect(readLaunch(dataDir)).toBeUndefined()

    const second = quickstart(dataDir, '--json')
    expect(await second.exit).toBe(0)
    const runs = JSON.parse(second.out()) as Run[]
    // The code host may not have been asked about a pull request yet when the example ends.
    expect(runs.map(({ ticket, status, prUrl }) => `${ticket.identifier} ${status} ${typeof prUrl}`)).toEqual(
      ['GREET-4 completed string', 'GREET-5 completed string', 'GREET-6 completed string'],
    )
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
    const run = (words: string) =>
      execFileSync('sh', ['-c', commandWith(kept.out(), words)], QUIET).toString()
    expect(run(' status ')).toContain('today\t3 completed')
    expect(run(' pulls merge ')).toMatch(/^greeter#\d is merged\.\n$/)
    // The page is served already, so the command prints a link to it, and ends.
    const [taken] = readdirSync(dataDir).flatMap((name) => /^dashboard-(\d+)\.json$/.exec(name)?.[1] ?? [])
    const link = execFileSync(
      'sh',
      ['-c', `${commandWith(kept.out(), ' dashboard ')} --port ${taken}`],
      QUIET,
    )
    expect(link.toString()).toContain(`http://127.0.0.1:${taken}/#code=`)
    const attach = commandWith(kept.out(), ' attach ')
    const talk: ExecFileSyncOptions = { stdio: ['pipe', 'pipe', 'ignore'], input: '/exit\n' }
    expect(execFileSync('sh', ['-c', `${attach} --no-tty`], talk).toString()).toContain('no model behind')
    kept.process.kill('SIGINT')
    expect(await kept.exit).toBe(0)
    expect(isAlive(launch?.pid ?? 0)).toBe(false)
  }, 200_000)
})

describe('on a terminal', () => {
  const rows = 120
  let dataDir = ''
  const start = (cols: number, ...args: readonly string[]) => {
    dataDir = openFolder()
    return runInTerminal(['quickstart', ...args, '--data-dir', dataDir], {}, { cols, rows })
  }

  async function expectTidyScreen(person: ReturnType<typeof start>, cols: number, first: string) {
    const { buffer } = await person.screen()
    const lines = Array.from({ length: rows }, (_, row) => buffer.active.getLine(row))
    const texts = lines.map((line) => line?.translateToString(true) ?? '')
    // Each run has one line, which was redrawn in place.
    expect(texts.filter((text) => /^ *\d+\.\ds GREET-\d +completed, greeter#\d$/.test(text))).toHaveLength(3)
    expect(texts.join('\n')).not.toContain('preparing')
    const from = texts.findIndex((text) => text.includes(first))
    // A path that is wider than the terminal cannot be shown in one line.
    const wrapped = lines.flatMap((line, row) =>
      row > from && line?.isWrapped ? (texts[row - 1] ?? '') : [],
    )
    expect(from).not.toBe(-1)
    expect(texts.filter((text) => text !== '').length).toBeGreaterThan(10)
    expect(wrapped.filter((text) => !text.trim().startsWith(dataDir.slice(0, cols - 4)))).toEqual([])
  }

  test('of 60 columns no line but a long path wraps, and the host goes on serving', async () => {
    const person = start(60)
    await until('it serves', () => person.text().includes('Everything lies'), 130_000)
    await expectTidyScreen(person, 60, 'switchyard: three')
    process.kill(person.commandPid(), 'SIGINT')
    expect((await person.waitForEnd()).code).toBe(0)
  }, 200_000)

  test('of 120 columns the same; with --no-keep the host ends with the example', async () => {
    const person = start(120, '--no-keep', '--no-heading')
    await until('the end', () => /code=\d+;/.test(person.text()), 130_000)
    expect((await person.waitForEnd()).code).toBe(0)
    expect(person.text()).not.toContain('three example tickets')
    await expectTidyScreen(person, 120, ' start ')
  }, 200_000)
})

test('runs of an earlier start are shown, and do not hold up the end', async () => {
  const dataDir = openFolder()
  await prepareFolder(exampleFolder(dataDir))
  const config = join(dataDir, 'config.json')
  const text = readFileSync(config, 'utf8')
  writeFileSync(config, JSON.stringify({ ...JSON.parse(text), policy: { paused: true } }))
  const paused = quickstart(dataDir)
  await until('the runs wait', () => /GREET-3 +queued: paused/.test(paused.out()))
  paused.process.kill('SIGINT')
  await paused.exit
  writeFileSync(config, text)
  const next = quickstart(dataDir)
  expect(await next.exit).toBe(0)
  expect(next.out()).toMatch(/^ {2}restored +GREET-1, GREET-2, GREET-3, queued by an earlier start$/m)
  // A busy quickstart may miss a short status.
  expect(next.out()).toMatch(/s GREET-1 +(preparing|running|finalizing)$/m)
  expect(next.out()).toMatch(/^ {2}tickets +GREET-4, GREET-5, GREET-6$/m)
}, 200_000)

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

  test('a used folder has its own exit code and message, and the host ends when its quickstart is killed', async () => {
    const dataDir = openFolder()
    const first = quickstart(dataDir, '--keep')
    await until('the host is there', () => readLaunch(dataDir) !== undefined)
    const pid = readLaunch(dataDir)?.pid ?? 0
    const second = quickstart(dataDir)
    expect(await second.exit).toBe(75)
    expect(second.err()).toContain('is in use by another switchyard')
    expect(second.err()).not.toContain('is serving')
    first.process.kill('SIGKILL')
    await until('the host is gone', () => !isAlive(pid))
    expect(readLaunch(dataDir)).toBeUndefined()
  })

  test('a host that dies is reported', async () => {
    const dataDir = openFolder()
    // Without the option the example might end first.
    const started = quickstart(dataDir, '--keep')
    await until('the host is there', () => readLaunch(dataDir) !== undefined)
    process.kill(readLaunch(dataDir)?.pid ?? 0, 'SIGKILL')
    expect(await started.exit).toBe(70)
    expect(started.err()).toMatch(/the host ended/)
  })

  test('an existing configuration is not changed', async () => {
    const dataDir = openFolder()
    writeFileSync(join(dataDir, 'config.json'), '{"server": {"port": 0}}')
    const started = quickstart(dataDir)
    expect(await started.exit).toBe(78)
    expect(started.err()).toContain('is not the example')
  })
})

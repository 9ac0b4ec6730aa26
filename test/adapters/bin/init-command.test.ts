/** `switchyard init`: the real command in a real terminal, and without one. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import type { Run } from '../../../protocol/run.ts'
import { acquireLock } from '../../../store/lock.ts'
import { configWithAnyPort, runCommand, serve } from '../../support/command-process.ts'
import { SYSTEM_WAIT_MS_MAX } from '../../support/dashboard-client.ts'
import { runWithReadOnly } from '../../support/read-only-folder.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { type CommandTerminal, runInTerminal } from '../../support/terminal-host.ts'
import { until } from '../../support/until.ts'

interface Place {
  readonly dataDir: string
  readonly file: string
  readonly env: NodeJS.ProcessEnv
  readonly config: () => unknown
}

/** A home without a configuration, and a checkout of acme/api as the current one. */
function openPlace(): Place {
  const home = tempFolder()
  const dataDir = join(home, 'data')
  const file = join(dataDir, 'config.json')
  const checkout = join(home, 'checkout')
  mkdirSync(checkout)
  execFileSync('git', ['init', '--quiet', checkout])
  execFileSync('git', ['-C', checkout, 'remote', 'add', 'origin', 'git@github.com:acme/api.git'])
  const env = {
    HOME: home,
    SWITCHYARD_DATA_DIR: dataDir,
    GIT_DIR: join(checkout, '.git'),
    NO_COLOR: '1',
    LC_ALL: 'C.UTF-8',
  }
  return { dataDir, file, env, config: () => JSON.parse(readFileSync(file, 'utf8')) }
}

const CTRL_C = '\x03'
const CTRL_D = '\x04'

const start = ({ env }: Place, args: readonly string[] = [], cols = 80): CommandTerminal =>
  runInTerminal(['init', ...args], env, { cols, rows: 30 })

/** Types each answer when its question is on the screen. */
async function answer(
  person: CommandTerminal,
  ...steps: readonly (readonly [question: string, typed: string])[]
) {
  let from = 0
  for (const [question, typed] of steps) {
    await until(question, () => person.text().indexOf(question, from) >= 0)
    from = person.text().indexOf(question, from) + question.length
    person.type(typed)
  }
}

async function screenOf(person: CommandTerminal): Promise<string[]> {
  const { buffer } = await person.screen()
  const rows = Array.from({ length: buffer.active.length }, (_, row) =>
    buffer.active.getLine(row)?.translateToString(true),
  )
  return rows.flatMap((row) => (row === undefined || row === '' ? [] : [row]))
}

const ALL: readonly (readonly [string, string])[] = [
  ['Tickets come from', '2\r'],
  ['Repository', '\r'],
  ['Its issues start', '1\r'],
  ['Write it?', 'y\r'],
]

describe('on a terminal', () => {
  test('four answers write a paused configuration', async () => {
    const place = openPlace()
    const person = start(place)
    await answer(person, ...ALL)
    expect((await person.waitForEnd()).code).toBe(0)
    const screen = await screenOf(person)
    expect(screen.find((line) => line.startsWith('Found: '))).toMatch(/^Found: git \d/)
    expect(
      screen.slice(
        screen.findIndex((line) => line.startsWith('Tickets')),
        screen.indexOf('Written. Next:'),
      ),
    ).toEqual([
      'Tickets come from    (1) linear  (2) github issues  (3) a folder    [2]: 2',
      'Repository           owner/name                              [acme/api]: ',
      'Its issues start     (1) with label Todo  (2) all open ones         [1]: 1',
      'To be written to ~/data/config.json:',
      '  tracker.driver = "github", tracker.eligible.states = ["Todo"]',
      '  agent.maxCostUsd = 20, repos.api = {"remote": "acme/api"}',
      '  policy.paused = true',
      'Write it? [Y/n]: y',
    ])
    // Another terminal may lack the variable.
    const commands = ['serve', 'connect codehost', 'resume']
    for (const words of commands)
      expect(person.text()).toContain(`\r\n  switchyard ${words} --data-dir ${place.dataDir}\r\n`)
    expect(place.config()).toEqual({
      tracker: { driver: 'github', eligible: { states: ['Todo'] } },
      agent: { maxCostUsd: 20 },
      repos: { api: { remote: 'acme/api' } },
      policy: { paused: true },
    })
    expect([place.dataDir, place.file].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o600])
  })

  test('the commands for another terminal are short for the usual data directory', async () => {
    const { env } = openPlace()
    const usual = { ...env, SWITCHYARD_DATA_DIR: '', XDG_DATA_HOME: '' }
    const person = runInTerminal(['init'], usual, { cols: 120, rows: 30 })
    await answer(person, ...ALL)
    expect((await person.waitForEnd()).code).toBe(0)
    expect(person.text()).toMatch(
      /Written\. Next: switchyard serve; then in another terminal:\r\n {2}switchyard connect codehost;.* switchyard resume\r\n/,
    )
  })

  test('the folder of the tickets is asked for, and made; the questions fit into 60 columns', async () => {
    const place = openPlace()
    const person = start(place, [], 60)
    const questions = ['Tickets come from', 'Its path', 'Repository', 'Its tickets start', 'Write it?']
    const typed = ['3\r', '\r', 'acme/web\r', '2\r', '\r']
    await answer(person, ...questions.map((question, at) => [question, typed[at] ?? ''] as const))
    expect((await person.waitForEnd()).code).toBe(0)
    expect(person.text()).toContain('Its tickets start    (1) in state Todo  (2) all open ones\r\n')
    expect(existsSync(join(place.dataDir, 'tickets'))).toBe(true)
    expect(place.config()).toMatchObject({
      tracker: { driver: 'local', path: join(place.dataDir, 'tickets'), eligible: { states: [] } },
      repos: { web: { remote: 'acme/web' } },
    })
  })

  test('a wrong answer is asked again, and the third one ends the command with 2', async () => {
    const place = openPlace()
    const person = start(place)
    await answer(
      person,
      ['Tickets come from', '4\r'],
      ['from 1 to 3.', ''],
      ['[2]: ', '2\r'],
      ['Repository', 'api\r'],
      ['It is like acme/api.', ''],
      ['[acme/api]: ', 'a/b/c\r'],
      ['It is like acme/api.', ''],
      ['[acme/api]: ', '-\r'],
    )
    expect((await person.waitForEnd()).code).toBe(2)
    expect(person.text()).toMatch(/nothing was changed/)
    expect(existsSync(place.dataDir)).toBe(false)
  })

  test.each([
    ['Ctrl-C at the first question', 0, CTRL_C, 130],
    ['the end of the input at the third', 2, CTRL_D, 130],
    ['Ctrl-C at the last', 3, CTRL_C, 130],
    ['no at the last', 3, 'n\r', 0],
  ])('%s changes nothing', async (_, at, key, code) => {
    const place = openPlace()
    const person = start(place)
    await answer(person, ...ALL.slice(0, at), [ALL[at]?.[0] ?? '', key])
    expect((await person.waitForEnd()).code).toBe(code)
    expect(person.text()).toMatch(/nothing was changed/i)
    expect(existsSync(place.dataDir)).toBe(false)
  })

  test('a file that was edited during the questions stays as it is', async () => {
    const place = openPlace()
    mkdirSync(place.dataDir, { mode: 0o700 })
    writeFileSync(place.file, '{"sandbox": {"concurrency": 3}}')
    const person = start(place, ['--tracker', 'github', '--repo', 'acme/web', '--label', 'agent'])
    await until('the last question', () => person.text().includes('Write it?'))
    writeFileSync(place.file, '{"sandbox": {"concurrency": 4}}')
    person.type('\r')
    expect((await person.waitForEnd()).code).toBe(1)
    expect(place.config()).toEqual({ sandbox: { concurrency: 4 } })
  })
})

/** The command without a terminal. */
async function init({ env }: Place, ...args: readonly string[]) {
  const command = runCommand(['init', ...args], '', env)
  return { code: await command.exit, out: command.out(), err: command.err() }
}

const INIT_GITHUB = ['init', '--tracker', 'github', '--yes']

describe('without a terminal', () => {
  test('init names the options that are missing, and writes nothing', async () => {
    const place = openPlace()
    const [bare, noYes] = await Promise.all([init(place), init(place, '--tracker', 'github')])
    expect([bare.code, bare.err]).toEqual([2, expect.stringMatching(/--tracker, --yes\n/)])
    expect([noYes.code, noYes.err]).toEqual([2, expect.stringMatching(/needs --yes\n/)])
    const outside = { ...place, env: { ...place.env, GIT_DIR: '/nowhere' } }
    expect((await init(outside, '--tracker', 'github', '--yes')).err).toMatch(/needs --repo\n/)
    const local = await init(outside, '--tracker', 'local', '--folder', '/srv/my tickets')
    expect(local.err).toMatch(/try: .* --tracker local --repo \S+ --folder '\/srv\/my tickets' --yes/)
    expect(existsSync(place.dataDir)).toBe(false)
  })

  test('init --tracker, --repo, --label, --all-open and --folder answer the questions', async () => {
    const [labelled, open, local] = [openPlace(), openPlace(), openPlace()]
    const folder = join(local.dataDir, '..', 'my tickets')
    const results = await Promise.all([
      init(labelled, '--tracker', 'github', '--repo', 'acme/web', '--label', 'agent', '--yes'),
      init(open, '--tracker', 'github', '--all-open', '--yes', '--json'),
      init(local, '--tracker', 'local', '--repo', 'acme/web', '--folder', folder, '--yes', '-o', 'id'),
    ])
    expect(results.map(({ code }) => code)).toEqual([0, 0, 0])
    expect(labelled.config()).toMatchObject({
      tracker: { driver: 'github', eligible: { states: ['agent'] } },
      repos: { web: { remote: 'acme/web' } },
    })
    expect(open.config()).toMatchObject({
      tracker: { eligible: { states: [] } },
      repos: { api: { remote: 'acme/api' } },
    })
    expect(JSON.parse(results[1]?.out ?? '')).toEqual({
      path: open.file,
      written: true,
      changes: open.config(),
    })
    expect(local.config()).toMatchObject({ tracker: { path: folder, eligible: { states: ['Todo'] } } })
    expect([results[2]?.out, existsSync(folder)]).toEqual([`${local.file}\n`, true])
  })

  test('wrong options are refused with 2', async () => {
    const place = openPlace()
    const codes = await Promise.all([
      init(place, '--tracker', 'jira', '--yes'),
      init(place, '--tracker', 'github', '--repo', 'api', '--yes'),
      init(place, '--tracker', 'github', '--label', 'a', '--all-open', '--yes'),
      init({ ...place, env: { ...place.env, SWITCHYARD_URL: 'http://127.0.0.1:1' } }),
    ])
    expect(codes.map(({ code }) => code)).toEqual([2, 2, 2, 2])
    expect(existsSync(place.dataDir)).toBe(false)
  })

  test('a folder that cannot be made is named, and nothing is written', async () => {
    const place = openPlace()
    const refused = await init(place, '--tracker', 'local', '--folder', '/dev/null/tickets', '--yes')
    expect(refused.err).toMatch(/tickets can't be made: .*\/dev\/null.*\n.*init --folder PATH/)
    expect([refused.code, existsSync(place.file)]).toEqual([1, false])
  })

  test('a data directory that cannot be written is one sentence with its cure', async () => {
    const place = openPlace()
    mkdirSync(place.dataDir)
    const file = join(place.dataDir, '..', 'file')
    writeFileSync(file, '')
    const readOnly = (dataDir: string) =>
      runWithReadOnly(place.dataDir, [...INIT_GITHUB, '--data-dir', dataDir], place.env)
    const refused = await Promise.all([
      init(place, ...INIT_GITHUB.slice(1), '--data-dir', file),
      init(place, ...INIT_GITHUB.slice(1), '--data-dir', join(file, 'below')),
      readOnly(place.dataDir),
      readOnly(join(place.dataDir, 'below')),
    ])
    for (const { code, err } of refused) {
      expect(code).toBe(70)
      expect(err.slice(err.lastIndexOf('switchyard: '))).toMatch(
        /^switchyard: the data directory \S+ cannot be used: (ENOTDIR|EROFS).*\n {2}try: name a folder that can be written with --data-dir\n$/,
      )
    }
  })

  test('the key of another tracker is not handed on, and a broken file is not replaced', async () => {
    const place = openPlace()
    mkdirSync(place.dataDir, { mode: 0o700 })
    for (const [text, code] of [
      ['{"tracker": {"driver": "linear", "apiKey": "lin_mine"}}', 1],
      ['{"tracker": 1}', 78],
    ] as const) {
      writeFileSync(place.file, text)
      const refused = await init(place, '--tracker', 'github', '--yes')
      expect([refused.code, readFileSync(place.file, 'utf8')]).toEqual([code, text])
      expect(refused.err).not.toMatch(/lin_mine/)
    }
  })
})

test('a data directory that a process holds is not written to', async () => {
  const place = openPlace()
  mkdirSync(place.dataDir, { mode: 0o700 })
  const lock = acquireLock(place.dataDir, { clock: realClock, random: realRandom })
  const refused = await init(place, '--tracker', 'github', '--yes')
  expect([refused.code, refused.err]).toEqual([1, expect.stringMatching(/try: switchyard config set/)])
  expect(existsSync(place.file)).toBe(false)
  lock.release()
  expect((await init(place, '--tracker', 'github', '--yes')).code).toBe(0)
})

test('a host accepts the file, and nothing starts until resume, which says first that nothing can without a repository', async () => {
  const place = openPlace()
  mkdirSync(place.dataDir, { mode: 0o700 })
  writeFileSync(place.file, configWithAnyPort())
  expect((await init(place, '--tracker', 'local', '--yes')).code).toBe(0)
  for (const id of ['T-1', 'T-2'])
    writeFileSync(join(place.dataDir, 'tickets', `${id}.md`), '---\nstate: Todo\n---\nSay hello.\n')
  const host = serve(place.dataDir)
  const runs = async () => (await host.request('/api/runs')).body as readonly Run[]
  await until('two runs', async () => (await runs()).length === 2, SYSTEM_WAIT_MS_MAX)
  expect((await runs()).map(({ status, queueReason }) => [status, queueReason])).toEqual([
    ['queued', 'paused'],
    ['queued', 'paused'],
  ])
  const again = await init(place, '--tracker', 'github', '--yes')
  expect([again.code, again.err]).toEqual([1, expect.stringMatching(/try: switchyard config set/)])
  for (const [typed, paused] of [
    ['n\r', true],
    ['\r', false],
  ] as const) {
    const person = runInTerminal(['resume'], place.env)
    await answer(person, ['no run starts; 2 wait for something else', typed])
    expect((await person.waitForEnd()).code).toBe(0)
    const { body } = await host.request('/api/config')
    expect(body).toMatchObject({ policy: { paused } })
  }
})

/** The client commands as processes, against a host that the test controls. */
import { renameSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import { yes } from '../../../core/result.ts'
import { configDefaults } from '../../../protocol/config.ts'
import type { PullDetail } from '../../../protocol/pulls.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import { type CommandProcess, commandPath, runCommand } from '../../support/command-process.ts'
import { type FakeHostApi, fakeRun } from '../../support/fake-host-api.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { runInTerminal } from '../../support/terminal-host.ts'
import { closeAfterTest, openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const AT = '2026-11-22T14:19:14.107Z'
const OLD_ID = 'run-01a203706fb070008000000000000001'
const NEW_ID = 'run-01a203abc33070008000000000000002'

const DETAIL: PullDetail = {
  repo: 'api',
  remote: 'acme/api',
  number: 87,
  url: 'https://host.example/acme/api/pull/87',
  title: 'Greet',
  state: 'open',
  author: 'switchyard',
  baseBranch: 'main',
  headBranch: 'switchyard/eng-1',
  createdAt: '2026-03-01T08:48:00.000Z',
  updatedAt: '2026-03-01T08:48:00.000Z',
  body: '',
  draft: false,
  headSha: 'abc',
  additions: 0,
  deletions: 0,
  changedFiles: 0,
  conversation: { comments: [], reviews: [], threads: [] },
  files: [],
  commits: [],
  checks: [],
}

interface CommandHost {
  readonly hostApi: FakeHostApi
  readonly dataDir: string
  readonly url: string
  /** The count of dashboard connections so far. */
  watchers(): number
  run(...args: readonly string[]): CommandProcess
}

async function startCommandHost(): Promise<CommandHost> {
  const { hostApi, url } = await openTestServer()
  const dataDir = tempFolder()
  writeFileSync(join(dataDir, 'launch.json'), JSON.stringify({ url, token: TOKEN }), { mode: 0o600 })
  hostApi.runsById.set(OLD_ID, {
    ...fakeRun(OLD_ID, 'failed', 'ENG-1'),
    error: 'verify "npm test" exited with 1',
  })
  hostApi.runsById.set(NEW_ID, { ...fakeRun(NEW_ID, 'queued', 'ENG-2'), queueReason: 'fleet at capacity' })
  const { hello, runs } = hostApi
  // The real host compares ids, and knows no run that `before` must name.
  hostApi.runs = ({ before, limit, ...query }) => {
    const found = runs(query)
    if (!found.ok) return found
    const older = found.value.runs.filter(({ id }) => before === undefined || id < before)
    return yes({ runs: older.slice(0, limit), more: limit !== undefined && older.length > limit })
  }
  let watchers = 0
  hostApi.hello = () => {
    watchers += 1
    return hello()
  }
  return {
    hostApi,
    dataDir,
    url,
    watchers: () => watchers,
    run: (...args) => runCommand(args, '', { SWITCHYARD_DATA_DIR: dataDir }),
  }
}

interface CommandEnd {
  readonly code: number | NodeJS.Signals
  readonly out: string
  readonly err: string
}

async function endOf(command: CommandProcess): Promise<CommandEnd> {
  const code = await command.exit
  return { code, out: command.out(), err: command.err() }
}

interface AskedPaths {
  readonly paths: string[]
  answer: 'whole' | 'missing' | 'chunked' | 'foreign'
}

/** Stands before the host, and notes each path; only the answer about the status may be another. */
async function relayTo(url: string, dataDir: string): Promise<AskedPaths> {
  const asked: AskedPaths = { paths: [], answer: 'whole' }
  const relay = createServer(({ url: path = '', headers }, response) => {
    asked.paths.push(path.replace(/\?.*/, ''))
    const answer = path === '/api/status' ? asked.answer : 'whole'
    if (answer === 'missing') return void response.writeHead(404).end('{"error":"no route"}')
    if (answer === 'foreign') return void response.end('{"ok":true}')
    void fetch(`${url}${path}`, { headers: { authorization: headers.authorization ?? '' } }).then(
      async (got) => {
        const body = Buffer.from(await got.arrayBuffer())
        if (answer === 'chunked') response.write(body.subarray(0, 10))
        response.end(answer === 'chunked' ? body.subarray(10) : body)
      },
    )
  })
  await new Promise<void>((resolve) => void relay.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => relay.close())
  const { port } = relay.address() as AddressInfo
  const launch = { url: `http://127.0.0.1:${port}`, token: TOKEN }
  writeFileSync(join(dataDir, 'launch.json'), JSON.stringify(launch), { mode: 0o600 })
  return asked
}

const logEvent = (index: number, text: string): RunEvent => ({
  runId: NEW_ID,
  index,
  at: '2026-11-22T14:19:14.107Z',
  type: 'log',
  stream: 'stdout',
  text,
})

describe('data and words', () => {
  test('the status names what needs a person last, and --json has all records', async () => {
    const { hostApi, run } = await startCommandHost()
    const items = [
      {
        id: `failed:${OLD_ID}`,
        kind: 'failed' as const,
        message: 'failed: verify "npm test" exited with 1',
        cure: 'switchyard logs ENG-1',
        runId: OLD_ID,
        since: '2026-11-22T14:19:14.107Z',
      },
    ]
    hostApi.attention = () => ({ items })
    const text = await endOf(run('status'))
    expect([text.code, text.err]).toEqual([0, ''])
    expect(text.out.split('\n')).toEqual([
      '0 runs active, 1 queued, 1 needs you',
      'tracker\tlinear, not connected',
      'code host\tgithub, not connected',
      'workers\t0 of 1 online, 0 of 0 slots taken',
      'today\tnothing ran',
      'Needs you',
      'ENG-1\tfailed: verify "npm test" exited with 1\tswitchyard logs ENG-1',
      '',
    ])
    const json = await endOf(run('status', '--json'))
    const printed = JSON.parse(json.out)
    expect(Object.keys(printed)).toEqual(['health', 'tracker', 'paused', 'workers', 'runs', 'attention'])
    expect(printed).toMatchObject({ paused: false, runs: [{ id: NEW_ID }], attention: items })
  })

  test('in a pipe it asks once, and prints what the whole command prints', async () => {
    const { hostApi, run, dataDir, url } = await startCommandHost()
    hostApi.attention = () => ({
      items: [{ id: 'disk', kind: 'disk', message: 'the disk is full\u2026', since: AT }],
    })
    const whole = await endOf(run('status', '--json', '--quiet'))
    const asked = await relayTo(url, dataDir)
    expect(await endOf(run('status', '--json'))).toEqual(whole)
    expect(asked.paths).toEqual(['/api/status'])
    // A host of an earlier version has no such route, and a proxy may send the answer in chunks.
    for (const answer of ['missing', 'chunked', 'foreign'] as const) {
      asked.answer = answer
      asked.paths.length = 0
      expect(await endOf(run('status', '--json'))).toEqual(whole)
      expect(asked.paths).toEqual(expect.arrayContaining(['/api/status', '/api/health', '/api/runs']))
    }
  })

  test('the status asks the code host, and looks at the pull requests that wait for a person', async () => {
    const { hostApi, run } = await startCommandHost()
    const token = { ...configDefaults.codehost, token: '***' }
    hostApi.config = () => ({ ...configDefaults, codehost: token })
    const { repo, remote, number, url } = DETAIL
    const pull = { repo, remote, number, url }
    const since = '2026-11-22T14:19:14.107Z'
    const item = { id: `review:${OLD_ID}`, kind: 'review' as const, runId: OLD_ID, pull, since }
    const hasRead = () => hostApi.providerCalls.some(({ name }) => name === 'pull')
    hostApi.answers.set('pull', yes(DETAIL))
    hostApi.attention = () => ({
      items: [{ ...item, message: hasRead() ? 'checks red on api#87' : 'review asked on api#87' }],
    })
    const { out } = await endOf(run('status'))
    expect(out).toContain('\ncode host\tgithub, nothing is connected\n')
    expect(out).toContain('\tchecks red on api#87\t')
    hostApi.answers.set('codehostRepos', yes([]))
    expect((await endOf(run('status'))).out).toContain('\ncode host\tgithub, connected\n')
  })

  test('runs are tab-separated values with whole ids, ids alone or records', async () => {
    const { run } = await startCommandHost()
    const [text, ids, json] = await Promise.all(
      [['runs'], ['runs', '-o', 'id'], ['runs', '--json']].map(async (args) => await endOf(run(...args))),
    )
    expect(text?.out.split('\n').slice(0, 2)).toEqual([
      'TICKET\tTITLE\tSTATE\tAGE\tCOST\tWORKER\tRUN',
      `ENG-2\tThe lamp flickers\tqueued\t2026-03-01T08:30:00.000Z\t-\t-\t${NEW_ID}`,
    ])
    expect(ids?.out).toBe(`${NEW_ID}\n${OLD_ID}\n`)
    expect(JSON.parse(json?.out ?? '')).toMatchObject([{ id: NEW_ID }, { id: OLD_ID }])
    expect([text?.err, ids?.err, json?.err]).toEqual(['', '', ''])
  })

  test('what a command recommends stands on standard error, and --quiet leaves it out', async () => {
    const { run } = await startCommandHost()
    const shown = await endOf(run('runs', 'show', 'ENG-2'))
    expect(shown).toMatchObject({ code: 0, err: 'Next: switchyard explain ENG-2\n' })
    expect(shown.out).toContain('waits      fleet at capacity\n')
    expect((await endOf(run('runs', 'show', 'ENG-2', '--quiet'))).err).toBe('')
  })

  test('a retried run is printed as its ticket, its id or its record', async () => {
    const { hostApi, run } = await startCommandHost()
    expect(await endOf(run('retry', 'ENG-1', '--instructions', 'Hurry.'))).toEqual({
      code: 0,
      out: 'ENG-1 queued\n',
      err: '',
    })
    expect(hostApi.runOptions).toEqual([{ instructions: 'Hurry.' }])
    expect((await endOf(run('runs', 'cancel', '01a2037', '-o', 'id'))).out).toBe(`${OLD_ID}\n`)
    expect(JSON.parse((await endOf(run('retry', OLD_ID, '--json'))).out)).toMatchObject({ status: 'queued' })
  })

  test('a log is printed with its marks, and unaltered as JSON Lines', async () => {
    const { hostApi, run } = await startCommandHost()
    const events = [logEvent(0, 'one\ntwo\n'), logEvent(1, '\x1b[31mred\x1b[2J\n')]
    hostApi.eventsById.set(NEW_ID, events)
    const text = await endOf(run('logs', 'ENG-2'))
    expect(text.out.replace(/^\d\d:\d\d:\d\d/gm, 'TIME')).toBe('TIME   one\nTIME   two\nTIME   red\n')
    const json = await endOf(run('logs', 'ENG-2', '--json', '--tail', '1'))
    expect(json.out).toBe(`${JSON.stringify(events[1])}\n`)
  })
})

describe('errors', () => {
  test.each([
    [
      'an unknown run',
      ['logs', 'ENG-999'],
      1,
      /no run or ticket is called ENG-999\n {2}try: switchyard runs --all\n$/,
    ],
    [
      'an ambiguous beginning',
      ['cancel', '01a203'],
      2,
      /^switchyard: 01a203 may be 01a203abc330 \(ENG-2\) or 01a203706fb0 \(ENG-1\)\n {2}try: switchyard cancel ENG-2\n$/,
    ],
    [
      'a refusal',
      ['retry', 'ENG-2'],
      1,
      /^switchyard: the run is queued\n {2}try: switchyard explain ENG-2\n$/,
    ],
    [
      'a loss without --yes',
      ['discard', 'ENG-1'],
      2,
      /^switchyard: this deletes ENG-1's sandbox\n {2}try: switchyard discard ENG-1 --yes\n$/,
    ],
    [
      'words without quotes',
      ['start', 'two', 'words'],
      1,
      /^switchyard: no ticket is called two\n {2}try: switchyard tickets, or .*: switchyard start 'two words' --repo KEY\n$/,
    ],
    [
      'words without quotes for a repository',
      ['start', 'two', 'words', '--repo', 'api'],
      2,
      / {2}try: switchyard start 'two words' --repo api\n$/,
    ],
    ['an unknown option', ['runs', '--sideways'], 2, /^switchyard: unknown option '--sideways'\n/],
    ['the word of another program', ['ps'], 2, /; did you mean runs\?\n {2}try: switchyard runs\n$/],
    ['another such word', ['stop', 'ENG-1'], 2, / {2}try: switchyard cancel ENG-1\n$/],
    [
      'a verb without its noun',
      ['merge', 'ENG-1'],
      2,
      /^switchyard: there is no command merge; did you mean pulls merge\?\n {2}try: switchyard pulls merge ENG-1\n$/,
    ],
    ['a verb of several nouns', ['drain'], 2, / {2}try: switchyard workers drain WORKER\n$/],
    ['a wrong word', ['connect', 'codhost'], 2, / {2}try: switchyard connect codehost\n$/],
    [
      'a word that is near none',
      ['connect', 'moon'],
      2,
      /^switchyard: moon is no provider, which is one of tracker, /,
    ],
    ['one without a name', ['stop'], 2, / {2}try: switchyard cancel RUN\n$/],
    ['one before an option', ['stop', '--json'], 2, /"cure":"switchyard cancel RUN --json"/],
    ['one of a noun', ['memories', 'rm'], 2, / {2}try: switchyard memories forget ID\n$/],
    [
      'a verb with a typo that may be a name',
      ['runs', 'lsit'],
      1,
      /^switchyard: no run or ticket is called lsit; did you mean runs list\?\n {2}try: switchyard runs list\n$/,
    ],
    ['a verb that needs a name', ['pulls', 'mrege'], 1, / {2}try: switchyard pulls merge PULL\n$/],
    ['a verb of tickets', ['tickets', 'craete'], 1, / {2}try: switchyard tickets create TITLE\n$/],
    [
      'an unknown command',
      ['waltz'],
      2,
      /^switchyard: there is no command waltz\n {2}try: switchyard --help\n$/,
    ],
    ['a wrong number', ['logs', 'ENG-2', '--tail', '0'], 2, /--tail 0 must be a whole number/],
  ])('%s', async (_, args, code, message) => {
    const { run } = await startCommandHost()
    expect(await endOf(run(...args))).toEqual({ code, out: '', err: expect.stringMatching(message) })
  })

  test('--json puts the error on standard error as JSON', async () => {
    const { run } = await startCommandHost()
    const { code, out, err } = await endOf(run('retry', 'ENG-2', '--json'))
    expect([code, out, JSON.parse(err)]).toEqual([
      1,
      '',
      { error: 'the run is queued', cure: 'switchyard explain ENG-2' },
    ])
  })

  test.each([
    [
      ['status', '--jsn', '--json'],
      "unknown option '--jsn'; did you mean --json?",
      'switchyard status --help',
    ],
    [
      ['stauts', '-o', 'json'],
      'there is no command stauts; did you mean status?',
      'switchyard status -o json',
    ],
    [['logs', '--output=json'], "missing required argument 'run'", 'switchyard logs --help'],
  ])('wrong usage is JSON too: %j', async (args, error, cure) => {
    const wrong = await endOf(runCommand(args))
    expect([wrong.code, wrong.out, JSON.parse(wrong.err)]).toEqual([2, '', { error, cure }])
  })

  test.each([
    [
      ['config', 'gte', 'server.port'],
      'config has no command gte; did you mean get?',
      'config get server.port',
    ],
    [['service', 'instal'], 'service has no command instal; did you mean install?', 'service install'],
    [['memories', 'foo'], 'memories has no command foo', 'memories --help'],
    [
      ['deploy', 'kubernets'],
      'deploy has no command kubernets; did you mean kubernetes?',
      'deploy kubernetes',
    ],
    [
      ['workers', 'shwo', 'my mica'],
      'workers has no command shwo; did you mean show?',
      "workers show 'my mica'",
    ],
    [['logs', 'ENG-1', 'x'], "too many arguments for 'logs'. Expected 1 argument but got 2.", 'logs --help'],
  ])('a mistyped command is named: %j', async (args, sentence, cure) => {
    const err = `switchyard: ${sentence}\n  try: switchyard ${cure}\n`
    expect(await endOf(runCommand(args))).toEqual({ code: 2, out: '', err })
  })

  test.each([
    [
      ['--data-dir', '/my data', 'status'],
      'the option --data-dir goes after the command',
      "status --data-dir '/my data'",
    ],
    [['--debug', 'runs', 'list'], 'the option --debug goes after the command', 'runs list --debug'],
    [
      ['runs', '--data-dir', '/srv/z', 'list', '--all'],
      'the option --data-dir goes after the command',
      'runs list --all --data-dir /srv/z',
    ],
    [['runs', '--limit', '2'], 'runs has no option --limit, and runs list has it', 'runs list --limit 2'],
    [['--sideways', 'status'], "unknown option '--sideways'", '--help'],
  ])('an option in the wrong place is named with the right one: %j', async (args, sentence, cure) => {
    const err = `switchyard: ${sentence}\n  try: switchyard ${cure}\n`
    expect(await endOf(runCommand(args))).toEqual({ code: 2, out: '', err })
  })

  test('wrong usage is one sentence with its cure', async () => {
    expect(await endOf(runCommand(['runs', 'lsit', '--limt', '3']))).toEqual({
      code: 2,
      out: '',
      err: "switchyard: unknown option '--limt'\n  try: switchyard runs --help\n",
    })
  })

  test('--debug adds the request and its status', async () => {
    const { run } = await startCommandHost()
    const { err } = await endOf(run('retry', 'ENG-2', '--debug'))
    expect(err).toBe(
      `switchyard: the run is queued (POST /api/runs/${NEW_ID}/retry answered 409)\n  try: switchyard explain ENG-2\n`,
    )
  })

  test('a printed command is the one by which the program was started', async () => {
    const { err } = await endOf(runCommand(['status', '--data-dir', tempFolder()], '', {}, commandPath))
    expect(err).toContain('\n  try: node dist/bin/switchyard.js serve --data-dir ')
  })

  test('no host, and a host that is gone, end with 69 and a next step', async () => {
    const { dataDir } = await startCommandHost()
    const empty = tempFolder()
    expect(await endOf(runCommand(['status', '--data-dir', empty]))).toEqual({
      code: 69,
      out: '',
      err: `switchyard: no host is running for ${empty}\n  try: switchyard serve --data-dir ${empty}\n`,
    })
    writeFileSync(join(dataDir, 'launch.json'), JSON.stringify({ url: 'http://127.0.0.1:1', token: TOKEN }))
    const gone = await endOf(runCommand(['runs', '--data-dir', dataDir]))
    expect(gone).toMatchObject({ code: 69, out: '' })
    expect(gone.err).toMatch(
      /^switchyard: no host answers at \S+ \(ECONNREFUSED\)\n {2}try: switchyard serve --data-dir \S+\n$/,
    )
  })

  test.each(['status', 'doctor', 'serve', 'init', 'mcp'])(
    'an empty --data-dir of %s names no folder',
    async (name) => {
      const home = tempFolder()
      expect(await endOf(runCommand([name, '--data-dir', ''], '', { HOME: home }))).toEqual({
        code: 2,
        out: '',
        err: expect.stringMatching(/^switchyard: --data-dir is empty\n {2}try: .*\n$/),
      })
    },
  )

  test('the home folder is ~ in errors, and JSON has whole paths', async () => {
    const home = tempFolder()
    const [dataDir, env] = [join(home, 'data'), { HOME: home }]
    const shown = await endOf(runCommand(['status', '--data-dir', dataDir], '', env))
    expect(shown).toMatchObject({ code: 69, err: expect.stringMatching(/ no host is running for ~\/data\n/) })
    const json = await endOf(runCommand(['status', '--json', '--data-dir', dataDir], '', env))
    expect(JSON.parse(json.err)).toMatchObject({ error: `no host is running for ${dataDir}` })
  })

  test('a wrong token of the environment and one of launch.json end with 1, each with its cure', async () => {
    const { dataDir, url } = await startCommandHost()
    const env = { SWITCHYARD_URL: url, SWITCHYARD_TOKEN: 'old' }
    expect(await endOf(runCommand(['runs'], '', env))).toEqual({
      code: 1,
      out: '',
      err: expect.stringMatching(/refused SWITCHYARD_TOKEN\n {2}try: unset /),
    })
    writeFileSync(join(dataDir, 'launch.json'), JSON.stringify({ url, token: 'old' }))
    const { code, err } = await endOf(runCommand(['runs', '--data-dir', dataDir]))
    expect(code).toBe(1)
    expect(err).toMatch(/refused the token of \S+launch\.json; .*\n {2}try: restart the host, or name/)
  })

  test('an address without its token is wrong usage that names the token', async () => {
    const { url } = await startCommandHost()
    const { code, out, err } = await endOf(runCommand(['runs'], '', { SWITCHYARD_URL: url }))
    expect([code, out]).toEqual([2, ''])
    expect(err).toMatch(/^switchyard: SWITCHYARD_TOKEN: .*launch\.json/)
  })

  test('the token may stand in a file, which is named when it is refused or missing', async () => {
    const { dataDir, url } = await startCommandHost()
    const file = join(dataDir, 'token')
    const env = { SWITCHYARD_URL: url, SWITCHYARD_TOKEN_FILE: file }
    const list = () => endOf(runCommand(['runs', '-o', 'id'], '', env))
    expect(await list()).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^switchyard: SWITCHYARD_TOKEN_FILE: .*ENOENT/),
    })
    writeFileSync(file, 'old')
    expect(await list()).toMatchObject({
      code: 1,
      err: expect.stringMatching(/refused SWITCHYARD_TOKEN_FILE\n {2}try: unset SWITCHYARD_TOKEN_FILE /),
    })
    writeFileSync(file, `${TOKEN}\n`)
    expect(await list()).toMatchObject({ code: 0, err: '' })
  })

  test('--yes discards', async () => {
    const { run } = await startCommandHost()
    expect(await endOf(run('discard', 'ENG-1', '--yes'))).toEqual({
      code: 0,
      out: 'ENG-1: sandbox discarded\n',
      err: '',
    })
  })

  test('the bare command is wrong usage without a terminal', async () => {
    const { code, out, err } = await endOf(runCommand([]))
    expect([code, out]).toEqual([2, ''])
    expect(err).toMatch(/^Usage: switchyard COMMAND/)
  })
})

describe('watching', () => {
  test('a reader that closes the pipe ends the command with 0', async () => {
    const { hostApi, run } = await startCommandHost()
    hostApi.eventsById.set(
      NEW_ID,
      Array.from({ length: 5_000 }, (_, index) => logEvent(index, `${'x'.repeat(500)}\n`)),
    )
    const command = run('logs', 'ENG-2')
    command.process.stdout?.once('data', () => command.process.stdout?.destroy())
    expect(await command.exit).toBe(0)
    expect(command.err()).toBe('')
  })

  test.each([
    ['logs', ['logs', 'ENG-2', '-f'], 'SIGINT', 130],
    ['runs wait', ['runs', 'wait', 'ENG-2'], 'SIGINT', 130],
    ['runs wait, ended by its supervisor', ['runs', 'wait', 'ENG-2'], 'SIGTERM', 143],
  ] as const)('a signal ends the watching alone: %s', async (_, args, signal, code) => {
    const host = await startCommandHost()
    const { hostApi, run } = host
    const command = run(...args)
    await until('the command watches', () => host.watchers() > 0)
    command.process.kill(signal)
    expect(await endOf(command)).toEqual({ code, out: '', err: 'Stopped watching; ENG-2 goes on.\n' })
    expect(hostApi.runsById.get(NEW_ID)?.status).toBe('queued')
  })

  test('waiting reports how each run ends, and its exit code says whether all have completed', async () => {
    const host = await startCommandHost()
    const { hostApi, run } = host
    const command = run('runs', 'wait', 'ENG-2', '--timeout', '5m')
    await until('the command watches', () => host.watchers() > 0)
    const queued = fakeRun(NEW_ID, 'queued', 'ENG-2')
    const times = { startedAt: '2026-03-01T08:30:00.000Z', finishedAt: '2026-03-01T08:35:26.000Z' }
    hostApi.push({ type: 'run-updated', run: { ...queued, status: 'running' } })
    hostApi.push({
      type: 'run-updated',
      run: { ...queued, ...times, status: 'completed', prUrl: 'https://h/pull/92' },
    })
    const { code, out, err } = await endOf(command)
    expect([code, out]).toEqual([0, 'ENG-2 completed in 5m26s  https://h/pull/92\n'])
    expect(err).toMatch(/^\d\d:\d\d:\d\d running\n$/)
    expect(await endOf(run('runs', 'wait', 'ENG-1'))).toMatchObject({ code: 1 })
    expect(await endOf(run('runs', 'wait', 'ENG-2', '--timeout', '1s'))).toEqual({
      code: 1,
      out: '',
      err: 'Not all have ended in 1s.\n',
    })
  })

  test('a watched status is printed again when something changes', async () => {
    const host = await startCommandHost()
    const { hostApi, run } = host
    const command = run('status', '--watch', '--json')
    await until('the first line', () => command.out().includes('\n') && host.watchers() > 0)
    const changed = { ...fakeRun(NEW_ID, 'running', 'ENG-2') }
    hostApi.runsById.set(NEW_ID, changed)
    hostApi.push({ type: 'run-updated', run: changed })
    await until('the second line', () => command.out().split('\n').length > 2)
    command.process.kill('SIGINT')
    expect(await command.exit).toBe(130)
    const states = command
      .out()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).runs[0].status)
    expect(states).toEqual(['queued', 'running'])
  })

  test('a watched status goes on while the host has no address', async () => {
    const { hostApi, dataDir, run, watchers } = await startCommandHost()
    const launch = join(dataDir, 'launch.json')
    const command = run('status', '--watch', '--json')
    await until('the first line', () => command.out().includes('\n') && watchers() > 0)
    renameSync(launch, `${launch}.away`)
    const changed = { ...fakeRun(NEW_ID, 'running', 'ENG-2') }
    hostApi.runsById.set(NEW_ID, changed)
    hostApi.push({ type: 'run-updated', run: changed })
    await pause(1_200)
    renameSync(`${launch}.away`, launch)
    hostApi.push({ type: 'run-updated', run: changed })
    await until('the second line', () => command.out().split('\n').length > 2)
    command.process.kill('SIGINT')
    expect(await command.exit).toBe(130)
  })
})

describe('on a terminal', () => {
  const TITLE = '登録フォームの検証をすべての入力欄に加える'

  async function screenOf(args: readonly string[], cols: number, env: NodeJS.ProcessEnv = {}) {
    const { hostApi, dataDir } = await startCommandHost()
    const run = fakeRun(NEW_ID, 'queued', 'ENG-2')
    hostApi.runsById.set(NEW_ID, {
      ...run,
      queueReason: 'fleet at capacity',
      ticket: { ...run.ticket, title: TITLE },
    })
    const terminal = runInTerminal(
      [...args, '--data-dir', dataDir],
      { LANG: 'C.UTF-8', ...env },
      { cols, rows: 30 },
    )
    const { code } = await terminal.waitForEnd()
    const { buffer } = await terminal.screen()
    const lines = Array.from(
      { length: 30 },
      (_, at) => buffer.active.getLine(at)?.translateToString(true) ?? '',
    )
    return {
      code,
      text: terminal.text(),
      lines: lines.slice(lines.findIndex((line) => line.includes('TICKET'))),
    }
  }

  test('at 60 columns runs drop what matters least, and wide titles are cut whole', async () => {
    const { code, lines, text } = await screenOf(['runs'], 60)
    expect(code).toBe(0)
    expect(lines[0]).toMatch(/^ {2}TICKET {2}TITLE +STATE +AGE/)
    expect(lines[1]).toMatch(/^◦ ENG-2 {3}登録フォーム.*queued +\d+d\d+h/)
    expect(text).toContain('\x1b[')
  })

  test('at 200 columns the reason follows the title', async () => {
    const { lines } = await screenOf(['runs'], 200)
    expect(lines[1]).toContain(`${TITLE}  queued: fleet at capacity`)
  })

  test('NO_COLOR leaves the colours out, and a locale without UTF-8 the glyphs', async () => {
    const { lines, text } = await screenOf(['runs'], 80, { NO_COLOR: '1', LANG: 'C' })
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with a control character
    expect(text.match(/\x1b\[[0-9;]*m/)).toBeNull()
    expect(lines[1]).toMatch(/^\. ENG-2 {3}\?+/)
  })

  test('the status fits on the screen, and counts the items that do not', async () => {
    const { dataDir, hostApi } = await startCommandHost()
    const items = Array.from({ length: 40 }, (_, at) => ({
      id: `login:${at}`,
      kind: 'login' as const,
      message: `credential ${at} is refused`,
      cure: 'switchyard connect codehost',
      since: '2026-11-22T14:19:14.107Z',
    }))
    hostApi.attention = () => ({ items })
    const size = { cols: 120, rows: 24 }
    const terminal = runInTerminal(['status', '--data-dir', dataDir], {}, size)
    await terminal.waitForEnd()
    const lines = terminal.text().split('\r\n')
    const [from, to] = [
      lines.findIndex((line) => /runs active/.test(line)),
      lines.findIndex((line) => /^after=/.test(line)),
    ]
    expect(to - from).toBeLessThan(24)
    expect(lines.filter((line) => / is refused/.test(line))).toHaveLength(13)
    expect(terminal.text()).toContain('and 27 more; all of them: switchyard status ')
  })

  test('the bare command is the status, and names the help', async () => {
    const { dataDir } = await startCommandHost()
    const terminal = runInTerminal([], { SWITCHYARD_DATA_DIR: dataDir, NO_COLOR: '1' })
    const { code } = await terminal.waitForEnd()
    expect(code).toBe(0)
    expect(terminal.text()).toContain('0 runs active, 1 queued, nothing needs you\r\n')
    expect(terminal.text()).toContain('Help: switchyard --help\r\n')
  })
})

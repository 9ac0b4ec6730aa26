/** `switchyard top`: the real command in a real terminal, against a host that the test controls. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import { spawn } from '@lydell/node-pty'
import { Terminal } from '@xterm/headless'
import { keepReading } from '../../../build/recording/keep-reading.ts'
import type { AttentionItem } from '../../../protocol/attention.ts'
import { configDefaults } from '../../../protocol/config.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { commandPath, runCommand } from '../../support/command-process.ts'
import { type FakeHostApi, fakeRun, fakeWorker } from '../../support/fake-host-api.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { type CommandTerminal, runInTerminal } from '../../support/terminal-host.ts'
import { closeAfterTest, closeServer, openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const idOf = (number: number): string => `run-${String(number).padStart(32, '0')}`
const [RUNNING, QUEUED, FAILED] = [idOf(231), idOf(251), idOf(228)]
const ENTER_SCREEN = '\x1b[?1049h'
const LEAVE_SCREEN = '\x1b[?1049l'
/** The end of each frame: the cursor's place. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: sequences begin with a control character
const FRAME_END = /\x1b\[\?25[lh]\x1b\[\d+;1H/g

const run = (number: number, status: Run['status'], more: Partial<Run> = {}): Run => ({
  ...fakeRun(idOf(number), status, `ENG-${number}`),
  createdAt: new Date(Date.now() - number * 1_000).toISOString(),
  ...more,
})

const USAGE = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, estimated: false }

const log = (index: number, text: string): RunEvent => ({
  runId: RUNNING,
  index,
  at: '2026-11-22T14:19:14.107Z',
  type: 'log',
  stream: 'stdout',
  text,
})

const FAILURE: AttentionItem = {
  id: 'failed:228',
  kind: 'failed',
  message: 'failed: verify "npm test" exited with 1',
  cure: 'switchyard logs ENG-228',
  runId: FAILED,
  since: '2026-11-22T14:19:14.107Z',
}

interface Setup {
  readonly hostApi: FakeHostApi
  readonly dataDir: string
  readonly stop: () => Promise<void>
}

const launchText = (url: string): string => JSON.stringify({ url, token: TOKEN })

async function openHost(dataDir = tempFolder()): Promise<Setup> {
  const { hostApi, server, url } = await openTestServer()
  writeFileSync(join(dataDir, 'launch.json'), launchText(url), { mode: 0o600 })
  for (const each of [
    run(231, 'running'),
    run(251, 'queued', { queueReason: 'fleet at capacity' }),
    run(228, 'failed', { error: 'verify "npm test" exited with 1' }),
  ])
    hostApi.runsById.set(each.id, each)
  hostApi.eventsById.set(RUNNING, [log(0, 'added 96 packages in 8s\n')])
  hostApi.attention = () => ({ items: [FAILURE] })
  hostApi.hello = () => ({
    type: 'hello',
    runs: [...hostApi.runsById.values()],
    tickets: [],
    config: configDefaults,
    linearStatus: { state: 'connected' },
    workers: [{ ...fakeWorker('wk-0123456789abcdef'), connection: 'online' }],
  })
  const { cancelRun, retryRun } = hostApi
  const pushed = (result: Awaited<ReturnType<typeof cancelRun>>) => {
    if (result.ok) hostApi.push({ type: 'run-updated', run: result.value })
    return result
  }
  hostApi.cancelRun = async (id) => pushed(await cancelRun(id))
  hostApi.retryRun = async (id, options) => pushed(await retryRun(id, options))
  return { hostApi, dataDir, stop: () => closeServer(server, undefined) }
}

const SIZE = { cols: 80, rows: 24 }
const UTF8 = { LANG: 'C.UTF-8' }

/** The lines on the screen of a terminal of this size, and which screen it is. */
async function screenOf(bytes: Buffer, size = SIZE): Promise<{ lines: string[]; isBoard: boolean }> {
  const terminal = new Terminal({ ...size, allowProposedApi: true })
  await new Promise<void>((done) => terminal.write(bytes, done))
  const { active } = terminal.buffer
  const lines = Array.from(
    { length: size.rows },
    (_, at) =>
      active
        .getLine(at + active.baseY)
        ?.translateToString(true)
        .trimEnd() ?? '',
  )
  return { lines, isBoard: active.type === 'alternate' }
}

interface Person extends CommandTerminal {
  /** Waits for a line on the screen. */
  sees(pattern: RegExp, size?: typeof SIZE): Promise<string[]>
}

function watch(
  { dataDir }: Setup,
  args: readonly string[] = [],
  env: NodeJS.ProcessEnv = {},
  size = SIZE,
): Person {
  const terminal = runInTerminal(['top', '--data-dir', dataDir, ...args], { ...UTF8, ...env }, size)
  const sees = async (pattern: RegExp, seenSize = size): Promise<string[]> => {
    let lines: string[] = []
    await until(`${pattern} on the screen`, async () => {
      lines = (await screenOf(terminal.bytes(), seenSize)).lines
      return lines.some((line) => pattern.test(line))
    }).catch((error) => {
      throw new Error(`${error.message}\n${lines.join('\n')}`)
    })
    return lines
  }
  return { ...terminal, sees }
}

async function expectRestored(person: Person, code: number): Promise<void> {
  const end = await person.waitForEnd()
  expect([end.before === '', end.after, end.code]).toEqual([false, end.before, code])
  const { modes, buffer } = await person.screen()
  expect([buffer.active.type, modes.wraparoundMode]).toEqual(['normal', true])
  const [shown, hidden] = ['\x1b[?25h', '\x1b[?25l'].map((mode) => person.text().lastIndexOf(mode))
  expect(shown).toBeGreaterThan(hidden ?? 0)
}

describe('the board', () => {
  test('has what needs somebody, runs, workers and keys, follows changes, and rests while nothing changes', async () => {
    const host = await openHost()
    const person = watch(host)
    const lines = await person.sees(/^▸ ENG-231 {2}running {5}\S+ +- {2}added 96 packages in 8s$/)
    expect(lines[0]).toMatch(
      /^switchyard {3}1 active {2}1 queued {2}1 needs you {3}today - +\d\d:\d\d:\d\d {2}live$/,
    )
    expect(lines[3]).toBe('! ENG-228  failed: verify "npm test" exited with 1')
    expect(lines.join('\n')).toMatch(
      /\n◦ ENG-251 {2}queued .* fleet at capacity\n[\s\S]*WORKERS .*\n {2}attic {4}online/,
    )
    expect(lines.at(-1)).toMatch(/\? help {2}q quit$/)

    host.hostApi.push({ type: 'run-event', event: log(1, 'All tests pass\n') })
    await person.sees(/ENG-231 {2}running .* All tests pass$/)
    const costs = [{ ...USAGE, label: 'run', provider: 'agentA', model: 'sonnet', costUsd: 2 }]
    const paid = run(251, 'preparing', { costs, costTotals: { ...USAGE, costUsd: 2, byModel: [] } })
    host.hostApi.push({ type: 'run-updated', run: paid })
    await person.sees(/^switchyard {3}2 active {2}0 queued .* today \$2\.00/)

    // Ages below ten minutes have seconds, so a line of a run changes as the clock does.
    const begun = person.text().length
    await pause(2_100)
    const drawn = person.text().slice(begun)
    expect(drawn.match(FRAME_END)?.length ?? 0).toBeLessThanOrEqual(3)
    expect(drawn).not.toMatch(/NEEDS|RUNS|WORKERS|ENG-228|attic/)
    person.type('q')
    await expectRestored(person, 0)
  })

  test('a flood of log lines draws four frames a second', async () => {
    const host = await openHost()
    const person = watch(host)
    await person.sees(/added 96 packages/)
    const [begun, since] = [person.text().length, performance.now()]
    for (let index = 1; index <= 1_000; index++) {
      host.hostApi.push({ type: 'run-event', event: log(index, `line ${index}\n`) })
      if (index % 50 === 0) await pause(50)
    }
    await person.sees(/ENG-231 {2}running .* line 1000$/)
    const seconds = (performance.now() - since) / 1_000
    const frames = person.text().slice(begun).match(FRAME_END)?.length ?? 0
    expect(frames).toBeGreaterThan(1)
    expect(frames).toBeLessThanOrEqual(4 * seconds + 1)
    person.type('\x03')
    await expectRestored(person, 130)
  })

  test('another size is drawn anew, with the log of the selected run; a very small one has the lines of status', async () => {
    const host = await openHost()
    const person = watch(host)
    await person.sees(/q quit$/)
    const large = { cols: 120, rows: 40 }
    person.pty.resize(large.cols, large.rows)
    const lines = await person.sees(/^\d\d:\d\d:\d\d {3}added 96 packages in 8s$/, large)
    expect(lines.join('\n')).toMatch(/\nRUNS {7}TITLE +STATE[\s\S]*\nLOG {2}ENG-231 {2}The lamp flickers\n/)
    person.type('j')
    await person.sees(/^LOG {2}ENG-251/, large)
    const small = { cols: 50, rows: 10 }
    person.pty.resize(small.cols, small.rows)
    await person.sees(/^1 run active, 1 queued, 1 needs you +live$/, small)
    // No row is to be seen, so no key acts on one.
    person.type('c')
    person.type('y')
    person.type('q')
    await expectRestored(person, 0)
    expect(host.hostApi.runsById.get(QUEUED)?.status).toBe('queued')
  })

  test('without colours and UTF-8 the cursor shows the selection', async () => {
    const person = watch(await openHost(), [], { NO_COLOR: '1', LANG: 'C' })
    await person.sees(/^! ENG-228/)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with a control character
    expect(person.text().slice(person.text().indexOf(ENTER_SCREEN))).not.toMatch(/\x1b\[[\d;]*m/)
    expect(person.text()).toContain('\x1b[?25h\x1b[7;1H')
    person.type('q')
    await expectRestored(person, 0)
  })

  test('a host that goes away is shown, and found again', async () => {
    const host = await openHost()
    const person = watch(host)
    await person.sees(/ {2}live$/)
    await host.stop()
    await person.sees(/ {2}reconnecting$/)
    const restarted = await openHost(host.dataDir)
    await person.sees(/ {2}live$/)
    restarted.hostApi.push({ type: 'run-event', event: log(1, 'from the new host\n') })
    await person.sees(/from the new host$/)
    person.type('q')
    await expectRestored(person, 0)
  })
})

describe('keys', () => {
  test('c asks first and says what is lost, r queues again, ? explains', async () => {
    const host = await openHost()
    const person = watch(host)
    await person.sees(/q quit$/)
    person.type('c')
    await person.sees(/^This ends ENG-231 after \S+: its agent stops, and nothing more is pushed\. Go$/)
    person.type('n')
    await person.sees(/^nothing was changed$/)
    expect(host.hostApi.runsById.get(RUNNING)?.status).toBe('running')
    person.type('\x1b[B')
    await person.sees(/q quit$/)
    person.type('c')
    await person.sees(/^This takes ENG-251 out of the queue: its place is lost\. Go on\? \[y\/N\]$/)
    person.type('y')
    await person.sees(/^⊘ ENG-251 {2}cancelled/)
    expect(host.hostApi.runsById.get(QUEUED)?.status).toBe('cancelled')
    person.type('c')
    await person.sees(/^the run has ended$/)
    person.type('kkr')
    await person.sees(/^ENG-228 queued$/)
    expect(host.hostApi.runsById.get(FAILED)?.status).toBe('queued')
    person.type('?')
    await person.sees(/^Ctrl-Z +suspend; fg comes back$/)
    person.type('xjr')
    await person.sees(/^the run is running; try: switchyard runs wait ENG-231$/)
    person.type('q')
    await expectRestored(person, 0)
  })

  test('--yes cancels without a question', async () => {
    const host = await openHost()
    const person = watch(host, ['--yes'])
    await person.sees(/q quit$/)
    person.type('c')
    await person.sees(/^⊘ ENG-231 {2}cancelled/)
    person.type('q')
    await expectRestored(person, 0)
  })

  test('enter, l and a run their commands on the ordinary screen, and come back', async () => {
    const host = await openHost()
    const person = watch(host, ['--color', 'never'])
    await person.sees(/q quit$/)
    const leaves = async (key: string, prints: RegExp): Promise<void> => {
      const begun = person.text().length
      person.type(key)
      await until(`${key} prints`, () => prints.test(person.text().slice(begun)))
      expect(person.text().slice(begun)).toContain(LEAVE_SCREEN)
    }
    const comesBack = async (key: string): Promise<void> => {
      const begun = person.text().length
      person.type(key)
      await until('the board', () => person.text().slice(begun).includes(ENTER_SCREEN))
      await person.sees(/q quit$/)
    }
    await leaves('\r', /▸ ENG-231 {2}The lamp flickers[\s\S]*any key: back to the board/)
    await comesBack('x')
    await leaves('l', /added 96 packages in 8s/)
    const event = log(1, 'followed\n')
    host.hostApi.eventsById.get(RUNNING)?.push(event)
    host.hostApi.push({ type: 'run-event', event })
    await until('the followed line', () => /followed\r\n/.test(person.text()))
    // Ctrl-C reaches both programs, and ends the watching alone.
    await comesBack('\x03')
    host.hostApi.attachView = (_, view) => {
      view.send({ type: 'data', data: 'from the session' })
      view.send({ type: 'exit', code: 0 })
      return { onInput: () => {}, onResize: () => {}, onClosed: () => {} }
    }
    await leaves('a', /from the session[\s\S]*any key: back to the board/)
    await comesBack(' ')
    person.type('q')
    await expectRestored(person, 0)
  })
})

describe('every end restores the terminal', () => {
  test.each([
    ['SIGTERM', 143],
    ['SIGHUP', 129],
    ['SIGINT', 130],
  ] as const)('%s', async (signal, code) => {
    const person = watch(await openHost())
    await person.sees(/q quit$/)
    process.kill(person.commandPid(), signal)
    await expectRestored(person, code)
  })

  test('an error that nobody has foreseen', async () => {
    const thrower = "process.on('SIGUSR2',()=>{throw new Error('boom')})"
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(thrower)}` }
    const person = watch(await openHost(), [], env)
    await person.sees(/q quit$/)
    process.kill(person.commandPid(), 'SIGUSR2')
    await expectRestored(person, 70)
    expect(person.text().slice(person.text().indexOf(LEAVE_SCREEN))).toContain('switchyard: Error: boom')
  })

  test('a refusal that lasts', async () => {
    const host = await openHost()
    const person = watch(host)
    await person.sees(/q quit$/)
    await host.stop()
    const refusing = createServer((_, answer) => answer.writeHead(404).end()).listen(0, '127.0.0.1')
    closeAfterTest(() => void refusing.close())
    await once(refusing, 'listening')
    const { port } = refusing.address() as AddressInfo
    writeFileSync(join(host.dataDir, 'launch.json'), launchText(`http://127.0.0.1:${port}`), { mode: 0o600 })
    await expectRestored(person, 1)
    expect(person.text().slice(person.text().indexOf(LEAVE_SCREEN))).toContain('answered 404')
  })

  test('a closed window ends it', async () => {
    const person = watch(await openHost())
    await person.sees(/q quit$/)
    const pid = person.commandPid()
    person.pty.kill('SIGKILL')
    await until('its end', () => {
      try {
        process.kill(pid, 0)
        return false
      } catch {
        return true
      }
    })
  })

  test('Ctrl-Z suspends it, fg draws it again, and after kill -9 the command reset helps', async () => {
    const { dataDir } = await openHost()
    const shell = spawn('bash', ['--norc', '--noprofile', '-i'], {
      name: 'xterm-256color',
      ...SIZE,
      encoding: null,
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        TERM: 'xterm-256color',
        PS1: 'ready> ',
        ...UTF8,
      },
    })
    const pieces: Buffer[] = []
    shell.onData((piece) => void pieces.push(Buffer.from(piece)))
    const stopReading = keepReading(shell)
    closeAfterTest(() => {
      stopReading()
      shell.kill('SIGKILL')
    })
    const sees = async (what: string, isSo: (lines: string[], isBoard: boolean) => boolean): Promise<void> =>
      await until(what, async () => {
        const { lines, isBoard } = await screenOf(Buffer.concat(pieces))
        return isSo(lines, isBoard)
      })
    const isBoardShown = (lines: string[], isBoard: boolean) => isBoard && /q quit$/.test(lines.at(-1) ?? '')
    // Until the shell asks, the board may still read what is typed.
    const isShellAsking = (lines: string[], isBoard: boolean) =>
      !isBoard && lines.filter((line) => line !== '').at(-1) === 'ready>'
    const top = `${process.execPath} ${commandPath} top --data-dir ${dataDir}`
    shell.write(`${top}\r`)
    await sees('the board', isBoardShown)
    shell.write('\x1a')
    await sees(
      'the prompt of the shell',
      (lines, isBoard) => isShellAsking(lines, isBoard) && /Stopped/.test(lines.join('\n')),
    )
    shell.write('stty -a | grep -o ".icanon"; echo "$((6 * 7))"\r')
    await sees('an ordinary terminal', (lines) => lines.includes(' icanon') && lines.includes('42'))
    pieces.length = 0
    // The next frame is due when the board continues.
    await pause(1_100)
    shell.write('fg\r')
    await sees('the board again', isBoardShown)
    shell.write('\x1a')
    await sees('the shell again', isShellAsking)
    expect((await screenOf(Buffer.concat(pieces))).lines.join('\n')).not.toContain('ENG-')
    shell.write('fg\r')
    await sees('the board a third time', isBoardShown)
    shell.write('q')
    await sees('the end', isShellAsking)
    pieces.length = 0
    // A board in the background stops where it asks for keys; a shell that has not noticed would not continue it.
    shell.write(`set -b; ${top} &\r`)
    await sees('a second one that is stopped', (lines) => /Stopped/.test(lines.join('\n')))
    shell.write('fg\r')
    await sees('the board of a second one', isBoardShown)
    const [pid = ''] = (await childrenOf(shell.pid)).slice(-1)
    process.kill(Number(pid), 'SIGKILL')
    await pause(200)
    shell.write('reset\r')
    await sees('the ordinary screen', (_, isBoard) => !isBoard)
  })
})

async function childrenOf(pid: number): Promise<string[]> {
  const { readFile } = await import('node:fs/promises')
  return (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ')
}

describe('without a terminal', () => {
  test.each([
    ['a pipe', [], /^switchyard: top needs a terminal\n {2}try: switchyard status --watch\n$/],
    ['--json', ['--json'], /"cure":"switchyard status --watch --json"/],
  ])('%s is wrong use', async (_, args, message) => {
    const command = runCommand(['top', ...args])
    expect([await command.exit, command.out(), command.err()]).toEqual([
      2,
      '',
      expect.stringMatching(message),
    ])
  })

  test('a dumb terminal is wrong use, and without a host nothing is drawn', async () => {
    const dumb = watch(await openHost(), [], { TERM: 'dumb' })
    expect((await dumb.waitForEnd()).code).toBe(2)
    expect(dumb.text()).toContain('try: switchyard status --watch')
    const alone = runInTerminal(['top', '--data-dir', tempFolder()], UTF8, SIZE)
    expect((await alone.waitForEnd()).code).toBe(69)
    expect(dumb.text() + alone.text()).not.toContain(ENTER_SCREEN)
  })
})

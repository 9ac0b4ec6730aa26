/** `switchyard attach`: the real command in a real terminal, against a host that the test controls. */
import { execFileSync, spawn } from 'node:child_process'
import { readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { ViewSender } from '../../../core/ports/connections.ts'
import { yes } from '../../../core/result.ts'
import { commandPath, configWithAnyPort, runCommand, serve } from '../../support/command-process.ts'
import { fakeRun } from '../../support/fake-host-api.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import {
  type CommandTerminal,
  encodeReply,
  runInTerminal,
  startTerminalHost,
  type TerminalHost,
  type TerminalHostView,
} from '../../support/terminal-host.ts'
import { openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const DETACH = '\x1dd'
/** The modes that a full-screen program switches on. */
const ALL_ON = '\x1b[?1049h\x1b[?1003;1006h\x1b[?2004h\x1b[?1004h\x1b[?25l\x1b[?1h\x1b=\x1b[5;10r\x1b[31m'

const attachArguments = (host: TerminalHost, ...args: string[]): string[] => [
  'attach',
  'r1',
  '--data-dir',
  host.dataDir,
  ...args,
]

async function attached(
  host: TerminalHost,
  ...args: string[]
): Promise<{ person: CommandTerminal; view: TerminalHostView }> {
  const person = runInTerminal(attachArguments(host, ...args))
  const view = await connectedView(host, 1)
  view.print('\x1b[H\x1b[2Jready> ')
  await until('the prompt', () => person.text().includes('ready>'))
  return { person, view }
}

async function connectedView(host: TerminalHost, count: number): Promise<TerminalHostView> {
  await until(`line ${count}`, () => (host.views[count - 1]?.sizes().length ?? 0) > 0)
  const view = host.views[count - 1]
  if (view === undefined) throw new Error('no line')
  return view
}

async function expectRestored(person: CommandTerminal, code: number): Promise<void> {
  const end = await person.waitForEnd()
  expect(end.before).not.toBe('')
  expect(end.after).toBe(end.before)
  expect(end.code).toBe(code)
  const { modes, buffer } = await person.screen()
  expect(buffer.active.type).toBe('normal')
  expect(modes).toMatchObject({
    mouseTrackingMode: 'none',
    bracketedPasteMode: false,
    sendFocusMode: false,
    applicationCursorKeysMode: false,
    applicationKeypadMode: false,
    originMode: false,
    insertMode: false,
    wraparoundMode: true,
  })
  // The test terminal does not report cursor visibility, so check that showing follows hiding.
  const [shown, hidden] = ['\x1b[?25h', '\x1b[?25l'].map((mode) => person.text().lastIndexOf(mode))
  expect(shown).toBeGreaterThanOrEqual(hidden ?? 0)
}

describe('while attached', () => {
  test('the detach keys are printed before any output, and in the title', async () => {
    const host = await startTerminalHost()
    const { person } = await attached(host)
    const text = person.text()
    expect(text).toContain('ENG-1: attaching. To detach: Ctrl-] d')
    expect(text.indexOf('To detach')).toBeLessThan(text.indexOf('ready>'))
    expect(text).toContain('\x1b]2;ENG-1 · detach: Ctrl-] d\x1b\\')
  })

  test('the size is sent at the start, and after every change', async () => {
    const { person, view } = await attached(await startTerminalHost())
    expect(view.frames()[0]).toEqual({ type: 'resize', cols: 91, rows: 27 })
    person.pty.resize(120, 40)
    await until('the new size', () => view.sizes().at(-1) === '120x40')
  })

  test('every byte reaches the session, control characters included', async () => {
    const { person, view } = await attached(await startTerminalHost())
    const all = '\x03\x1a\x04\x1c\x11\x13\x12\x16\x15\x17\r\n\t\x7f\x00\x1b[A\x1bOP~é漢🙂'
    for (const byte of Buffer.from(all)) person.type(Buffer.from([byte]))
    await until(`all of it in ${JSON.stringify(view.typed())}`, () => view.typed() === all)
  })

  test('a long pasted text arrives completely, in frames of limited size', async () => {
    const { person, view } = await attached(await startTerminalHost())
    const text = Array.from({ length: 3_000 }, (_, at) => `line ${at} 🙂 with something in it\r`).join('')
    person.type(text)
    await until('all of it', () => view.typed().length >= text.length)
    expect(view.typed()).toBe(text)
    for (const frame of view.frames())
      if (frame.type === 'input') expect(frame.data.length).toBeLessThanOrEqual(4_096)
  })

  test('output reaches the terminal unchanged, and a line feed stays a line feed', async () => {
    const { person, view } = await attached(await startTerminalHost())
    const drawn = 'a\nb\r\nc\x1b[31mé漢🙂\x1b[0m\x1b[3;4H~end~'
    view.print(drawn)
    await until('it', () => person.text().includes('~end~'))
    expect(person.text()).toContain(drawn)
  })

  test('sequences with effects beyond the window are removed', async () => {
    const { person, view } = await attached(await startTerminalHost())
    view.print('1\x1b]52;c;c2VjcmV0\x072\x1b]0;evil\x1b')
    view.print('\\3\x1b[6n4\x1b[21t5~end~')
    await until('the rest', () => person.text().includes('~end~'))
    expect(person.text()).toContain('12345~end~')
  })
})

describe('the end', () => {
  test('detaching restores the terminal, releases the sandbox and exits with 0', async () => {
    const host = await startTerminalHost()
    const { person, view } = await attached(host)
    view.print(ALL_ON)
    person.type('x\x1d\x1dy')
    await until('all but the detach keys', () => view.typed() === 'x\x1d\x1dy')
    person.type(DETACH)
    await expectRestored(person, 0)
    expect(view.typed()).toBe('x\x1d\x1dy')
    expect(host.requests).toEqual(['GET /api/runs/r1', 'POST /api/runs/r1/release'])
    expect(person.text()).toContain('detached; the sandbox is released')
    // The host's trail of actions tells commands from other programs by this word.
    expect([...host.sources]).toEqual(['command'])
  })

  test('other detach keys can be chosen, and the sandbox can be kept', async () => {
    const host = await startTerminalHost()
    const { person, view } = await attached(host, '--detach-keys', 'ctrl-q', '--keep')
    person.type(DETACH)
    await until('what is not it', () => view.typed() === DETACH)
    person.type('\x11')
    await expectRestored(person, 0)
    expect(host.requests).toEqual(['GET /api/runs/r1'])
  })

  test('the detach keys work under another keyboard protocol', async () => {
    const { person } = await attached(await startTerminalHost())
    person.type('\x1b[93;5u')
    person.type('\x1b[93;5:3ud')
    await expectRestored(person, 0)
  })

  test('the session’s exit code becomes the command’s', async () => {
    const { person, view } = await attached(await startTerminalHost())
    view.print(ALL_ON)
    view.send({ type: 'exit', code: 7 })
    view.close(1000, 'the session has ended')
    await expectRestored(person, 7)
  })

  test.each([
    ['SIGTERM', 143],
    ['SIGHUP', 129],
    ['SIGINT', 130],
    ['SIGQUIT', 131],
  ] as const)('%s restores the terminal', async (signal, code) => {
    const { person, view } = await attached(await startTerminalHost())
    view.print(`${ALL_ON}drawn`)
    await until('it', () => person.text().includes('drawn'))
    process.kill(person.commandPid(), signal)
    await expectRestored(person, code)
  })

  test('suspending restores the terminal; continuing redraws the screen', async () => {
    const host = await startTerminalHost()
    const { person, view } = await attached(host)
    const pid = person.commandPid()
    const settings = () => execFileSync('stty', ['-g', '-F', readlinkSync(`/proc/${pid}/fd/0`)]).toString()
    const lent = settings()
    view.print(ALL_ON)
    process.kill(pid, 'SIGTSTP')
    await until('it is stopped', () => / T /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')))
    expect(settings()).not.toBe(lent)
    process.kill(pid, 'SIGCONT')
    const second = await connectedView(host, 2)
    second.print('again>')
    await until('the picture', () => person.text().includes('again>'))
    expect(settings()).toBe(lent)
    expect(person.text()).not.toContain('connecting again')
    person.type(DETACH)
    await expectRestored(person, 0)
  })

  test('a closed window ends the command', async () => {
    const { person } = await attached(await startTerminalHost())
    const pid = person.commandPid()
    person.pty.kill('SIGHUP')
    await until('its end', () => !isThere(pid))
  })

  test('a refusal is printed on standard error, and the terminal is restored', async () => {
    const host = await startTerminalHost()
    host.onView = (view) => {
      view.send({ type: 'error', message: 'the sandbox was \x1b[31mreclaimed' })
      view.close(1008, 'the sandbox was reclaimed')
    }
    const person = runInTerminal(attachArguments(host))
    await expectRestored(person, 1)
    expect(person.text()).toContain('switchyard: the sandbox was \u{fffd}[31mreclaimed')
    expect(host.views).toHaveLength(1)
  })

  test('a refused connection is printed with the host’s message, at once', async () => {
    const host = await startTerminalHost()
    host.refusal = encodeReply(403, JSON.stringify({ error: 'the Host header must name a loopback address' }))
    const person = runInTerminal(attachArguments(host))
    await expectRestored(person, 1)
    expect(person.text()).toContain('switchyard: the Host header must name a loopback address')
    expect([person.text().includes('connecting again'), host.refusedViews]).toEqual([false, 1])
  })
})

describe('a lost connection', () => {
  test('is opened again, with the size and the input typed meanwhile', async () => {
    const host = await startTerminalHost()
    const { person, view } = await attached(host)
    view.print(ALL_ON)
    view.disconnect()
    await until('the notice', () => person.text().includes('connecting again'))
    person.type('meanwhile')
    const second = await connectedView(host, 2)
    second.print('\x1bcagain> ')
    await until('the picture', () => person.text().includes('again>'))
    await until('what was typed', () => second.typed() === 'meanwhile')
    person.type(DETACH)
    await expectRestored(person, 0)
  })

  test('a restarted host is found at its new address', async () => {
    const host = await startTerminalHost()
    const { person, view } = await attached(host)
    const nextHost = await startTerminalHost(host.dataDir)
    nextHost.onView = (view) => {
      if (nextHost.views.length > 2) return
      view.send({ type: 'error', message: 'the worker holding the sandbox is away' })
      view.close(1008, 'the worker holding the sandbox is away')
    }
    view.close(1001, 'the service is stopping')
    const third = await connectedView(nextHost, 3)
    third.print('back')
    third.send({ type: 'exit', code: 0 })
    await expectRestored(person, 0)
    expect(host.views).toHaveLength(1)
  })

  test('a person can detach while disconnected', async () => {
    const host = await startTerminalHost()
    const { person, view } = await attached(host)
    rmSync(join(host.dataDir, 'launch.json'))
    // The command knows the host's address for a moment longer.
    host.status = 503
    view.disconnect()
    await until('the notice', () => person.text().includes('connecting again'))
    person.type(DETACH)
    await expectRestored(person, 0)
    expect(person.text()).toContain('could not be released')
  })
})

describe('detaching', () => {
  test('waits only a short time for a host that does not answer', async () => {
    const host = await startTerminalHost()
    const { person } = await attached(host)
    host.isUnresponsive = true
    person.type(DETACH)
    await expectRestored(person, 0)
    expect(person.text()).toContain('could not be released and closes by itself')
  })

  test('restores the terminal before the release, which can be interrupted', async () => {
    const host = await startTerminalHost()
    const { person } = await attached(host)
    host.isUnresponsive = true
    person.type(DETACH)
    await until('the release', () => host.requests.includes('POST /api/runs/r1/release'))
    person.type('\x03')
    await expectRestored(person, 130)
  })

  test('is possible after a large paste while disconnected', async () => {
    const host = await startTerminalHost()
    const { person, view } = await attached(host)
    rmSync(join(host.dataDir, 'launch.json'))
    view.disconnect()
    await until('the notice', () => person.text().includes('connecting again'))
    person.type(`${'a pasted line\r'.repeat(50_000)}${DETACH}`)
    await expectRestored(person, 0)
    expect(person.text()).toContain('switchyard: detached')
  })

  test('is possible with single keys, and during a flood of output', async () => {
    const host = await startTerminalHost()
    const { person, view } = await attached(host)
    const piece = `${'x'.repeat(90)}\r\n`.repeat(700)
    for (let pieces = 0; pieces < 40; pieces += 1) view.print(piece)
    person.type('\x1d')
    await until('some of it', () => person.bytes().length > 5 * piece.length)
    person.type('d')
    await expectRestored(person, 0)
  })
})

describe('before attaching', () => {
  const outcome = async (args: readonly string[], env = {}) => {
    const command = runCommand(args, '', env)
    return { code: await command.exit, err: command.err() }
  }

  test('without a terminal the message names --no-tty', async () => {
    const host = await startTerminalHost()
    const { code, err } = await outcome(attachArguments(host))
    expect([code, err]).toEqual([2, expect.stringContaining('--no-tty')])
    expect(host.requests).toEqual([])
  })

  test.each([
    [['attach', 'r1', '--no-tty', '--detach-keys', 'd'], 2, 'the first key must have ctrl-'],
    [['attach', '..', '--no-tty'], 2, 'RUN: '],
    [['attach', '--no-tty'], 2, 'missing required argument'],
  ])('%j is wrong usage', async (args, code, sentence) => {
    expect(await outcome(args)).toEqual({ code, err: expect.stringContaining(sentence) })
  })

  test('an unreachable host and a refusing host have different exit codes', async () => {
    const dataDir = tempFolder()
    const args = ['attach', 'r1', '--no-tty', '--data-dir', dataDir]
    expect(await outcome(args)).toEqual({ code: 69, err: expect.stringContaining('no host is running') })
    writeFileSync(join(dataDir, 'launch.json'), JSON.stringify({ url: 'http://127.0.0.1:9', token: TOKEN }))
    expect(await outcome(args)).toEqual({ code: 69, err: expect.stringContaining('no host answers') })
    const host = await startTerminalHost()
    host.status = 404
    expect(await outcome(attachArguments(host, '--no-tty'))).toEqual({
      code: 1,
      err: 'switchyard: no such run\n',
    })
  })

  test('the environment may name the host, and no message contains its token', async () => {
    const host = await startTerminalHost()
    host.onView = (view) => view.send({ type: 'exit', code: 3 })
    const args = ['attach', 'r1', '--no-tty', '--data-dir', tempFolder()]
    const at = (url: string, token: string) => outcome(args, { SWITCHYARD_URL: url, SWITCHYARD_TOKEN: token })
    expect(await at(host.url, TOKEN)).toEqual({ code: 3, err: '' })
    const secret = 'another-token-0123456789abcdefghijklmnop'
    const wrong = await at(host.url, secret)
    expect(wrong.code).toBe(1)
    expect(wrong.err).toContain('SWITCHYARD_TOKEN')
    const away = await at('http://example.com:4400', secret)
    expect(away).toEqual({ code: 2, err: expect.stringContaining('without encryption') })
    expect(`${wrong.err}${away.err}`).not.toContain(secret)
  })
})

test('through the real server a long paste and a flood of output arrive completely', async () => {
  const { hostApi, url } = await openTestServer()
  const run = fakeRun('run-1', 'completed')
  hostApi.runsById.set(run.id, run)
  hostApi.answers.set('releaseRun', yes(run))
  const typed: string[] = []
  const sizes: string[] = []
  let link: ViewSender | undefined
  let closed = 0
  hostApi.attachView = (_, view) => {
    link = view
    return {
      onInput: (data) => void typed.push(data),
      onResize: (cols, rows) => void sizes.push(`${cols}x${rows}`),
      onClosed: () => {
        closed += 1
      },
    }
  }
  const env = { SWITCHYARD_URL: url, SWITCHYARD_TOKEN: TOKEN }
  const person = runInTerminal(['attach', run.id], env)
  await until('the size', () => sizes[0] === '91x27')
  const text = 'a pasted line 🙂\r'.repeat(20_000)
  person.type(text)
  const drawn = 'x'.repeat(60_000)
  for (let times = 0; times < 40; times += 1) expect(link?.send({ type: 'data', data: drawn })).toBe(true)
  await until('what is drawn', () => person.bytes().length > 40 * drawn.length, 45_000, 50)
  await until('what is typed', () => typed.join('').length >= text.length, 45_000, 50)
  expect(typed.join('')).toBe(text)
  person.type(DETACH)
  await expectRestored(person, 0)
  // The server notices it later.
  await until('the end of the line', () => closed === 1)
  expect(hostApi.providerCalls).toEqual([{ name: 'releaseRun', args: [run.id] }])
})

test('the real host is found by its data directory, and refuses an unknown run', async () => {
  const dataDir = tempFolder()
  writeFileSync(join(dataDir, 'config.json'), configWithAnyPort())
  await serve(dataDir).waitForLaunch()
  const { exit, err } = runCommand(['attach', 'nobody', '--no-tty', '--data-dir', dataDir])
  expect([await exit, err()]).toEqual([1, expect.stringMatching(/^switchyard: .*nobody\n/)])
})

test('without a terminal, standard input and output are passed on', async () => {
  const host = await startTerminalHost()
  host.onView = (view) => void view.print('hello\r\n')
  const child = spawn(process.execPath, [commandPath, ...attachArguments(host, '--no-tty')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  const ended = new Promise((resolve) => child.on('close', resolve))
  child.stdin.end('exit 5\r')
  const view = await connectedView(host, 1)
  await until('the input', () => view.typed() === 'exit 5\r\x04')
  expect(view.sizes()).toEqual(['80x24'])
  view.print('bye\r\n')
  view.send({ type: 'exit', code: 5 })
  expect(await ended).toBe(5)
  expect(out).toBe('hello\r\nbye\r\n')
})

test('the last output is written completely, however slow the reader is', async () => {
  const host = await startTerminalHost()
  const drawn = `${'y'.repeat(60_000)}\r\n`
  host.onView = (view) => {
    for (let times = 0; times < 50; times += 1) view.print(drawn)
    view.send({ type: 'exit', code: 6 })
  }
  const child = spawn(process.execPath, [commandPath, ...attachArguments(host, '--no-tty')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await until('the line', () => host.views.length === 1)
  // Longer than a process takes that does not wait for its output.
  await new Promise((resolve) => setTimeout(resolve, 300))
  let bytes = 0
  child.stdout.on('data', (piece: Buffer) => {
    bytes += piece.length
  })
  expect(await new Promise((resolve) => child.on('close', resolve))).toBe(6)
  expect(bytes).toBe(50 * drawn.length)
})

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

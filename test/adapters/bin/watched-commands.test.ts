/** `status`, `pause` and `resume` on a real terminal: what they draw, ask and do on signals. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { Terminal } from '@xterm/headless'
import { configDefaults } from '../../../protocol/config.ts'
import { runCommand } from '../../support/command-process.ts'
import { type FakeHostApi, fakeRun } from '../../support/fake-host-api.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { type CommandTerminal, runInTerminal } from '../../support/terminal-host.ts'
import { closeServer, openTestServer, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const RUN_ID = 'run-01a203abc33070008000000000000002'
const TITLE = '登録フォームの検証をすべての入力欄に加える'

interface Setup {
  /** The count of dashboard connections so far. */
  readonly watchers: () => number
  readonly hostApi: FakeHostApi
  readonly stop: () => Promise<void>
  readonly dataDir: string
}

async function openHost(dataDir = tempFolder()): Promise<Setup> {
  const { hostApi, server, url } = await openTestServer()
  writeFileSync(join(dataDir, 'launch.json'), JSON.stringify({ url, token: TOKEN }), { mode: 0o600 })
  const run = fakeRun(RUN_ID, 'queued', 'ENG-2')
  hostApi.runsById.set(RUN_ID, { ...run, ticket: { ...run.ticket, title: TITLE } })
  const { hello } = hostApi
  let watchers = 0
  hostApi.hello = () => {
    watchers += 1
    return hello()
  }
  return { hostApi, dataDir, watchers: () => watchers, stop: () => closeServer(server, undefined) }
}

const start = ({ dataDir }: Setup, args: readonly string[], cols = 80, env: NodeJS.ProcessEnv = {}) =>
  runInTerminal(args, { LANG: 'C.UTF-8', SWITCHYARD_DATA_DIR: dataDir, ...env }, { cols, rows: 30 })

function linesOf({ buffer }: Terminal): string[] {
  const { active } = buffer
  return Array.from(
    { length: 30 },
    (_, at) => active.getLine(at + active.baseY)?.translateToString(true) ?? '',
  )
}

const screenOf = async (terminal: CommandTerminal): Promise<string[]> => linesOf(await terminal.screen())

function setStatus({ hostApi }: Setup, status: 'running' | 'queued'): void {
  const run = { ...fakeRun(RUN_ID, status, 'ENG-2') }
  hostApi.runsById.set(RUN_ID, run)
  hostApi.push({ type: 'run-updated', run })
}

// ---- status --watch ------------------------------------------------------------------------------------------------

const CLEAR = '\x1b[H\x1b[2J'
const drawings = (terminal: CommandTerminal): string[] => terminal.text().split(CLEAR).slice(1)

test('a watched status is redrawn on a change and on another width, and Ctrl-C ends the watching with 130', async () => {
  const host = await openHost()
  const terminal = start(host, ['status', '--watch'])
  await until('the host is watched', () => host.watchers() > 0 && drawings(terminal).length > 0)
  expect(drawings(terminal)[0]).toMatch(/^0 runs active, 1 queued, /)
  setStatus(host, 'running')
  await until('the change', () => drawings(terminal).at(-1)?.startsWith('1 run active, 0 queued') === true)
  const count = drawings(terminal).length
  terminal.pty.resize(60, 20)
  const isNarrow = /tracker {2}linear, not connected\r\ncode host/
  await until('the redrawing', () => {
    const drawn = drawings(terminal)
    return drawn.length > count && isNarrow.test(drawn.at(-1) ?? '')
  })
  terminal.type('\x03')
  const { code } = await terminal.waitForEnd()
  expect(code).toBe(130)
  expect(terminal.text()).toContain('Stopped watching; the host goes on.')
})

test('a watched status finds the host again after a restart', async () => {
  const host = await openHost()
  const terminal = start(host, ['status', '--watch'])
  await until('the host is watched', () => host.watchers() > 0 && drawings(terminal).length > 0)
  const restarted = await openHost(host.dataDir)
  setStatus(restarted, 'running')
  await host.stop()
  await until('the new host', () => drawings(terminal).at(-1)?.startsWith('1 run active') === true)
  terminal.type('\x03')
  expect((await terminal.waitForEnd()).code).toBe(130)
})

// ---- status and runs -----------------------------------------------------------------------------------------------

const ITEM = {
  id: `failed:${RUN_ID}`,
  kind: 'failed' as const,
  message: `failed: ${TITLE} exited with 1`,
  cure: 'switchyard logs ENG-2',
  runId: RUN_ID,
  since: '2026-11-22T14:19:14.107Z',
}

async function drawStatus(cols: number, env: NodeJS.ProcessEnv = {}) {
  const host = await openHost()
  host.hostApi.attention = () => ({ items: [ITEM] })
  const terminal = start(host, ['status'], cols, env)
  const { code } = await terminal.waitForEnd()
  const lines = await screenOf(terminal)
  return {
    code,
    text: terminal.text(),
    lines: lines.slice(lines.findIndex((line) => line.startsWith('Needs'))),
  }
}

test('at 60 columns the command to copy goes to a line of its own, and at 200 columns nothing is cut', async () => {
  const narrow = await drawStatus(60)
  expect([narrow.code, narrow.lines[1]]).toEqual([0, expect.stringMatching(/^! ENG-2 {2}failed: 登録/)])
  expect(narrow.lines.slice(1, 4).join('\n')).toMatch(/\n? {4}switchyard logs ENG-2/)
  const wide = await drawStatus(200)
  expect(wide.lines[1]).toBe(`! ENG-2  ${ITEM.message}  ${ITEM.cure}`)
})

test('the commands of an idle host are never cut', async () => {
  const idle = async (cols: number) => (await drawStatus(cols)).text.replaceAll('\r', '')
  expect(await idle(80)).toContain('nothing ran. Next: switchyard tickets, or switchyard start "WORDS"\n')
  expect(await idle(50)).toMatch(
    /nothing ran\n[\s\S]*Next: switchyard tickets\n {2}or {2}switchyard start "WORDS"\n/,
  )
})

test('the next step of a paused host with queued runs is to resume', async () => {
  const host = await openHost()
  host.hostApi.config = () => ({ ...configDefaults, policy: { paused: true } })
  const terminal = start(host, ['status'])
  expect((await terminal.waitForEnd()).code).toBe(0)
  const lines = await screenOf(terminal)
  expect(lines.find((line) => line.includes('queued'))).toMatch(/^paused, 0 runs active, 1 queued, /)
  expect(lines.slice(lines.findIndex((line) => line.startsWith('today'))).slice(0, 2)).toEqual([
    'today    nothing ran',
    'Next: switchyard resume',
  ])
})

test('the status keeps its words without colours and without UTF-8', async () => {
  const { text, lines } = await drawStatus(80, { NO_COLOR: '1', LC_ALL: 'C' })
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with a control character
  expect(text).not.toMatch(/\x1b\[[0-9;]*m/)
  expect(lines[1]).toMatch(/^! ENG-2 {2}failed: \?{5}/)
})

test.each([['runs'], ['status']])('a reader that takes one line of %s ends it quietly', async (name) => {
  const { hostApi, dataDir } = await openHost()
  for (let at = 0; at < 500; at++) {
    const id = `run-${at.toString(16).padStart(32, '0')}`
    const run = fakeRun(id, 'running', `ENG-${at}`)
    hostApi.runsById.set(id, { ...run, ticket: { ...run.ticket, title: 'x'.repeat(400) } })
  }
  const command = runCommand([name, '--data-dir', dataDir])
  command.process.stdout?.once('data', () => command.process.stdout?.destroy())
  expect([await command.exit, command.err()]).toEqual([0, ''])
})

// ---- pause and resume ----------------------------------------------------------------------------------------------

test('pausing says what goes on, and names the way back', async () => {
  const host = await openHost()
  const terminal = start(host, ['pause'])
  expect((await terminal.waitForEnd()).code).toBe(0)
  expect(host.hostApi.patches).toEqual([{ policy: { paused: true } }])
  expect(terminal.text()).toContain('running work goes on\r\nNext: switchyard resume')
})

test.each([
  ['yes is the default', '\r', 0, [{ policy: { paused: false } }]],
  ['no changes nothing', 'n\r', 0, []],
  ['Ctrl-C changes nothing', '\x03', 130, []],
])('resuming says what starts, and asks: %s', async (_, answer, code, patches) => {
  const host = await openHost()
  const terminal = start(host, ['resume'])
  await until('the question', () => terminal.text().includes('1 run starts: ENG-2. Go on? [Y/n]: '))
  terminal.type(answer)
  expect((await terminal.waitForEnd()).code).toBe(code)
  expect(host.hostApi.patches).toEqual(patches)
})

test('--yes and an empty queue resume without a question', async () => {
  const host = await openHost()
  const sure = start(host, ['resume', '--yes'])
  expect((await sure.waitForEnd()).code).toBe(0)
  host.hostApi.runsById.clear()
  const empty = start(host, ['resume'])
  expect((await empty.waitForEnd()).code).toBe(0)
  expect(sure.text() + empty.text()).not.toContain('Go on?')
  expect(host.hostApi.patches).toHaveLength(2)
})

/**
 * A person resumes a finished run: real host, worker, sandbox and terminal, and the scripted agent's session.
 *
 * However the session ends (released, left, exited, disconnected, killed): no input or output is lost or repeated, the
 * session's cost is counted once, no process is left, and no credential is on the retained disk.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { SESSION_LOST_IN_RESTART } from '../../actors/daemon/resumed-sandboxes.ts'
import type { FleetDemandResponse } from '../../protocol/demand.ts'
import { ATTACH_DATA_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import { type CommandProcess, runCommand } from '../support/command-process.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { TcpRelay } from '../support/tcp-relay.ts'
import { runInTerminal } from '../support/terminal-host.ts'
import { openView, requestRunAction, waitForResume } from '../support/terminal-viewers.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 300_000
const DEMAND_MS_MAX = 30_000
const POLL_EVERY_MS = 50
/** The worker reconnects within seconds; without a release it keeps the sandbox for two minutes. */
const RELEASE_MS_MAX = 60_000
const story = (title: string, body: () => Promise<void>) => test(title, body, TEST_MS_MAX)

/** A process's start time, which identifies it. */
const START_TIME = 'run cut -d" " -f22 /proc/$PPID/stat'
/** Matches the terminal of the session's own process; its children have none. */
const TERMINAL_SIZE = 'run stty -F /proc/$PPID/fd/0 size'

/** Searches for the agent's credential inside. */
const KEY_INSIDE = 'run cat /proc/$PPID/environ $(find ~ /run -type f) 2>&-|grep -ac planted-agent;true'
/** The default key sequence for detaching. */
const DETACH = '\x1dd'
const GREETING = '/exit leaves.'
const FLOOD_LINES = 60_000
const FLOOD_BYTES = 64 * FLOOD_LINES

interface Scene {
  readonly system: LocalSystem
  readonly worker: CommandProcess
  readonly run: Run
  readonly folder: string
}

/** A finished run with a retained sandbox. */
async function startScene(through?: (system: LocalSystem) => Promise<string>): Promise<Scene> {
  const system = await LocalSystem.open()
  const worker = await system.pairWorker([], await through?.(system))
  return { ...(await completeRun(system)), worker }
}

async function completeRun(system: LocalSystem): Promise<Omit<Scene, 'worker'>> {
  system.writeTicket('STEP-1', ['write kept.txt', '  kept', 'commit Keep', 'say The run has said this.'])
  const run = await system.waitForEnd('STEP-1')
  expect(run.status).toBe('completed')
  return { system, run, folder: system.sandboxOf(run) ?? '' }
}

async function fetchDemand({ system, worker }: Scene): Promise<FleetDemandResponse> {
  const path = join(worker.dataDir, 'credential.json')
  const { workerId, secret } = JSON.parse(readFileSync(path, 'utf8'))
  const url = `http://127.0.0.1:${system.fleetPort}/api/worker/demand?workerId=${workerId}`
  const answer = await fetch(url, { headers: { authorization: `Bearer ${secret}` } })
  expect(answer.status).toBe(200)
  return (await answer.json()) as FleetDemandResponse
}

async function waitForTerminals(at: Scene, count: number): Promise<void> {
  const areThere = async () => (await fetchDemand(at)).worker?.attachSessions === count
  await until(`${count} terminals in demand`, areThere, DEMAND_MS_MAX, POLL_EVERY_MS)
}

const attachLabels = ({ costs }: Run): string[] =>
  costs.map(({ label }) => label).filter((label) => label.startsWith('attach '))

async function expectCosts({ system }: Pick<Scene, 'system'>, labels: readonly string[]): Promise<Run> {
  const run = await system.waitForRun(
    'STEP-1',
    `${labels} among the costs`,
    (seen) => attachLabels(seen).length >= labels.length,
  )
  expect(attachLabels(run)).toEqual(labels)
  return run
}

/** Invariants at the end of each story. */
async function expectNothingLeft({ system, folder }: Omit<Scene, 'worker'>): Promise<void> {
  await system.waitForNoProcesses()
  expect(readFileSync(join(folder, 'work', 'kept.txt'), 'utf8')).toBe('kept\n')
  expect(system.findLeaks()).toEqual([])
}

async function killProcess(process: CommandProcess): Promise<void> {
  process.process.kill('SIGKILL')
  await process.exit
}

describe('a finished run', () => {
  story('is resumed, viewed by two people, released with its disk kept, and resumed again', async () => {
    const at = await startScene()
    const { system, run, folder } = at
    const answer = await requestRunAction(system, run.id, 'resume')
    expect([answer.status, answer.body]).toMatchObject([
      200,
      { run: { id: run.id }, attach: { kind: 'worker' } },
    ])
    const first = await openView(system, run)
    await first.waitForText('The run has said this.')
    expect(await first.runStep('say äöü 漢字')).toBe('äöü 漢字')
    expect(await first.runStep(TERMINAL_SIZE)).toBe('30 100')
    first.send({ type: 'resize', cols: 90, rows: 20 })
    await until('the new size', async () => (await first.runStep(TERMINAL_SIZE)) === '20 90')
    await waitForTerminals(at, 1)
    expect(await first.runStep(KEY_INSIDE)).toBe('0')
    expect(system.findLeaks()).toEqual([])

    const second = await openView(system, run, { cols: 80, rows: 24 })
    await second.waitForPrompt()
    expect((await second.lines()).join('\n')).toContain('äöü 漢字')
    second.type('write stepped-in.txt <<END\rby hand\rEND\r')
    for (const view of [first, second]) await view.waitForText('stepped-in.txt has')
    // The terminal has the size of the viewer that typed last.
    await until('his size', async () => (await second.runStep(TERMINAL_SIZE)) === '24 80')
    await waitForTerminals(at, 2)
    expect((await requestRunAction(system, run.id, 'discard')).status).toBe(409)

    expect((await requestRunAction(system, run.id, 'release')).status).toBe(200)
    for (const view of [first, second]) {
      await view.closed
      expect(view.endFrame()).toMatchObject({ type: 'error' })
    }
    await expectNothingLeft(at)
    expect(readFileSync(join(folder, 'work', 'stepped-in.txt'), 'utf8')).toBe('by hand\n')
    const once = await expectCosts(at, ['attach 1'])

    const again = await openView(system, run)
    await again.waitForText('stepped-in.txt has')
    again.type('exit 3\r')
    await again.closed
    expect(again.endFrame()).toEqual({ type: 'exit', code: 3 })
    await expectNothingLeft(at)
    expect((await expectCosts(at, ['attach 1'])).costs).toEqual(once.costs)
  })

  story('is resumed with the command at a terminal; the exit code is the session’s', async () => {
    // This story uses the host's own worker.
    const at = await completeRun(await LocalSystem.open({ local: true }))
    const args = ['attach', at.run.id, '--data-dir', at.system.dataDir]
    const leaver = runInTerminal(args)
    await until('the session', () => leaver.text().includes(GREETING))
    leaver.type(`${TERMINAL_SIZE}\r`)
    await until('its size', () => leaver.text().includes('27 91'))
    leaver.type(DETACH)
    expect(await leaver.waitForEnd()).toMatchObject({ code: 0 })
    await expectNothingLeft(at)
    await expectCosts(at, ['attach 1'])

    const stayer = runInTerminal(args)
    await until('the session', () => stayer.text().includes(GREETING))
    stayer.type('say two\rexit 7\r')
    const { code, before, after } = await stayer.waitForEnd()
    expect([code, after]).toEqual([7, before])
    await expectNothingLeft(at)
    await expectCosts(at, ['attach 1', 'attach 2'])
    const nobody = runInTerminal(['attach', 'run-nobody', '--data-dir', at.system.dataDir])
    expect((await nobody.waitForEnd()).code).toBe(1)
  })

  story(
    'is refused while the run executes, without an agent session, after a discard, and while its worker is offline',
    async () => {
      const at = await startScene()
      const { system, worker, run: kept, folder } = at
      system.writeTicket('BUSY-1', [`run ${GATE}`])
      system.writeTicket('MUTE-1', ['say Nothing.'], { repo: 'slow-setup' })
      system.writeTicket('GONE-1', ['say Done.'])
      const gone = await system.waitForEnd('GONE-1')
      expect((await requestRunAction(system, gone.id, 'discard')).status).toBe(200)
      const mute = await system.waitForStatus('MUTE-1', 'preparing')
      await system.waitForGate(mute)
      await system.host.request(`/api/runs/${mute.id}/cancel`, { method: 'POST' })
      await system.waitForEnd('MUTE-1')
      const busy = await system.waitForStatus('BUSY-1', 'running')
      const refusals = async (ids: readonly string[]) =>
        Promise.all(ids.map(async (id) => (await requestRunAction(system, id, 'resume')).status))
      expect(await refusals(['run-nobody', busy.id, gone.id, mute.id])).toEqual([404, 409, 410, 410])
      const view = await openView(system, busy)
      await view.closed
      expect(view.endFrame()).toEqual({ type: 'error', message: expect.stringContaining('is running') })
      expect((await requestRunAction(system, busy.id, 'release')).status).toBe(200)
      const entered = async (id: string) => {
        const { exit, err } = runCommand(['attach', id, '--no-tty', '--data-dir', system.dataDir])
        return [await exit, err()]
      }
      expect(await Promise.all(['run-nobody', busy.id, gone.id, mute.id].map(entered))).toEqual([
        [1, expect.stringMatching(/^switchyard: .*run-nobody\n/)],
        [1, expect.stringMatching(/^switchyard: .*is running/)],
        [1, expect.stringMatching(/^switchyard: .*is gone/)],
        [1, expect.stringMatching(/^switchyard: .*is gone: it is kept no longer/)],
      ])
      await system.waitForGate(busy)
      system.openGates(busy)
      await system.waitForEnd('BUSY-1')

      await killProcess(worker)
      await system.waitForOnlineWorkers(0)
      expect(await refusals([kept.id])).toEqual([409])
      expect(await entered(kept.id)).toEqual([
        1,
        expect.stringMatching(/^switchyard: worker .*is not connected/),
      ])
      expect(existsSync(folder)).toBe(true)
      await expectNothingLeft(at)
    },
  )
})

describe('a session with a viewer', () => {
  story('continues during a broken connection: nothing is lost and nothing is repeated', async () => {
    let relay: TcpRelay | undefined
    const at = await startScene(async ({ fleetPort }) => {
      relay = await TcpRelay.startFor(fleetPort)
      return relay.url
    })
    const { system, run, folder } = at
    const view = await openView(system, run)
    const startTime = await view.runStep(START_TIME)
    relay?.disconnectAfter(FLOOD_BYTES / 10)
    view.type(`flood ${FLOOD_BYTES}\r`)
    await until('the break', () => view.text().includes('[the worker is away'))
    expect(view.text()).toContain('\n900 ')
    expect(view.text()).not.toContain(`${FLOOD_BYTES} bytes`)
    view.type('append typed.txt <<END\ronce\rEND\r')
    relay?.restore()
    await view.waitForText(`${FLOOD_BYTES} bytes`)
    await until('what was typed', () => existsSync(join(folder, 'work', 'typed.txt')))
    await view.waitForText('typed.txt has 5 bytes more')
    expect(await view.runStep(START_TIME)).toBe(startTime)
    const numbers = (await view.lines()).flatMap((line) =>
      /^\d+ \.{20}/.test(line) ? [Number.parseInt(line, 10)] : [],
    )
    expect(numbers.length).toBeGreaterThan(500)
    expect(numbers).toEqual(numbers.map((_, index) => FLOOD_LINES - numbers.length + index))
    expect(readFileSync(join(folder, 'work', 'typed.txt'), 'utf8')).toBe('once\n')
    view.disconnect()
    expect((await requestRunAction(system, run.id, 'release')).status).toBe(200)
    await expectNothingLeft(at)
    await expectCosts(at, ['attach 1'])
  })

  story('takes a paste that is longer than a frame of the worker, whole and in order', async () => {
    const at = await startScene()
    const { system, run, folder } = at
    const view = await openView(system, run)
    await view.waitForPrompt()
    const text = Array.from({ length: 3_000 }, (_, line) => `${line} ${'ä😀'.repeat(12)}`).join('\n')
    const paste = `write pasted.txt <<END\n${text}\nEND\n`
    expect(paste.length).toBeGreaterThan(ATTACH_DATA_CHARS_MAX)
    view.type(paste.replaceAll('\n', '\r'))
    await view.waitForText('pasted.txt has')
    expect(readFileSync(join(folder, 'work', 'pasted.txt'), 'utf8') === `${text}\n`).toBe(true)
    view.disconnect()
    expect((await requestRunAction(system, run.id, 'release')).status).toBe(200)
    await expectNothingLeft(at)
  })

  story('is released after its host was killed, whether the worker is back already or not', async () => {
    const at = await startScene()
    const { system, run } = at
    const releaseAfterKill = async (isWorkerBack: boolean) => {
      const view = await openView(system, run)
      await view.runStep('say here')
      await killProcess(system.host)
      await view.closed
      await system.startHost()
      if (isWorkerBack) await system.waitForOnlineWorkers(1)
      expect((await requestRunAction(system, run.id, 'release')).status).toBe(200)
      // Much sooner than the worker would close the sandbox by itself.
      await system.waitForNoProcesses(RELEASE_MS_MAX)
    }
    await releaseAfterKill(true)
    await releaseAfterKill(false)
    await expectNothingLeft(at)
  })

  story(
    'ends with its worker and leaves nothing behind; it can be resumed when the worker is back',
    async () => {
      const at = await startScene()
      const { system, worker, run } = at
      const view = await openView(system, run)
      await view.runStep('say before')
      const person = runInTerminal(['attach', run.id, '--data-dir', system.dataDir])
      await until('the session', () => person.text().includes(GREETING))
      await killProcess(worker)
      await view.waitForText('[the worker is away')
      await expectNothingLeft(at)
      system.startWorker(worker.dataDir)
      await view.closed
      expect(view.endFrame()).toEqual({ type: 'error', message: SESSION_LOST_IN_RESTART })
      expect((await person.waitForEnd()).code).toBe(1)
      expect(person.text()).toContain(`switchyard: ${SESSION_LOST_IN_RESTART}`)
      expect((await waitForResume(system, run)).status).toBe(200)
      const again = await openView(system, run)
      await again.waitForText('before')
      again.type('exit 4\r')
      await again.closed
      expect(again.endFrame()).toEqual({ type: 'exit', code: 4 })
      await expectNothingLeft(at)
      await expectCosts(at, ['attach 1'])
    },
  )

  story('survives its host, which finds it unchanged', async () => {
    const at = await startScene()
    const { system, run } = at
    const view = await openView(system, run)
    const startTime = await view.runStep(START_TIME)
    view.type('half a li')
    await view.waitForText('> half a li')
    const person = runInTerminal(['attach', run.id, '--data-dir', system.dataDir])
    await until('the session', () => person.text().includes('half a li'))
    await killProcess(system.host)
    await view.closed
    await system.startHost()
    expect((await waitForResume(system, run)).status).toBe(200)
    const again = await openView(system, run)
    await again.waitForText('> half a li')
    again.type('\x15')
    expect(await again.runStep(START_TIME)).toBe(startTime)
    // Wait for the screen of the new connection, not the one from before the break.
    const isBack = (text: string) =>
      text.includes('connecting again') && text.lastIndexOf(startTime) > text.indexOf('connecting again')
    await until('the session again', () => isBack(person.text()))
    person.type('say from the shell\r')
    // A further prompt appears if the session learns the terminal's new size late.
    await again.waitForText(/^(> )?from the shell$/m)
    person.type(DETACH)
    expect((await person.waitForEnd()).code).toBe(0)
    await again.closed
    await expectNothingLeft(at)
    await expectCosts(at, ['attach 1'])
  })
})

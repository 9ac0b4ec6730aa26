/**
 * `switchyard quickstart`: turns three example tickets into three pull requests, without an account.
 *
 * Everything except the agent is real: a host, its local worker, sandboxes, git, pull requests of the local code host.
 * The agent follows a script. The command observes the host as any client, by its API and its dashboard socket.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { dialByNode } from '../../../client/node-socket.ts'
import { REQUEST_LINES } from '../../../client/request-lines.ts'
import type { DashboardFrame } from '../../../protocol/dashboard.ts'
import { DASHBOARD_PORT } from '../../../protocol/limits.ts'
import type { Run } from '../../../protocol/run.ts'
import type { PageServer } from '../../../transport/pages/page-server-options.ts'
import { type Colors, createColors } from '../../output/colors.ts'
import { openPage } from '../../pages/open-page.ts'
import { DASHBOARD_PAGE } from '../../pages/page-kinds.ts'
import { openForPerson } from '../../pages/present-link.ts'
import { resolveDataDir } from '../../process/data-dir.ts'
import { EXIT, EXIT_OF_SIGNAL, ExitError, refusedError } from '../../process/exit.ts'
import { connectToHost } from '../../process/host-connection.ts'
import { openLog } from '../../process/log.ts'
import { LogRedactor } from '../../process/log-redaction.ts'
import { chooseProgramListener } from '../../process/program-listener.ts'
import { inDataDir } from '../../process/store-exit-code.ts'
import { startedAs } from '../../process/this-program.ts'
import type { Launch } from '../serve/launch-file.ts'
import { type ExampleFolder, exampleFolder, prepareFolder, writeTickets } from './data-folder.ts'
import { ExampleHost } from './host.ts'
import { describeNextSteps } from './next-steps.ts'
import { describeFailure, describeResult, isPublished, ProgressOutput } from './progress-output.ts'
import { ProgressScreen } from './progress-screen.ts'
import { diffOfBranch } from './sample-repository.ts'

export interface QuickstartOptions {
  readonly dataDir?: string
  /** Keep serving until a stop signal; by default on a terminal. */
  readonly keep?: boolean
  /** False: the first line is printed already. */
  readonly heading: boolean
  /** Print the runs as JSON on standard output, and all text for people on standard error. */
  readonly json?: true
}

/** The time limit from open listeners to three pull requests; normally some seconds. */
const EXAMPLE_SECONDS_MAX = 120
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

interface QuickstartContext {
  readonly folder: ExampleFolder
  readonly host: ExampleHost
  readonly colors: Colors
  readonly screen: ProgressScreen
  /** Rejects when the command has to end early: on a signal, or when the host has ended. */
  readonly aborted: Promise<never>
}

export async function quickstart(options: QuickstartOptions): Promise<void> {
  const out = options.json === true ? process.stderr : process.stdout
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const colors = createColors(out, process.env)
  const screen = new ProgressScreen(out, process.env)
  const isKept = options.keep ?? (options.json !== true && out.isTTY === true)
  if (options.heading) screen.print('switchyard: three example tickets, no account, no network')
  const asked = awaitStopSignal()
  const stopped = asked.then(interrupted)
  stopped.catch(() => {})
  const folder = exampleFolder(resolveDataDir(options.dataDir, 'switchyard-quickstart'))
  const endStart = screen.beginStep('start')
  let host: ExampleHost | undefined
  let page: PageServer | undefined
  try {
    await Promise.race([inDataDir(folder.dataDir, () => prepareFolder(folder)), stopped])
    const started = new ExampleHost(process.argv[1] ?? '', folder)
    host = started
    const aborted = Promise.race([stopped, started.ended.then(() => hostEnded(started))])
    aborted.catch(() => {})
    const launch = await Promise.race([started.waitForLaunch(), aborted])
    // A request to a host that dies may never settle, which alone would not keep this process alive.
    await Promise.race([checkExecution(started), aborted])
    endStart('host ready')
    const runs = await runExample({ folder, host: started, colors, screen, aborted }, launch)
    if (options.json === true) process.stdout.write(`${JSON.stringify(runs, undefined, 2)}\n`)
    const facts = {
      program: startedAs(),
      dataDir: folder.dataDir,
      cwd: process.cwd(),
      columns: screen.width,
    }
    if (isKept) page = await openExamplePage(folder.dataDir)
    const next = { ...facts, link: page?.createLink(), run: runs.find(isPublished) }
    screen.print(`\n${describeNextSteps(next, isKept)}`)
    if (isKept) {
      if (page !== undefined && out.isTTY === true) openForPerson(page.createLink())
      await Promise.race([asked, aborted])
    }
  } finally {
    screen.settle()
    await page?.close('the example ends')
    await host?.stop()
  }
}

// ---- the example -------------------------------------------------------------------------------------------------

async function checkExecution(host: ExampleHost): Promise<void> {
  const { hostExecution } = await host.health()
  if (hostExecution?.kind !== 'none') return
  throw new ExitError(
    EXIT.unavailable,
    `no run can be executed on this machine (${hostExecution.reason}). The host says:\n${await host.readLogTail()}`,
  )
}

async function runExample(scene: QuickstartContext, launch: Launch): Promise<readonly Run[]> {
  const { host, screen, aborted } = scene
  const progress = new ProgressOutput()
  const patience = new AbortController()
  try {
    const late = pause(EXAMPLE_SECONDS_MAX * 1000, undefined, { signal: patience.signal })
    const tooLate = late.then(() => timedOut(host, progress))
    await Promise.race([follow(scene, launch, progress), tooLate, aborted])
  } finally {
    patience.abort()
    screen.settle()
  }
  const runs = progress.runs()
  for (const run of runs) screen.print(`\n${await describeRun(run, scene)}`)
  const failed = runs.filter((run) => !isPublished(run))
  if (failed.length === 0) return runs
  throw refusedError(`${failed.length} of ${runs.length} tickets have no pull request`)
}

const SOCKET_PATH = REQUEST_LINES.dashboardSocket.split(' ')[1] ?? ''

/** Resolves when every run has ended. Writes the tickets when the dashboard socket is open. */
function follow(
  { folder, host, screen }: QuickstartContext,
  launch: Launch,
  progress: ProgressOutput,
): Promise<void> {
  const began = performance.now()
  return new Promise((resolve, reject) => {
    const dashboard = dialByNode(launch, SOCKET_PATH, {
      onOpen: () => {},
      onText: (text) => {
        // The host checks the frames that it sends.
        const frame = JSON.parse(text) as DashboardFrame
        if (frame.type === 'hello') present(frame.runs).catch(reject)
        if (frame.type !== 'run-updated') return
        const line = progress.onRunUpdate(frame.run, performance.now() - began)
        if (line !== undefined) screen.update(line.runId, line.text)
        if (!progress.isOver()) return
        resolve()
        dashboard.close()
      },
      onEnd: ({ reason }) => void host.explainEnd(`the dashboard socket was closed: ${reason}`).then(reject),
    })
    const present = (earlier: readonly Run[]) => {
      const restored = progress
        .setEarlierRuns(earlier)
        .map(({ ticket }) => ticket.identifier)
        .sort(compareNumerically)
      if (restored.length > 0)
        screen.printStep('restored', `${restored.join(', ')}, queued by an earlier start`)
      return writeTickets(folder, (tickets) => {
        const identifiers = tickets.map(({ identifier }) => identifier)
        progress.setTickets(identifiers)
        screen.printStep('tickets', identifiers.join(', '))
      })
    }
  })
}

const compareNumerically = (a: string, b: string): number => a.localeCompare(b, 'en', { numeric: true })

async function describeRun(run: Run, { folder, host, colors, screen }: QuickstartContext): Promise<string> {
  if (!isPublished(run))
    return describeFailure(run, await host.events(run.id).catch(() => []), colors, screen.width)
  const diff = run.result?.branch === undefined ? '' : await diffOfBranch(folder.code, run.result.branch)
  return describeResult(run, diff, colors, (line) => screen.truncate(line))
}

// ---- early ends -----------------------------------------------------------------------------------------

function awaitStopSignal(): Promise<(typeof SIGNALS)[number]> {
  return new Promise((resolve) => {
    for (const signal of SIGNALS) process.on(signal, () => resolve(signal))
  })
}

function interrupted(signal: (typeof SIGNALS)[number]): never {
  throw new ExitError(EXIT_OF_SIGNAL[signal], `stopped by ${signal}`)
}

async function hostEnded(host: ExampleHost): Promise<never> {
  throw await host.explainEnd('the host ended')
}

async function timedOut(host: ExampleHost, progress: ProgressOutput): Promise<never> {
  const log = await host.readLogTail()
  throw refusedError(
    `not done within ${EXAMPLE_SECONDS_MAX} s:\n${progress.describeState()}\nThe end of the host's log:\n${log}`,
  )
}

// ---- the page ------------------------------------------------------------------------------------------------------

/** Undefined when there is no page to serve; `switchyard dashboard` then says why. */
async function openExamplePage(dataDir: string): Promise<PageServer | undefined> {
  const { listener } = chooseProgramListener()
  const log = openLog({ level: 'silent', format: 'human', redactor: new LogRedactor() })
  // The environment may name another host than the example's.
  const connection = connectToHost(dataDir, {})
  for (const port of [DASHBOARD_PORT, 0]) {
    const options = { kind: DASHBOARD_PAGE, dataDir, port, portSetting: '--port', connection, listener, log }
    const opened = await openPage(options).catch(() => undefined)
    if (opened?.ok === true) return opened.value
  }
  return undefined
}

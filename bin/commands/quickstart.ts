/**
 * `switchyard quickstart`: turns three example tickets into three pull requests, without an account.
 *
 * Everything except the agent is real: a host, its local worker, sandboxes, git, pull requests of the local code host.
 * The agent follows a script. The command observes the host as any client, by its API and its dashboard socket.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Run } from '../../protocol/run.ts'
import { resolveDataDir } from '../data-dir.ts'
import { EXIT, ExitError } from '../exit.ts'
import type { Launch } from '../launch-file.ts'
import { type Colors, createColors } from '../quickstart/colors.ts'
import { type ExampleFolder, exampleFolder, prepareFolder, writeTickets } from '../quickstart/data-folder.ts'
import { dialDashboard } from '../quickstart/dial-dashboard.ts'
import { ExampleHost } from '../quickstart/host.ts'
import {
  describeFailure,
  describeResult,
  isPublished,
  ProgressOutput,
} from '../quickstart/progress-output.ts'
import { diffOfBranch } from '../quickstart/sample-repository.ts'
import { shellCommand } from '../shell-command.ts'

export interface QuickstartOptions {
  readonly dataDir?: string
  /** Keep serving until a stop signal. */
  readonly keep?: true
  /** Print the runs as JSON on standard output, and all text for people on standard error. */
  readonly json?: true
}

/** The time limit from open listeners to three pull requests; normally some seconds. */
const EXAMPLE_SECONDS_MAX = 120
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** The exit codes that shells use for programs ended by a signal. */
const EXIT_OF_SIGNAL = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const

interface QuickstartContext {
  readonly folder: ExampleFolder
  readonly host: ExampleHost
  readonly colors: Colors
  readonly print: (text: string) => void
  /** Rejects when the command has to end early: on a signal, or when the host has ended. */
  readonly aborted: Promise<never>
}

export async function quickstart(options: QuickstartOptions): Promise<void> {
  const out = options.json === true ? process.stderr : process.stdout
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const colors = createColors(out, process.env)
  const print = (text: string) => void out.write(`${text}\n`)
  const asked = awaitStopSignal()
  const folder = exampleFolder(resolveDataDir(options.dataDir, 'switchyard-quickstart'))
  await prepareFolder(folder)
  const host = new ExampleHost(process.argv[1] ?? '', folder)
  const aborted = Promise.race([asked.then(interrupted), host.ended.then(() => hostEnded(host))])
  aborted.catch(() => {})
  try {
    const launch = await Promise.race([host.waitForLaunch(), aborted])
    const runs = await runExample({ folder, host, colors, print, aborted }, launch)
    if (options.json === true) process.stdout.write(`${JSON.stringify(runs, undefined, 2)}\n`)
    print(nextSteps(folder, launch, options.keep === true, colors))
    if (options.keep === true) await Promise.race([asked, aborted])
  } finally {
    await host.stop()
  }
}

// ---- the example -------------------------------------------------------------------------------------------------

async function runExample(scene: QuickstartContext, launch: Launch): Promise<readonly Run[]> {
  const { host, print, aborted } = scene
  const { hostExecution } = await host.health()
  if (hostExecution?.kind === 'none')
    throw new ExitError(
      EXIT.unavailable,
      `no run can be executed on this machine (${hostExecution.reason}). The host says:\n${await host.readLogTail()}`,
    )
  const progress = new ProgressOutput(scene.colors)
  const patience = new AbortController()
  try {
    const late = pause(EXAMPLE_SECONDS_MAX * 1000, undefined, { signal: patience.signal })
    const tooLate = late.then(() => timedOut(host, progress))
    await Promise.race([follow(scene, launch, progress), tooLate, aborted])
  } finally {
    patience.abort()
  }
  const runs = progress.runs()
  for (const run of runs) print(`\n${await describeRun(run, scene)}`)
  const failed = runs.filter((run) => !isPublished(run))
  if (failed.length === 0) return runs
  throw new ExitError(EXIT.refused, `${failed.length} of ${runs.length} tickets have no pull request`)
}

/** Resolves when every run has ended. Writes the tickets when the dashboard socket is open. */
function follow(
  { folder, host, print }: QuickstartContext,
  launch: Launch,
  progress: ProgressOutput,
): Promise<void> {
  const began = performance.now()
  return new Promise((resolve, reject) => {
    const dashboard = dialDashboard(launch.url, launch.token, {
      onFrame: (frame) => {
        if (frame.type === 'hello') present().catch(reject)
        if (frame.type !== 'run-updated') return
        const text = progress.onRunUpdate(frame.run, performance.now() - began)
        if (text !== undefined) print(text)
        if (!progress.isOver()) return
        resolve()
        dashboard.close()
      },
      onClosed: (reason) => void host.explainEnd(`the dashboard socket was closed: ${reason}`).then(reject),
    })
    const present = () =>
      writeTickets(folder, (tickets) => {
        progress.setTickets(tickets.map(({ identifier }) => identifier))
        for (const { identifier, title } of tickets) print(`a ticket: ${identifier}  ${title}`)
      })
  })
}

async function describeRun(run: Run, { folder, host, colors }: QuickstartContext): Promise<string> {
  if (!isPublished(run)) return describeFailure(run, await host.events(run.id).catch(() => []), colors)
  const diff = run.result?.branch === undefined ? '' : await diffOfBranch(folder.code, run.result.branch)
  return describeResult(run, diff, colors)
}

function nextSteps(
  { dataDir, tickets, config }: ExampleFolder,
  { url }: Launch,
  stays: boolean,
  colors: Colors,
): string {
  const serve = shellCommand(process.argv[1] ?? '', 'serve', '--data-dir', dataDir)
  const now = stays
    ? [`  the host keeps running at ${url}; its token is in ${dataDir}/launch.json. Ctrl-C ends it.`]
    : [`  the host ends now. Start it again: ${serve}`]
  return [
    '',
    colors.bold('What next'),
    ...now,
    `  more tickets: write Markdown files to ${tickets}; each file with a switchyard block becomes a run`,
    `  a dashboard: while a host runs, its socket is /ws; address and token are in ${dataDir}/launch.json`,
    `  more machines: set fleet.host in ${config}; on the host,`,
    '    POST /api/workers/pairing-tokens returns a token; put it into a file on the machine, and run',
    '    switchyard worker --host https://<fleet.host>:4401 --token-file <file>',
    `  real agents, trackers and repositories: ${config}, or a host with a data directory of its own`,
  ].join('\n')
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
  throw new ExitError(
    EXIT.refused,
    `not done within ${EXAMPLE_SECONDS_MAX} s:\n${progress.describeState()}\nThe end of the host's log:\n${log}`,
  )
}

/**
 * `switchyard quickstart`: three example tickets become three pull requests before one's eyes, without an account.
 *
 * Everything is real but the mind: a host, its local worker, sandboxes, git, pull requests of the local code host; the
 * agent is the scripted one. It follows the host from outside, by the API and the dashboard socket that any client has.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Run } from '../../protocol/run.ts'
import { dataDirectory } from '../data-dir.ts'
import { Ending, EXIT } from '../exit.ts'
import type { Launch } from '../launch-file.ts'
import { type Paint, paintFor } from '../quickstart/colors.ts'
import { type Place, placeIn, prepare, writeTickets } from '../quickstart/data-folder.ts'
import { dialDashboard } from '../quickstart/dial-dashboard.ts'
import { ExampleHost } from '../quickstart/host.ts'
import { ending, failure, isPublished, Story } from '../quickstart/progress-output.ts'
import { changesOf } from '../quickstart/sample-repository.ts'
import { commandLine } from '../shell-command.ts'

export interface QuickstartOptions {
  readonly dataDir?: string
  /** Goes on until it is asked to stop. */
  readonly keep?: true
  /** The runs' records on standard output, and everything for people on standard error. */
  readonly json?: true
}

/** From open doors to three pull requests; it takes some seconds where nothing is wrong. */
const EXAMPLE_SECONDS_MAX = 120
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** What a shell says of a program that a signal ended. */
const EXIT_OF_SIGNAL = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const

interface Scene {
  readonly place: Place
  readonly host: ExampleHost
  readonly paint: Paint
  readonly say: (text: string) => void
  /** Rejects when it is to end before it is done. */
  readonly cut: Promise<never>
}

export async function quickstart(options: QuickstartOptions): Promise<void> {
  const out = options.json === true ? process.stderr : process.stdout
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const paint = paintFor(out, process.env)
  const say = (text: string) => void out.write(`${text}\n`)
  const asked = stopAsked()
  const place = placeIn(dataDirectory(options.dataDir, 'switchyard-quickstart'))
  await prepare(place)
  const host = new ExampleHost(process.argv[1] ?? '', place)
  const cut = Promise.race([asked.then(interrupted), host.ended.then(() => died(host))])
  cut.catch(() => {})
  try {
    const launch = await Promise.race([host.launched(), cut])
    const runs = await play({ place, host, paint, say, cut }, launch)
    if (options.json === true) process.stdout.write(`${JSON.stringify(runs, undefined, 2)}\n`)
    say(whatNext(place, launch, options.keep === true, paint))
    if (options.keep === true) await Promise.race([asked, cut])
  } finally {
    await host.stop()
  }
}

// ---- the example -------------------------------------------------------------------------------------------------

async function play(scene: Scene, launch: Launch): Promise<readonly Run[]> {
  const { host, say, cut } = scene
  const { hostExecution } = await host.health()
  if (hostExecution?.kind === 'none')
    throw new Ending(
      EXIT.unavailable,
      `no run can be executed on this machine (${hostExecution.reason}). The host says:\n${await host.tail()}`,
    )
  const story = new Story(scene.paint)
  const patience = new AbortController()
  try {
    const late = pause(EXAMPLE_SECONDS_MAX * 1000, undefined, { signal: patience.signal })
    const tooLate = late.then(() => lateEnding(host, story))
    await Promise.race([follow(scene, launch, story), tooLate, cut])
  } finally {
    patience.abort()
  }
  const runs = story.runs()
  for (const run of runs) say(`\n${await told(run, scene)}`)
  const failed = runs.filter((run) => !isPublished(run))
  if (failed.length === 0) return runs
  throw new Ending(EXIT.refused, `${failed.length} of ${runs.length} tickets have no pull request`)
}

/** Resolves when every run is over. The tickets come once somebody looks on. */
function follow({ place, host, say }: Scene, launch: Launch, story: Story): Promise<void> {
  const began = performance.now()
  return new Promise((resolve, reject) => {
    const line = dialDashboard(launch.url, launch.token, {
      heard: (frame) => {
        if (frame.type === 'hello') present().catch(reject)
        if (frame.type !== 'run-updated') return
        const news = story.hear(frame.run, performance.now() - began)
        if (news !== undefined) say(news)
        if (!story.isOver()) return
        resolve()
        line.close()
      },
      closed: (reason) => void host.gone(`the host's dashboard socket is gone: ${reason}`).then(reject),
    })
    const present = () =>
      writeTickets(place, (tickets) => {
        story.about(tickets.map(({ identifier }) => identifier))
        for (const { identifier, title } of tickets) say(`a ticket: ${identifier}  ${title}`)
      })
  })
}

async function told(run: Run, { place, host, paint }: Scene): Promise<string> {
  if (!isPublished(run)) return failure(run, await host.events(run.id).catch(() => []), paint)
  const diff = run.result?.branch === undefined ? '' : await changesOf(place.code, run.result.branch)
  return ending(run, diff, paint)
}

function whatNext(
  { dataDir, tickets, config }: Place,
  { url }: Launch,
  stays: boolean,
  paint: Paint,
): string {
  const serve = commandLine(process.argv[1] ?? '', 'serve', '--data-dir', dataDir)
  const now = stays
    ? [`  the host stays, at ${url}; its token is in ${dataDir}/launch.json. Ctrl-C ends it.`]
    : [`  the host has done its part and ends. Keep one: ${serve}`]
  return [
    '',
    paint.bold('What next'),
    ...now,
    `  more tickets: write Markdown files to ${tickets}; each with a switchyard block is carried out`,
    `  a dashboard: while a host runs, its socket is /ws; address and token are in ${dataDir}/launch.json`,
    `  more machines: they reach a host whose ${config} sets fleet.host; there,`,
    '    POST /api/workers/pairing-tokens answers a token; put it into a file on the machine, and run',
    '    switchyard worker --host https://<fleet.host>:4401 --token-file <file>',
    `  real agents, trackers and repositories: ${config}, or a host with a data directory of its own`,
  ].join('\n')
}

// ---- ends before the end -----------------------------------------------------------------------------------------

function stopAsked(): Promise<(typeof SIGNALS)[number]> {
  return new Promise((resolve) => {
    for (const signal of SIGNALS) process.on(signal, () => resolve(signal))
  })
}

function interrupted(signal: (typeof SIGNALS)[number]): never {
  throw new Ending(EXIT_OF_SIGNAL[signal], `stopped by ${signal}`)
}

async function died(host: ExampleHost): Promise<never> {
  throw await host.gone('the host ended')
}

async function lateEnding(host: ExampleHost, story: Story): Promise<never> {
  const log = await host.tail()
  throw new Ending(
    EXIT.refused,
    `not done within ${EXAMPLE_SECONDS_MAX} s:\n${story.standing()}\nThe end of the host's log:\n${log}`,
  )
}

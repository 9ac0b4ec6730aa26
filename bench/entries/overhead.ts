/**
 * Measures what a run costs before its agent begins: from the eligible ticket to the agent's first instruction,
 * with the repository already fetched, and in parts.
 *
 * The agent is a shell that writes the time and then becomes the scripted agent. The other instants come from the
 * product's records and from file times in the run's folder, which are exact to a few milliseconds. The floor
 * performs the necessary steps by hand, one after the other: a checkout from a local copy, and bubblewrap with the
 * same arguments.
 */
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync, type Stats } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Run } from '../../protocol/run.ts'
import { probeSandbox } from '../../worker/sandbox/bwrap/probe.ts'
import type { BenchResources } from '../bench-resources.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import {
  absoluteFigure,
  compareFigure,
  type Figure,
  groupIntoRounds,
  type Measurement,
  withProcessorCosts,
} from '../figures.ts'
import { measureOwnWork } from '../own-work.ts'
import { cpuMsOfTrees, waitUntilIdle } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { git, WorkingSystem } from '../working-system.ts'
import { createSandboxOrder, runBubblewrap } from './sandbox.ts'

const RUNS = { quick: 6, full: 12 }
const TARGET_MS = 100
/** By then the postponed work of earlier runs is done. */
const REST_MS = 100
const START_CHECK_MS = 3
const START_WAIT_MS_MAX = 120_000
/** In /out of the run's sandbox. */
const START_FILE = 'began'
const RESUME_FILE = 'resumed'
const stampCommand = (file: string): string => `date +%s%N > /out/${file}`
/** Pauses, so that the agent has not used the processor yet when the processor time until its start is read. */
const AGENT = `sh -c '${stampCommand(START_FILE)}; sleep 0.1; ${stampCommand(RESUME_FILE)}; exec scripted-agent "$@"' agent`

const PARTS = [
  ['queued → accepted', 'queued', 'accepted'],
  ['its folders', 'accepted', 'folders'],
  ['git fetch', 'folders', 'fetched'],
  ['checkout: its source and sandbox', 'fetched', 'cloning'],
  ['checkout: clone', 'cloning', 'checkedOut'],
  ['checkout: end → agent: begins in its sandbox', 'checkedOut', 'agentBegun'],
  ['agent: its settings', 'agentBegun', 'began'],
] as const

type Instant = (typeof PARTS)[number][1 | 2] | 'written' | 'resumed' | 'firstEvent'
type RunTimeline = Readonly<Record<Instant, number>>

export const overhead: Entry = {
  name: 'overhead',
  about: 'ms from an eligible ticket to its agent’s first instruction / a checkout and bubblewrap by hand',
  async measure(effort, resources) {
    await buildProduct(resources)
    const floor = await createFloor(resources)
    const system = await WorkingSystem.start(resources, { agent: AGENT })
    const timelines: RunTimeline[] = []
    const ours = async () => {
      const { timeline, cpuMicros } = await measureTimeline(system)
      timelines.push(timeline)
      return { value: timeline.began - timeline.queued, cpuMicros }
    }
    const runs = effort.quick ? RUNS.quick : RUNS.full
    const measured = await measureInTurn(effort.rounds * runs, { ours, raw: () => floor(system.repository) })
    await system.stop()
    // The first run filled the cache.
    return figuresOf(measured, runs, timelines.slice(1))
  },
}

function figuresOf(
  measured: readonly { readonly ours: Measurement; readonly raw: Measurement }[],
  runsPerRound: number,
  timelines: readonly RunTimeline[],
): Figure[] {
  const between = (from: Instant, to: Instant) => timelines.map((each) => each[to] - each[from])
  const pairs = (part: keyof Measurement) =>
    measured.map(({ ours, raw }) => ({ ours: ours[part], raw: raw[part] }))
  const sorted = measured.map(({ ours }) => ours.value).sort((a, b) => a - b)
  const late = sorted[Math.floor(sorted.length * 0.95)] ?? Number.NaN
  const parts = PARTS.map(([name, from, to]) =>
    absoluteFigure({ name: `  ${name}`, unit: 'ms' }, between(from, to)),
  )
  return [
    withProcessorCosts(
      compareFigure(
        {
          name: 'overhead, eligible → agent',
          unit: 'ms',
          target: { of: 'ours', is: 'at most', bound: TARGET_MS },
          notes: [
            `95 of 100: ${amount(late)} ms of ${sorted.length} runs`,
            'processor time of host, worker and their children, from the ticket’s file',
          ],
        },
        pairs('value'),
      ),
      // An ended process is counted in whole ticks, so only the mean of many runs is exact enough.
      groupIntoRounds(pairs('cpuMicros'), runsPerRound),
    ),
    ...parts,
    absoluteFigure({ name: '  before: ticket file → eligible', unit: 'ms' }, between('written', 'queued')),
    absoluteFigure(
      { name: '  after: agent → its first event', unit: 'ms' },
      between('resumed', 'firstEvent'),
    ),
  ]
}

// ---- ours ------------------------------------------------------------------------------------------------------

interface MeasuredRun {
  readonly timeline: RunTimeline
  readonly cpuMicros: number
}

async function measureTimeline(system: WorkingSystem): Promise<MeasuredRun> {
  await sleep(REST_MS)
  await waitUntilIdle(system.worker.pid)
  const known = new Set(runFoldersOf(system))
  const pids = [system.served.child.pid, system.worker.pid]
  const before = cpuMsOfTrees(pids)
  const written = Date.now()
  const ticket = system.addTicket(['say Nothing to do.'])
  await waitForStart(system, known)
  const cpuMicros = (cpuMsOfTrees(pids) - before) * 1_000
  const run = await system.waitForCompletion(ticket)
  return { timeline: await timelineOf(system, run, written), cpuMicros }
}

async function timelineOf(system: WorkingSystem, run: Run, written: number): Promise<RunTimeline> {
  const folder = system.runFolder(run)
  const aged = (...path: readonly string[]): Stats => lstatSync(join(folder, ...path))
  const cache = lstatSync(system.cachedRepository())
  return {
    written,
    queued: Date.parse(run.queuedAt ?? ''),
    accepted: Date.parse(recordOf(folder).createdAt),
    folders: aged('out', 'artifacts').birthtimeMs,
    // The worker sets this time as soon as the copy is up to date.
    fetched: cache.mtimeMs,
    cloning: aged('work', '.git').birthtimeMs,
    checkedOut: aged('work', '.git', 'HEAD').mtimeMs,
    agentBegun: aged('home', '.claude').birthtimeMs,
    began: stampOf(folder, START_FILE),
    resumed: stampOf(folder, RESUME_FILE),
    firstEvent: await firstAgentEventAt(system, run),
  }
}

/** Reads the disk, because a question to the host would cost it processor time. */
async function waitForStart(system: WorkingSystem, known: ReadonlySet<string>): Promise<void> {
  const until = performance.now() + START_WAIT_MS_MAX
  const hasStarted = (folder: string): boolean =>
    !known.has(folder) && existsSync(join(folder, 'out', START_FILE))
  while (!runFoldersOf(system).some(hasStarted)) {
    if (performance.now() > until) throw new Error(`no agent started within ${START_WAIT_MS_MAX} ms`)
    await sleep(START_CHECK_MS)
  }
}

/** The worker creates the folder with its first run. */
function runFoldersOf(system: WorkingSystem): string[] {
  const folder = join(system.workerFolder(), 'sandboxes')
  return existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []
}

const stampOf = (folder: string, file: string): number =>
  Number(readFileSync(join(folder, 'out', file), 'utf8')) / 1e6

const recordOf = (folder: string): { readonly createdAt: string } =>
  JSON.parse(readFileSync(join(folder, 'sandbox.json'), 'utf8'))

async function firstAgentEventAt(system: WorkingSystem, run: Run): Promise<number> {
  const first = (await system.events(run)).find(({ type }) => type === 'agent')
  if (first === undefined) throw new Error('the agent sent no event')
  return Date.parse(first.at)
}

// ---- the floor -------------------------------------------------------------------------------------------------

async function createFloor(resources: BenchResources): Promise<(repository: string) => Promise<Measurement>> {
  const probe = await probeSandbox()
  if (!probe.ok) throw new Error(probe.detail)
  const sandboxOrder = createSandboxOrder(resources)
  const checkout = join(dirname(sandboxOrder.workFolder), 'checkout')
  return async (repository) => {
    rmSync(checkout, { recursive: true, force: true })
    return measureOwnWork(async () => {
      await git(resources, 'clone', '--quiet', '--no-hardlinks', repository, checkout)
      await runBubblewrap(probe.bwrap, sandboxOrder)
    })
  }
}

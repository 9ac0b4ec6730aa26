/**
 * Measures what a run costs before its agent begins: from the eligible ticket to the agent's first instruction,
 * with the repository already fetched, and in parts.
 *
 * The agent is a shell that writes the time and then becomes the scripted agent. The other instants come from the
 * product's records and from file times in the run's folder, which are exact to a few milliseconds. The floor
 * performs the necessary steps by hand, one after the other: a checkout from a local copy, and bubblewrap with the
 * same arguments.
 */
import { lstatSync, readFileSync, rmSync, type Stats } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Run } from '../../protocol/run.ts'
import { probeSandbox } from '../../worker/sandbox/bwrap/probe.ts'
import type { BenchResources } from '../bench-resources.ts'
import { type Entry, measureInTurn } from '../entry.ts'
import { absoluteFigure, compareFigure, type Figure } from '../figures.ts'
import { waitUntilIdle } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'
import { amount } from '../table.ts'
import { git, WorkingSystem } from '../working-system.ts'
import { createSandboxOrder, runBubblewrap, timed } from './sandbox.ts'

const RUNS = { quick: 6, full: 12 }
const TARGET_MS = 150
/** By then the postponed work of earlier runs is done. */
const REST_MS = 100
/** In /out of the run's sandbox. */
const START_FILE = 'began'
const AGENT = `sh -c 'date +%s%N > /out/${START_FILE}; exec scripted-agent "$@"' agent`

const PARTS = [
  ['queued → accepted', 'queued', 'accepted'],
  ['its folders', 'accepted', 'folders'],
  ['git fetch', 'folders', 'fetched'],
  ['checkout: sandbox start', 'fetched', 'cloning'],
  ['checkout: clone', 'cloning', 'checkedOut'],
  ['checkout: end → agent: sandbox start', 'checkedOut', 'agentSandbox'],
  ['agent: its settings', 'agentSandbox', 'began'],
] as const

type Instant = (typeof PARTS)[number][1 | 2] | 'written' | 'firstEvent'
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
      const timeline = await measureTimeline(system)
      timelines.push(timeline)
      return timeline.began - timeline.queued
    }
    const rounds = effort.rounds * (effort.quick ? RUNS.quick : RUNS.full)
    const pairs = await measureInTurn(rounds, { ours, raw: () => floor(system.repository) })
    await system.stop()
    // The first run filled the cache.
    return figuresOf(pairs, timelines.slice(1))
  },
}

function figuresOf(
  pairs: readonly { readonly ours: number; readonly raw: number }[],
  timelines: readonly RunTimeline[],
): Figure[] {
  const between = (from: Instant, to: Instant) => timelines.map((each) => each[to] - each[from])
  const sorted = pairs.map(({ ours }) => ours).sort((a, b) => a - b)
  const late = sorted[Math.floor(sorted.length * 0.95)] ?? Number.NaN
  const parts = PARTS.map(([name, from, to]) =>
    absoluteFigure({ name: `  ${name}`, unit: 'ms' }, between(from, to)),
  )
  return [
    compareFigure(
      {
        name: 'overhead, eligible → agent',
        unit: 'ms',
        target: { of: 'ours', is: 'at most', bound: TARGET_MS },
        notes: [`95 of 100: ${amount(late)} ms of ${sorted.length} runs`],
      },
      pairs,
    ),
    ...parts,
    absoluteFigure({ name: '  before: ticket file → eligible', unit: 'ms' }, between('written', 'queued')),
    absoluteFigure({ name: '  after: agent → its first event', unit: 'ms' }, between('began', 'firstEvent')),
  ]
}

// ---- ours ------------------------------------------------------------------------------------------------------

async function measureTimeline(system: WorkingSystem): Promise<RunTimeline> {
  await sleep(REST_MS)
  await waitUntilIdle(system.worker.pid)
  const written = Date.now()
  const run = await system.waitForCompletion(system.addTicket(['say Nothing to do.']))
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
    agentSandbox: aged('home', '.claude').birthtimeMs,
    began: Number(readFileSync(join(folder, 'out', START_FILE), 'utf8')) / 1e6,
    firstEvent: await firstAgentEventAt(system, run),
  }
}

const recordOf = (folder: string): { readonly createdAt: string } =>
  JSON.parse(readFileSync(join(folder, 'sandbox.json'), 'utf8'))

async function firstAgentEventAt(system: WorkingSystem, run: Run): Promise<number> {
  const first = (await system.events(run)).find(({ type }) => type === 'agent')
  if (first === undefined) throw new Error('the agent sent no event')
  return Date.parse(first.at)
}

// ---- the floor -------------------------------------------------------------------------------------------------

async function createFloor(resources: BenchResources): Promise<(repository: string) => Promise<number>> {
  const probe = await probeSandbox()
  if (!probe.ok) throw new Error(probe.detail)
  const sandboxOrder = createSandboxOrder(resources)
  const checkout = join(dirname(sandboxOrder.workFolder), 'checkout')
  return async (repository) => {
    rmSync(checkout, { recursive: true, force: true })
    return timed(async () => {
      await git(resources, 'clone', '--quiet', '--no-hardlinks', repository, checkout)
      await runBubblewrap(probe.bwrap, sandboxOrder)
    })
  }
}

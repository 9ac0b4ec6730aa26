/**
 * `npm run bench`: measures the product against the raw libraries that it uses, in turn, on this machine.
 *
 * Prints a table and saves it as JSON. A figure below its target fails the command only with `--strict`, with exit
 * code 1.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { BenchResources } from './bench-resources.ts'
import { attachEcho } from './entries/attach-echo.ts'
import { attachFlood } from './entries/attach-flood.ts'
import { checksum } from './entries/checksum.ts'
import { coldStart } from './entries/cold-start.ts'
import { commandStart } from './entries/command-start.ts'
import { cycles } from './entries/cycles.ts'
import { dashboards } from './entries/dashboards.ts'
import { demand } from './entries/demand.ts'
import { dispatch } from './entries/dispatch.ts'
import { durable } from './entries/durable.ts'
import { fleet } from './entries/fleet.ts'
import { frames, replay } from './entries/frames.ts'
import { growth } from './entries/growth.ts'
import { http } from './entries/http.ts'
import { idleWorkers } from './entries/idle-workers.ts'
import { inspect } from './entries/inspect.ts'
import { listeners } from './entries/listeners.ts'
import { logLines } from './entries/log-lines.ts'
import { logReaders } from './entries/log-readers.ts'
import { manyTickets } from './entries/many-tickets.ts'
import { manyWorkers } from './entries/many-workers.ts'
import { memory } from './entries/memory.ts'
import { modelProxy } from './entries/model-proxy.ts'
import { helper } from './entries/oauth-helper.ts'
import { outbox } from './entries/outbox.ts'
import { overhead } from './entries/overhead.ts'
import { page } from './entries/page.ts'
import { pulls } from './entries/pulls.ts'
import { restart } from './entries/restart.ts'
import { sandbox } from './entries/sandbox.ts'
import { sustained } from './entries/sustained.ts'
import { workerIdle } from './entries/worker-idle.ts'
import type { Entry } from './entry.ts'
import { type Figure, isClose, verdict } from './figures.ts'
import { type Options, readOptions } from './options.ts'
import { table } from './table.ts'

const entries: readonly Entry[] = [
  http,
  listeners,
  durable,
  checksum,
  coldStart,
  commandStart,
  memory,
  dashboards,
  cycles,
  sustained,
  inspect,
  dispatch,
  frames,
  replay,
  demand,
  idleWorkers,
  fleet,
  restart,
  growth,
  manyWorkers,
  manyTickets,
  sandbox,
  page,
  outbox,
  overhead,
  logLines,
  logReaders,
  workerIdle,
  pulls,
  helper,
  modelProxy,
  attachFlood,
  attachEcho,
]

/** Exit code for wrong usage, as in sysexits.h. */
const EXIT_USAGE = 64

const options = readCommandLine()
if (options?.help === true) console.log(helpText())
else if (options !== undefined) process.exitCode = await run(options)

function readCommandLine(): Options | undefined {
  try {
    const read = readOptions(process.argv.slice(2))
    selectEntries(read.only)
    return read
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = EXIT_USAGE
    return undefined
  }
}

async function run({ effort, only, json, strict }: Options): Promise<number> {
  const resources = new BenchResources()
  const began = { at: new Date().toISOString(), load: loadavg() }
  const from = performance.now()
  const figures: Figure[] = []
  for (const entry of selectEntries(only)) {
    const since = performance.now()
    figures.push(...(await entry.measure(effort, resources)))
    console.error(`${entry.name}: ${Math.round((performance.now() - since) / 1000)} s`)
  }
  console.log(`\n${table(figures)}\n\n${describeMachine(began.load, performance.now() - from)}`)
  saveResults(json ?? join(resources.cache, 'bench.json'), { began, effort, figures })
  const below = figures.some((figure) => verdict(figure) === 'below')
  return strict && below ? 1 : 0
}

function selectEntries(only: readonly string[]): readonly Entry[] {
  const unknown = only.find((name) => !entries.some((entry) => entry.name === name))
  if (unknown !== undefined)
    throw new Error(`--only ${unknown}: known entries are ${entries.map(({ name }) => name).join(', ')}`)
  return only.length === 0 ? entries : entries.filter(({ name }) => only.includes(name))
}

/** Ratios stay meaningful on a busy machine, but less precise. */
function describeMachine(loadBefore: readonly number[], ms: number): string {
  const [before = 0] = loadBefore
  const [after = 0] = loadavg()
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, Node ${process.version}`
  return `${machine}; load ${before.toFixed(1)} before, ${after.toFixed(1)} after; ${Math.round(ms / 1000)} s in all`
}

function saveResults(
  file: string,
  { began, effort, figures }: { began: object; effort: object; figures: readonly Figure[] },
): void {
  const path = resolve(file)
  const judged = figures.map((figure) => ({ ...figure, verdict: verdict(figure), close: isClose(figure) }))
  const machine = { cpus: cpus().map(({ model }) => model), node: process.version }
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `${JSON.stringify({ ...began, machine, effort, figures: judged }, undefined, 2)}\n`)
  console.error(`saved to ${path}`)
}

function helpText(): string {
  const width = Math.max(...entries.map(({ name }) => name.length))
  return [
    'npm run bench -- [--only NAME]… [--rounds N] [--quick] [--json FILE] [--strict]',
    '',
    ...entries.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`),
    '',
    'Used where they are installed: wrk, RabbitMQ, beanstalkd. bench/README.md explains the figures.',
  ].join('\n')
}

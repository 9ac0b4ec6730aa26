/** `npm run simulate` simulates many seeds and stops at the first violation of a law; `--help` prints its options. */
import { fork } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { drawJobPlan } from './job-plan.ts'
import type { LawViolation } from './laws/law.ts'
import { drawPlan, FAULT_KINDS, keepOnly, LEASE_STATES, type Plan } from './plan.ts'
import { recordStory, report, runPlan, type SeedOutcome, shrink } from './run-seed.ts'

const USAGE = `npm run simulate -- [options]

Simulates many seeds and stops at the first violation of a law, whose plan it shrinks.
Every hundredth seed runs twice and must give the same trace.

  --seeds N        how many seeds (100)
  --from S         the first seed (1)
  --step N         simulates every Nth seed: by 170, the same fault meets the same lease state in each
  --seed S         one seed
  --jobs N         divides the seeds among N processes
  --controller     a controller starts a machine for each wanted run
  --host-damage    damages the host's disk in every seed
  --only w1,t1,f3  leaves out the rest of the plan
  --no-shrink      does not shrink a plan that violates a law
  --go-on          names each seed that violates a law, and stops after the last seed
  --story          prints the recorded trace
  --lines N        how many lines of the trace a violation shows (60)
  --json           prints JSON
  --record FILE    writes what the actors do in the one seed, or up to the first violation
  --digests FILE   adds the digest of each seed's trace: a change that only moves code leaves all of them
`
const TWICE_EVERY = 100
const PROGRESS_MS = 3_000

export interface Tally {
  seeds: number
  runs: number
  finished: number
  steps: number
  processorSeconds: number
  /** With `--go-on`, how many seeds violated a law. */
  violations: number
  readonly encounters: Record<string, number>
  /** How often people and sandboxes reached each outcome. */
  readonly outcomes: Record<string, number>
}

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    seeds: { type: 'string', default: '100' },
    from: { type: 'string', default: '1' },
    step: { type: 'string', default: '1' },
    jobs: { type: 'string', default: '1' },
    controller: { type: 'boolean', default: false },
    only: { type: 'string' },
    seed: { type: 'string' },
    record: { type: 'string' },
    digests: { type: 'string' },
    story: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    lines: { type: 'string', default: '60' },
    'no-shrink': { type: 'boolean', default: false },
    'go-on': { type: 'boolean', default: false },
    'host-damage': { type: 'boolean' },
  },
})
if (values.help) {
  console.log(USAGE)
  process.exit()
}

const seeds = values.seed === undefined ? Number(values.seeds) : 1
const from = Number(values.seed ?? values.from)
const step = Number(values.step)
const jobs = Math.min(Number(values.jobs), seeds)
const chosen = values.only === undefined ? undefined : new Set(values.only.split(','))
const tally: Tally = {
  seeds: 0,
  runs: 0,
  finished: 0,
  steps: 0,
  processorSeconds: 0,
  violations: 0,
  encounters: {},
  outcomes: {},
}
const startedAt = performance.now()
let progressShownAt = startedAt

process.on('unhandledRejection', (error) => {
  console.error('unhandled promise rejection:', error)
  process.exit(1)
})

if (jobs > 1) await runInParallel()
else await runSeeds()

async function runSeeds(): Promise<void> {
  for (let seed = from; seed < from + seeds * step; seed += step) {
    const isTwice = seed % TWICE_EVERY === 0
    const isTraced = isTwice || values.story || values.digests !== undefined
    const outcome = await runPlan(planOf(seed), { isTraced })
    if (values.digests !== undefined) appendFileSync(values.digests, `${seed} ${digestOf(outcome)}\n`)
    if (outcome.is === 'violated') {
      if (!values['go-on']) return fail(seed, outcome.violation)
      tally.violations += 1
      console.log(`seed ${seed} violates law ${outcome.violation.law}: ${outcome.violation.what}`)
      continue
    }
    if (isTwice) await compareSecondRun(seed, outcome.result.digest)
    if (seeds === 1 && values.record !== undefined) await record(planOf(seed), values.record)
    addResult(outcome)
    if (values.story) console.log(outcome.result.trace.recent().join('\n'))
    progress()
    // Lets the process handle signals and messages.
    await new Promise((resolve) => setImmediate(resolve))
  }
  finish()
}

function planOf(seed: number): Plan {
  const plan = values.controller ? drawJobPlan(seed) : drawPlan(seed, values['host-damage'])
  return chosen === undefined ? plan : keepOnly(plan, chosen)
}

function digestOf(outcome: SeedOutcome): string {
  return outcome.is === 'passed' ? outcome.result.digest : `violates law ${outcome.violation.law}`
}

async function compareSecondRun(seed: number, digest: string): Promise<void> {
  const again = await runPlan(planOf(seed), { isTraced: true })
  const secondDigest = digestOf(again)
  if (secondDigest === digest) return
  console.log(`seed ${seed} gave two different traces: ${digest}, then ${secondDigest}`)
  process.exit(1)
}

async function fail(seed: number, { law, what }: LawViolation): Promise<void> {
  console.log(`seed ${seed} violates law ${law}: ${what}`)
  if (values.json) {
    console.log(JSON.stringify({ seed, law, seeds: tally.seeds }))
    process.exit(1)
  }
  const outcome = await runPlan(planOf(seed), { isTraced: true })
  if (outcome.is === 'passed') {
    console.log(`seed ${seed} violates law ${law} in its first run only`)
    process.exit(1)
  }
  const whole = chosen !== undefined || values['no-shrink']
  const shrunk = whole ? { plan: planOf(seed), ...outcome } : await shrink(planOf(seed), outcome)
  if (values.record !== undefined) await record(shrunk.plan, values.record)
  console.log(report(shrunk, values.story ? Number.POSITIVE_INFINITY : Number(values.lines)))
  process.exit(1)
}

async function record(plan: Plan, path: string): Promise<void> {
  await recordStory(plan, path)
  console.log(`${path} has its story; open it with: switchyard inspect ${path}`)
}

function addResult({ result }: Extract<SeedOutcome, { is: 'passed' }>): void {
  tally.seeds += 1
  tally.runs += result.runs
  tally.finished += result.completed
  tally.steps += result.steps
  for (const [key, times] of result.encounters) tally.encounters[key] = (tally.encounters[key] ?? 0) + times
  for (const [key, times] of result.outcomes) tally.outcomes[key] = (tally.outcomes[key] ?? 0) + times
}

function progress(): void {
  const now = performance.now()
  if (values.json || now - progressShownAt < PROGRESS_MS) return
  progressShownAt = now
  console.log(`${tally.seeds} of ${seeds} seeds, ${speed()}`)
}

function speed(): string {
  const seconds = (performance.now() - startedAt) / 1000
  const pace = tally.seeds / (tally.processorSeconds + processorSeconds())
  return `${(tally.seeds / seconds).toFixed(1)} seeds/s, ${pace.toFixed(1)} in a second of one processor`
}

function processorSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

function finish(): void {
  if (process.send !== undefined) {
    process.send({ ...tally, processorSeconds: processorSeconds() })
    process.disconnect()
    return
  }
  if (values.json) console.log(JSON.stringify(tally))
  else {
    if (tally.violations > 0) console.log(`${tally.violations} seeds violate a law`)
    console.log(
      `${tally.seeds} seeds held every law; ${tally.finished} of ${tally.runs} runs completed; ${speed()}`,
    )
    console.log(table())
  }
  process.exitCode = tally.violations > 0 ? 1 : 0
}

/** Shows for each fault how often it met each lease state. */
function table(): string {
  const width = Math.max(...FAULT_KINDS.map(({ length }) => length))
  const head = [''.padEnd(width), ...LEASE_STATES.map((state) => state.padStart(10))].join(' ')
  const rows = FAULT_KINDS.map((fault) =>
    [
      fault.padEnd(width),
      ...LEASE_STATES.map((state) => String(tally.encounters[`${fault} × ${state}`] ?? 0).padStart(10)),
    ].join(' '),
  )
  const outcomes = Object.entries(tally.outcomes).sort(([a], [b]) => (a < b ? -1 : 1))
  const people = outcomes.map(([what, times]) => `${what.padEnd(width)} ${String(times).padStart(10)}`)
  return [head, ...rows, ...people].join('\n')
}

/** The first process that finds a violation ends the others, so that one report is printed. */
async function runInParallel(): Promise<void> {
  const each = Math.ceil(seeds / jobs)
  const shares = Array.from({ length: jobs }, (_, job) => Math.min(each, seeds - job * each))
  const children = shares.flatMap((count, job) =>
    count > 0 ? fork(bundlePath(), childArgs(from + job * each * step, count)) : [],
  )
  const ends = children.map(
    (child) =>
      new Promise<boolean>((resolve) => {
        // The exit event may come before the message.
        child.on('message', (part) => {
          addTally(part as Tally)
          resolve(true)
        })
        child.on('exit', (code) => {
          if (code === 0) return
          for (const sibling of children) sibling.kill()
          resolve(false)
        })
      }),
  )
  const good = await Promise.all(ends)
  if (good.includes(false)) process.exit(1)
  finish()
}

function bundlePath(): string {
  return process.env.SIMULATION_BUNDLE ?? process.argv[1] ?? ''
}

function childArgs(start: number, count: number): string[] {
  const flags = (['no-shrink', 'go-on', 'story', 'controller', 'host-damage'] as const)
    .filter((name) => values[name])
    .map((name) => `--${name}`)
  const recorded = (['record', 'digests'] as const).flatMap((name) => {
    const path = values[name]
    return path === undefined ? [] : [`--${name}`, path]
  })
  const range = ['--from', String(start), '--seeds', String(count), '--step', values.step]
  return [...range, '--lines', values.lines, ...flags, ...recorded]
}

function addTally(part: Tally): void {
  tally.seeds += part.seeds
  tally.runs += part.runs
  tally.finished += part.finished
  tally.steps += part.steps
  tally.violations += part.violations
  tally.processorSeconds += part.processorSeconds
  for (const [key, times] of Object.entries(part.encounters))
    tally.encounters[key] = (tally.encounters[key] ?? 0) + times
  for (const [key, times] of Object.entries(part.outcomes))
    tally.outcomes[key] = (tally.outcomes[key] ?? 0) + times
}

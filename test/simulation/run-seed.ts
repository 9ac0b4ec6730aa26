/**
 * Runs one seed, and shrinks a violation to the smallest plan that violates the same law.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { StoryLines } from '../../core/inspection/story.ts'
import type { InspectFrame } from '../../protocol/inspection.ts'
import { endFaults, scheduleFaults } from './faults.ts'
import { LawViolation } from './laws/law.ts'
import { clockText, describePlan, idsIn, keepOnly, type Plan } from './plan.ts'
import { scheduleSettingChanges } from './settings-changes.ts'
import { scheduleSleeps } from './sleeps.ts'
import { scheduleVisits } from './visitors.ts'
import { type SeedResult, World } from './world.ts'

/** Trace lines that are kept for a failing seed. */
const TRACE_LINES_KEPT = 4_000
/** Attempts to leave out parts of a plan. */
const SHRINK_TRIES_MAX = 400

export type SeedOutcome =
  | { readonly is: 'passed'; readonly result: SeedResult }
  | { readonly is: 'violated'; readonly violation: LawViolation; readonly trace: readonly string[] }

export interface RunOptions {
  /** Records the trace: without it, the digest is that of no lines. */
  readonly isTraced?: boolean
  readonly onInspected?: (frame: InspectFrame) => void
}

export async function runPlan(plan: Plan, { isTraced, onInspected }: RunOptions = {}): Promise<SeedOutcome> {
  const world = new World(plan, isTraced === true ? TRACE_LINES_KEPT : 0, onInspected)
  try {
    return { is: 'passed', result: await world.run(schedulePlan, endFaults) }
  } catch (error) {
    const violation =
      error instanceof LawViolation
        ? error
        : new LawViolation('0', 'no code of the simulation throws', errorText(error), {}, world.time.now)
    return { is: 'violated', violation, trace: world.trace.recent() }
  }
}

/** Runs the plan once more, and writes what its actors do as a story for `switchyard inspect FILE`. */
export async function recordStory(plan: Plan, path: string): Promise<SeedOutcome> {
  const story = new StoryLines({ source: 'simulation', title: `seed ${plan.seed}` })
  const lines: string[] = []
  let at = 0
  const onInspected = (frame: InspectFrame) => {
    for (const line of story.translate(frame)) {
      if ('at' in line) at = line.at
      lines.push(JSON.stringify(line))
    }
  }
  const outcome = await runPlan(plan, { onInspected })
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `${[...lines, JSON.stringify(story.end(at))].join('\n')}\n`)
  return outcome
}

function schedulePlan(world: World): void {
  scheduleFaults(world)
  scheduleVisits(world)
  scheduleSettingChanges(world)
  scheduleSleeps(world)
}

export interface ShrunkFailure {
  readonly plan: Plan
  readonly violation: LawViolation
  readonly trace: readonly string[]
}

/** Leaves out parts of the plan while the same law is still violated: first halves, then single parts. */
export async function shrink(
  whole: Plan,
  first: Extract<SeedOutcome, { is: 'violated' }>,
): Promise<ShrunkFailure> {
  let kept = idsIn(whole)
  let best = first
  let tries = 0
  const tryWithout = async (some: readonly string[]): Promise<boolean> => {
    tries += 1
    const rest = kept.filter((name) => !some.includes(name))
    const outcome = await runPlan(keepOnly(whole, new Set(rest)), { isTraced: true })
    if (outcome.is !== 'violated' || outcome.violation.law !== best.violation.law) return false
    kept = rest
    best = outcome
    return true
  }
  for (
    let size = Math.ceil(kept.length / 2);
    size >= 1 && tries < SHRINK_TRIES_MAX;
    size = Math.floor(size / 2)
  ) {
    for (let at = 0; at < kept.length && tries < SHRINK_TRIES_MAX; ) {
      if (!(await tryWithout(kept.slice(at, at + size)))) at += size
    }
  }
  return { plan: keepOnly(whole, new Set(kept)), violation: best.violation, trace: best.trace }
}

/** The text that a person needs to understand and repeat the violation. */
export function report({ plan, violation, trace }: ShrunkFailure, lines = 60): string {
  const { law, sentence, what, facts, at } = violation
  return [
    `LAW ${law} VIOLATED: ${sentence}`,
    `at ${clockText(at)}: ${what}`,
    `facts: ${JSON.stringify(facts)}`,
    describePlan(plan),
    'last steps:',
    ...trace.slice(-lines).map((line) => `  ${line.length > 400 ? `${line.slice(0, 400)} …` : line}`),
    `repeat it with: npm run simulate${plan.controller === undefined ? '' : ':jobs'} -- --from ${plan.seed} --seeds 1${plan.faults.some(({ damages }) => damages) ? ' --host-damage' : ''} --only ${idsIn(plan).join(',')}`,
  ].join('\n')
}

function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

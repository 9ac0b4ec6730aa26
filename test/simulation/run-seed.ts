/**
 * Tells one seed's story, and when it breaks a law, finds the smallest story that breaks the same one.
 */
import { calm, inject } from './faults.ts'
import { LawBroken } from './laws/law.ts'
import { receive } from './people.ts'
import { clockText, describePlan, drawPlan, namesIn, only, type Plan } from './plan.ts'
import { type Told, World } from './world.ts'

/** Lines of the story that are kept for a failing seed. */
const KEEP = 4_000
/** Attempts at leaving something out. */
const TRIES_MAX = 400

export type Outcome =
  | { readonly is: 'told'; readonly told: Told }
  | { readonly is: 'broken'; readonly broken: LawBroken; readonly story: readonly string[] }

export async function tellPlan(plan: Plan): Promise<Outcome> {
  const world = new World(plan, KEEP)
  try {
    return { is: 'told', told: await world.tell(begin, calm) }
  } catch (error) {
    const broken =
      error instanceof LawBroken
        ? error
        : new LawBroken('0', 'nothing throws', textOf(error), {}, world.time.now)
    return { is: 'broken', broken, story: world.trace.story() }
  }
}

function begin(world: World): void {
  inject(world)
  receive(world)
}

export interface Shrunk {
  readonly plan: Plan
  readonly broken: LawBroken
  readonly story: readonly string[]
}

/** Leaves out what can be left out while the same law still breaks: halves first, then one by one. */
export async function shrink(seed: number, first: Extract<Outcome, { is: 'broken' }>): Promise<Shrunk> {
  const whole = drawPlan(seed)
  let kept = namesIn(whole)
  let best = first
  let tries = 0
  const tryWithout = async (some: readonly string[]): Promise<boolean> => {
    tries += 1
    const rest = kept.filter((name) => !some.includes(name))
    const outcome = await tellPlan(only(whole, new Set(rest)))
    if (outcome.is !== 'broken' || outcome.broken.law !== best.broken.law) return false
    kept = rest
    best = outcome
    return true
  }
  for (let size = Math.ceil(kept.length / 2); size >= 1 && tries < TRIES_MAX; size = Math.floor(size / 2)) {
    for (let at = 0; at < kept.length && tries < TRIES_MAX; ) {
      if (!(await tryWithout(kept.slice(at, at + size)))) at += size
    }
  }
  return { plan: only(whole, new Set(kept)), broken: best.broken, story: best.story }
}

/** What a person needs to understand and repeat it. */
export function report({ plan, broken, story }: Shrunk, lines = 60): string {
  const { law, sentence, what, facts, at } = broken
  return [
    `LAW ${law} BROKEN: ${sentence}`,
    `at ${clockText(at)}: ${what}`,
    `facts: ${JSON.stringify(facts)}`,
    describePlan(plan),
    'the last that happened:',
    ...story.slice(-lines).map((line) => `  ${line.length > 400 ? `${line.slice(0, 400)} …` : line}`),
    `repeat it with: npm run simulate -- --from ${plan.seed} --seeds 1 --only ${namesIn(plan).join(',')}`,
  ].join('\n')
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

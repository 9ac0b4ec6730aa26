/**
 * Runs the simulation for as many seeds as a test may take.
 *
 * No law is violated, and a seed gives the same trace twice. The faults meet the states of a lease; people open
 * terminals and request follow-ups; the simulation finds faults that were put into the product on purpose.
 *
 * `SIM_JOB_SEEDS=1000` runs more of those with a controller. `SIM_SEEDS=20000 npm run jest -- test/simulation` runs more seeds; `npm run simulate` is for use by hand.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { afterEach, expect, test } from '@jest/globals'
import { drawPlan, FAULT_KINDS, idsIn, keepOnly, LEASE_STATES } from './plan.ts'

/** Outcomes that people must reach at least once, whatever the seeds. */
const OUTCOMES = [
  'resume allowed',
  'resume refused',
  'release allowed',
  'follow up allowed',
  'follow up refused',
  'sandboxes booted',
  'sandboxes reclaimed',
  'screens shown',
  'screens redrawn',
  'follow up steps',
  'hosts taken over',
  'published again',
  'damaged frame',
  'damaged execution',
  'damaged run of the host',
]

/** The same for machines that a controller starts for one run. */
const JOB_OUTCOMES = [
  'machines started',
  'machines started without faults',
  'machines idle',
  'runs begun',
  'runs queued at an idle end',
  'follow up allowed',
]
const JOB_SEEDS = Number(process.env.SIM_JOB_SEEDS ?? 40)

/** The runner simulates every hundredth seed twice, and reports when the traces differ. */
const SEEDS = Number(process.env.SIM_SEEDS ?? 160)
/** What the actors did in a seed that violates a law, kept for people who look at a failed run. */
const STORY = '.stories/violation.jsonl'
/** So few seeds miss some pairs of a fault and a lease state by chance; 1,000 seeds miss none. */
const PAIRS_MISSED_MAX = SEEDS < 340 ? 20 : SEEDS < 1_000 ? 5 : 0

let running: ChildProcess | undefined
/** A test that ran into its limit leaves the script running, with processes of its own. */
function endRunning(): void {
  if (running?.pid === undefined || running.exitCode !== null || running.signalCode !== null) return
  try {
    process.kill(-running.pid, 'SIGKILL')
  } catch {
    // The script has just ended.
  }
}
afterEach(endRunning)
process.once('exit', endRunning)

/** Runs the script in a process of its own: bundled code is several times faster than under the test runner. */
function run(script: string, ...args: string[]): Promise<{ readonly code: number; readonly text: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [script, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    running = child
    let text = ''
    child.stdout.on('data', (chunk) => (text += chunk))
    child.stderr.on('data', (chunk) => (text += chunk))
    // `close` comes after the last output, `exit` may come before it.
    child.on('close', (code) => resolve({ code: code ?? 1, text }))
  })
}

/**
 * Reads the table that the runner prints at its end: a row for each fault with a number per lease state, and a row
 * for each outcome.
 */
function readTable(text: string): Map<string, number[]> {
  const rows = text.split('\n').map((line) => [...(/^([a-z ]+?) +(\d+(?: +\d+)*)$/.exec(line) ?? [])])
  return new Map(rows.map(([, fault = '', numbers = '']) => [fault, numbers.trim().split(/ +/).map(Number)]))
}

test(
  `${SEEDS} seeds violate no law, one gives the same trace twice, faults meet the lease states, and people reach every outcome`,
  async () => {
    // A second process compiles the same code again, which costs as much as ten seeds.
    const { code, text } = await run(
      ...(['build/simulate.mjs', '--seeds', String(SEEDS), '--record', STORY] as const),
    )
    expect({ code, text: code === 0 ? '' : text }).toEqual({ code: 0, text: '' })
    const encounters = readTable(text)
    const never = FAULT_KINDS.flatMap((fault) =>
      LEASE_STATES.filter((_, at) => !((encounters.get(fault)?.[at] ?? 0) > 0)).map(
        (state) => `${fault} × ${state}`,
      ),
    )
    expect(never.slice(PAIRS_MISSED_MAX)).toEqual([])
    expect(OUTCOMES.filter((outcome) => !((encounters.get(outcome)?.[0] ?? 0) > 0))).toEqual([])
  },
  60_000 + SEEDS * 1_500,
)

test(
  `${JOB_SEEDS} seeds in which a controller starts machines for one run violate no law`,
  async () => {
    const args = ['--controller', '--seeds', String(JOB_SEEDS), '--jobs', '2']
    const { code, text } = await run('build/simulate.mjs', ...args)
    expect({ code, text: code === 0 ? '' : text }).toEqual({ code: 0, text: '' })
    const outcomes = readTable(text)
    expect(JOB_OUTCOMES.filter((outcome) => !((outcomes.get(outcome)?.[0] ?? 0) > 0))).toEqual([])
  },
  60_000 + JOB_SEEDS * 2_000,
)

test('the simulation finds faults in the product', async () => {
  const { code, text } = await run('build/mutants.mjs', '--quick')
  expect({ code, text }).toEqual({
    code: 0,
    text: expect.stringMatching(/^([1-9]\d*) of \1 faults were found$/m),
  })
}, 600_000)

test('a plan is deterministic, and leaving out a part keeps the rest', () => {
  const plan = drawPlan(7)
  expect(drawPlan(7)).toEqual(plan)
  const [first = '', ...rest] = idsIn(plan)
  const smaller = keepOnly(plan, new Set(rest))
  expect(idsIn(smaller)).toEqual(rest)
  const all = [...plan.faults, ...plan.workers, ...plan.tickets, ...plan.visits, ...plan.refusals]
  expect(all.map(({ id }) => id)).toContain(first)
})

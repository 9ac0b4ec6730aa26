/**
 * The simulation, for as many seeds as a test may take: no law breaks, the same seed is the same story, every fault
 * meets every state of a lease, people look into sandboxes and have pull requests followed up, and faults put into the
 * product on purpose are found.
 *
 * `SIM_SEEDS=20000 npm run jest -- test/simulation` for more of them; `npm run simulate` for a person's use.
 */
import { spawn } from 'node:child_process'
import { expect, test } from '@jest/globals'
import { drawPlan, FAULT_KINDS, idsIn, keepOnly, LEASE_STATES } from './plan.ts'

/** What people bring about, now and then, whatever the seeds. */
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
]

const SEEDS = Number(process.env.SIM_SEEDS ?? 270)

/** In a process of its own: bundled it runs several times as fast as under the test runner. */
function run(script: string, ...args: string[]): Promise<{ readonly code: number; readonly text: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
    let text = ''
    child.stdout.on('data', (chunk) => (text += chunk))
    child.stderr.on('data', (chunk) => (text += chunk))
    // Not with its exit: then the last of what it said may still be on its way.
    child.on('close', (code) => resolve({ code: code ?? 1, text }))
  })
}

/** The figures in the table that the runner prints at its end: by fault, one for each state of a lease; then by deed. */
function readTable(text: string): Map<string, number[]> {
  const rows = text.split('\n').map((line) => [...(/^([a-z ]+?) +(\d+(?: +\d+)*)$/.exec(line) ?? [])])
  return new Map(rows.map(([, fault = '', numbers = '']) => [fault, numbers.trim().split(/ +/).map(Number)]))
}

test(
  `${SEEDS} seeds hold every law, every fault meets every state of a lease, and people come and go`,
  async () => {
    const { code, text } = await run('build/simulate.mjs', '--seeds', String(SEEDS), '--jobs', '2')
    expect({ code, text: code === 0 ? '' : text }).toEqual({ code: 0, text: '' })
    const encounters = readTable(text)
    const never = FAULT_KINDS.flatMap((fault) =>
      LEASE_STATES.filter((_, at) => !((encounters.get(fault)?.[at] ?? 0) > 0)).map(
        (state) => `${fault} × ${state}`,
      ),
    )
    expect(never).toEqual([])
    expect(OUTCOMES.filter((outcome) => !((encounters.get(outcome)?.[0] ?? 0) > 0))).toEqual([])
  },
  60_000 + SEEDS * 2_000,
)

test('a seed told twice is the same to the letter', async () => {
  // Each hundredth is told twice by the runner itself, which says so when the stories differ.
  const { code, text } = await run('build/simulate.mjs', '--seeds', '1', '--from', '100')
  expect({ code, text: code === 0 ? '' : text }).toEqual({ code: 0, text: '' })
}, 120_000)

test('faults in the product are found', async () => {
  const { code, text } = await run('build/mutants.mjs', '--quick')
  expect({ code, text }).toEqual({
    code: 0,
    text: expect.stringMatching(/^([1-9]\d*) of \1 faults were found$/m),
  })
}, 600_000)

test('a plan is the same each time, and what is left out leaves the rest as it was', () => {
  const plan = drawPlan(7)
  expect(drawPlan(7)).toEqual(plan)
  const [first = '', ...rest] = idsIn(plan)
  const smaller = keepOnly(plan, new Set(rest))
  expect(idsIn(smaller)).toEqual(rest)
  const all = [...plan.faults, ...plan.workers, ...plan.tickets, ...plan.visits]
  expect(all.map(({ id }) => id)).toContain(first)
})

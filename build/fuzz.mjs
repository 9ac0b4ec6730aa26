/**
 * `npm run fuzz`: sends random requests and frames to both listeners, 500,000 to each, and as many inputs that are drawn
 * from the schemas of the protocol to the actors of a whole host in memory.
 *
 * `npm run fuzz -- 20000` sends fewer, and `npm run fuzz -- 500000 SEED` repeats a run. The tests fail for a crash, a
 * request without an answer, a status of 500 or more, memory that grows, and a host that no longer works afterwards.
 */
import { spawnSync } from 'node:child_process'
import { root } from './bundle.mjs'

const INPUTS = 500_000
/** Requests, frames of dashboards, and frames of workers. */
const KINDS = 3

const [inputs = INPUTS, seed = Math.floor(Math.random() * 1e9)] = process.argv.slice(2).map(Number)
if (!(inputs > 0) || !Number.isInteger(seed)) {
  console.error('usage: npm run fuzz -- [INPUTS [SEED]]')
  process.exit(64)
}
console.log(
  `${inputs} inputs to each listener and to whole hosts; repeat with: npm run fuzz -- ${inputs} ${seed}`,
)
const flags = [
  '--experimental-vm-modules',
  '--conditions=development',
  '--disable-warning=ExperimentalWarning',
]
const tests = ['adapters/transport/.*fuzz', 'conversations/schema-fuzz']
const jest = ['node_modules/jest/bin/jest.js', '--runInBand', '--verbose', ...tests]
const env = {
  ...process.env,
  FUZZ_ROUNDS: String(Math.ceil(inputs / KINDS)),
  FUZZ_INPUTS: String(inputs),
  SEED: String(seed),
}
process.exitCode =
  spawnSync(process.execPath, [...flags, ...jest], { cwd: root, env, stdio: 'inherit' }).status ?? 1

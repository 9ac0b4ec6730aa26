/**
 * `npm run simulate:supervisor -- --seeds N --from S`: simulates schedules of a worker's supervisor. With
 * `--mutants [--only NAME]` it puts each fault of test/simulation/supervisor/mutants.ts into the product, and lets the schedules search for it.
 */
import { closeBundlers, findViolation, misplaced, readMutants } from './mutants.mjs'
import { bundleSimulation, runSimulation } from './simulate.mjs'

const ENTRY = 'test/simulation/supervisor/main.ts'
const SEEDS_MAX = 1_000
const args = process.argv.slice(2)

if (args.includes('--mutants')) {
  const only = args.includes('--only') ? args[args.indexOf('--only') + 1] : ''
  const all = await readMutants('test/simulation/supervisor/mutants.ts', 'supervisorMutants')
  const mutants = all.filter(({ name }) => name.includes(only))
  let survived = 0
  for (const mutant of mutants) {
    const problem = misplaced(mutant)
    const found =
      problem === undefined ? await findViolation(mutant, { seeds: SEEDS_MAX, entry: ENTRY }) : undefined
    if (found === undefined) survived += 1
    console.log(
      problem ?? `${found === undefined ? 'SURVIVED' : `${found.law} seed ${found.seed}`}  ${mutant.name}`,
    )
  }
  await closeBundlers()
  console.log(`${mutants.length - survived} of ${mutants.length} faults were found`)
  process.exitCode = survived === 0 ? 0 : 1
} else {
  const bundle = await bundleSimulation('supervisor-simulation', ENTRY)
  process.exitCode = runSimulation(bundle, args).status ?? 1
}

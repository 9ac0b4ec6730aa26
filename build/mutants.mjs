/**
 * `npm run simulate:mutants [-- --only NAME] [--quick]`: puts each fault of test/simulation/mutants.ts into the
 * product and lets the simulation search for it. Every fault must be found within 2,000 seeds.
 *
 * The source files stay unchanged: the text is replaced while it is bundled. A text that does not occur exactly
 * once is an error.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { root } from './bundle.mjs'
import { bundleSimulation, runSimulation } from './simulate.mjs'

const SEEDS = 2_000

/** Loads a list from its TypeScript file. */
export async function readMutants(file = 'test/simulation/mutants.ts', name = 'mutants') {
  const { build } = await import('esbuild')
  const { outputFiles } = await build({
    entryPoints: [join(root, file)],
    bundle: true,
    format: 'esm',
    write: false,
  })
  const text = Buffer.from(outputFiles[0].contents).toString('base64')
  return (await import(`data:text/javascript;base64,${text}`))[name]
}

/** Describes a mutant whose text does not occur exactly once; undefined when it does. */
export function misplaced({ name, file, find }) {
  const count = textOf(file).split(find).length - 1
  return count === 1 ? undefined : `${name}: its text occurs ${count} times in ${file}`
}

function textOf(file) {
  return readFileSync(join(root, file), 'utf8')
}

function plantPlugin({ file, find, replace }) {
  return {
    name: 'mutant',
    setup(build) {
      build.onLoad({ filter: /\.ts$/ }, ({ path }) =>
        path === join(root, file)
          ? { contents: textOf(file).replace(find, () => replace), loader: 'ts' }
          : undefined,
      )
    },
  }
}

/** Returns `{ seed, law }` of the violation, or undefined when the fault survived. */
export async function findViolation(mutant, seeds = SEEDS, from = 1, entry = undefined) {
  const bundle = await bundleSimulation('mutant', [plantPlugin(mutant)], entry)
  const kind = mutant.withController ? ['--controller'] : []
  const args = ['--seeds', String(seeds), '--from', String(from), '--json', ...kind]
  const { stdout } = runSimulation(bundle, args, ['ignore', 'pipe', 'pipe'])
  const last = stdout.trim().split('\n').at(-1) ?? ''
  const found = last.startsWith('{') ? JSON.parse(last) : {}
  return found.law === undefined ? undefined : found
}

async function main() {
  const { values } = parseArgs({
    options: {
      only: { type: 'string' },
      quick: { type: 'boolean', default: false },
      seeds: { type: 'string', default: String(SEEDS) },
    },
  })
  const all = await readMutants()
  const problems = all.map(misplaced).filter((problem) => problem !== undefined)
  for (const problem of problems) console.log(`MISPLACED ${problem}`)
  const selected = all.filter(
    (mutant) =>
      misplaced(mutant) === undefined &&
      (values.only === undefined
        ? !values.quick || mutant.quick === true
        : mutant.name.includes(values.only)),
  )
  let survived = 0
  for (const mutant of selected) {
    const from = values.quick ? mutant.quickFrom : undefined
    const found = await findViolation(mutant, Number(values.seeds), from)
    if (found === undefined) survived += 1
    const verdict = found === undefined ? 'SURVIVED' : `law ${found.law}`.padEnd(8)
    console.log(`${verdict} ${found === undefined ? '' : `seed ${found.seed}`.padEnd(10)} ${mutant.name}`)
  }
  console.log(`${selected.length - survived} of ${selected.length} faults were found`)
  process.exitCode = survived === 0 && problems.length === 0 ? 0 : 1
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main()

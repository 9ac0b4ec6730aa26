/**
 * `npm run simulate:mutants [-- --only NAME] [--quick]`: puts each fault of test/simulation/mutants.ts into the product
 * and lets the simulation look for it. Every one must be found within 2,000 seeds.
 *
 * The sources stay as they are: the text is replaced on its way into a bundle of its own. A text that does not occur
 * exactly once is an error.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { root } from './bundle.mjs'
import { bundleSimulation, runSimulation } from './simulate.mjs'

const SEEDS = 2_000

/** The list, from its TypeScript. */
export async function readMutants() {
  const { build } = await import('esbuild')
  const { outputFiles } = await build({
    entryPoints: [join(root, 'test/simulation/mutants.ts')],
    bundle: true,
    format: 'esm',
    write: false,
  })
  const text = Buffer.from(outputFiles[0].contents).toString('base64')
  return (await import(`data:text/javascript;base64,${text}`)).mutants
}

/** What is wrong with a mutant's place in the code; undefined when it is there once. */
export function misplaced({ name, file, find }) {
  const count = textOf(file).split(find).length - 1
  return count === 1 ? undefined : `${name}: its text occurs ${count} times in ${file}`
}

function textOf(file) {
  return readFileSync(join(root, file), 'utf8')
}

function planted({ file, find, replace }) {
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

/** Answers what the simulation found: `{ seed, law }`, or undefined when the fault survived. */
export async function hunt(mutant, seeds = SEEDS) {
  const bundle = await bundleSimulation('mutant', [planted(mutant)])
  const { stdout } = runSimulation(bundle, ['--seeds', String(seeds), '--json'], ['ignore', 'pipe', 'pipe'])
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
  const wrong = all.map(misplaced).filter((problem) => problem !== undefined)
  for (const problem of wrong) console.log(`MISPLACED ${problem}`)
  const chosen = all.filter(
    (mutant) =>
      misplaced(mutant) === undefined &&
      (values.only === undefined
        ? !values.quick || mutant.quick === true
        : mutant.name.includes(values.only)),
  )
  let survived = 0
  for (const mutant of chosen) {
    const found = await hunt(mutant, Number(values.seeds))
    if (found === undefined) survived += 1
    const verdict = found === undefined ? 'SURVIVED' : `law ${found.law}`.padEnd(8)
    console.log(`${verdict} ${found === undefined ? '' : `seed ${found.seed}`.padEnd(10)} ${mutant.name}`)
  }
  console.log(`${chosen.length - survived} of ${chosen.length} faults were found`)
  process.exitCode = survived === 0 && wrong.length === 0 ? 0 : 1
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main()

/**
 * `npm run simulate:mutants [-- --only NAME] [--quick] [--jobs N]`: puts each fault of test/simulation/mutants.ts into
 * the product and lets the simulation search for it. Every fault must be found within 2,000 seeds, beginning with the
 * one that found it in the last run of the whole list; `--from 1` begins with the first.
 *
 * The source files stay unchanged: the text is replaced while it is bundled. A text that does not occur exactly
 * once is an error. A run of the whole list rewrites test/simulation/mutants-found.txt.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { root } from './bundle.mjs'
import { simulationOptions, startSimulation } from './simulate.mjs'

const SEEDS = 2_000
const LOG_FILE = join(root, 'test', 'simulation', 'mutants-found.txt')
/** esbuild holds a few megabytes for a short time; collecting them less often saves a fifth of its work. */
process.env.GOGC ??= '400'
/** By name: esbuild keeps what it parsed for the next mutant. */
const bundlers = new Map()

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

async function bundleMutant(mutant, entry, name) {
  const bundler = bundlers.get(name) ?? (await openBundler(entry, name))
  bundlers.set(name, bundler)
  bundler.planted.mutant = mutant
  await bundler.context.rebuild()
  return bundler.bundle
}

/** Without this, esbuild's process keeps the caller's alive. */
export async function closeBundlers() {
  for (const { context } of bundlers.values()) await context.dispose()
  bundlers.clear()
}

async function openBundler(entry, name) {
  const { context } = await import('esbuild')
  const planted = { mutant: undefined }
  const bundling = simulationOptions(name, entry, [plantPlugin(planted)])
  // The stack of a violation is of no use where a fault was put there to cause it.
  return {
    planted,
    bundle: bundling.outfile,
    context: await context({ ...bundling, sourcemap: false, metafile: false }),
  }
}

function plantPlugin(planted) {
  return {
    name: 'mutant',
    setup(build) {
      build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const { file, find, replace } = planted.mutant
        return path === join(root, file)
          ? { contents: textOf(file).replace(find, () => replace), loader: 'ts' }
          : undefined
      })
    },
  }
}

/**
 * Returns `{ seed, law }` of the violation, or undefined when the fault survived.
 * @param name of the bundle: searches at the same time need one each
 */
export async function findViolation(mutant, { seeds = SEEDS, from = 1, step, entry, name = 'mutant' } = {}) {
  const bundle = await bundleMutant(mutant, entry, name)
  const kind = mutant.withController ? ['--controller'] : mutant.withHostDamage ? ['--host-damage'] : []
  const steps = step === undefined ? [] : ['--step', step]
  const args = ['--seeds', String(seeds), '--from', String(from), ...steps, '--json', ...kind]
  const { stdout } = await startSimulation(bundle, args)
  const last = stdout.trim().split('\n').at(-1) ?? ''
  const found = last.startsWith('{') ? JSON.parse(last) : {}
  return found.law === undefined ? undefined : found
}

/** Searches for the mutants in `jobs` processes, and returns a line for each, in the order of the list. */
async function searchAll(mutants, jobs, options) {
  const waiting = [...mutants.entries()]
  const lines = []
  let survived = 0
  const starts = readStarts()
  const work = async (name) => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [at, mutant] = next
      const from = options.from ?? starts.get(mutant.name)
      const found = await findViolation(mutant, { seeds: options.seeds, from, step: options.step, name })
      if (found === undefined) survived += 1
      lines[at] = describeVerdict(mutant, found)
      console.log(lines[at])
    }
  }
  await Promise.all(Array.from({ length: jobs }, (_, job) => work(`mutant-${job + 1}`)))
  await closeBundlers()
  return { lines, survived }
}

/** The seeds that found the mutants in the last run of the whole list, by name. A change of the simulation moves some. */
function readStarts() {
  if (!existsSync(LOG_FILE)) return new Map()
  const rows = readFileSync(LOG_FILE, 'utf8').matchAll(/^law \S+ +seed (\d+) +(.+)$/gm)
  return new Map([...rows].map(([, seed, name]) => [name, Number(seed)]))
}

function describeVerdict({ name }, found) {
  const law = found === undefined ? 'SURVIVED' : `law ${found.law}`
  return `${law.padEnd(8)} ${(found === undefined ? '' : `seed ${found.seed}`).padEnd(10)} ${name}`
}

async function main() {
  const { values } = parseArgs({
    options: {
      only: { type: 'string' },
      quick: { type: 'boolean', default: false },
      seeds: { type: 'string', default: String(SEEDS) },
      from: { type: 'string' },
      step: { type: 'string' },
      jobs: { type: 'string', default: String(availableParallelism()) },
    },
  })
  const startedAt = Date.now()
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
  const from = values.from === undefined ? undefined : Number(values.from)
  const options = { seeds: Number(values.seeds), from, step: values.step }
  const { lines, survived } = await searchAll(selected, Number(values.jobs), options)
  const summary = `${selected.length - survived} of ${selected.length} faults were found`
  console.log(summary)
  if (values.only === undefined && !values.quick) {
    const minutes = Math.ceil((Date.now() - startedAt) / 60_000)
    const head = `${summary} within ${values.seeds} seeds each, in ${minutes} minutes by ${values.jobs} processes`
    writeFileSync(LOG_FILE, `${[head, ...lines].join('\n')}\n`)
  }
  process.exitCode = survived === 0 && problems.length === 0 ? 0 : 1
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main()

/**
 * `npm run simulate -- --seeds N --from S`: bundles the simulation with the product and runs it.
 *
 * The mutants also use `simulationOptions`, and replace a text of the product while it is bundled. Bundles are below
 * node_modules/.cache, where Node still finds the packages outside them.
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isFresh, options, root, writeStamp } from './bundle.mjs'

const cache = join(root, 'node_modules', '.cache', 'switchyard')
const ENTRY = 'test/simulation/main.ts'
/** A seed makes much short-lived garbage: with room for it, a tenth less time goes into collecting it. */
export const NODE_FLAGS = ['--enable-source-maps', '--max-semi-space-size=32']
/** Limits that no run would reach in two simulated hours, reduced so that the simulation reaches them. */
const LIMITS_FILE = join(root, 'protocol', 'limits.ts')
const REDUCED_LIMITS = [['WORKER_BUFFER_FRAMES_MAX = 10_000', 'WORKER_BUFFER_FRAMES_MAX = 24']]

/** Returns the path of the bundle, which is cached until a source changes. */
export async function bundleSimulation(name = 'simulation', entry = ENTRY) {
  const [bundle, stamp] = [join(cache, `${name}.mjs`), join(cache, `${name}.json`)]
  if (existsSync(bundle) && isFresh(stamp)) return bundle
  const { build } = await import('esbuild')
  const { metafile } = await build(simulationOptions(name, entry))
  writeStamp(stamp, metafile)
  return bundle
}

/** Returns the options of esbuild; the bundle is their `outfile`. */
export function simulationOptions(name, entry = ENTRY, plugins = []) {
  mkdirSync(cache, { recursive: true })
  return {
    ...options,
    entryPoints: [join(root, entry)],
    outfile: join(cache, `${name}.mjs`),
    legalComments: 'none',
    // Recorded frames of earlier versions.
    loader: { '.jsonl': 'text' },
    plugins: [...plugins, reducedLimits],
  }
}

const reducedLimits = {
  name: 'reduced-limits',
  setup(build) {
    build.onLoad({ filter: /limits\.ts$/ }, ({ path }) =>
      path === LIMITS_FILE ? { contents: reducedLimitsText(), loader: 'ts' } : undefined,
    )
  },
}

function reducedLimitsText() {
  return REDUCED_LIMITS.reduce(
    (text, [from, to]) => {
      if (text.split(from).length !== 2) throw new Error(`${from} must occur exactly once in ${LIMITS_FILE}`)
      return text.replace(from, to)
    },
    readFileSync(LIMITS_FILE, 'utf8'),
  )
}

export function runSimulation(bundle, args) {
  return spawnSync(process.execPath, [...NODE_FLAGS, bundle, ...args], {
    cwd: root,
    env: { ...process.env, SIMULATION_BUNDLE: bundle },
    stdio: 'inherit',
  })
}

/** Resolves to `{ stdout }` when the simulation ends. */
export function startSimulation(bundle, args) {
  const child = spawn(process.execPath, [...NODE_FLAGS, bundle, ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let stdout = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', () => resolve({ stdout }))
  })
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const bundle = await bundleSimulation().catch((error) => {
    // esbuild has printed its own messages with file and line.
    if (error.errors === undefined) console.error(error)
    process.exit(1)
  })
  process.exitCode = runSimulation(bundle, process.argv.slice(2)).status ?? 1
}

/**
 * `npm run simulate -- --seeds N --from S`: bundles the simulation with the product and runs it.
 *
 * `bundleSimulation` is shared with the mutants, which put a fault into the product's text on its way into the bundle.
 * Bundles lie below node_modules/.cache, where Node still finds the packages that stay outside of them.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isFresh, options, root, writeStamp } from './bundle.mjs'

const cache = join(root, 'node_modules', '.cache', 'switchyard')
const ENTRY = 'test/simulation/main.ts'
/** Limits that nobody would meet in two simulated hours, scaled down so that it happens. */
const LIMITS = join(root, 'protocol', 'limits.ts')
const SCALED = [['WORKER_BUFFER_FRAMES_MAX = 10_000', 'WORKER_BUFFER_FRAMES_MAX = 24']]

/** Answers the path of the bundle. Without a plugin it is kept until one of its sources changes. */
export async function bundleSimulation(name = 'simulation', plugins = []) {
  const [bundle, stamp] = [join(cache, `${name}.mjs`), join(cache, `${name}.json`)]
  if (plugins.length === 0 && existsSync(bundle) && isFresh(stamp)) return bundle
  mkdirSync(cache, { recursive: true })
  const { build } = await import('esbuild')
  const { metafile } = await build({
    ...options,
    entryPoints: [join(root, ENTRY)],
    outfile: bundle,
    legalComments: 'none',
    plugins: [...plugins, scaled],
  })
  if (plugins.length === 0) writeStamp(stamp, metafile)
  return bundle
}

const scaled = {
  name: 'scaled',
  setup(build) {
    build.onLoad({ filter: /limits\.ts$/ }, ({ path }) =>
      path === LIMITS ? { contents: scaledText(), loader: 'ts' } : undefined,
    )
  },
}

function scaledText() {
  return SCALED.reduce(
    (text, [from, to]) => {
      if (text.split(from).length !== 2) throw new Error(`${from} must stand in ${LIMITS} once`)
      return text.replace(from, to)
    },
    readFileSync(LIMITS, 'utf8'),
  )
}

export function runSimulation(bundle, args, stdio = 'inherit') {
  return spawnSync(process.execPath, ['--enable-source-maps', bundle, ...args], {
    cwd: root,
    env: { ...process.env, SIMULATION_BUNDLE: bundle },
    stdio,
    encoding: 'utf8',
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

/**
 * `npm run test:nodes`: runs the tests that depend on Node's version on each supported one.
 *
 * Not part of `npm test`, because each Node is a download of 45 MB. The command fetches exactly these versions once
 * into `.nodes/` of the checkout, from npm's packages with Node's binaries, and runs no script of them. The parts are
 * the listeners, the database, the terminals, and whole runs through real processes. Arguments go to Jest in place of them.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, isBuilt } from './build.mjs'
import { root } from './bundle.mjs'
import { checkSystem } from './check-system.mjs'

const EXIT_UNAVAILABLE = 69
const VERSIONS = ['22.23.3', '24.21.0']
const PARTS = [
  'test/adapters/transport/',
  'test/adapters/store/',
  'test/adapters/oauth-helper/',
  'test/adapters/worker/inside',
  'test/system/(attach|listener|quickstart|run|worker-package)\\.test',
]
const folder = join(root, '.nodes')

await checkSystem({ forTests: true })
const nodes = VERSIONS.map(fetchNode)
if (!isBuilt()) await build()
const failed = VERSIONS.filter((_, index) => !runTests(nodes[index]))
console.log(failed.length === 0 ? `ok on Node ${VERSIONS.join(', ')}` : `FAILED on Node ${failed.join(', ')}`)
process.exitCode = failed.length === 0 ? 0 : 1

/** Returns the path of the program. */
function fetchNode(version) {
  const name = `node-${process.platform}-${process.arch}`
  const own = join(folder, version)
  const program = join(own, 'node_modules', name, 'bin', 'node')
  if (existsSync(program)) return program
  mkdirSync(own, { recursive: true })
  writeFileSync(join(own, 'package.json'), '{ "private": true }\n')
  console.error(`fetching Node ${version} into ${own} …`)
  const args = ['install', '--ignore-scripts', '--no-save', '--no-audit', '--no-fund', `${name}@${version}`]
  // The binaries of npm's packages need no Node, and npm passes the checkout's own settings on.
  const env = { ...process.env, npm_config_engine_strict: 'false' }
  const { status } = spawnSync('npm', args, { cwd: own, env, stdio: ['ignore', 2, 2] })
  if (status === 0 && existsSync(program)) return program
  console.error(`npm could not fetch ${name}@${version}; see its message above`)
  process.exit(EXIT_UNAVAILABLE)
}

function runTests(node) {
  console.log(`Node ${node}`)
  const flags = [
    '--experimental-vm-modules',
    '--conditions=development',
    '--disable-warning=ExperimentalWarning',
  ]
  const given = process.argv.slice(2)
  const jest = ['node_modules/jest/bin/jest.js', ...(given.length > 0 ? given : PARTS)]
  return spawnSync(node, [...flags, ...jest], { cwd: root, stdio: 'inherit' }).status === 0
}

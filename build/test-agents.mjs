/**
 * `npm run test:agents`: the tests of test/agents-real, with the agents' real programs against model APIs of our own.
 *
 * Not part of `npm test`: the programs are somebody else's, large (about 800 MB), and come over the network. They are
 * fetched once, in exactly these versions, into `.agents/` of the checkout, away from the product's own packages; where
 * a sandbox can't be shown that folder, into one in /var/tmp. Nothing of theirs runs while it is installed but the one
 * step that puts claude's program in its place. No account is needed, and no model is asked. Arguments go to Jest.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, lstatSync, mkdirSync, rmSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { root } from './bundle.mjs'
import { checkSystem } from './check-system.mjs'

const UNAVAILABLE = 69
/** Names the folder with the programs, to the tests; given from outside, one that is not in the checkout. */
const FOLDER_VARIABLE = 'SWITCHYARD_REAL_AGENTS'
/** A sandbox has folders of its own there, so it can't be shown a program that lies in them. */
const TAKEN = /^\/(work|tmp|run|proc|dev|home\/agent|opt\/switchyard)(\/|$)/
const folder = resolve(root, process.env[FOLDER_VARIABLE] || folderFor(process.geteuid?.()))
const packages = join(folder, 'node_modules')

/** `says`: what `--version` must print, for a newer one may speak another dialect. */
const AGENTS = [
  { name: '@anthropic-ai/claude-code', version: '2.1.329', program: 'claude', says: '2.1.329 (Claude Code)' },
  { name: '@openai/codex', version: '0.169.0', program: 'codex', says: 'codex-cli 0.169.0' },
]
/** npm's words for a registry that is not there. */
const OFFLINE =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED)\b/

makeFolder()
if (!AGENTS.every(isThere)) install()
await checkSystem({ forTests: true })
process.exitCode = test(process.argv.slice(2))

// ---- where -----------------------------------------------------------------------------------------------------------

function folderFor(uid) {
  // The sandboxes of a worker that is root run as somebody else.
  const isPassable = uid !== 0 || foldersAbove(root).every((path) => (statSync(path).mode & 0o001) !== 0)
  return isPassable && !TAKEN.test(root) ? '.agents' : `/var/tmp/switchyard-agents-${uid}`
}

function foldersAbove(path) {
  const above = dirname(path)
  return above === path ? [path] : [path, ...foldersAbove(above)]
}

/** Everybody may make folders in /var/tmp, also one by this name, with programs in it that we would start. */
function makeFolder() {
  mkdirSync(folder, { recursive: true })
  const stats = lstatSync(folder)
  const isOurs = stats.isDirectory() && stats.uid === (process.geteuid?.() ?? stats.uid)
  if (!isOurs)
    stop(`${folder} is not a folder of yours; remove it, or name another one in ${FOLDER_VARIABLE}`)
  chmodSync(folder, 0o755)
}

// ---- the programs ----------------------------------------------------------------------------------------------------

function isThere({ program, says }) {
  const path = join(packages, '.bin', program)
  const { status, stdout } = spawnSync(path, ['--version'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return status === 0 && stdout.trim() === says
}

function install() {
  const wanted = AGENTS.map(({ name, version }) => `${name}@${version}`)
  console.error(`fetching ${wanted.join(' and ')} into ${folder} (about 800 MB, once) …`)
  // A half one would be taken for whole.
  rmSync(packages, { recursive: true, force: true })
  npmInstall(wanted)
  putClaudeInPlace()
  for (const agent of AGENTS.filter((one) => !isThere(one))) {
    stop(
      `${join(packages, '.bin', agent.program)} --version does not print ${JSON.stringify(agent.says)}: ` +
        `the program does not run on ${process.platform}-${process.arch}, or its package came without it`,
    )
  }
}

function npmInstall(wanted) {
  const flags = [
    '--ignore-scripts',
    '--no-save',
    '--no-audit',
    '--no-fund',
    '--fetch-retries=1',
    '--fetch-retry-mintimeout=1000',
    '--loglevel=error',
  ]
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'
  const { status, stderr, error } = spawnSync(npm, ['install', `--prefix=${folder}`, ...flags, ...wanted], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 2, 'pipe'],
  })
  if (error !== undefined) stop(`npm could not be started: ${error.message}`)
  if (status === 0) return
  if (OFFLINE.test(stderr)) {
    stop(
      'npm cannot reach its registry. Connect to the network once; later runs need none. `npm test` needs none at all.',
    )
  }
  stop(`${stderr.trim()}\nnpm could not fetch the agents. Run the same again, or see what npm says above.`)
}

/** What its install script would have done: a hard link, so it takes no more room. */
function putClaudeInPlace() {
  const script = join(packages, '@anthropic-ai', 'claude-code', 'install.cjs')
  const { status } = spawnSync(process.execPath, [script], { stdio: ['ignore', 2, 2] })
  if (status !== 0) stop('claude could not be put in its place; see what it says above')
}

// ---- the tests -------------------------------------------------------------------------------------------------------

function test(args) {
  const flags = [
    '--experimental-vm-modules',
    '--conditions=development',
    '--disable-warning=ExperimentalWarning',
  ]
  const jest = [
    join('node_modules', 'jest', 'bin', 'jest.js'),
    '--config',
    'test/agents-real/jest.config.mjs',
  ]
  const env = { ...process.env, [FOLDER_VARIABLE]: folder }
  return (
    spawnSync(process.execPath, [...flags, ...jest, ...args], { cwd: root, env, stdio: 'inherit' }).status ??
    1
  )
}

function stop(message) {
  console.error(message)
  process.exit(UNAVAILABLE)
}

/**
 * `npm run test:agents`: runs the tests of test/agents-real with the agents' real programs and local model APIs.
 *
 * Not part of `npm test`, because the programs are large (about 900 MB) and have to be downloaded. The command
 * installs exactly these versions once into `.agents/` of the checkout, apart from the product's own packages, or into
 * /var/tmp where a sandbox cannot show the checkout. The installation runs one script only, which puts claude's
 * program in place. No account and no model are needed. Arguments go to Jest.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, lstatSync, mkdirSync, rmSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { root } from './bundle.mjs'
import { checkSystem } from './check-system.mjs'

const EXIT_UNAVAILABLE = 69
/** Tells the tests where the programs are; set by the caller, it selects another folder. */
const FOLDER_VARIABLE = 'SWITCHYARD_REAL_AGENTS'
/** A sandbox has its own folders at these paths, so it cannot show programs that are there. */
const SANDBOX_FOLDERS = /^\/(work|tmp|run|proc|dev|home\/agent|opt\/switchyard)(\/|$)/
const folder = resolve(root, process.env[FOLDER_VARIABLE] || folderFor(process.geteuid?.()))
const packages = join(folder, 'node_modules')

/** `versionText`: the required output of `--version`, because a newer version may use another protocol. */
const AGENTS = [
  {
    name: '@anthropic-ai/claude-code',
    version: '2.1.329',
    program: 'claude',
    versionText: '2.1.329 (Claude Code)',
  },
  { name: '@openai/codex', version: '0.169.0', program: 'codex', versionText: 'codex-cli 0.169.0' },
  { name: '@google/gemini-cli', version: '0.61.0', program: 'gemini', versionText: '0.61.0' },
]
/** npm's messages for an unreachable registry. */
const OFFLINE_ERRORS =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED)\b/

makeFolder()
if (!AGENTS.every(isInstalled)) install()
await checkSystem({ forTests: true })
process.exitCode = test(process.argv.slice(2))

// ---- the folder -----------------------------------------------------------------------------------------------------------

function folderFor(uid) {
  // A root worker's sandboxes run as another user.
  const isPassable = uid !== 0 || foldersAbove(root).every((path) => (statSync(path).mode & 0o001) !== 0)
  return isPassable && !SANDBOX_FOLDERS.test(root) ? '.agents' : `/var/tmp/switchyard-agents-${uid}`
}

function foldersAbove(path) {
  const above = dirname(path)
  return above === path ? [path] : [path, ...foldersAbove(above)]
}

/** Any user can create this folder in /var/tmp and put programs there, so its owner is checked. */
function makeFolder() {
  mkdirSync(folder, { recursive: true })
  const stats = lstatSync(folder)
  const isOurs = stats.isDirectory() && stats.uid === (process.geteuid?.() ?? stats.uid)
  if (!isOurs)
    stop(`${folder} is not a folder of yours; remove it, or name another one in ${FOLDER_VARIABLE}`)
  chmodSync(folder, 0o755)
}

// ---- the programs ----------------------------------------------------------------------------------------------------

function isInstalled({ program, versionText }) {
  const path = join(packages, '.bin', program)
  const { status, stdout } = spawnSync(path, ['--version'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return status === 0 && stdout.trim() === versionText
}

function install() {
  const wanted = AGENTS.map(({ name, version }) => `${name}@${version}`)
  console.error(`fetching ${wanted.join(' and ')} into ${folder} (about 900 MB, once) …`)
  // Removes a partial installation, which would look complete.
  rmSync(packages, { recursive: true, force: true })
  npmInstall(wanted)
  linkClaude()
  for (const agent of AGENTS.filter((one) => !isInstalled(one))) {
    stop(
      `${join(packages, '.bin', agent.program)} --version does not print ${JSON.stringify(agent.versionText)}: ` +
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
    // The checkout's .npmrc demands it of the product's own packages; the agents' programs bring their own Node.
    '--no-engine-strict',
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
  if (OFFLINE_ERRORS.test(stderr)) {
    stop(
      'npm cannot reach its registry. Connect to the network once; later runs need none. `npm test` needs none at all.',
    )
  }
  stop(`${stderr.trim()}\nnpm could not fetch the agents. Run the command again, or see npm’s message above.`)
}

/** Does what its install script would do: a hard link, which takes no more space. */
function linkClaude() {
  const script = join(packages, '@anthropic-ai', 'claude-code', 'install.cjs')
  const { status } = spawnSync(process.execPath, [script], { stdio: ['ignore', 2, 2] })
  if (status !== 0) stop('claude could not be installed; see its message above')
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
  process.exit(EXIT_UNAVAILABLE)
}

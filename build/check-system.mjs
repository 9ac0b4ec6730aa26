/**
 * Checks the machine's requirements before anything is built or started.
 *
 * Installs a missing system package when allowed (as root, with apt-get); otherwise names the exact command that
 * installs it and exits with 69. Changes nothing on a machine that has everything.
 */
import { spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const EXIT_UNAVAILABLE = 69
/** The first supported version of each major version, as `engines` in package.json says. */
const NODE_MIN = { 20: '20.11.0', 22: '22.0.0', 24: '24.0.0' }
/** The commands for a machine without a version manager and for one with nvm. */
const NODE_INSTALL =
  'Install 24 with: curl -fsSL https://deb.nodesource.com/setup_24.x | sudo -E bash - && sudo apt-get install -y nodejs (or: nvm install 24), then run npm ci --ignore-scripts again'

/** The git versions of core/git-version.ts, which is not built yet: for runs, and for merges in a local code host. */
const GIT_MIN = '2.29'
const GIT_FOR_MERGES = '2.38'
const GIT_UPDATE =
  'Debian 12 and Ubuntu 24.04 have a newer one. For an older Ubuntu: sudo add-apt-repository ppa:git-core/ppa && sudo apt-get update && sudo apt-get install git'

/** Debian package → a program that shows that it is installed. */
const PACKAGES = {
  git: { program: 'git' },
  bubblewrap: { program: 'bwrap', platform: 'linux' },
}
/**
 * The tests also need a compiler, for the library that simulates disk failures; the shells that commands are completed
 * in; a checker of manual pages; the server of SSH that workers are provisioned over; and a browser for the pages.
 */
const TEST_PACKAGES = {
  ...PACKAGES,
  'build-essential': { program: 'cc', platform: 'linux' },
  chromium: { program: 'chromium', platform: 'linux' },
  fish: { program: 'fish', platform: 'linux' },
  mandoc: { program: 'mandoc', platform: 'linux' },
  'openssh-server': { program: 'sshd', platform: 'linux' },
  zsh: { program: 'zsh', platform: 'linux' },
}
const FOLDERS = ['/usr/bin', '/usr/local/bin', '/usr/sbin', '/bin', '/opt/homebrew/bin']

/** Returns when all requirements are met; otherwise ends the process. */
export async function checkSystem({ forTests = false } = {}) {
  const packages = forTests ? TEST_PACKAGES : PACKAGES
  checkNode()
  install(missingPackages(packages), packages)
  checkGit()
  await checkBinaries()
}

export function missingPackages(packages = PACKAGES, folders = FOLDERS) {
  return Object.entries(packages)
    .filter(([, { platform }]) => platform === undefined || platform === process.platform)
    .filter(([, { program }]) => !folders.some((folder) => isExecutable(join(folder, program))))
    .map(([name]) => name)
}

function checkNode() {
  if (!isSupportedNode(process.versions.node)) {
    stop(
      `switchyard runs on Node 20.11 or newer of 20, on 22 and on 24, and this is ${process.version}. ${NODE_INSTALL}`,
    )
  }
}

/** The product is tested with these major versions, and needs functions of Node 20.11. */
export function isSupportedNode(version) {
  const oldest = NODE_MIN[version.split('.')[0]]
  return oldest !== undefined && !isOlder(version, oldest)
}

function checkGit() {
  const answer = spawnSync('git', ['version'], { encoding: 'utf8' }).stdout ?? ''
  const { problem, warning } = judgeGit(answer)
  if (warning !== undefined) console.error(warning)
  if (problem !== undefined) stop(problem)
}

/** An answer without a version is left to git's own errors. */
export function judgeGit(answer) {
  const version = /^git version (\d+(?:\.\d+)+)/.exec(answer)?.[1]
  if (version === undefined) return {}
  if (isOlder(version, GIT_MIN))
    return { problem: `switchyard needs git ${GIT_MIN} or newer, and this is ${version}. ${GIT_UPDATE}` }
  if (isOlder(version, GIT_FOR_MERGES))
    return {
      warning: `note: merging the example's pull requests needs git ${GIT_FOR_MERGES}, and this is ${version}. ${GIT_UPDATE}`,
    }
  return {}
}

function install(missing, packages) {
  if (missing.length === 0) return
  const names = missing.join(' ')
  if (process.platform !== 'linux') stop(`missing: ${names}. Install it with: brew install ${names}`)
  if (process.geteuid() !== 0 || !isExecutable('/usr/bin/apt-get')) {
    stop(`missing: ${names}. Install with: sudo apt-get install -y ${names}`)
  }
  console.error(`installing ${names} with apt-get …`)
  if (aptInstall(missing) && missingPackages(packages).length === 0) return
  stop(`apt-get could not install ${names}. Try: sudo apt-get update && sudo apt-get install -y ${names}`)
}

/**
 * Fetches the package lists when the first attempt fails, because they may be missing or old (in a new container).
 */
function aptInstall(names) {
  const install = ['install', '-y', '--no-install-recommends', ...names]
  return aptGet(install) || (aptGet(['update']) && aptGet(install))
}

function aptGet(args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  // apt-get's output goes to stderr, because stdout belongs to the caller.
  return spawnSync('/usr/bin/apt-get', args, { env, stdio: ['ignore', 2, 2] }).status === 0
}

/** The native listener is not among them: where it does not load, Node serves the ports. */
async function checkBinaries() {
  try {
    await import('lmdb')
  } catch (error) {
    // Its own package is missing, or the one of its binary.
    if (error?.code === 'ERR_MODULE_NOT_FOUND')
      stop('The packages are not installed yet. Run: npm ci --ignore-scripts')
    stop(
      `the database's binary does not load on ${process.platform}-${process.arch}: ${firstLine(error)}\nIf packages are missing, run: npm ci --ignore-scripts`,
    )
  }
}

export function isOlder(version, than) {
  return version.localeCompare(than, 'en', { numeric: true }) < 0
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function firstLine(error) {
  return String(error?.message ?? error).split('\n')[0]
}

function stop(message) {
  console.error(message)
  process.exit(EXIT_UNAVAILABLE)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await checkSystem()

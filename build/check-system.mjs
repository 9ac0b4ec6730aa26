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
const NODE_MIN = '20.11.0'
const NODE_MAJOR = 20
/** The commands for a machine without a version manager and for one with nvm. */
const NODE_INSTALL =
  'Install it with: curl -fsSL https://deb.nodesource.com/setup_20.x | sudo -E bash - && sudo apt-get install -y nodejs (or: nvm install 20), then run npm ci --ignore-scripts again'
/** The glibc version that the Node 20 binary of uWebSockets.js needs. */
const GLIBC_MIN = '2.27'

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
 * in; a checker of manual pages; and the server of SSH that workers are provisioned over.
 */
const TEST_PACKAGES = {
  ...PACKAGES,
  'build-essential': { program: 'cc', platform: 'linux' },
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
      `switchyard runs on Node ${NODE_MAJOR}, ${NODE_MIN} or newer, and this is ${process.version}. ${NODE_INSTALL}`,
    )
  }
}

/** The add-ons are built for one major version, and the product needs functions of Node 20.11. */
export function isSupportedNode(version) {
  return Number(version.split('.')[0]) === NODE_MAJOR && !isOlder(version, NODE_MIN)
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

async function checkBinaries() {
  const glibc = glibcVersion()
  if (glibc !== undefined && isOlder(glibc, GLIBC_MIN)) {
    stop(
      `the web server needs glibc ${GLIBC_MIN} or newer; this system has ${glibc}. Use a newer Linux (Debian 10, Ubuntu 20.04 or later).`,
    )
  }
  try {
    await import('uWebSockets.js')
  } catch (error) {
    stop(
      `the web server's binary does not load on ${process.platform}-${process.arch}: ${firstLine(error)}\nIf packages are missing, run: npm ci --ignore-scripts`,
    )
  }
}

function glibcVersion() {
  if (process.platform !== 'linux') return undefined
  return process.report.getReport().header.glibcVersionRuntime
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

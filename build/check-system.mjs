/**
 * What the machine must bring along, checked before anything is built or started.
 *
 * A missing system package is installed when we may (root, with apt-get); otherwise the exact command that installs it
 * is named and the exit code is 69. Nothing is changed on a machine where all is there.
 */
import { spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const UNAVAILABLE = 69
const NODE_MIN = '20.11.0'
const NODE_MAJOR = 20
/** What uWebSockets.js' binary for Node 20 was linked against. */
const GLIBC_MIN = '2.27'

/** Debian package → the program by which we see that it is there. */
const PACKAGES = {
  git: { program: 'git' },
  bubblewrap: { program: 'bwrap', platform: 'linux' },
}
/** What only the tests need: a compiler, for the library that makes a disk fail on purpose. */
const TEST_PACKAGES = {
  ...PACKAGES,
  'build-essential': { program: 'cc', platform: 'linux' },
}
const FOLDERS = ['/usr/bin', '/usr/local/bin', '/bin', '/opt/homebrew/bin']

/** Answers when everything is there; ends the process when it can't be. */
export async function checkSystem({ forTests = false } = {}) {
  const packages = forTests ? TEST_PACKAGES : PACKAGES
  checkNode()
  install(missingPackages(packages), packages)
  await checkBinaries()
}

export function missingPackages(packages = PACKAGES, folders = FOLDERS) {
  return Object.entries(packages)
    .filter(([, { platform }]) => platform === undefined || platform === process.platform)
    .filter(([, { program }]) => !folders.some((folder) => isExecutable(join(folder, program))))
    .map(([name]) => name)
}

function checkNode() {
  if (!isOurNode(process.versions.node)) {
    stop(
      `switchyard runs on Node ${NODE_MAJOR}, ${NODE_MIN} or newer; this is ${process.version}. Install it with: nvm install ${NODE_MAJOR} && nvm use ${NODE_MAJOR}`,
    )
  }
}

/** The add-ons are built for one major version; 20.11 brought what we use of Node itself. */
export function isOurNode(version) {
  return Number(version.split('.')[0]) === NODE_MAJOR && !isOlder(version, NODE_MIN)
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

/** The package lists may be missing or stale (a fresh container), so they are fetched when the first try fails. */
function aptInstall(names) {
  const install = ['install', '-y', '--no-install-recommends', ...names]
  return aptGet(install) || (aptGet(['update']) && aptGet(install))
}

function aptGet(args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  // Its chatter goes to stderr: stdout belongs to whoever called us.
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
  process.exit(UNAVAILABLE)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await checkSystem()

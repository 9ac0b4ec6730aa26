/**
 * `npm start`: switchyard on this machine, with nothing to sign up for.
 *
 * It keeps to its own data directory, `.data/` in the checkout, where the tracker is a folder of Markdown files and
 * the code host a folder of bare repositories. The configuration is written once and is the person's from then on.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { build, isBuilt, program } from './build.mjs'
import { root } from './bundle.mjs'
import { checkSystem } from './system.mjs'

const LISTENING_MS_MAX = 20_000
const LOOK_EVERY_MS = 50
const data = join(root, '.data')
const launchFile = join(data, 'launch.json')

await checkSystem()
if (!isBuilt()) await build()
// Only now: what others may run, packages and the program, is made as they are used to.
process.umask(0o077)
prepareData()
run()

function prepareData() {
  const [tickets, code] = [join(data, 'tickets'), join(data, 'code')]
  for (const folder of [data, tickets, code]) mkdirSync(folder, { recursive: true, mode: 0o700 })
  const config = join(data, 'config.json')
  if (existsSync(config)) return
  const first = { tracker: { driver: 'local', path: tickets }, codehost: { driver: 'local', path: code } }
  writeFileSync(config, `${JSON.stringify(first, undefined, 2)}\n`, { mode: 0o600 })
}

/**
 * The host gets a process group of its own: Ctrl-C then reaches it once, through us, and not a second time from the
 * terminal, which it could take for impatience.
 */
function run() {
  const args = [program, 'serve', '--data-dir', data, ...process.argv.slice(2)]
  const host = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit'], detached: true })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => host.kill(signal))
  host.on('error', (error) => {
    console.error(`cannot start ${program}: ${error.message}`)
    process.exit(70)
  })
  host.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]))
  void welcome(host)
}

async function welcome(host) {
  const until = performance.now() + LISTENING_MS_MAX
  while (host.exitCode === null && performance.now() < until) {
    const launch = readLaunch()
    if (launch?.pid === host.pid) return console.log(welcomeText(launch))
    await sleep(LOOK_EVERY_MS, undefined, { ref: false })
  }
}

/** Not there yet, half written, or left behind by an earlier host: all the same, look again. */
function readLaunch() {
  try {
    return JSON.parse(readFileSync(launchFile, 'utf8'))
  } catch {
    return undefined
  }
}

/** The token itself stays in its file: a terminal's scrollback is no place for it. */
function welcomeText({ url, fleetUrl, inspectorUrl }) {
  const token = `$(node -p 'JSON.parse(fs.readFileSync("${launchFile}")).token')`
  return [
    '',
    `switchyard listens on ${url}`,
    ...(fleetUrl === undefined ? [] : [`workers connect to   ${fleetUrl}`]),
    ...(inspectorUrl === undefined ? [] : [`the inspector is at  ${inspectorUrl}`]),
    `tickets: Markdown files in ${join(data, 'tickets')}; settings: ${join(data, 'config.json')}`,
    'look around, from another terminal:',
    `  curl ${url}/api/health`,
    `  curl -H "Authorization: Bearer ${token}" ${url}/api/config`,
    'stop with Ctrl-C',
    '',
  ].join('\n')
}

/**
 * Writes the code that V8 compiled for the commands and the programs of the finished bundle, so that they start without
 * compiling. Each runs once, with `keep-compiled-code.cjs`.
 *
 * The host starts in a folder of its own, listens on loopback, and ends once its local worker has registered. Where no
 * worker can run, the code of the worker is what V8 compiles while it is loaded.
 */
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from './bundle.mjs'

const KEEP_CODE = ['--require', join(root, 'build', 'keep-compiled-code.cjs')]
const NOWHERE = 'http://127.0.0.1:9'
/** Whether a host without work does nothing new after this log: its worker has registered, or there can be none. */
const isReady = (log) =>
  log.includes('registered with the host') ||
  (log.includes('cannot execute runs itself') && log.includes('switchyard is serving'))
/** For a busy machine; usually a second. A host that is stopped early keeps the code that it has compiled. */
const READY_MS_MAX = 60_000
const STOP_MS_MAX = 30_000
const COMMAND_MS_MAX = 60_000

/** @param program the launcher of the bundle */
export async function compilePrograms(program) {
  const folder = mkdtempSync(join(tmpdir(), 'switchyard-build-'))
  const env = { PATH: process.env.PATH, HOME: folder, SWITCHYARD_SANDBOX_DIR: join(folder, 'sandboxes') }
  try {
    // What a command without a host needs is most of what every command needs.
    compileCommands(program, [], { ...env, SWITCHYARD_URL: NOWHERE, SWITCHYARD_TOKEN: 'none' })
    // Without a host and a configuration `doctor` does most of what it does with them.
    spawnSync(process.execPath, [...KEEP_CODE, program, 'doctor', '--data-dir', join(folder, 'none')], {
      env,
      timeout: COMMAND_MS_MAX,
    })
    // Loads the worker and ends, for a machine whose host starts none.
    spawnSync(process.execPath, [...KEEP_CODE, program, 'worker', '--host', 'no-address'], {
      env,
      timeout: COMMAND_MS_MAX,
    })
    await compileHost(program, join(folder, 'host'), env)
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** A bundle is tried by one of its commands. */
function compileCommands(program, options, env) {
  for (const name of ['status', 'runs'])
    spawnSync(process.execPath, [...KEEP_CODE, program, name, '--json', ...options], {
      env,
      timeout: COMMAND_MS_MAX,
    })
}

async function compileHost(program, dataDir, env) {
  mkdirSync(dataDir, { mode: 0o700 })
  writeFileSync(join(dataDir, 'config.json'), '{ "server": { "port": 0 } }', { mode: 0o600 })
  // The host ends with its standard input, also when this build is killed.
  const host = spawn(
    process.execPath,
    [...KEEP_CODE, program, 'serve', '--data-dir', dataDir, '--end-with-stdin'],
    { env, stdio: 'pipe' },
  )
  const ended = new Promise((resolve) => host.on('close', resolve).on('error', resolve))
  host.stdin.on('error', () => {})
  let kill
  const stop = () => {
    if (kill !== undefined) return
    host.stdin.end()
    kill = setTimeout(() => host.kill('SIGKILL'), STOP_MS_MAX)
  }
  const timeout = setTimeout(stop, READY_MS_MAX)
  let log = ''
  for (const stream of [host.stdout, host.stderr])
    stream.setEncoding('utf8').on('data', (text) => {
      log += text
      if (!isReady(log) || kill !== undefined) return
      compileCommands(program, ['--data-dir', dataDir], env)
      stop()
    })
  await ended
  clearTimeout(timeout)
  clearTimeout(kill)
}

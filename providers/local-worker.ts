/**
 * createLocalWorker starts the worker daemon on the host's own machine: `switchyard worker` as a process group of its
 * own, with a data directory below the host's.
 *
 * The worker's standard input is a pipe from the host, so the worker ends whenever the host does. The worker's log lines
 * go to the host's log. The pairing token is passed in a file that only its owner can read, never as an argument or an
 * environment variable. Restarts are left to the local worker machine.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { createLineReader, TRUNCATED_LINE_BYTES_KEPT } from '../core/line-reader.ts'
import type { Cancel, Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'
import type {
  LocalWorkerExit,
  LocalWorkerLauncher,
  LocalWorkerOptions,
  LocalWorkerProcess,
  LocalWorkerSettings,
} from '../core/ports/machines.ts'
import { no, type Result, yes } from '../core/result.ts'
import { messageOf } from '../protocol/message-of.ts'
import { killGroup } from './run-program.ts'
import { workerEnvironment } from './worker-process.ts'

export interface LocalWorkerPorts {
  /** The command line of this program: node, its options, the script. */
  readonly program: readonly string[]
  /** The worker's data directory. */
  readonly dataDir: string
  /** The host's installation. A credential of another installation is worthless here. */
  readonly installation: string
  /** The host's address, read at each start; undefined until the host listens. */
  readonly url: () => string | undefined
  readonly name: string
  /** Folders and hosts that git may use besides those of the configuration, see `switchyard worker`. */
  readonly localRepos: readonly string[]
  readonly privateCodeHosts: readonly string[]
  readonly takeOverFlags?: readonly string[]
  readonly logLevel: string
  /** Whether who inspects the host sees the worker's actors too. */
  readonly sharesActors: boolean
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Descriptors of this process that a child would inherit and must not. */
  readonly inheritable: () => readonly number[]
  readonly clock: Clock
  readonly log: Log
}

/** How long output is read after the exit: processes that the worker left running may hold the pipe open for ever. */
const OUTPUT_DRAIN_MS_MAX = 500
export function createLocalWorker(ports: LocalWorkerPorts): LocalWorkerLauncher {
  return {
    async start(options): Promise<Result<LocalWorkerProcess>> {
      const url = ports.url()
      if (url === undefined) return no('unavailable', 'the host does not listen yet')
      try {
        const workerId = prepareCredential(ports, options)
        return yes(new SpawnedWorker(ports, await spawnWorker(ports, options, url, workerId), workerId))
      } catch (error) {
        return no('failed', messageOf(error))
      }
    },
  }
}

// ---- starting ------------------------------------------------------------------------------------------------------

async function spawnWorker(
  ports: LocalWorkerPorts,
  options: LocalWorkerOptions,
  url: string,
  workerId: string | undefined,
): Promise<ChildProcess> {
  const { dataDir, environment, inheritable } = ports
  const [program = '', ...args] = [...ports.program, ...argumentsFor(ports, options, url, workerId)]
  const devNull = openSync('/dev/null', 'r+')
  try {
    const child = spawn(program, args, {
      stdio: ['pipe', 'pipe', 'pipe', ...stdioCovering(inheritable(), devNull)],
      detached: true,
      cwd: dataDir,
      env: workerEnvironment(environment),
    })
    await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject))
    return child
  } finally {
    closeSync(devNull)
  }
}

/** Returns the worker that the stored credential is for, or else makes a token. */
function prepareCredential({ dataDir, installation }: LocalWorkerPorts, options: LocalWorkerOptions) {
  const [tokenFile, credentialFile] = [join(dataDir, 'token'), join(dataDir, 'credential.json')]
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  rmSync(tokenFile, { force: true })
  if (options.enrollAgain) rmSync(credentialFile, { force: true })
  const workerId = findCredential(installation, credentialFile)
  if (workerId === undefined)
    writeFileSync(tokenFile, `${options.createPairingToken()}\n`, { flag: 'wx', mode: 0o600 })
  return workerId
}

function argumentsFor(
  ports: LocalWorkerPorts,
  options: LocalWorkerOptions,
  url: string,
  workerId: string | undefined,
): string[] {
  const { dataDir, name, logLevel, sharesActors, takeOverFlags = [] } = ports
  return [
    ...['worker', '--host', url, '--data-dir', dataDir, `--name=${name}`],
    ...['--concurrency', String(options.concurrency), '--end-with-stdin'],
    ...['--log-level', logLevel, '--log-format', 'json'],
    ...(workerId === undefined ? ['--token-file', join(dataDir, 'token')] : []),
    ...(sharesActors ? ['--share-actors'] : []),
    ...takeOverFlags,
    ...reachArguments(ports, options),
  ]
}

/** A relative path starts at the host's working directory, which is not the worker's. */
export function reachArguments(
  ports: Pick<LocalWorkerPorts, 'localRepos' | 'privateCodeHosts'>,
  options: LocalWorkerSettings,
): string[] {
  const folders = [
    ...ports.localRepos,
    ...(options.codeHostFolder === null ? [] : [resolve(options.codeHostFolder)]),
  ]
  const hosts = [
    ...ports.privateCodeHosts,
    ...(options.codeHostOrigin === null ? [] : [options.codeHostOrigin]),
  ]
  return [
    ...folders.map((folder) => `--local-repos=${folder}`),
    ...hosts.map((host) => `--private-code-host=${host}`),
  ]
}

/** Replaces each inheritable descriptor from 3 upwards with `devNull`, and leaves the numbers between unused. */
function stdioCovering(inherited: readonly number[], devNull: number): (number | 'ignore')[] {
  const highest = Math.max(2, ...inherited)
  const inheritedSet = new Set(inherited)
  return Array.from({ length: highest - 2 }, (_, index) => (inheritedSet.has(index + 3) ? devNull : 'ignore'))
}

/** Returns the worker's id, or ''. A file that names no installation was stored by an earlier version: its worker decides. */
function findCredential(installation: string, file: string): string | undefined {
  if (statSync(file, { throwIfNoEntry: false }) === undefined) return undefined
  const text = readFileSync(file, 'utf8')
  const valueAt = (key: string) => new RegExp(`"${key}"\\s*:\\s*"([^"]*)"`).exec(text)?.[1]
  return [undefined, installation].includes(valueAt('installation')) ? (valueAt('workerId') ?? '') : undefined
}

// ---- running -------------------------------------------------------------------------------------------------------

class SpawnedWorker implements LocalWorkerProcess {
  readonly ended: Promise<LocalWorkerExit>
  readonly workerId?: string
  readonly #child: ChildProcess

  constructor({ clock, log }: LocalWorkerPorts, child: ChildProcess, workerId: string | undefined) {
    this.#child = child
    if (workerId !== undefined) this.workerId = workerId
    // Writing to a worker that has ended is expected.
    child.stdin?.on('error', () => {})
    for (const stream of [child.stdout, child.stderr]) if (stream !== null) forwardLog(stream, log)
    this.ended = exitOf(child, clock)
    log.info({ workerPid: child.pid }, 'the local worker was started')
  }

  drain(): void {
    this.#child.kill('SIGTERM')
  }

  stop(): void {
    this.#child.stdin?.end()
  }

  kill(): void {
    const { exitCode, signalCode } = this.#child
    // Kill the whole group, but only before the exit: later its number may belong to another process.
    if (exitCode === null && signalCode === null) killGroup(this.#child)
  }
}

function exitOf(child: ChildProcess, clock: Clock): Promise<LocalWorkerExit> {
  return new Promise((resolve) => {
    let cancelDrain: Cancel = () => {}
    const finish = () => {
      cancelDrain()
      const { exitCode, signalCode } = child
      resolve({
        ...(exitCode === null ? {} : { code: exitCode }),
        ...(signalCode === null ? {} : { signal: signalCode }),
      })
      for (const stream of child.stdio) stream?.destroy()
    }
    child.once('close', finish)
    child.once('exit', () => {
      cancelDrain = clock.after(OUTPUT_DRAIN_MS_MAX, finish)
    })
  })
}

// ---- its log -------------------------------------------------------------------------------------------------------

function forwardLog(stream: Readable, log: Log): void {
  const reader = createLineReader({ bytesMax: TRUNCATED_LINE_BYTES_KEPT })
  const forward = (lines: readonly string[]) => {
    for (const line of lines) if (line !== '') logLine(log, line)
  }
  stream.on('error', () => {})
  stream.on('data', (bytes: Buffer) => forward(reader.push(bytes)))
  stream.on('end', () => forward(reader.flush()))
}

/** Forwards a log line at its own level, as numbered by this program's logger. */
function logLine(log: Log, line: string): void {
  const { level, msg, time: _time, pid, ...fields } = parseLogLine(line)
  const message = `local worker: ${typeof msg === 'string' ? msg : line}`
  const logFields = { ...fields, ...(pid === undefined ? {} : { workerPid: pid }) }
  if (typeof level !== 'number' || level === 40) log.warn(logFields, message)
  else if (level > 40) log.error(logFields, message)
  else if (level === 30) log.info(logFields, message)
  else log.debug(logFields, message)
}

function parseLogLine(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
  } catch {
    return {}
  }
}

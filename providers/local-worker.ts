/**
 * The worker daemon that a host runs on its own machine: `switchyard worker` in a process and a process group of its
 * own, with a data directory below the host's.
 *
 * It holds the other end of a pipe to us as its standard input, so it ends when we do, however that happens. What it
 * logs comes into our log. Its pairing token reaches it as a file for its owner alone, never as an argument or through
 * the environment.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { isNativeError } from 'node:util/types'
import type {
  Cancel,
  Clock,
  LocalWorkerExit,
  LocalWorkerOptions,
  LocalWorkerPort,
  LocalWorkerProcess,
  Log,
} from '../core/ports.ts'
import { no, type Result, yes } from '../core/result.ts'

export interface LocalWorkerParts {
  /** What starts this very program: node, its switches, the script. */
  readonly program: readonly string[]
  /** The worker's own. */
  readonly dataDir: string
  /** Where the host listens; asked at each start. */
  readonly url: () => string | undefined
  readonly name: string
  readonly logLevel: string
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Descriptors of this process that a child would get, and must not. */
  readonly inheritable: () => readonly number[]
  readonly clock: Clock
  readonly log: Log
}

/** Longer lines are cut: nothing that our own program logs is as long. */
const LINE_CHARS_MAX = 64 * 1024
/** What it left running may hold its output open for ever. */
const LAST_LINES_MS_MAX = 500
/**
 * Its own, not the host's; but for where sandboxes lie, which is this machine's affair. Nor keys and tokens that somebody
 * has in his environment for other programs, or for the host to find: a worker gets what it needs with each job.
 */
const NOT_PASSED_ON = /^SWITCHYARD_(?!SANDBOX_DIR$)|_(TOKEN|API_?KEY|SECRET|PASSWORD)$/i

export function localWorker(parts: LocalWorkerParts): LocalWorkerPort {
  return {
    async start(order): Promise<Result<LocalWorkerProcess>> {
      const url = parts.url()
      if (url === undefined) return no('unavailable', 'the host does not listen yet')
      try {
        return yes(new OwnProcess(parts, await started(parts, order, url)))
      } catch (error) {
        return no('failed', isNativeError(error) ? error.message : String(error))
      }
    },
  }
}

// ---- starting ------------------------------------------------------------------------------------------------------

async function started(
  parts: LocalWorkerParts,
  order: LocalWorkerOptions,
  url: string,
): Promise<ChildProcess> {
  const { dataDir, environment, inheritable } = parts
  const [program = '', ...args] = [...parts.program, ...argumentsFor(parts, order, url)]
  const nothing = openSync('/dev/null', 'r+')
  try {
    const child = spawn(program, args, {
      stdio: ['pipe', 'pipe', 'pipe', ...covers(inheritable(), nothing)],
      detached: true,
      cwd: dataDir,
      env: Object.fromEntries(Object.entries(environment).filter(([name]) => !NOT_PASSED_ON.test(name))),
    })
    await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject))
    return child
  } finally {
    closeSync(nothing)
  }
}

function argumentsFor(parts: LocalWorkerParts, order: LocalWorkerOptions, url: string): string[] {
  const { dataDir, name, logLevel } = parts
  const [tokenFile, credentialFile] = [join(dataDir, 'token'), join(dataDir, 'credential.json')]
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  rmSync(tokenFile, { force: true })
  if (order.anew) rmSync(credentialFile, { force: true })
  const invited = !isThere(credentialFile)
  if (invited) writeFileSync(tokenFile, `${order.invite()}\n`, { flag: 'wx', mode: 0o600 })
  return [
    ...['worker', '--host', url, '--data-dir', dataDir, `--name=${name}`],
    ...['--concurrency', String(order.concurrency), '--end-with-stdin'],
    ...['--log-level', logLevel, '--log-format', 'json'],
    ...(invited ? ['--token-file', tokenFile] : []),
  ]
}

/** Laid over what would be inherited; the numbers between are left as they are. */
function covers(inherited: readonly number[], nothing: number): (number | 'ignore')[] {
  const highest = Math.max(2, ...inherited)
  const taken = new Set(inherited)
  return Array.from({ length: highest - 2 }, (_, at) => (taken.has(at + 3) ? nothing : 'ignore'))
}

function isThere(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false }) !== undefined
}

// ---- running -------------------------------------------------------------------------------------------------------

class OwnProcess implements LocalWorkerProcess {
  readonly ended: Promise<LocalWorkerExit>
  readonly #child: ChildProcess

  constructor({ clock, log }: LocalWorkerParts, child: ChildProcess) {
    this.#child = child
    // Writing to one that is gone is no accident.
    child.stdin?.on('error', () => {})
    for (const stream of [child.stdout, child.stderr]) if (stream !== null) passOn(stream, log)
    this.ended = ending(child, clock)
    log.info({ workerPid: child.pid }, 'the local worker was started')
  }

  drain(): void {
    this.#child.kill('SIGTERM')
  }

  stop(): void {
    this.#child.stdin?.end()
  }

  kill(): void {
    const { pid, exitCode, signalCode } = this.#child
    // The whole group, but never somebody else's that got the number later.
    if (pid === undefined || exitCode !== null || signalCode !== null) return
    try {
      process.kill(-pid, 'SIGKILL')
    } catch {
      // Gone in this very moment.
    }
  }
}

function ending(child: ChildProcess, clock: Clock): Promise<LocalWorkerExit> {
  return new Promise((resolve) => {
    let late: Cancel = () => {}
    const over = () => {
      late()
      const { exitCode, signalCode } = child
      resolve({
        ...(exitCode === null ? {} : { code: exitCode }),
        ...(signalCode === null ? {} : { signal: signalCode }),
      })
      for (const stream of child.stdio) stream?.destroy()
    }
    child.once('close', over)
    child.once('exit', () => {
      late = clock.after(LAST_LINES_MS_MAX, over)
    })
  })
}

// ---- its log -------------------------------------------------------------------------------------------------------

function passOn(stream: Readable, log: Log): void {
  let rest = ''
  stream.setEncoding('utf8')
  stream.on('error', () => {})
  stream.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = (lines.pop() ?? '').slice(0, LINE_CHARS_MAX)
    for (const line of lines) if (line !== '') say(log, line.slice(0, LINE_CHARS_MAX))
  })
  stream.on('end', () => {
    if (rest !== '') say(log, rest)
  })
}

/** Levels as the logger of our own program numbers them. */
function say(log: Log, line: string): void {
  const { level, msg, time: _time, pid, ...fields } = fieldsIn(line)
  const message = `local worker: ${typeof msg === 'string' ? msg : line}`
  const what = { ...fields, ...(pid === undefined ? {} : { workerPid: pid }) }
  if (typeof level !== 'number' || level === 40) log.warn(what, message)
  else if (level > 40) log.error(what, message)
  else if (level === 30) log.info(what, message)
  else log.debug(what, message)
}

function fieldsIn(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
  } catch {
    return {}
  }
}

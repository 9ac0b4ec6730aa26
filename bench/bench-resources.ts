/**
 * BenchResources starts processes and creates folders, and surely ends and removes them.
 *
 * Folders are below node_modules/.cache, because the system's folder for temporary files may be in memory, where a
 * sync costs nothing. Processes are ended by their ids, also when the bench itself is ended.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'

const STOP_MS_MAX = 8_000
const ANSWER_MS_MAX = 30_000
/** Length of a child's error output that is kept for error messages. */
const STDERR_CHARS_MAX = 4_000

export interface BenchProcess {
  readonly pid: number
  /** Reads the next line of its output; rejects when the process ends first, or when the line takes too long. */
  readLine(msMax?: number): Promise<string>
  /** Writes a line to its input. */
  writeLine(text: string): void
  /** Asks the process to end, and kills it if it does not. */
  stop(): Promise<void>
  /** Resolves to the exit code. */
  readonly ended: Promise<number>
}

export class BenchResources {
  /** The checkout, which contains `bench/`. */
  readonly root = dirname(dirname(process.argv[1] ?? ''))
  readonly cache = join(this.root, 'node_modules', '.cache', 'switchyard')
  readonly #processes = new Set<ChildProcess>()
  readonly #folders = new Set<string>()

  constructor() {
    mkdirSync(this.cache, { recursive: true })
    process.on('exit', () => this.#cleanUp())
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(130))
  }

  createFolder(name: string): string {
    const path = mkdtempSync(join(this.cache, `bench-${name}-`))
    this.#folders.add(path)
    return path
  }

  removeFolder(path: string): void {
    rmSync(path, { recursive: true, force: true })
    this.#folders.delete(path)
  }

  /** Runs a TypeScript file of the checkout in its own process. */
  startScript(file: string, ...args: readonly string[]): BenchProcess {
    return this.startScriptWith({}, file, ...args)
  }

  startScriptWith(env: NodeJS.ProcessEnv, file: string, ...args: readonly string[]): BenchProcess {
    const script = [join(this.root, 'build', 'run.mjs'), join(this.root, file)]
    return this.start(process.execPath, [...script, ...args], { ...process.env, ...env })
  }

  start(command: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): BenchProcess {
    const child = spawn(command, [...args], { cwd: this.root, env, stdio: ['pipe', 'pipe', 'pipe'] })
    this.#processes.add(child)
    return wrapProcess(child, `${command} ${args.join(' ')}`, () => this.#processes.delete(child))
  }

  #cleanUp(): void {
    for (const child of this.#processes) child.kill('SIGKILL')
    for (const path of this.#folders) rmSync(path, { recursive: true, force: true })
  }
}

function wrapProcess(child: ChildProcess, description: string, onExit: () => void): BenchProcess {
  const { stdin, stdout, stderr, pid } = child
  if (stdin === null || stdout === null || stderr === null || pid === undefined) {
    throw new Error(`cannot start ${description}`)
  }
  let errorOutput = ''
  stderr.setEncoding('utf8').on('data', (text: string) => {
    errorOutput = (errorOutput + text).slice(-STDERR_CHARS_MAX)
  })
  // A write to a process that ended fails; `ended` reports that end.
  stdin.on('error', () => {})
  const ended = new Promise<number>((resolve) => {
    child.once('close', (code, signal) => {
      onExit()
      resolve(code ?? (signal === null ? 0 : 128))
    })
  })
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]()
  return {
    pid,
    ended,
    readLine: async (msMax = ANSWER_MS_MAX) => {
      const timeout = new AbortController()
      const timedOut = delay(msMax, timeout.signal).then(() => {
        throw new Error(`no answer from ${description}: ${errorOutput}`)
      })
      const line = await Promise.race([lines.next(), timedOut]).finally(() => timeout.abort())
      if (line.done === true) throw new Error(`${description} ended: ${errorOutput}`)
      return line.value
    },
    writeLine: (text) => void stdin.write(`${text}\n`),
    stop: async () => {
      child.kill('SIGTERM')
      const killTimer = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX)
      await ended
      clearTimeout(killTimer)
    },
  }
}

/** Never resolves after `signal` aborted. */
function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => clearTimeout(timer))
  })
}

/** Waits until a command has ended; rejects when its exit code is not 0. */
export async function waitForSuccess(child: BenchProcess, description: string): Promise<void> {
  const code = await child.ended
  if (code !== 0) throw new Error(`${description} ended with ${code}`)
}

/**
 * startProgram runs a program of this machine: without a shell, in a given folder, with only the given environment.
 *
 * Time and captured output are limited. When the program ends, its whole process group is killed.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import type { Readable } from 'node:stream'
import type { Cancel, Clock } from '../core/ports/clock.ts'
import { codeOf } from '../protocol/message-of.ts'

const PROGRAM_OUTPUT_BYTES_MAX = 1024 * 1024

export type ProgramEnvironment = Readonly<Record<string, string | undefined>>

export interface ProgramOptions {
  /** An absolute path. */
  readonly program: string
  readonly args: readonly string[]
  readonly folder: string
  readonly environment: ProgramEnvironment
  readonly msMax: number
  /** Descriptors of this process that a child would inherit and must not. */
  readonly inheritable?: () => readonly number[]
}

export type ProgramResult =
  /** `code` is absent when a signal ended it. */
  | { readonly is: 'ended'; readonly code?: number; readonly out: string; readonly err: string }
  | { readonly is: 'late' }
  | { readonly is: 'unstartable'; readonly reason: string }

export interface RunningProgram {
  readonly ended: Promise<ProgramResult>
  /** The standard output so far. */
  outputSoFar(): string
  kill(): void
}

/** Finds an executable on PATH. Relative folders depend on the working directory and are skipped. */
export async function programOnPath(program: string, path: string | undefined): Promise<string | undefined> {
  for (const folder of (path ?? '').split(':').filter(isAbsolute)) {
    const file = join(folder, program)
    if (await isProgram(file)) return file
  }
  return undefined
}

async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK)
    return (await stat(file)).isFile()
  } catch {
    return false
  }
}

/** The variables with which a person's program finds its files and the network. */
const PASSED_VARIABLES =
  /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_[A-Z]+|TZ|TMPDIR|XDG_[A-Z_]+|SSL_CERT_FILE|SSL_CERT_DIR|NODE_EXTRA_CA_CERTS|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|all_proxy|ALL_PROXY)$/

/** @param additional further variables that this program may read */
export function environmentFor(environment: ProgramEnvironment, additional: RegExp): Record<string, string> {
  const entries = Object.entries(environment).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && (PASSED_VARIABLES.test(entry[0]) || additional.test(entry[0])),
  )
  return Object.fromEntries(entries)
}

export function startProgram(options: ProgramOptions, clock: Pick<Clock, 'after'>): RunningProgram {
  const out = new OutputBuffer()
  const err = new OutputBuffer()
  let child: ChildProcess
  try {
    child = spawnProgram(options)
  } catch (error) {
    return { ended: Promise.resolve(unstartableResult(error)), outputSoFar: () => '', kill: () => {} }
  }
  out.listen(child.stdout)
  err.listen(child.stderr)
  const ended = new Promise<ProgramResult>((resolve) => {
    let isFinished = false
    let cancelDrain: Cancel = () => {}
    const cancelTimeout = clock.after(options.msMax, () => finish({ is: 'late' }))
    const finish = (result: ProgramResult): void => {
      if (isFinished) return
      // Kill only once: later the number may belong to another process.
      isFinished = true
      cancelTimeout()
      cancelDrain()
      killGroup(child)
      for (const stream of [child.stdout, child.stderr]) stream?.destroy()
      resolve(result)
    }
    child.once('error', (error) => finish(unstartableResult(error)))
    child.once('close', (code) => finish(endedResult(code, out, err)))
    // Processes that the program left running may hold its output open for ever.
    child.once('exit', (code) => {
      cancelDrain = clock.after(OUTPUT_DRAIN_MS, () => finish(endedResult(code, out, err)))
    })
  })
  return {
    ended,
    outputSoFar: () => out.text(),
    kill: () => {
      if (child.exitCode === null && child.signalCode === null) killGroup(child)
    },
  }
}

const OUTPUT_DRAIN_MS = 500

function endedResult(code: number | null, out: OutputBuffer, err: OutputBuffer): ProgramResult {
  return { is: 'ended', ...(code === null ? {} : { code }), out: out.text(), err: err.text() }
}

function spawnProgram({ program, args, folder, environment, inheritable }: ProgramOptions): ChildProcess {
  const devNull = openSync('/dev/null', 'r+')
  try {
    return spawn(program, [...args], {
      cwd: folder,
      env: { ...environment },
      // A process group of its own can be killed as a whole, and has no terminal to ask questions on.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', ...stdioCovering(inheritable?.() ?? [], devNull)],
    })
  } finally {
    closeSync(devNull)
  }
}

/** Replaces each inheritable descriptor from 3 upwards with `devNull`, and leaves the numbers between unused. */
function stdioCovering(inherited: readonly number[], devNull: number): (number | 'ignore')[] {
  const inheritedSet = new Set(inherited)
  const count = Math.max(2, ...inherited) - 2
  return Array.from({ length: count }, (_, index) => (inheritedSet.has(index + 3) ? devNull : 'ignore'))
}

export function killGroup({ pid }: ChildProcess, signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // The whole group has ended already.
  }
}

const unstartableResult = (error: unknown): ProgramResult => ({
  is: 'unstartable',
  reason: String(codeOf(error) ?? 'no code'),
})

/** Keeps the first bytes of an output stream; the rest is read and dropped. */
class OutputBuffer {
  readonly #chunks: Buffer[] = []
  #bytes = 0

  listen(stream: Readable | null): void {
    stream?.on('error', () => {})
    stream?.on('data', (chunk: Buffer) => {
      const bytesLeft = PROGRAM_OUTPUT_BYTES_MAX - this.#bytes
      if (bytesLeft <= 0) return
      this.#bytes += chunk.length
      this.#chunks.push(chunk.subarray(0, bytesLeft))
    })
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString('utf8')
  }
}

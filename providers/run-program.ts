/**
 * Asking a program of this machine: started without a shell, in a folder of the caller's choice, with no environment
 * but what it is handed, bounded in time and in what it may say, and gone afterwards with all that it started.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import type { Readable } from 'node:stream'
import type { Cancel, Clock } from '../core/ports.ts'
import { PROGRAM_OUTPUT_BYTES_MAX } from '../protocol/limits.ts'

export type Environment = Readonly<Record<string, string | undefined>>

export interface ProgramOptions {
  /** An absolute path. */
  readonly program: string
  readonly args: readonly string[]
  readonly folder: string
  readonly environment: Environment
  readonly msMax: number
  /** Descriptors of this process that a child would get, and must not. */
  readonly inheritable?: () => readonly number[]
}

export type ProgramResult =
  /** `code` is absent when a signal ended it. */
  | { readonly is: 'ended'; readonly code?: number; readonly out: string; readonly err: string }
  | { readonly is: 'late' }
  | { readonly is: 'unstartable'; readonly reason: string }

export interface RunningProgram {
  readonly ended: Promise<ProgramResult>
  /** What it has said on standard output so far. */
  outputSoFar(): string
  kill(): void
}

/** Folders that are named relatively depend on where this process stands, and don't count. */
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

/** What of our environment a program of somebody's own needs to find its files and its way into the network. */
const PASSED_VARIABLES =
  /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_[A-Z]+|TZ|TMPDIR|XDG_[A-Z_]+|SSL_CERT_FILE|SSL_CERT_DIR|NODE_EXTRA_CA_CERTS|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|all_proxy|ALL_PROXY)$/

/** @param additional further names that this program is to have */
export function environmentFor(environment: Environment, additional: RegExp): Record<string, string> {
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
      // Once: later its number may be somebody else's.
      isFinished = true
      cancelTimeout()
      cancelDrain()
      killGroup(child)
      for (const stream of [child.stdout, child.stderr]) stream?.destroy()
      resolve(result)
    }
    child.once('error', (error) => finish(unstartableResult(error)))
    child.once('close', (code) => finish(endedResult(code, out, err)))
    // What it left running may hold its output open for ever.
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
      // A group of its own, so that what it starts can be ended with it, and no terminal is asked anything.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', ...stdioCovering(inheritable?.() ?? [], devNull)],
    })
  } finally {
    closeSync(devNull)
  }
}

/** Laid over what would be inherited; the numbers between are left as they are. */
function stdioCovering(inherited: readonly number[], devNull: number): (number | 'ignore')[] {
  const inheritedSet = new Set(inherited)
  const count = Math.max(2, ...inherited) - 2
  return Array.from({ length: count }, (_, index) => (inheritedSet.has(index + 3) ? devNull : 'ignore'))
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // The whole group is gone.
  }
}

function unstartableResult(error: unknown): ProgramResult {
  const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'no code'
  return { is: 'unstartable', reason: code }
}

/** The first part of what is said; the rest is read and forgotten. */
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

/**
 * Reads how bubblewrap ended: its exit code, its signal, and the beginning of its error output.
 */
import type { ChildProcess } from 'node:child_process'
import { constants } from 'node:os'
import { type Readable, Transform } from 'node:stream'
import type { SandboxEnd } from '../sandbox-process.ts'

const STDERR_CHARS_MAX = 4_096

/** By shell convention, a program ended by signal N exits with 128 + N. */
const SIGNAL_EXIT_CODE_BASE = 128
/** Signals that end programs. Programs use other codes above 128 themselves: git exits with 129 on wrong usage. */
const COMMON_FATAL_SIGNALS = [
  'SIGINT',
  'SIGILL',
  'SIGTRAP',
  'SIGABRT',
  'SIGBUS',
  'SIGFPE',
  'SIGKILL',
  'SIGSEGV',
  'SIGTERM',
] as const
const RARE_FATAL_SIGNALS = ['SIGXCPU', 'SIGXFSZ', 'SIGSYS'] as const

export interface ProcessExit {
  readonly code?: number
  readonly signal?: string
  /** The error when the process did not even start. */
  readonly failure?: string
}

export function awaitExit(child: ChildProcess): Promise<ProcessExit> {
  return new Promise((resolve) => {
    child.on('error', (error) => resolve({ failure: error.message }))
    child.on('exit', (code, signalName) =>
      resolve(signalName === null ? { code: code ?? -1 } : { signal: signalName }),
    )
  })
}

export function endFromExitCode(code: number): SandboxEnd {
  const signalName = [...COMMON_FATAL_SIGNALS, ...RARE_FATAL_SIGNALS].find(
    (name) => constants.signals[name] === code - SIGNAL_EXIT_CODE_BASE,
  )
  return signalName === undefined ? { code } : { signal: signalName }
}

/** Forwards the stream and keeps its beginning, which holds bubblewrap's message when it fails. */
export function keepHead(stream: Readable): [Readable, () => string] {
  let head = ''
  const passing = new Transform({
    transform: (chunk: Buffer, _, done) => {
      if (head.length < STDERR_CHARS_MAX) head = (head + chunk).slice(0, STDERR_CHARS_MAX)
      done(null, chunk)
    },
  })
  stream.on('error', () => passing.end()).pipe(passing)
  return [passing, () => head]
}

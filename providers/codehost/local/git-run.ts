/**
 * Runs git on the bare repositories of the local code host.
 *
 * Anyone who may push decides what a repository contains. Git therefore reads no configuration but the repository's
 * own, runs no hook, no configured program and no network transport, and has limits for time, memory and output. Git is
 * killed with its process group on timeout and when this process ends. Only ref updates may finish, because their lock
 * files would otherwise remain.
 *
 * `--git-dir` names the folder, so git skips its search and its ownership check.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { isNativeError } from 'node:util/types'
import type { Cancel, Clock } from '../../../core/ports/clock.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { Slots } from '../../../core/slots.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { killGroup } from '../../run-program.ts'

export interface GitCommand {
  readonly args: readonly string[]
  readonly input?: string
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Output limit; more output stops git. */
  readonly bytesMax?: number
  /** Never killed: git would leave lock files behind. A timeout sends SIGTERM. */
  readonly mustFinish?: boolean
}

export interface GitExit {
  /** Absent when git was stopped at its output limit. */
  readonly code?: number
  /** Output up to the limit. */
  readonly output: Buffer
  /** The end of standard error. */
  readonly errorText: string
}

export type RunGit = (order: GitCommand) => Promise<Result<GitExit>>

const GIT_MS_MAX = 20_000
const GIT_PROCESSES_MAX = 8
const OUTPUT_BYTES_MAX = 1024 * 1024
const ERROR_TEXT_CHARS_MAX = 2_000
/** `ulimit -v` also counts mapped files, so the settings below limit those. In KiB, the unit of the shell. */
const MEMORY_KIB_MAX = 4 * 1024 * 1024
const WATCHDOG_FD = 3
const PATH = '/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin'

const SETTINGS = [
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.attributesFile=/dev/null',
  // Larger files count as binary: comparing them would use up the time limit.
  'core.bigFileThreshold=16m',
  'core.packedGitLimit=1g',
  'core.packedGitWindowSize=64m',
  'gc.auto=0',
  'i18n.commitEncoding=UTF-8',
  'i18n.logOutputEncoding=UTF-8',
  'log.showSignature=false',
  'maintenance.auto=false',
  'merge.default=text',
  'merge.renormalize=false',
  'pack.threads=2',
].flatMap((setting) => ['-c', setting])

const ENVIRONMENT = {
  PATH,
  LC_ALL: 'C',
  HOME: '/nonexistent',
  GIT_ALLOW_PROTOCOL: 'none',
  GIT_ATTR_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_OPTIONAL_LOCKS: '0',
  GIT_TERMINAL_PROMPT: '0',
}

/** Kills the process group when the pipe closes, for whatever reason. */
const WATCHDOG = `(read -r _ <&${WATCHDOG_FD}; kill -s KILL 0) </dev/null >/dev/null 2>&1 &`

const buildScript = (...watchdog: readonly string[]): string =>
  [
    `ulimit -v ${MEMORY_KIB_MAX} 2>/dev/null`,
    'ulimit -c 0 2>/dev/null',
    ...watchdog,
    `exec git "$@" ${WATCHDOG_FD}<&-`,
  ].join('\n')
const WATCHED_SCRIPT = buildScript(WATCHDOG)
const UNWATCHED_SCRIPT = buildScript()

/** A code host shares one runner among its repositories, because they share the machine. */
export function createGitRunner(clock: Pick<Clock, 'after'>): (folder: string) => RunGit {
  const slots = new Slots(GIT_PROCESSES_MAX)
  return (folder) => (command) => slots.run(() => runProcess(folder, command, clock))
}

/** Answers the complete output; refuses any exit code but 0. */
export async function runGitForText(run: RunGit, command: GitCommand): Promise<Result<string>> {
  const done = await run(command)
  if (!done.ok) return done
  if (done.value.code === 0) return yes(done.value.output.toString('utf8'))
  return gitFailure(command, done.value)
}

export function gitFailure({ args }: GitCommand, { code, errorText }: GitExit) {
  if (code === undefined) return no('failed', `git ${args[0]} exceeded its output limit and was stopped`)
  return no('failed', `git ${args[0]} failed: ${errorText || `exit code ${code}`}`)
}

// ---- one process ----------------------------------------------------------------------------------------------------

async function runProcess(
  folder: string,
  command: GitCommand,
  clock: Pick<Clock, 'after'>,
): Promise<Result<GitExit>> {
  try {
    return await waitForExit(startProcess(folder, command), command, clock)
  } catch (error) {
    return no(
      'failed',
      `git could not be started: ${isNativeError(error) ? error.message : 'no reason given'}`,
    )
  }
}

function startProcess(folder: string, { args, env, mustFinish = false }: GitCommand): ChildProcess {
  const child = spawn(
    '/bin/sh',
    [
      '-c',
      mustFinish ? UNWATCHED_SCRIPT : WATCHED_SCRIPT,
      'git',
      ...SETTINGS,
      `--git-dir=${folder}`,
      ...args,
    ],
    {
      env: { ...ENVIRONMENT, ...env },
      cwd: '/',
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    },
  )
  // Without free descriptors Node creates no pipes, and emits the error a moment later.
  child.on('error', () => {})
  if (child.stdio === undefined) throw new Error('too many files are open')
  return child
}

async function waitForExit(
  child: ChildProcess,
  command: GitCommand,
  clock: Pick<Clock, 'after'>,
): Promise<Result<GitExit>> {
  const { input = '', bytesMax = OUTPUT_BYTES_MAX } = command
  let isTimedOut = false
  const cancelTimeout: Cancel = clock.after(GIT_MS_MAX, () => {
    isTimedOut = true
    killGroup(child, command.mustFinish === true ? 'SIGTERM' : 'SIGKILL')
  })
  try {
    writeInput(child, input)
    const output = collectOutput(child.stdout, bytesMax, () => killGroup(child))
    const errorText = collectErrorText(child.stderr)
    const code = await waitForCode(child)
    if (isTimedOut)
      return no('failed', `git ${command.args[0]} took more than ${GIT_MS_MAX / 1000} s and was stopped`)
    const bytes = output()
    const exit = { output: bytes.subarray(0, bytesMax), errorText: errorText() }
    if (bytes.length > bytesMax) return yes(exit)
    // A partial reply would pass for a complete one.
    return code === null
      ? no('failed', `git ${command.args[0]} was killed; try again`)
      : yes({ ...exit, code })
  } finally {
    cancelTimeout()
  }
}

/** Resolves after all output was read. Rejects when git could not be started. */
function waitForCode(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    // Closing the pipe ends the watchdog, the last process of the group.
    child.on('exit', () => watchdogPipe(child)?.destroy())
    child.on('close', (code) => resolve(code))
  })
}

function writeInput(child: ChildProcess, input: string): void {
  // Git may exit before it read all input, and the pipe breaks at the end. Neither is an error.
  watchdogPipe(child)?.on('error', () => {})
  child.stdin?.on('error', () => {}).end(input)
}

// `stdio` requests a pipe, which Node creates as a duplex stream.
const watchdogPipe = (child: ChildProcess) => child.stdio[WATCHDOG_FD] as Writable | null | undefined

function collectOutput(stream: Readable | null, bytesMax: number, onOverflow: () => void): () => Buffer {
  const chunks: Buffer[] = []
  let bytes = 0
  stream?.on('data', (chunk: Buffer) => {
    if (bytes > bytesMax) return
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > bytesMax) onOverflow()
  })
  return () => Buffer.concat(chunks)
}

function collectErrorText(stream: Readable | null): () => string {
  let text = ''
  stream?.setEncoding('utf8').on('data', (chunk: string) => {
    text = (text + chunk).slice(-ERROR_TEXT_CHARS_MAX)
  })
  return () => printable(text.trim().replace(/\s*\n\s*/g, '; '))
}

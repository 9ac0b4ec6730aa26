/**
 * Running git on the local code host's bare repositories.
 *
 * Whoever may push to one decides what is in it, so git gets no configuration but the repository's own, of that
 * nothing which would start a program, no hook, no way out of the machine, and bounds for its time, its memory and
 * what it prints. It is killed with its whole group when its time is up, and when this process is gone; only what moves
 * branches ends by itself, for git's locks would outlive it.
 *
 * The folder is named outright and never searched for: git then does not ask whose it is, as it would otherwise.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { isNativeError } from 'node:util/types'
import type { Cancel, Clock } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { printable } from '../../protocol/schema-errors.ts'

export interface GitCommand {
  readonly args: readonly string[]
  readonly input?: string
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Of its output; what comes beyond ends it. */
  readonly bytesMax?: number
  /** Killed in its middle it would leave locks that nobody takes away: it ends by itself, or is asked to. */
  readonly mustFinish?: boolean
}

export interface GitExit {
  /** Absent when it was killed for having said too much. */
  readonly code?: number
  /** The beginning of its output. */
  readonly output: Buffer
  /** The end of what it complained about. */
  readonly errorText: string
}

export type RunGit = (order: GitCommand) => Promise<Result<GitExit>>

const GIT_MS_MAX = 20_000
const GIT_PROCESSES_MAX = 8
const OUTPUT_BYTES_MAX = 1024 * 1024
const ERROR_TEXT_CHARS_MAX = 2_000
/** What is only mapped counts too, so git maps no more than a part of it; in KiB, as the shell has it. */
const MEMORY_KIB_MAX = 4 * 1024 * 1024
const WATCHDOG_FD = 3
const PATH = '/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin'

const SETTINGS = [
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.attributesFile=/dev/null',
  // Larger files count as binary: nobody reads their patch, and comparing them takes all the time there is.
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

/** However it comes about that the leash is let go of, the whole group is killed. */
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

/** One for all repositories of a code host: they share the machine, too. */
export function createGitRunner(clock: Pick<Clock, 'after'>): (folder: string) => RunGit {
  const withSlot = createSemaphore(GIT_PROCESSES_MAX)
  return (folder) => (command) => withSlot(() => runProcess(folder, command, clock))
}

/** Where nothing but success will do, and all of the output. */
export async function runGitForText(run: RunGit, command: GitCommand): Promise<Result<string>> {
  const done = await run(command)
  if (!done.ok) return done
  if (done.value.code === 0) return yes(done.value.output.toString('utf8'))
  return gitFailure(command, done.value)
}

export function gitFailure({ args }: GitCommand, { code, errorText }: GitExit) {
  if (code === undefined) return no('failed', `git ${args[0]} had too much to say, and was ended`)
  return no('failed', `git ${args[0]} failed: ${errorText || `it ended with ${code}`}`)
}

// ---- one process -------------------------------------------------------------------------------------------------

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
  return spawn(
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
  writeInput(child, input)
  const output = collectOutput(child.stdout, bytesMax, () => killGroup(child))
  const errorText = collectErrorText(child.stderr)
  try {
    const code = await waitForCode(child)
    if (isTimedOut)
      return no('failed', `git ${command.args[0]} took more than ${GIT_MS_MAX / 1000} s, and was ended`)
    const bytes = output()
    const exit = { output: bytes.subarray(0, bytesMax), errorText: errorText() }
    if (bytes.length > bytesMax) return yes(exit)
    // Part of an answer would pass for all of it.
    return code === null
      ? no('failed', `git ${command.args[0]} was killed; try again`)
      : yes({ ...exit, code })
  } finally {
    cancelTimeout()
  }
}

/** Once its output is at its end, too. Rejects when it could not be started. */
function waitForCode(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    // Whatever is left of the group holds the leash only; letting go of it ends that as well.
    child.on('exit', () => watchdogPipe(child)?.destroy())
    child.on('close', (code) => resolve(code))
  })
}

function writeInput(child: ChildProcess, input: string): void {
  // Git may end without having read it all, and the leash breaks when all is over: neither is an accident.
  watchdogPipe(child)?.on('error', () => {})
  child.stdin?.on('error', () => {}).end(input)
}

// Asked for as a pipe, and Node makes that a two-way stream.
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

function killGroup(child: ChildProcess, signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, signal)
  } catch {
    // Nobody of the group is left.
  }
}

// ---- taking turns ------------------------------------------------------------------------------------------------

function createSemaphore(count: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = []
  let free = count
  return async (work) => {
    if (free > 0) free -= 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free += 1
      else next()
    }
  }
}

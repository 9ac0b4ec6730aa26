/**
 * `createGit` runs git outside the sandbox, only on the worker's own bare repositories.
 *
 * Git runs in its own process group. The whole group is killed on timeout, on abort, when git ends but leaves a child
 * behind, and when the worker dies. Output is limited, and tokens in it are redacted. `git-environment.ts` decides
 * which environment git gets, `remote-policy.ts` which addresses it contacts.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { Readable, Writable } from 'node:stream'
import { isNativeError } from 'node:util/types'
import type { Clock } from '../../core/ports.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import type { ProxySettings } from '../../providers/http/http-types.ts'
import { coverInheritedFds, listInheritableFds, requirePipes } from '../sandbox/descriptors.ts'
import { ASKER_VARIABLE, GitEnvironment, gitCommandLine, LIVENESS_FD, TOKEN_FD } from './git-environment.ts'
import { explainEnd, lastLines } from './git-errors.ts'
import { keepEnd, keepStart, readWhole, redactorFor, watchFor } from './git-output.ts'
import { type RemoteAccess, RemotePolicy } from './remote-policy.ts'
import { whileAnswering } from './silent-host.ts'
import { StepSlots } from './step-slots.ts'
import { stepMemoryMib, UNTRUSTED_STEPS_MAX } from './work-bounds.ts'

export interface Remote {
  readonly address: string
  readonly token?: string
}

export interface GitCall {
  readonly args: readonly string[]
  /** The bare repository. */
  readonly folder?: string
  /** The remote that this call contacts, if any; `args` contains its address, too. */
  readonly remote?: Remote
  /** A bare repository of the worker that the call contacts instead of a remote; no policy applies to it. */
  readonly ownRemote?: string
  /** Whether git reads data that an agent made; limits git's memory, because small objects can expand to huge ones. */
  readonly isUntrusted?: boolean
  /** A text to search for in the whole standard output, of which only the beginning is kept. */
  readonly searchFor?: string
  /** How much of the beginning of standard output is kept, if not the default. */
  readonly outputCharsMax?: number
  /** Reads the whole standard output, of which nothing is kept then. */
  readonly readOutput?: (output: Readable) => Promise<void>
  /** The path of a file that becomes standard input. */
  readonly input?: string
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

export interface GitResult {
  /** Absent if git was killed or never started. */
  readonly code?: number
  /** The beginning of standard output. */
  readonly output: string
  /** Whether `searchFor` was found. */
  readonly hasFound?: boolean
  /** The end of standard error, or why git was killed or never started. */
  readonly stderr: string
}

export interface Git {
  /**
   * Refuses only if git was stopped, could not start, or may not contact the remote; the caller judges an exit code
   * other than 0.
   */
  run(call: GitCall): Promise<Result<GitResult>>
  /** Like `run`, but refuses every exit code other than 0. */
  runChecked(doing: string, call: GitCall): Promise<Result<GitResult>>
}

export interface GitOptions {
  /** An absolute path, so that PATH has no influence. */
  readonly program?: string
  /** The worker's own folder for git's home and askpass script; created with mode 0700. */
  readonly folder: string
  readonly clock: Pick<Clock, 'after'>
  /** The socket of an ssh agent, for ssh addresses. */
  readonly sshAgent?: string
  /** The proxies for http and https; this machine is always reached directly. */
  readonly proxies?: ProxySettings
  /** Absent: only hosts at public addresses. */
  readonly policy?: Pick<RemotePolicy, 'check'>
  /** The address space of a call that reads untrusted objects; absent: a share of the machine. */
  readonly untrustedMemoryMib?: number
}

/** Git's own words when its address space is used up. */
const OUT_OF_MEMORY = /^fatal: .*(out of memory|malloc failed|mmap failed)/im
export const GIT_PROGRAM = '/usr/bin/git'
/** The token is written this many times: git asks once per connection, and one command opens few connections. */
const TOKEN_LINES = 4
/** Exit codes of the shell if it cannot start git; git itself never uses them. */
const NOT_STARTED_CODES: readonly number[] = [126, 127]
/** Git's own exit code for a remote that it cannot reach. */
const UNREACHABLE_CODE = 128

export function createGit(options: GitOptions): Git {
  return new LocalGit(options)
}

class LocalGit implements Git {
  readonly #options: GitOptions
  readonly #environment: GitEnvironment
  readonly #policy: Pick<RemotePolicy, 'check'>
  readonly #untrustedMemoryMib: number
  readonly #untrustedSteps = new StepSlots(UNTRUSTED_STEPS_MAX)

  constructor(options: GitOptions) {
    this.#options = options
    this.#policy = options.policy ?? new RemotePolicy()
    this.#untrustedMemoryMib = options.untrustedMemoryMib ?? stepMemoryMib()
    this.#environment = new GitEnvironment(options)
  }

  /** A call with a remote may last as long as the code host wants, so nothing waits for its end. */
  run(call: GitCall): Promise<Result<GitResult>> {
    const isStep = call.isUntrusted === true && call.remote === undefined
    return isStep ? this.#untrustedSteps.run(() => this.#run(call), call.signal) : this.#run(call)
  }

  async #run(call: GitCall): Promise<Result<GitResult>> {
    if (call.signal?.aborted === true) return stopped(call)
    let input: FileHandle | undefined
    try {
      const checked = await this.#checkRemote(call)
      if (!checked.ok) return answerForUnreachable(checked)
      const environment = await this.#environment.variablesFor(call.remote, checked.value)
      input = call.input === undefined ? undefined : await open(call.input, 'r')
      const runProcess = (signal: AbortSignal | undefined) =>
        this.#runProcess({ ...call, ...(signal && { signal }) }, checked.value, environment, input?.fd)
      const ran = await whileAnswering(checked.value, call.signal, this.#options, runProcess)
      return ran.ok ? ran : answerForUnreachable(ran)
    } catch (error) {
      return notStarted(isNativeError(error) ? error.message : String(error))
    } finally {
      await input?.close()
    }
  }

  async runChecked(doing: string, call: GitCall): Promise<Result<GitResult>> {
    const ran = await this.run(call)
    if (!ran.ok || ran.value.code === 0) return ran
    if (call.isUntrusted === true && OUT_OF_MEMORY.test(ran.value.stderr)) return this.#tooLarge(doing)
    return explainEnd(doing, ran.value).refused
  }

  #tooLarge(doing: string): Refused {
    const most = `${this.#untrustedMemoryMib} MiB of memory that a step over an agent’s work may take`
    return no('invalid', `${doing} takes more than the ${most}; its work stays in its sandbox`)
  }

  async #checkRemote({ remote, ownRemote }: GitCall): Promise<Result<RemoteAccess | undefined>> {
    if (ownRemote !== undefined) return yes({ protocol: 'file', gitDir: ownRemote })
    return remote === undefined ? yes(undefined) : this.#policy.check(remote.address)
  }

  async #runProcess(
    call: GitCall,
    access: RemoteAccess | undefined,
    env: Record<string, string>,
    input: number | undefined,
  ) {
    const { program = GIT_PROGRAM, clock } = this.#options
    const [first = program, ...rest] = gitCommandLine(program, call, access, this.#untrustedMemoryMib)
    const child = spawnIsolated(first, rest, env, input ?? 'ignore')
    // This pipe is only held open; an error when git ends is expected.
    child.stdio[LIVENESS_FD]?.on('error', () => {})
    writeToken(child, env[ASKER_VARIABLE] === undefined ? undefined : call.remote?.token)
    return waitForEnd(child, call, clock)
  }
}

/** Starts a process that inherits none of this process's file descriptors, such as the database's. */
function spawnIsolated(
  program: string,
  args: readonly string[],
  env: Record<string, string>,
  input: number | 'ignore',
): ChildProcess {
  const nullDevice = openSync('/dev/null', 'r')
  try {
    const own = [input, 'pipe', 'pipe', 'pipe', 'pipe'] as const
    const stdio = coverInheritedFds<number | 'ignore' | 'pipe'>(own, listInheritableFds(), nullDevice)
    return requirePipes(spawn(program, args, { env, cwd: '/', detached: true, stdio }))
  } finally {
    closeSync(nullDevice)
  }
}

/** Ignores write errors, because git may end without reading the token. */
function writeToken(child: ChildProcess, token: string | undefined): void {
  // Node creates a duplex stream for each extra pipe.
  const pipe = child.stdio[TOKEN_FD] as Writable | null | undefined
  pipe?.on('error', () => {}).end(token === undefined ? '' : `${token}\n`.repeat(TOKEN_LINES))
}

async function waitForEnd(
  child: ChildProcess,
  call: GitCall,
  clock: GitOptions['clock'],
): Promise<Result<GitResult>> {
  const redact = redactorFor(call.remote?.token)
  const reading = readWhole(child.stdout, call.readOutput)
  const keepsOutput = call.readOutput === undefined
  const output = keepStart(keepsOutput ? child.stdout : null, call.outputCharsMax)
  const stderr = keepEnd(child.stderr)
  const hasFound = call.searchFor === undefined ? undefined : watchFor(child.stdout, call.searchFor)
  let stopReason: Result<GitResult> | undefined
  const stop = (reason: Result<GitResult>) => {
    stopReason ??= reason
    killGroup(child)
  }
  const abort = () => stop(stopped(call))
  call.signal?.addEventListener('abort', abort, { once: true })
  // The signal may have been aborted while git was starting.
  if (call.signal?.aborted === true) abort()
  const cancel = clock.after(call.timeoutMs, () => stop(timedOut(call)))
  const end = await new Promise<Result<GitResult>>((resolve) => {
    child.on('error', (error) => resolve(notStarted(error.message)))
    // Children that git left running would keep its pipes open.
    child.on('exit', () => killGroup(child))
    child.on('close', (code) => {
      // A process that never started emits `close` too, before or after `error`.
      if (child.pid === undefined) return
      if (code !== null && NOT_STARTED_CODES.includes(code)) return resolve(notStarted(lastLines(stderr())))
      const exit = code === null ? {} : { code }
      const seen = hasFound === undefined ? {} : { hasFound: hasFound() }
      resolve(yes({ ...exit, ...seen, output: redact(output()), stderr: redact(stderr()) }))
    })
  })
  cancel()
  call.signal?.removeEventListener('abort', abort)
  const wasRead = await reading
  for (const stream of child.stdio) stream?.destroy()
  // The words of git about its own end tell more than an incomplete output.
  const hasFailed = end.ok && end.value.code !== undefined && end.value.code !== 0
  return stopReason ?? (end.ok && !wasRead.ok && !hasFailed ? wasRead : end)
}

/** The same git, whose calls end when the signal aborts. */
export function withSignal(git: Git, signal: AbortSignal | undefined): Git {
  if (signal === undefined) return git
  const bounded = (call: GitCall): GitCall => ({
    ...call,
    signal: call.signal === undefined ? signal : AbortSignal.any([call.signal, signal]),
  })
  return {
    run: (call) => git.run(bounded(call)),
    runChecked: (doing, call) => git.runChecked(doing, bounded(call)),
  }
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // The group has ended already.
  }
}

// ---- refusals ----------------------------------------------------------------------------------------------------

/** A name that does not resolve now may do so later; the caller tries again, as after git's own message. */
function answerForUnreachable(checked: Refused): Result<GitResult> {
  const { kind, message } = checked.refusal
  return kind === 'unavailable'
    ? yes({ code: UNREACHABLE_CODE, output: '', stderr: `fatal: ${message}` })
    : checked
}

const commandNameOf = ({ args }: GitCall): string => `git ${args[0] ?? ''}`

function stopped(call: GitCall) {
  return no('conflict', `${commandNameOf(call)} was stopped`)
}

function timedOut(call: GitCall) {
  return no('failed', `${commandNameOf(call)} took longer than ${call.timeoutMs / 1000} s and was ended`)
}

function notStarted(reason: string) {
  return no('failed', `git could not be started (${reason}); install git on the worker`)
}

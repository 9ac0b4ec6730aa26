/**
 * Running git outside, on the worker's own bare repositories and on nothing else.
 *
 * It stands in a process group of its own, which is killed whole when its time is up, when nobody wants the answer any
 * more, when it has ended but something that it started has not, and when the worker itself is gone. What it printed
 * is bounded, and a token in it struck out. `surroundings.ts` says what it sees.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { Readable, Writable } from 'node:stream'
import { isNativeError } from 'node:util/types'
import type { Clock } from '../../core/ports.ts'
import { createRedactor } from '../../core/redact-secrets.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ProxySettings } from '../../providers/http/http.ts'
import { coverInheritedFds, listInheritableFds } from '../sandbox/descriptors.ts'
import { TOKEN_USER } from './address.ts'
import { ASKER_VARIABLE, GitEnvironment, gitCommandLine, LIVENESS_FD, TOKEN_FD } from './git-environment.ts'
import { explainFailure, lastLines } from './git-errors.ts'

export interface Remote {
  readonly address: string
  readonly token?: string
}

export interface GitCall {
  readonly args: readonly string[]
  /** The bare repository. */
  readonly folder?: string
  /** Where this call goes, if anywhere; `args` names the address too. */
  readonly remote?: Remote
  /** An agent made what it reads: small things that unfold to huge ones must not take the machine's memory. */
  readonly isUntrusted?: boolean
  /** Looked for in all of standard output, of which only the beginning is kept. */
  readonly searchFor?: string
  /** A file of the worker's own that becomes standard input. */
  readonly input?: string
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

export interface GitResult {
  /** Absent when it was killed or never began. */
  readonly code?: number
  /** The beginning of standard output. */
  readonly output: string
  /** What was looked for came by. */
  readonly hasFound?: boolean
  /** The end of standard error, or why it was killed or never began. */
  readonly stderr: string
}

export interface Git {
  /** Refused only when it was stopped or could not begin: a failing git is for the caller to judge. */
  run(call: GitCall): Promise<Result<GitResult>>
  /** The same, where nothing but success will do. */
  runChecked(doing: string, call: GitCall): Promise<Result<GitResult>>
}

export interface GitOptions {
  /** By absolute path, so that nobody's PATH decides what is run. */
  readonly program?: string
  /** A folder of the worker's own; made, with mode 0700. */
  readonly folder: string
  readonly clock: Pick<Clock, 'after'>
  /** Socket of an ssh agent, for addresses that are reached by ssh. */
  readonly sshAgent?: string
  /** What leads out for http and https; this machine itself is always asked directly. */
  readonly proxies?: ProxySettings
}

export const GIT_PROGRAM = '/usr/bin/git'
const OUTPUT_CHARS_MAX = 256 * 1024
const STDERR_CHARS_MAX = 16 * 1024
/** Git asks once a connection; a few connections are plenty for one command. */
const TOKEN_LINES = 4
/** What whoever starts git says when it is not there; git itself never does. */
const NOT_STARTED_CODES: readonly number[] = [126, 127]

export function createGit(options: GitOptions): Git {
  return new LocalGit(options)
}

class LocalGit implements Git {
  readonly #options: GitOptions
  readonly #environment: GitEnvironment

  constructor(options: GitOptions) {
    this.#options = options
    this.#environment = new GitEnvironment(options)
  }

  async run(call: GitCall): Promise<Result<GitResult>> {
    if (call.signal?.aborted === true) return stopped(call)
    let input: FileHandle | undefined
    try {
      const environment = await this.#environment.variablesFor(call.remote)
      if (!environment.ok) return environment
      input = call.input === undefined ? undefined : await open(call.input, 'r')
      return await this.#runProcess(call, environment.value, input?.fd)
    } catch (error) {
      return notStarted(isNativeError(error) ? error.message : String(error))
    } finally {
      await input?.close()
    }
  }

  async runChecked(doing: string, call: GitCall): Promise<Result<GitResult>> {
    const ran = await this.run(call)
    if (!ran.ok || ran.value.code === 0) return ran
    return explainFailure(doing, ran.value.stderr || ran.value.output).refused
  }

  async #runProcess(call: GitCall, env: Record<string, string>, input: number | undefined) {
    const { program = GIT_PROGRAM, clock } = this.#options
    const [first = program, ...rest] = gitCommandLine(program, call)
    const child = spawnIsolated(first, rest, env, input ?? 'ignore')
    // Only to be held; that it breaks when all is over is no accident.
    child.stdio[LIVENESS_FD]?.on('error', () => {})
    writeToken(child, env[ASKER_VARIABLE] === undefined ? undefined : call.remote?.token)
    return waitForEnd(child, call, clock)
  }
}

/** Nothing that this process has open, its database above all, is for git or for what git starts. */
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
    return spawn(program, args, { env, cwd: '/', detached: true, stdio })
  } finally {
    closeSync(nullDevice)
  }
}

/** Git may end without having asked, so nobody minds an answer that nobody read. */
function writeToken(child: ChildProcess, token: string | undefined): void {
  // Asked for as a pipe, and Node makes that a two-way stream.
  const pipe = child.stdio[TOKEN_FD] as Writable | null | undefined
  pipe?.on('error', () => {}).end(token === undefined ? '' : `${token}\n`.repeat(TOKEN_LINES))
}

async function waitForEnd(
  child: ChildProcess,
  call: GitCall,
  clock: GitOptions['clock'],
): Promise<Result<GitResult>> {
  const redact = redactorFor(call.remote?.token)
  const [output, stderr] = [keepStart(child.stdout), keepEnd(child.stderr)]
  const hasFound = call.searchFor === undefined ? undefined : watchFor(child.stdout, call.searchFor)
  let stopReason: Result<GitResult> | undefined
  const stop = (reason: Result<GitResult>) => {
    stopReason ??= reason
    killGroup(child)
  }
  const abort = () => stop(stopped(call))
  call.signal?.addEventListener('abort', abort, { once: true })
  // It may have come while git was being started.
  if (call.signal?.aborted === true) abort()
  const cancel = clock.after(call.timeoutMs, () => stop(timedOut(call)))
  const end = await new Promise<Result<GitResult>>((resolve) => {
    child.on('error', (error) => resolve(notStarted(error.message)))
    // Whatever it left running would keep its pipes open.
    child.on('exit', () => killGroup(child))
    child.on('close', (code) => {
      // What never began closes too, now before its error and now after.
      if (child.pid === undefined) return
      if (code !== null && NOT_STARTED_CODES.includes(code)) return resolve(notStarted(lastLines(stderr())))
      const exit = code === null ? {} : { code }
      const seen = hasFound === undefined ? {} : { hasFound: hasFound() }
      resolve(yes({ ...exit, ...seen, output: redact(output()), stderr: redact(stderr()) }))
    })
  })
  cancel()
  call.signal?.removeEventListener('abort', abort)
  for (const stream of child.stdio) stream?.destroy()
  return stopReason ?? end
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // Everybody in it is gone already.
  }
}

// ---- what it printed ---------------------------------------------------------------------------------------------

function keepStart(stream: Readable | null): () => string {
  let text = ''
  stream?.setEncoding('utf8').on('data', (part: string) => {
    if (text.length < OUTPUT_CHARS_MAX) text = (text + part).slice(0, OUTPUT_CHARS_MAX)
  })
  return () => text
}

/** Parts come cut anywhere, so the end of one is looked at together with the beginning of the next. */
function watchFor(stream: Readable | null, text: string): () => boolean {
  let hasFound = false
  let end = ''
  stream?.on('data', (part: string) => {
    const seen = end + part
    hasFound ||= seen.includes(text)
    end = seen.slice(1 - text.length)
  })
  return () => hasFound
}

function keepEnd(stream: Readable | null): () => string {
  let text = ''
  stream?.setEncoding('utf8').on('data', (part: string) => {
    text = (text + part).slice(-STDERR_CHARS_MAX)
  })
  return () => text
}

/** Git hides passwords of addresses itself; what a server sends back is nobody's promise. */
function redactorFor(token: string | undefined): (text: string) => string {
  // As git says it to the code host, it has the name in front: struck alone, a part of its end would stay.
  return createRedactor([Buffer.from(`${TOKEN_USER}:${token}`).toString('base64'), token])
}

// ---- refusals ----------------------------------------------------------------------------------------------------

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

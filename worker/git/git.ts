/**
 * `createGit` runs git outside the sandbox, only on the worker's own bare repositories.
 *
 * Git runs in its own process group. The whole group is killed on timeout, on abort, when git ends but leaves a child
 * behind, and when the worker dies. Output is limited, and tokens in it are redacted. `git-environment.ts` decides
 * which environment git gets, `remote-policy.ts` which addresses it contacts.
 */
import { type FileHandle, open } from 'node:fs/promises'
import { connect } from 'node:net'
import type { Readable } from 'node:stream'
import type { Clock } from '../../core/ports/clock.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import { Slots } from '../../core/slots.ts'
import { originOf } from '../../protocol/git-address.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { ProxySettings } from '../../providers/http/http-types.ts'
import { selectProxy } from '../../providers/http/proxy-selection.ts'
import { ASKER_VARIABLE, GitEnvironment, gitCommandLine, LIVENESS_FD } from './git-environment.ts'
import { explainEnd } from './git-errors.ts'
import { notStarted, spawnIsolated, stopped, waitForEnd, writeToken } from './git-process.ts'
import { type RemoteAccess, RemotePolicy } from './remote-policy.ts'
import { stepMemoryMib, UNTRUSTED_STEPS_MAX } from './work/work-bounds.ts'

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

export const GIT_PROGRAM = '/usr/bin/git'
/** Git's own words when its address space is used up. */
const OUT_OF_MEMORY = /^fatal: .*(out of memory|malloc failed|mmap failed)/im

export function createGit(options: GitOptions): Git {
  return new LocalGit(options)
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

class LocalGit implements Git {
  readonly #options: GitOptions
  readonly #environment: GitEnvironment
  readonly #policy: Pick<RemotePolicy, 'check'>
  readonly #untrustedMemoryMib: number
  readonly #untrustedSteps = new Slots(UNTRUSTED_STEPS_MAX)

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
      return notStarted(messageOf(error))
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

/** Git's own exit code for a remote that it cannot reach. */
const UNREACHABLE_CODE = 128

/** A name that does not resolve now may do so later; the caller tries again, as after git's own message. */
function answerForUnreachable(checked: Refused): Result<GitResult> {
  const { kind, message } = checked.refusal
  return kind === 'unavailable'
    ? yes({ code: UNREACHABLE_CODE, output: '', stderr: `fatal: ${message}` })
    : checked
}

// ---- a silent remote -----------------------------------------------------------------------------------------------

type NetworkAccess = Exclude<RemoteAccess, { readonly protocol: 'file' }>

interface SilentHostPorts {
  readonly clock: Pick<Clock, 'after'>
  readonly proxies?: ProxySettings
}

const DOUBT_MS = 10_000
const CONNECT_MS_MAX = 10_000

/**
 * Ends a git command whose remote answers no connection.
 *
 * Git waits two minutes and more for a host that drops its packets, and the run holds its slot meanwhile. A command that
 * has not ended after `DOUBT_MS` is one reason to try another connection; a host that refuses it answers, too.
 *
 * Refuses with `unavailable` when the remote is silent.
 *
 * @param run gets the signal at which the command must end
 */
async function whileAnswering<T>(
  access: RemoteAccess | undefined,
  signal: AbortSignal | undefined,
  { clock, proxies }: SilentHostPorts,
  run: (signal: AbortSignal | undefined) => Promise<Result<T>>,
): Promise<Result<T>> {
  if (access === undefined || access.protocol === 'file' || hasProxy(access, proxies)) return run(signal)
  const silence = new AbortController()
  const cancel = clock.after(DOUBT_MS, async () => {
    if (await isSilent(access)) silence.abort()
  })
  const both = signal === undefined ? silence.signal : AbortSignal.any([signal, silence.signal])
  const ended = await run(both)
  cancel()
  if (ended.ok || !silence.signal.aborted || signal?.aborted === true) return ended
  const address = originOf(access.host, access.port)
  return no('unavailable', `Failed to connect to ${address}: Connection timed out`)
}

function hasProxy({ protocol, host, port }: NetworkAccess, proxies: ProxySettings | undefined): boolean {
  if (protocol === 'ssh') return false
  const proxy = selectProxy(new URL(`${protocol}://${originOf(host, port)}/`), proxies)
  return proxy.ok && proxy.value !== undefined
}

async function isSilent({ host, port, addresses = [host] }: NetworkAccess): Promise<boolean> {
  const answers = await Promise.all(addresses.map((address) => isAnswering(address, port)))
  return !answers.includes(true)
}

function isAnswering(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: CONNECT_MS_MAX })
    const settle = (isAnswered: boolean) => {
      socket.destroy()
      resolve(isAnswered)
    }
    socket.on('connect', () => settle(true))
    socket.on('error', () => settle(true))
    socket.on('timeout', () => settle(false))
  })
}

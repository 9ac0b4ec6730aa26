/**
 * RunningSandbox follows one started sandbox: opens the gate for its command, interrupts or kills it, awaits its end.
 *
 * `ended` resolves only when nothing of the sandbox is left: bubblewrap has exited, the sandbox's init process is gone
 * (the kernel ends init after all others), the control group is empty if there is one, and both streams have ended.
 */
import type { ChildProcess } from 'node:child_process'
import { constants } from 'node:os'
import { PassThrough, type Readable, Transform, type Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { createLineReader } from '../../../core/line-reader.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { toSentence } from '../../../core/printable-output.ts'
import type { Cgroup } from '../cgroup.ts'
import type { SandboxEnd, SandboxProcess } from '../driver.ts'
import type { LocalMachine } from '../local-machine.ts'
import {
  hasSeccompFilter,
  identifyProcess,
  isGone,
  isStopped,
  listChildren,
  type ProcessIdentity,
  sendSignal,
} from '../processes.ts'
import { findFix, MESSAGE_CHARS_MAX } from './error-hints.ts'
import { GATE_WORD } from './wrapper-commands.ts'

export interface RunningSandboxOptions {
  readonly child: ChildProcess
  readonly clock: Clock
  readonly machine: LocalMachine
  readonly bwrap: string
  readonly group: Cgroup | undefined
  readonly stdin: string | undefined
  readonly openInput: boolean
  readonly statusFd: number
}

const POLL_MS = 1
/** All these checks together take a few milliseconds. */
const STOP_CHECKS_MAX = 400
/** A sandbox is usually ready after tens of milliseconds. */
const READY_MS_MAX = 20_000
const POLL_MS_MAX = 50
/** After a kill, streams whose reader does not read are destroyed after this time. */
const READ_AFTER_KILL_MS_MAX = 2_000

export class RunningSandbox implements SandboxProcess {
  readonly stdout: Readable
  readonly stderr: Readable
  readonly input?: Writable
  readonly ended: Promise<SandboxEnd>
  readonly #options: RunningSandboxOptions
  readonly #stderrHead: () => string
  /** Holds what is written before the gate opens. */
  readonly #pendingInput = new PassThrough()
  /** The sandbox's init process, once known. */
  #init: ProcessIdentity | undefined
  #isGateOpen = false
  #isKilled = false
  /** Why the sandbox failed to start when bubblewrap itself reported no error. */
  #startFailure: string | undefined

  constructor(options: RunningSandboxOptions) {
    const { child, statusFd } = options
    this.#options = options
    const [stderr, stderrHead] = keepHead(child.stderr as Readable)
    this.stdout = child.stdout as Readable
    this.stderr = stderr
    this.#stderrHead = stderrHead
    if (options.openInput) this.input = this.#pendingInput
    for (const stream of [child.stdin, child.stdout]) stream?.on('error', () => {})
    const exited = awaitExit(child)
    // Requested as a pipe, which Node implements as a duplex stream.
    const status = readBwrapStatus(child.stdio[statusFd] as Readable, ({ childPid }) =>
      this.#onChildPid(childPid),
    )
    this.ended = exited.then((exit) => this.#awaitEnd(exit, status))
  }

  interrupt(): void {
    if (this.#isKilled) return
    const command = this.#isGateOpen && this.#init !== undefined ? listChildren(this.#init.pid)[0] : undefined
    if (command === undefined) this.kill()
    else sendSignal(command, 'SIGINT')
  }

  kill(): void {
    const { child, group } = this.#options
    this.#isKilled = true
    // A command that is still being started stops at the closed gate.
    child.stdin?.destroy()
    group?.kill()
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    if (this.#init === undefined) this.#killBeforeReport(child.pid)
    else this.#killBwrapAndInit(this.#init)
  }

  /**
   * Before bubblewrap reports its child's pid, the child may exist or may still be in creation. So bubblewrap is
   * stopped first: a stopped bubblewrap either has its child or never gets one. The synchronous checks mostly see the
   * stop before this method returns; otherwise a worker that exits now would leave a stopped bubblewrap behind.
   */
  #killBeforeReport(bwrapPid: number, checks = STOP_CHECKS_MAX): void {
    const { child, clock } = this.#options
    if (this.#init !== undefined || child.exitCode !== null || child.signalCode !== null) return
    sendSignal(bwrapPid, 'SIGSTOP')
    if (!becomesStopped(bwrapPid, checks)) {
      clock.after(POLL_MS, () => this.#killBeforeReport(bwrapPid, 1))
      return
    }
    const [first] = listChildren(bwrapPid)
    if (first !== undefined) this.#init = identifyProcess(first)
    this.#killBwrapAndInit(this.#init)
  }

  #killBwrapAndInit(init: ProcessIdentity | undefined): void {
    this.#options.child.kill('SIGKILL')
    if (init !== undefined) sendSignal(init.pid, 'SIGKILL')
  }

  // ---- start -----------------------------------------------------------------------------------------------

  #onChildPid(childPid: number | undefined): void {
    if (childPid === undefined || this.#init !== undefined) return
    this.#init = identifyProcess(childPid)
    if (this.#isKilled) this.kill()
    else this.#openGateWhenReady(this.#options.clock.monotonic() + READY_MS_MAX)
  }

  /** init requests its death signal just before it installs the seccomp filter, so a filtered init is ready. */
  #openGateWhenReady(until: number): void {
    const { clock, child, stdin = '', openInput } = this.#options
    const init = this.#init
    if (this.#isKilled || init === undefined || isGone(init)) return
    if (hasSeccompFilter(init.pid)) {
      this.#isGateOpen = true
      if (openInput) this.#forwardInput()
      else child.stdin?.end(GATE_WORD + stdin)
    } else if (clock.monotonic() < until) {
      clock.after(POLL_MS, () => this.#openGateWhenReady(until))
    } else {
      this.#startFailure = `the sandbox was not ready within ${READY_MS_MAX / 1_000} s`
      this.kill()
    }
  }

  #forwardInput(): void {
    const { stdin } = this.#options.child
    stdin?.write(GATE_WORD)
    if (stdin !== null) this.#pendingInput.pipe(stdin)
  }

  // ---- end -----------------------------------------------------------------------------------------------------

  async #awaitEnd(exit: ProcessExit, reported: Promise<BwrapStatus>): Promise<SandboxEnd> {
    const { child, group } = this.#options
    child.stdin?.destroy()
    const status = await reported
    // bubblewrap may have died before init requested its death signal.
    if (this.#init !== undefined && !isGone(this.#init)) sendSignal(this.#init.pid, 'SIGKILL')
    await this.#waitUntil(() => this.#init === undefined || isGone(this.#init))
    group?.kill()
    await this.#waitUntil(() => group?.isEmpty() ?? true)
    group?.remove()
    await this.#awaitStreams()
    return this.#describeEnd(exit, status)
  }

  async #describeEnd(
    { code, signal: signalName, failure }: ProcessExit,
    { exitCode }: BwrapStatus,
  ): Promise<SandboxEnd> {
    if (this.#startFailure !== undefined) return { startFailure: this.#startFailure }
    // Behind a closed gate, the exit code is the gate's and not the command's.
    if (exitCode !== undefined && (this.#isGateOpen || !this.#isKilled)) return endFromExitCode(exitCode)
    if (this.#isKilled) return { signal: 'SIGKILL' }
    if (signalName !== undefined) return { signal: signalName }
    const errorText = failure ?? this.#stderrHead()
    const { bwrap, machine } = this.#options
    const fix = await findFix(errorText, bwrap, machine)
    const message = toSentence(errorText, MESSAGE_CHARS_MAX) || `bubblewrap ended with exit code ${code}`
    return { startFailure: fix === undefined ? message : `${message}; ${fix.text}` }
  }

  #waitUntil(condition: () => boolean): Promise<void> {
    const { clock } = this.#options
    return new Promise((resolve) => {
      const poll = (waitMs: number): void => {
        if (condition()) resolve()
        else clock.after(waitMs, () => poll(Math.min(waitMs * 2, POLL_MS_MAX)))
      }
      poll(POLL_MS)
    })
  }

  async #awaitStreams(): Promise<void> {
    const streams = [this.stdout, this.stderr]
    const ended = Promise.all(streams.map((stream) => finished(stream, { writable: false }).catch(() => {})))
    if (!this.#isKilled) {
      await ended
      return
    }
    const cancelTimeout = this.#options.clock.after(READ_AFTER_KILL_MS_MAX, () => {
      for (const stream of streams) stream.destroy()
    })
    await ended
    cancelTimeout()
  }
}

function becomesStopped(pid: number, checks: number): boolean {
  for (let check = 0; check < checks; check++) if (isStopped(pid)) return true
  return false
}

// ---- the end of bubblewrap -----------------------------------------------------------------------------------------

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

interface ProcessExit {
  readonly code?: number
  readonly signal?: string
  /** The error when the process did not even start. */
  readonly failure?: string
}

/** Resolves with how bubblewrap ended: its exit code, its signal, or why it did not start. */
function awaitExit(child: ChildProcess): Promise<ProcessExit> {
  return new Promise((resolve) => {
    child.on('error', (error) => resolve({ failure: error.message }))
    child.on('exit', (code, signalName) =>
      resolve(signalName === null ? { code: code ?? -1 } : { signal: signalName }),
    )
  })
}

function endFromExitCode(code: number): SandboxEnd {
  const signalName = [...COMMON_FATAL_SIGNALS, ...RARE_FATAL_SIGNALS].find(
    (name) => constants.signals[name] === code - SIGNAL_EXIT_CODE_BASE,
  )
  return signalName === undefined ? { code } : { signal: signalName }
}

const STDERR_CHARS_MAX = 4_096

/** Forwards the stream and keeps its beginning, which holds bubblewrap's message when it fails. */
function keepHead(stream: Readable): [Readable, () => string] {
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

// ---- the reports of bubblewrap -------------------------------------------------------------------------------------

interface BwrapStatus {
  readonly childPid?: number
  readonly exitCode?: number
}

/**
 * Reads bubblewrap's status reports: JSON lines with the host pid of the sandbox's init, and finally the exit code,
 * which is missing when the command was never started.
 *
 * Calls `onStatus` with the merged status after each chunk. Resolves with the final status when the stream closes.
 */
function readBwrapStatus(stream: Readable, onStatus: (status: BwrapStatus) => void): Promise<BwrapStatus> {
  return new Promise((resolve) => {
    const reader = createLineReader()
    let status: BwrapStatus = {}
    stream.on('data', (bytes: Buffer) => {
      for (const line of reader.push(bytes)) status = { ...status, ...parseStatusLine(line) }
      onStatus(status)
    })
    stream.on('error', () => {}).on('close', () => resolve(status))
  })
}

function parseStatusLine(line: string): BwrapStatus {
  const childPid = findNumber(line, 'child-pid')
  const exitCode = findNumber(line, 'exit-code')
  return { ...(childPid === undefined ? {} : { childPid }), ...(exitCode === undefined ? {} : { exitCode }) }
}

function findNumber(line: string, name: string): number | undefined {
  const [, digits] = new RegExp(`"${name}"\\s*:\\s*(\\d+)`).exec(line) ?? []
  return digits === undefined ? undefined : Number(digits)
}

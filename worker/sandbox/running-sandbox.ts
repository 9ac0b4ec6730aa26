/**
 * One sandbox that was started: the gate is opened for its command, it is interrupted, killed, and watched to its end.
 *
 * The end is told when it is certain: bubblewrap is gone, and so is the first process of the sandbox, which the kernel
 * lets go only after all others; the control group, where there is one, is empty; both streams have ended.
 */
import type { ChildProcess } from 'node:child_process'
import { constants } from 'node:os'
import { PassThrough, type Readable, Transform, type Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import type { Clock } from '../../core/ports.ts'
import { findFix, toPlainLine } from './bwrap-error-hints.ts'
import { type BwrapStatus, readBwrapStatus } from './bwrap-status.ts'
import type { Cgroup } from './cgroup.ts'
import type { LocalMachine } from './local-machine.ts'
import {
  hasSeccompFilter,
  identifyProcess,
  isGone,
  isStopped,
  listChildren,
  type ProcessIdentity,
  sendSignal,
} from './processes.ts'
import type { SandboxEnd, SandboxProcess } from './sandbox-process.ts'
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
/** All in all it takes a few milliseconds. */
const STOP_CHECKS_MAX = 400
/** Tens of milliseconds is usual. */
const READY_MS_MAX = 20_000
const POLL_MS_MAX = 50
const STDERR_CHARS_MAX = 4_096
/** After a kill nobody waits longer for a reader that does not read. */
const READ_AFTER_KILL_MS_MAX = 2_000
/** By a shell's convention a program that a signal ended has 128 and its number for an exit code. */
const SIGNAL_EXIT_CODE_BASE = 128
/** Those that end programs. Others of such codes are a program's own: git says 129 for wrong use. */
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

export class RunningSandbox implements SandboxProcess {
  readonly stdout: Readable
  readonly stderr: Readable
  readonly input?: Writable
  readonly ended: Promise<SandboxEnd>
  readonly #options: RunningSandboxOptions
  readonly #stderrHead: () => string
  /** What is written before the gate is open. */
  readonly #pendingInput = new PassThrough()
  /** The sandbox's first process, as soon as there is one. */
  #init: ProcessIdentity | undefined
  #isGateOpen = false
  #isKilled = false
  /** Why it is not made, although bubblewrap did not say so. */
  #startFailure: string | undefined

  constructor(options: RunningSandboxOptions) {
    const { child, statusFd } = options
    this.#options = options
    const [stderr, complaint] = keepHead(child.stderr as Readable)
    this.stdout = child.stdout as Readable
    this.stderr = stderr
    this.#stderrHead = complaint
    if (options.openInput) this.input = this.#pendingInput
    for (const stream of [child.stdin, child.stdout]) stream?.on('error', () => {})
    const exited = awaitExit(child)
    // Asked for as a pipe, which Node makes a two-way stream.
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
    // Whatever is still being made comes to a gate that nobody opens.
    child.stdin?.destroy()
    group?.kill()
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    if (this.#init === undefined) this.#killBeforeReport(child.pid)
    else this.#killBwrapAndInit(this.#init)
  }

  /**
   * Before bubblewrap reports, it alone knows of its child, and may just be making it: the kernel takes its time for
   * that. Once it stands still, it has the child or never will. That is mostly so before this returns: should the worker
   * end right then, nobody would end what stands still.
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

  // ---- the beginning -----------------------------------------------------------------------------------------------

  #onChildPid(childPid: number | undefined): void {
    if (childPid === undefined || this.#init !== undefined) return
    this.#init = identifyProcess(childPid)
    if (this.#isKilled) this.kill()
    else this.#openGateWhenReady(this.#options.clock.monotonic() + READY_MS_MAX)
  }

  /** The first process asks for its death signal right before it puts the filter over itself. */
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

  // ---- the end -----------------------------------------------------------------------------------------------------

  async #awaitEnd(exit: ProcessExit, reported: Promise<BwrapStatus>): Promise<SandboxEnd> {
    const { child, group } = this.#options
    child.stdin?.destroy()
    const status = await reported
    // Should it have been too early for a death signal of its own.
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
    // At a gate that stayed closed it was not the command that ended.
    if (exitCode !== undefined && (this.#isGateOpen || !this.#isKilled)) return endFromExitCode(exitCode)
    if (this.#isKilled) return { signal: 'SIGKILL' }
    if (signalName !== undefined) return { signal: signalName }
    const errorText = failure ?? this.#stderrHead()
    const { bwrap, machine } = this.#options
    const fix = await findFix(errorText, bwrap, machine)
    const message = toPlainLine(errorText) || `bubblewrap ended with exit code ${code}`
    return { startFailure: fix === undefined ? message : `${message}; ${fix}` }
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

interface ProcessExit {
  readonly code?: number
  readonly signal?: string
  /** It did not even start. */
  readonly failure?: string
}

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

/** Passes everything on, and keeps the first of it: what bubblewrap says when it fails. */
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

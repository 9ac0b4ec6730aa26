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
import { cureFor, plain } from './bwrap-error-hints.ts'
import type { Group } from './cgroup.ts'
import type { Machine } from './local-machine.ts'
import type { SandboxEnd, SandboxProcess } from './sandbox-process.ts'
import { childrenOf, isFiltered, isGone, isStopped, markOf, type ProcessMark, signal } from './processes.ts'
import { readStatus, type Status } from './bwrap-status.ts'
import { GATE_WORD } from './wrapper-commands.ts'

export interface RunningParts {
  readonly child: ChildProcess
  readonly clock: Clock
  readonly machine: Machine
  readonly bwrap: string
  readonly group: Group | undefined
  readonly stdin: string | undefined
  readonly openInput: boolean
  readonly statusFd: number
}

const LOOK_MS = 1
/** All in all it takes a few milliseconds. */
const LOOKS_AT_ONCE = 400
/** Tens of milliseconds is usual. */
const READY_MS_MAX = 20_000
const LOOK_MS_MAX = 50
const COMPLAINT_CHARS_MAX = 4_096
/** After a kill nobody waits longer for a reader that does not read. */
const KILLED_READ_MS_MAX = 2_000
/** By a shell's convention a program that a signal ended has 128 and its number for an exit code. */
const SIGNALLED = 128
/** Those that end programs. Others of such codes are a program's own: git says 129 for wrong use. */
const ENDING = [
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
const ENDING_RARELY = ['SIGXCPU', 'SIGXFSZ', 'SIGSYS'] as const

export class Running implements SandboxProcess {
  readonly stdout: Readable
  readonly stderr: Readable
  readonly input?: Writable
  readonly ended: Promise<SandboxEnd>
  readonly #parts: RunningParts
  readonly #complaint: () => string
  /** What is written before the gate is open. */
  readonly #waiting = new PassThrough()
  /** The sandbox's first process, as soon as there is one. */
  #init: ProcessMark | undefined
  #isOpen = false
  #isKilled = false
  /** Why it is not made, although bubblewrap did not say so. */
  #failure: string | undefined

  constructor(parts: RunningParts) {
    const { child, statusFd } = parts
    this.#parts = parts
    const [stderr, complaint] = headOf(child.stderr as Readable)
    this.stdout = child.stdout as Readable
    this.stderr = stderr
    this.#complaint = complaint
    if (parts.openInput) this.input = this.#waiting
    for (const stream of [child.stdin, child.stdout]) stream?.on('error', () => {})
    const exited = exitOf(child)
    // Asked for as a pipe, which Node makes a two-way stream.
    const status = readStatus(child.stdio[statusFd] as Readable, ({ childPid }) => this.#began(childPid))
    this.ended = exited.then((exit) => this.#end(exit, status))
  }

  interrupt(): void {
    if (this.#isKilled) return
    const command = this.#isOpen && this.#init !== undefined ? childrenOf(this.#init.pid)[0] : undefined
    if (command === undefined) this.kill()
    else signal(command, 'SIGINT')
  }

  kill(): void {
    const { child, group } = this.#parts
    this.#isKilled = true
    // Whatever is still being made comes to a gate that nobody opens.
    child.stdin?.destroy()
    group?.kill()
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    if (this.#init === undefined) this.#killUnreported(child.pid)
    else this.#killBoth(this.#init)
  }

  /**
   * Before bubblewrap reports, it alone knows of its child, and may just be making it: the kernel takes its time for
   * that. Once it stands still, it has the child or never will. That is mostly so before this returns: should the worker
   * end right then, nobody would end what stands still.
   */
  #killUnreported(bwrap: number, looks = LOOKS_AT_ONCE): void {
    const { child, clock } = this.#parts
    if (this.#init !== undefined || child.exitCode !== null || child.signalCode !== null) return
    signal(bwrap, 'SIGSTOP')
    if (!standsStill(bwrap, looks)) {
      clock.after(LOOK_MS, () => this.#killUnreported(bwrap, 1))
      return
    }
    const [first] = childrenOf(bwrap)
    if (first !== undefined) this.#init = markOf(first)
    this.#killBoth(this.#init)
  }

  #killBoth(init: ProcessMark | undefined): void {
    this.#parts.child.kill('SIGKILL')
    if (init !== undefined) signal(init.pid, 'SIGKILL')
  }

  // ---- the beginning -----------------------------------------------------------------------------------------------

  #began(childPid: number | undefined): void {
    if (childPid === undefined || this.#init !== undefined) return
    this.#init = markOf(childPid)
    if (this.#isKilled) this.kill()
    else this.#openWhenReady(this.#parts.clock.monotonic() + READY_MS_MAX)
  }

  /** The first process asks for its death signal right before it puts the filter over itself. */
  #openWhenReady(until: number): void {
    const { clock, child, stdin = '', openInput } = this.#parts
    const init = this.#init
    if (this.#isKilled || init === undefined || isGone(init)) return
    if (isFiltered(init.pid)) {
      this.#isOpen = true
      if (openInput) this.#passOn()
      else child.stdin?.end(GATE_WORD + stdin)
    } else if (clock.monotonic() < until) {
      clock.after(LOOK_MS, () => this.#openWhenReady(until))
    } else {
      this.#failure = `the sandbox was not ready within ${READY_MS_MAX / 1_000} s`
      this.kill()
    }
  }

  #passOn(): void {
    const { stdin } = this.#parts.child
    stdin?.write(GATE_WORD)
    if (stdin !== null) this.#waiting.pipe(stdin)
  }

  // ---- the end -----------------------------------------------------------------------------------------------------

  async #end(exit: Exit, reported: Promise<Status>): Promise<SandboxEnd> {
    const { child, group } = this.#parts
    child.stdin?.destroy()
    const status = await reported
    // Should it have been too early for a death signal of its own.
    if (this.#init !== undefined && !isGone(this.#init)) signal(this.#init.pid, 'SIGKILL')
    await this.#until(() => this.#init === undefined || isGone(this.#init))
    group?.kill()
    await this.#until(() => group?.isEmpty() ?? true)
    group?.remove()
    await this.#streamsEnded()
    return this.#verdict(exit, status)
  }

  async #verdict({ code, signal: by, failure }: Exit, { exitCode }: Status): Promise<SandboxEnd> {
    if (this.#failure !== undefined) return { unmade: this.#failure }
    // At a gate that stayed closed it was not the command that ended.
    if (exitCode !== undefined && (this.#isOpen || !this.#isKilled)) return endOf(exitCode)
    if (this.#isKilled) return { signal: 'SIGKILL' }
    if (by !== undefined) return { signal: by }
    const complaint = failure ?? this.#complaint()
    const { bwrap, machine } = this.#parts
    const cure = await cureFor(complaint, bwrap, machine)
    const what = plain(complaint) || `bubblewrap ended with exit code ${code}`
    return { unmade: cure === undefined ? what : `${what}; ${cure}` }
  }

  #until(isSo: () => boolean): Promise<void> {
    const { clock } = this.#parts
    return new Promise((resolve) => {
      const look = (waitMs: number): void => {
        if (isSo()) resolve()
        else clock.after(waitMs, () => look(Math.min(waitMs * 2, LOOK_MS_MAX)))
      }
      look(LOOK_MS)
    })
  }

  async #streamsEnded(): Promise<void> {
    const streams = [this.stdout, this.stderr]
    const ended = Promise.all(streams.map((stream) => finished(stream, { writable: false }).catch(() => {})))
    if (!this.#isKilled) {
      await ended
      return
    }
    const giveUp = this.#parts.clock.after(KILLED_READ_MS_MAX, () => {
      for (const stream of streams) stream.destroy()
    })
    await ended
    giveUp()
  }
}

function standsStill(pid: number, looks: number): boolean {
  for (let look = 0; look < looks; look++) if (isStopped(pid)) return true
  return false
}

interface Exit {
  readonly code?: number
  readonly signal?: string
  /** It did not even start. */
  readonly failure?: string
}

function exitOf(child: ChildProcess): Promise<Exit> {
  return new Promise((resolve) => {
    child.on('error', (error) => resolve({ failure: error.message }))
    child.on('exit', (code, by) => resolve(by === null ? { code: code ?? -1 } : { signal: by }))
  })
}

function endOf(code: number): SandboxEnd {
  const by = [...ENDING, ...ENDING_RARELY].find((name) => constants.signals[name] === code - SIGNALLED)
  return by === undefined ? { code } : { signal: by }
}

/** Passes everything on, and keeps the first of it: what bubblewrap says when it fails. */
function headOf(stream: Readable): [Readable, () => string] {
  let head = ''
  const passing = new Transform({
    transform: (chunk: Buffer, _, done) => {
      if (head.length < COMPLAINT_CHARS_MAX) head = (head + chunk).slice(0, COMPLAINT_CHARS_MAX)
      done(null, chunk)
    },
  })
  stream.on('error', () => passing.end()).pipe(passing)
  return [passing, () => head]
}

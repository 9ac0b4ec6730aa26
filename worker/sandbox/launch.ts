/**
 * Makes sandboxes and runs commands in them.
 *
 * What comes in is an order; what is handed to bubblewrap is the whole list of `arguments.ts`, never less. It starts as
 * the slot's user (never as root), with an empty environment, in the root folder, with the three standard descriptors
 * and what is fed to it. Nothing in it survives: not the end of its command, not `kill`, not the end of this process.
 *
 * Only from the main thread: the death signal follows the thread that spawned. Whoever launches reads both streams to
 * their end, for the end of a sandbox is told only after them.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Writable } from 'node:stream'
import { isMainThread } from 'node:worker_threads'
import type { Clock } from '../../core/ports.ts'
import { sandboxArguments } from './arguments.ts'
import { Cgroups, type Group } from './cgroup.ts'
import { covered, inheritable } from './descriptors.ts'
import { unmade } from './failed-sandbox.ts'
import { endOrphans, ownMark } from './owner-tag.ts'
import { type Machine, thisMachine } from './local-machine.ts'
import type { Launcher, SandboxOrder, SandboxProcess } from './sandbox-process.ts'
import { goesFirst } from './processes.ts'
import { Running } from './running-sandbox.ts'
import { isSlotUid } from './sandbox-users.ts'
import { objectionToOrder } from './validate-order.ts'
import { gated, limited, outside } from './wrapper-commands.ts'

export interface LauncherParts {
  /** What the probe found. */
  readonly bwrap: string
  readonly clock: Clock
  readonly machine?: Machine
}

export interface LimitingLauncher extends Launcher {
  /** Who holds processes and memory down: a control group, or only the limits of single processes. */
  limitsTold(): 'cgroup' | 'rlimit'
}

export function makeLauncher({ bwrap, clock, machine = thisMachine() }: LauncherParts): LimitingLauncher {
  if (!isMainThread) throw new Error('sandboxes are launched from the main thread')
  endOrphans((uid) => (machine.euid === 0 ? isSlotUid(uid) : uid === machine.euid))
  const cgroups = Cgroups.find(machine.euid)
  const parts: Parts = { bwrap, clock, machine, cgroups }
  return {
    launch: (order) => launch(order, parts),
    limitsTold: () => (cgroups?.counts('pids') && cgroups.counts('memory') ? 'cgroup' : 'rlimit'),
  }
}

interface Parts {
  readonly bwrap: string
  readonly clock: Clock
  readonly machine: Machine
  readonly cgroups: Cgroups | undefined
}

type Stdio = 'ignore' | 'pipe' | number

function launch(order: SandboxOrder, parts: Parts): SandboxProcess {
  const objection = objectionToOrder(order)
  if (objection !== undefined) return unmade(objection)
  try {
    return start(order, parts)
  } catch (error) {
    // No right to change the user, a NUL in a word of the command.
    return unmade(`the sandbox could not be started: ${(error as Error).message}`)
  }
}

function start(order: SandboxOrder, { bwrap, clock, machine, cgroups }: Parts): SandboxProcess {
  const { visible, fed, statusFd } = sandboxArguments({ ...order, reports: true })
  const processes = cgroups?.counts('pids') ? undefined : order.maxProcesses
  const command = gated(order.command, order.stdin !== undefined || order.openInput === true, ownMark())
  const child = spawnQuietly(
    (leaking) => {
      const spare = leaking.flatMap((fd) => ['--args', String(fd)])
      return outside(bwrap, [...spare, ...visible], limited(command, processes))
    },
    order,
    machine,
    fed.length + 1,
  )
  // Nobody listens yet, and without descriptors left there will never be anything to listen to.
  child.on('error', () => {})
  if (child.stdout === undefined) return unmade('the sandbox could not be started: too many files are open')
  if (child.pid !== undefined) goesFirst(child.pid)
  const group = groupFor(child, order, cgroups)
  feed(child, fed)
  const { stdin, openInput = false } = order
  return new Running({ child, clock, machine, bwrap, group, stdin, openInput, statusFd: statusFd ?? 0 })
}

/** Everything from here to the first byte fed happens in one turn: bubblewrap can't begin before. */
function spawnQuietly(
  chain: (leaking: readonly number[]) => { program: string; args: string[] },
  { slot }: SandboxOrder,
  { euid }: Machine,
  pipes: number,
): ChildProcess {
  const devNull = openSync('/dev/null', 'r')
  try {
    const own: Stdio[] = Array.from({ length: 3 + pipes }, () => 'pipe')
    const leaking = inheritable().filter((fd) => fd >= own.length)
    const { program, args } = chain(leaking)
    const as = euid === 0 ? { uid: slot.uid, gid: slot.gid } : {}
    return spawn(program, args, { ...as, env: {}, cwd: '/', stdio: covered(own, leaking, devNull) })
  } finally {
    closeSync(devNull)
  }
}

function groupFor(child: ChildProcess, order: SandboxOrder, cgroups: Cgroups | undefined): Group | undefined {
  if (child.pid === undefined) return undefined
  const { name, maxProcesses, memoryMib } = order
  const limits = { processes: maxProcesses, ...(memoryMib === undefined ? {} : { memoryMib }) }
  const group = cgroups?.make(name, limits)
  if (group === undefined || group.take(child.pid)) return group
  group.remove()
  return undefined
}

/** Whoever ends before it has read everything has its own reasons, and shows them in how it ended. */
function feed(child: ChildProcess, fed: readonly (string | Uint8Array)[]): void {
  for (const [index, bytes] of fed.entries()) {
    // Descriptors from 3 on were asked for as pipes, and Node makes those two-way streams.
    const pipe = child.stdio[index + 3] as Writable | null | undefined
    pipe?.on('error', () => {}).end(bytes)
  }
}

/**
 * Launches commands in sandboxes with bubblewrap, always with the complete argument list of `arguments.ts`.
 *
 * bubblewrap runs as the sandbox user (never root), with an empty environment, in the root folder, and with no
 * inherited descriptors. No process in the sandbox survives the end of the command, `kill`, or the end of this process.
 * Launch only from the main thread: the death signal follows the spawning thread. Callers must read both streams to
 * their end, because `ended` waits for them.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { dirname, isAbsolute, normalize } from 'node:path'
import { Readable, type Writable } from 'node:stream'
import { isMainThread } from 'node:worker_threads'
import type { Clock } from '../../../core/ports/clock.ts'
import { type Cgroup, Cgroups, type ControlGroups } from '../cgroup.ts'
import { MemoryGroups } from '../cgroup-v1.ts'
import { coverInheritedFds, listInheritableFds } from '../descriptors.ts'
import type { LocalSandboxLauncher, SandboxOrder, SandboxProcess } from '../driver.ts'
import { findFolderProblem, findSocketProblem, isSandboxUid } from '../folders.ts'
import { HOME, WORK } from '../inside-paths.ts'
import { type LocalMachine, thisMachine } from '../local-machine.ts'
import { killOrphans, ownerTag, preferAsOomVictim } from '../processes.ts'
import { buildSandboxArguments } from './arguments.ts'
import { RunningSandbox } from './running-sandbox.ts'
import { gatedCommand, landlockedCommand, limitedCommand, outerCommand } from './wrapper-commands.ts'

export interface LauncherOptions {
  /** Path of bubblewrap, as the probe found it. */
  readonly bwrap: string
  readonly clock: Clock
  readonly machine?: LocalMachine
  /** Whether sandboxes keep the machine's host name, as the probe found it. */
  readonly keepsHostName?: boolean
  /** Whether the machine has Landlock, as the probe found it. */
  readonly hasLandlock?: boolean
}

export function makeLauncher({
  bwrap,
  clock,
  machine = thisMachine(),
  keepsHostName = false,
  hasLandlock = false,
}: LauncherOptions): LocalSandboxLauncher {
  if (!isMainThread) throw new Error('sandboxes are launched from the main thread')
  killOrphans((uid) => (machine.euid === 0 ? isSandboxUid(uid) : uid === machine.euid))
  const cgroups = Cgroups.find(machine.euid) ?? MemoryGroups.find()
  const context: LauncherContext = { bwrap, clock, machine, cgroups, keepsHostName, hasLandlock }
  return {
    launch: (order) => launch(order, context),
    // A root worker's sandboxes have users of their own, whose processes are counted without a group.
    limitsEnforcedBy: () =>
      cgroups?.hasController('memory') && (cgroups.hasController('pids') || machine.euid === 0)
        ? 'cgroup'
        : 'rlimit',
  }
}

interface LauncherContext {
  readonly bwrap: string
  readonly clock: Clock
  readonly machine: LocalMachine
  readonly cgroups: ControlGroups | undefined
  readonly keepsHostName: boolean
  readonly hasLandlock: boolean
}

type Stdio = 'ignore' | 'pipe' | number

function launch(order: SandboxOrder, context: LauncherContext): SandboxProcess {
  const problem = findOrderProblem(order)
  if (problem !== undefined) return failedSandbox(problem)
  try {
    return startSandbox(order, context)
  } catch (error) {
    // For example: no permission to change the user, or a NUL in the command.
    return failedSandbox(`the sandbox could not be started: ${(error as Error).message}`)
  }
}

function startSandbox(
  order: SandboxOrder,
  { bwrap, clock, machine, cgroups, keepsHostName, hasLandlock }: LauncherContext,
): SandboxProcess {
  const { commandLine, inputs, statusFd } = buildSandboxArguments({
    ...order,
    keepsHostName,
    reportsStatus: true,
  })
  const processes = cgroups?.hasController('pids') ? undefined : order.maxProcesses
  const gatedCommandLine = gatedCommand(
    order.command,
    order.stdin !== undefined || order.openInput === true,
    ownerTag(),
  )
  const insideCommand = hasLandlock ? landlockedCommand(gatedCommandLine, order.mounts) : gatedCommandLine
  const child = spawnWithoutLeaks(
    (inheritedFds) => {
      const closingOptions = inheritedFds.flatMap((fd) => ['--args', String(fd)])
      return outerCommand(
        bwrap,
        [...closingOptions, ...commandLine],
        limitedCommand(insideCommand, processes),
      )
    },
    order,
    machine,
    inputs.length + 1,
  )
  // `RunningSandbox` listens later; when no descriptors are left, it is never created.
  child.on('error', () => {})
  if (child.stdout === undefined)
    return failedSandbox('the sandbox could not be started: too many files are open')
  if (child.pid !== undefined) preferAsOomVictim(child.pid)
  const group = createGroup(child, order, cgroups)
  writeInputs(child, inputs)
  const { stdin, openInput = false } = order
  return new RunningSandbox({
    child,
    clock,
    machine,
    bwrap,
    group,
    stdin,
    openInput,
    statusFd: statusFd ?? 0,
  })
}

/** The code from here to the first input byte runs without interruption, so bubblewrap cannot start before. */
function spawnWithoutLeaks(
  buildCommand: (inheritedFds: readonly number[]) => { program: string; args: string[] },
  { user }: SandboxOrder,
  { euid }: LocalMachine,
  extraPipes: number,
): ChildProcess {
  const devNull = openSync('/dev/null', 'r')
  try {
    const own: Stdio[] = Array.from({ length: 3 + extraPipes }, () => 'pipe')
    const leaking = listInheritableFds().filter((fd) => fd >= own.length)
    const { program, args } = buildCommand(leaking)
    const as = euid === 0 ? { uid: user.uid, gid: user.gid } : {}
    return spawn(program, args, { ...as, env: {}, cwd: '/', stdio: coverInheritedFds(own, leaking, devNull) })
  } finally {
    closeSync(devNull)
  }
}

function createGroup(
  child: ChildProcess,
  order: SandboxOrder,
  cgroups: ControlGroups | undefined,
): Cgroup | undefined {
  if (child.pid === undefined) return undefined
  const { name, maxProcesses, memoryMib } = order
  const limits = { processes: maxProcesses, ...(memoryMib === undefined ? {} : { memoryMib }) }
  const group = cgroups?.create(name, limits)
  if (group === undefined || group.addProcess(child.pid)) return group
  group.remove()
  return undefined
}

/** Ignores write errors: bubblewrap may exit before it has read everything, and its end shows why. */
function writeInputs(child: ChildProcess, inputs: readonly (string | Uint8Array)[]): void {
  for (const [index, bytes] of inputs.entries()) {
    // Descriptors from 3 on were requested as pipes, which Node implements as duplex streams.
    const pipe = child.stdio[index + 3] as Writable | null | undefined
    pipe?.on('error', () => {}).end(bytes)
  }
}

/** A sandbox process for an order that could not be started: no output, and already ended with the reason. */
function failedSandbox(reason: string): SandboxProcess {
  return {
    stdout: Readable.from([]),
    stderr: Readable.from([]),
    interrupt: () => {},
    kill: () => {},
    ended: Promise.resolve({ startFailure: reason }),
  }
}

// ---- the order -----------------------------------------------------------------------------------------------------

const SANDBOX_NAME = /^[A-Za-z0-9-]{1,128}$/
/** Paths that the sandbox creates itself. Mounting a host path on or above one of them would expose the host. */
const SANDBOX_PATHS = [
  WORK,
  HOME,
  '/proc',
  '/dev',
  '/tmp',
  '/run',
  '/etc',
  '/sys',
  '/home',
  '/root',
  '/var',
  '/boot',
]

/**
 * Validates a sandbox order before anything is started for it.
 *
 * Each `find…Problem` function returns a sentence for the first problem, or undefined when there is none.
 */
function findOrderProblem(order: SandboxOrder): string | undefined {
  const { name, user, workFolder, homeFolder, mounts = [], readOnlyPaths = [], egressSocket, command } = order
  if (!SANDBOX_NAME.test(name)) return `${JSON.stringify(name)} is not a valid sandbox name`
  if (user.uid === 0) return 'a sandbox never runs as root'
  if (command.length === 0) return 'there is no command to run'
  const writableFolders = [
    workFolder,
    homeFolder,
    ...mounts.filter(({ writable = false }) => writable).map(({ from }) => from),
  ]
  return (
    findFirstProblem(writableFolders, (path) => findFolderProblem(path, user)) ??
    findFirstProblem(mounts, ({ to }) => findMountPointProblem(to)) ??
    findFirstProblem(readOnlyPaths, (path) => findReadOnlyPathProblem(path, writableFolders)) ??
    (egressSocket === undefined ? undefined : findSocketProblem(egressSocket))
  )
}

function findMountPointProblem(to: string): string | undefined {
  const isPlain = isAbsolute(to) && normalize(to) === to && to !== '/'
  return isPlain && !SANDBOX_PATHS.includes(to)
    ? undefined
    : `${to} is not a valid mount point inside the sandbox`
}

function findReadOnlyPathProblem(path: string, writableFolders: readonly string[]): string | undefined {
  if (!isAbsolute(path) || normalize(path) !== path)
    return `${path} cannot be mounted: it is not a normalized absolute path`
  const exposed = [...SANDBOX_PATHS, ...writableFolders].find(
    (each) => each === path || ancestorsOf(each).includes(path),
  )
  return exposed === undefined ? undefined : `${path} cannot be mounted: it would expose ${exposed}`
}

function ancestorsOf(path: string): string[] {
  const parent = dirname(path)
  return parent === path ? [] : [parent, ...ancestorsOf(parent)]
}

function findFirstProblem<T>(
  values: readonly T[],
  findProblem: (value: T) => string | undefined,
): string | undefined {
  for (const value of values) {
    const problem = findProblem(value)
    if (problem !== undefined) return problem
  }
  return undefined
}

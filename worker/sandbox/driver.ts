/**
 * The types that a sandbox provider implements: the probe of this machine, the launcher of its sandboxes, and a command
 * that runs in one: the order for it, its streams, and how it ends.
 */
import type { Readable, Writable } from 'node:stream'
import type { Clock } from '../../core/ports/clock.ts'
import type { SandboxProvider } from '../../protocol/config.ts'
import type { HostExecution } from '../../protocol/worker.ts'

export interface SandboxDriver {
  /** Finds out whether the provider isolates an agent completely on this machine. Never offers a weaker sandbox. */
  probe(): Promise<SandboxDriverProbe>
}

export type SandboxDriverProbe =
  | (SandboxWalls & { readonly ok: true; createLauncher(clock: Clock): LocalSandboxLauncher })
  | SandboxUnavailable

/** The walls between an agent and this machine, in words for people. */
export interface SandboxWalls {
  readonly walls: readonly string[]
  /** Walls that this machine can't give, each with the reason; a sandbox isolates without them. */
  readonly missingWalls: readonly string[]
}

export interface SandboxUnavailable {
  readonly ok: false
  readonly reason: Extract<HostExecution, { kind: 'none' }>['reason']
  /** A sentence for people, with the command that helps if there is one. */
  readonly detail: string
  /** The same for callers that show the command apart. Absent: only the sentence is known. */
  readonly fault?: SandboxFault
}

export interface SandboxFault {
  /** The part to mend: a missing program, user namespaces that the kernel refuses, or the container around the worker. */
  readonly of: 'program' | 'user-namespaces' | 'container'
  readonly problem: string
  /** The command that helps, or what to set for the container. */
  readonly cure: string
}

export interface LocalSandboxLauncher extends SandboxLauncher {
  /** Whether a control group limits processes and memory, or only per-process limits. */
  limitsEnforcedBy(): 'cgroup' | 'rlimit'
}

/** A provider that works on this machine. */
export interface AvailableSandbox extends SandboxWalls {
  readonly ok: true
  readonly provider: SandboxProvider
  createLauncher(clock: Clock): LocalSandboxLauncher
}

/** The host user a sandbox runs as: a user id of its own when the worker is root, otherwise the worker's own. */
export interface SandboxUser {
  readonly number: number
  readonly uid: number
  readonly gid: number
}

/** A file that exists only inside the sandbox and never on the host's disk. */
export interface SandboxFile {
  readonly path: string
  readonly mode: `0${string}`
  readonly text: string
}

/** A host folder mounted under another name inside, read-only unless `writable` is set. */
export interface SandboxMount {
  readonly from: string
  readonly to: string
  readonly writable?: boolean
}

export interface SandboxOrder {
  readonly user: SandboxUser
  /** The run's own name in cgroups and logs: letters, digits and dashes. */
  readonly name: string
  /** Host folder mounted as /work. */
  readonly workFolder: string
  /** Host folder mounted as the home directory. */
  readonly homeFolder: string
  readonly mounts?: readonly SandboxMount[]
  /** Host paths mounted read-only under their own name, such as the folder an agent is installed in. */
  readonly readOnlyPaths?: readonly string[]
  /** Must hold no secrets: /proc/PID/environ shows it. */
  readonly environment?: Readonly<Record<string, string>>
  /** Files that exist only inside the sandbox. Put credentials under /run/cred with mode 0400. */
  readonly files?: readonly SandboxFile[]
  /** Socket of the egress proxy; without it the sandbox has no network. */
  readonly egressSocket?: string
  readonly maxProcesses: number
  readonly memoryMib?: number
  readonly command: readonly string[]
  /** Text written to the command's standard input, which is then closed. Without it the input is empty. */
  readonly stdin?: string
  /** Keeps standard input open; write to it through `SandboxProcess.input`. Excludes `stdin`. */
  readonly openInput?: boolean
}

export interface SandboxEnd {
  /** Absent when a signal ended the command. */
  readonly code?: number
  readonly signal?: string
  /** Why the sandbox could not be created, and the command that fixes it when known. */
  readonly startFailure?: string
}

export interface SandboxProcess {
  /** Present for orders with `openInput`. Buffers everything written before the command starts, and never fails. */
  readonly input?: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** Sends SIGINT to the command, so that an agent can still report its cost. */
  interrupt(): void
  /** Kills every process in the sandbox at once. */
  kill(): void
  /** Resolves when every process inside is gone and both streams have ended. Never rejects. */
  readonly ended: Promise<SandboxEnd>
}

export interface SandboxLauncher {
  launch(order: SandboxOrder): SandboxProcess
}

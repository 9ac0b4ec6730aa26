/**
 * The types of a command that runs in a sandbox: the order for it, its streams, and how it ends.
 *
 * A provider's driver makes the `SandboxLauncher`, see `registry.ts`.
 */
import type { Readable, Writable } from 'node:stream'

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

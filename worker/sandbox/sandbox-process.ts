/**
 * A command in a sandbox, as the rest of the worker sees it: what goes in, what comes out, how it is ended.
 *
 * Types only. `launch.ts` makes one.
 */
import type { Readable, Writable } from 'node:stream'
import type { SandboxFile } from './arguments.ts'

/** Whom a sandbox runs as outside: a user id of its own when the worker is root, else the worker itself. */
export interface SandboxUser {
  readonly number: number
  readonly uid: number
  readonly gid: number
}

export interface SandboxOrder {
  readonly user: SandboxUser
  /** The run's own name in cgroups and logs: letters, digits and dashes. */
  readonly name: string
  /** Host folder that becomes /work. */
  readonly workFolder: string
  /** Host folder that becomes the home directory. */
  readonly homeFolder: string
  /** Host folders that appear read-only under another name inside. */
  readonly mounts?: readonly { readonly from: string; readonly to: string; readonly writable?: boolean }[]
  /** Host paths shown under their own name, read-only: where an agent is installed. */
  readonly readOnlyPaths?: readonly string[]
  /** Nothing secret: it stands in /proc/PID/environ. */
  readonly environment?: Readonly<Record<string, string>>
  /** Files that exist only inside; credentials belong under /run/cred with mode 0400. */
  readonly files?: readonly SandboxFile[]
  /** Socket of the egress proxy; without it there is no way out. */
  readonly egressSocket?: string
  readonly maxProcesses: number
  readonly memoryMib?: number
  readonly command: readonly string[]
  /** Written to the command's standard input, then closed; without it, it reads nothing. */
  readonly stdin?: string
  /** Its standard input stays open, and is written to through `input` of the process. Not together with `stdin`. */
  readonly openInput?: boolean
}

export interface SandboxEnd {
  /** Absent when a signal ended it. */
  readonly code?: number
  readonly signal?: string
  /** bubblewrap itself could not make the sandbox: why, and what cures it. */
  readonly startFailure?: string
}

export interface SandboxProcess {
  /** Of an order with `openInput`; what is written before the command begins waits for it. Never fails. */
  readonly input?: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** SIGINT to the command, so that it may say what it has spent. */
  interrupt(): void
  /** The whole tree, at once. */
  kill(): void
  /** When every process inside is gone and the streams have ended. Never rejects. */
  readonly ended: Promise<SandboxEnd>
}

export interface SandboxLauncher {
  launch(order: SandboxOrder): SandboxProcess
}

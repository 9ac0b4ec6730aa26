/**
 * The types that a sandbox provider implements: the probe of this machine, and the launcher of its sandboxes.
 */
import type { Clock } from '../../core/ports.ts'
import type { SandboxProvider } from '../../protocol/config.ts'
import type { HostExecution } from '../../protocol/worker.ts'
import type { SandboxLauncher } from './sandbox-process.ts'

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

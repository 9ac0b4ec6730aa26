/** The executor's dependencies: every part of the outside world that a run on this machine uses. */
import type { RetentionClock } from '../../../core/daemon/ports.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { CodeHost } from '../../../core/ports/code-host.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Result } from '../../../core/result.ts'
import type { AgentProvider } from '../../../protocol/agents/registry.ts'
import type { SandboxProvider } from '../../../protocol/config.ts'
import type { Job } from '../../../protocol/frames.ts'
import type { AgentDriver } from '../../agents/agent.ts'
import type { GitSources } from '../../git/git-ports.ts'
import type { ModelUpstream } from '../../model-api/dialed-upstream.ts'
import type { SandboxLauncher, SandboxUser } from '../../sandbox/driver.ts'
import type { SandboxEgress, SandboxEgressOptions } from '../../sandbox/egress/sandbox-egress.ts'
import type { OwnSecrets } from '../../secrets/run-secrets.ts'
import type { DiskSpace } from '../disk/disk-space.ts'
import type { NodeInside } from '../disk/sandbox-location.ts'

export interface ExecutorDependencies {
  /** The folder that holds all sandboxes, see `sandbox-location.ts`. */
  readonly folder: string
  readonly clock: Clock
  readonly retentionClock: RetentionClock
  readonly log: Log
  /** A new random UUID. */
  readonly uuid: () => string
  readonly sandboxProvider: SandboxProvider
  readonly launcher: SandboxLauncher
  /** The memory of a sandbox without a limit of its own, where this machine can enforce one. */
  readonly memoryMib?: number
  /** The user that the sandbox with this number runs as. */
  readonly userFor: (number: number) => SandboxUser
  /** The number at which the search for a free sandbox number begins; workers on one machine should differ. */
  readonly firstNumber: number
  /** Whether the worker runs as root, so that each folder must be chowned to the user of its sandbox. */
  readonly isRoot: boolean
  readonly removeFolder: (folder: string) => Promise<void>
  readonly gitSources: GitSources
  readonly codehostFor: (job: Job) => Result<CodeHost>
  readonly drivers: Readonly<Record<AgentProvider, AgentDriver>>
  /** The connections of this machine to the vendors of models. */
  readonly modelUpstream: ModelUpstream
  readonly openEgress: (request: SandboxEgressOptions) => Promise<SandboxEgress>
  /** The folder with switchyard's own programs that run inside a sandbox. */
  readonly insidePrograms: string
  /** The Node program for them. */
  readonly node: NodeInside
  readonly gitconfig: string
  /** The worker's own secrets, which nothing that leaves a sandbox may hold. */
  readonly ownSecrets?: OwnSecrets
  readonly stallMs: number
  /** How long the steps between the end of the agent and its publishing may take, if not the default. */
  readonly finalizingMs?: number
  readonly freeSpace: () => Promise<DiskSpace>
  /** The size of the disk with the sandboxes; undefined: unknown. */
  readonly diskBytes: () => Promise<number | undefined>
  /** The bytes that a folder takes while processes change it; undefined: unknown. */
  readonly measureFolder: (folder: string) => Promise<number | undefined>
  /** Called last, when the executor uses none of these dependencies any more. */
  readonly onClosed: () => Promise<void>
}

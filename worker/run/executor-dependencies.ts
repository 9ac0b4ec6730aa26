/** What executions are made from: everything of the world that a run on this machine touches. */
import type { Clock, CodeHost, Log } from '../../core/ports.ts'
import type { Result } from '../../core/result.ts'
import type { AgentProvider } from '../../protocol/config.ts'
import type { Job } from '../../protocol/frames.ts'
import type { AgentDriver } from '../agents/agent.ts'
import type { GitSources } from '../git/git-ports.ts'
import type { SandboxEgress, SandboxEgressOptions } from '../sandbox/egress/sandbox-egress.ts'
import type { SandboxLauncher, SandboxUser } from '../sandbox/sandbox-process.ts'

export interface ExecutorDependencies {
  /** Where sandboxes may lie: see `ground.ts`. */
  readonly folder: string
  readonly clock: Clock
  readonly log: Log
  /** A new random UUID. */
  readonly uuid: () => string
  readonly launcher: SandboxLauncher
  /** Whom the sandbox of a number runs as. */
  readonly userFor: (number: number) => SandboxUser
  /** Of the sandboxes that are made from now on: another than that of any other worker here. */
  readonly firstNumber: number
  /** The worker is root, so that folders have to be given to whom they are for. */
  readonly isRoot: boolean
  readonly removeFolder: (folder: string) => Promise<void>
  readonly gitSources: GitSources
  readonly codehostFor: (job: Job) => Result<CodeHost>
  readonly drivers: Readonly<Record<AgentProvider, AgentDriver>>
  readonly openEgress: (request: SandboxEgressOptions) => Promise<SandboxEgress>
  /** Our own programs that run inside, as the build left them. */
  readonly insidePrograms: string
  /** The Node that runs them, and host paths it needs shown. */
  readonly node: { readonly program: string; readonly readOnlyPaths: readonly string[] }
  readonly gitconfig: string
  readonly stallMs: number
  readonly freeBytes: () => Promise<number>
  /** Nothing here is used any more. */
  readonly onClosed: () => Promise<void>
}

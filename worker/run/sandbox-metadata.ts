/**
 * The agent and the isolation settings of a sandbox, as stored in its record: resuming the sandbox days later needs
 * both, and the job no longer exists. The record contains no secrets: each resume brings its own credentials.
 */
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { JobAgent, JobSandbox } from '../../protocol/frames.ts'

export interface SandboxAgent extends Pick<JobAgent, 'command' | 'model' | 'effort'> {
  readonly provider: AgentProvider
  /** The execution that started it; missing in older records. */
  readonly leaseId?: string
  /** The session id under which the agent stores its transcript. */
  readonly session: string
  /** Transcript entries before this instant belong to earlier executions. */
  readonly since?: string
}

export type SandboxIsolation = Pick<JobSandbox, 'network' | 'allowedHosts' | 'maxProcesses' | 'memoryMib'>

export function sandboxAgentOf(
  { provider, command, model, effort }: JobAgent,
  {
    leaseId,
    session,
    since,
  }: { readonly leaseId: string; readonly session: string; readonly since?: string | undefined },
): SandboxAgent {
  return {
    provider,
    leaseId,
    session,
    ...(since === undefined ? {} : { since }),
    ...(command === undefined ? {} : { command }),
    ...(model === undefined ? {} : { model }),
    ...(effort === undefined ? {} : { effort }),
  }
}

/** @param derived what the run may reach besides the configured hosts; a resumed sandbox reaches it too */
export function isolationOf(
  sandbox: JobSandbox | undefined,
  derived: readonly string[] = [],
): SandboxIsolation | undefined {
  if (sandbox === undefined) return undefined
  const { network, allowedHosts, maxProcesses, memoryMib } = sandbox
  const hosts = [...allowedHosts, ...derived]
  return { network, allowedHosts: hosts, maxProcesses, ...(memoryMib === undefined ? {} : { memoryMib }) }
}

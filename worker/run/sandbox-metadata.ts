/**
 * Who works in a sandbox and behind which walls, as it is noted beside it: whoever comes back days later, when nobody
 * has the job any more, finds both as they were. Nothing secret: credentials come anew with whoever comes.
 */
import type { AgentProvider } from '../../protocol/config.ts'
import type { JobAgent, JobSandbox } from '../../protocol/frames.ts'

export interface SandboxAgent extends Pick<JobAgent, 'command' | 'model' | 'effort'> {
  readonly provider: AgentProvider
  /** The name under which it keeps its records. */
  readonly session: string
  /** An instant before which what is in them belongs to earlier executions. */
  readonly since?: string
}

export type SandboxIsolation = Pick<JobSandbox, 'network' | 'allowedHosts' | 'maxProcesses' | 'memoryMib'>

export function sandboxAgentOf(
  { provider, command, model, effort }: JobAgent,
  session: string,
  since?: string,
): SandboxAgent {
  return {
    provider,
    session,
    ...(since === undefined ? {} : { since }),
    ...(command === undefined ? {} : { command }),
    ...(model === undefined ? {} : { model }),
    ...(effort === undefined ? {} : { effort }),
  }
}

export function isolationOf(sandbox: JobSandbox | undefined): SandboxIsolation | undefined {
  if (sandbox === undefined) return undefined
  const { network, allowedHosts, maxProcesses, memoryMib } = sandbox
  return { network, allowedHosts, maxProcesses, ...(memoryMib === undefined ? {} : { memoryMib }) }
}

/**
 * `SandboxRecord` is what the worker remembers of one sandbox, in a file beside its folders.
 *
 * The record tells until when the sandbox is retained, and holds the agent and the isolation of its run: resuming the
 * sandbox days later needs both, and the job no longer exists. The record contains no secrets, because each resume
 * brings its own credentials.
 */
import { readFile, stat } from 'node:fs/promises'
import type { AgentProvider } from '../../../protocol/agents/registry.ts'
import type { JobAgent, JobSandbox } from '../../../protocol/frames.ts'
import { isSandboxUid, SANDBOX_UID_BASE } from '../../sandbox/folders.ts'

export interface SandboxRecord {
  readonly v: 1
  readonly runId: string
  /** Decides the user that the sandbox runs as; unique among the sandboxes on this disk. */
  readonly number: number
  readonly createdAt: string
  /** Absent while the run is executing. */
  readonly retainedUntil?: string
  /** Usage after this instant is a person's, not the run's. */
  readonly retainedAt?: string
  /** Whether the folder holds work that exists nowhere else. */
  readonly unpushed: boolean
  readonly bytes: number
  /** The number of inodes. */
  readonly files?: number
  readonly quotaGib?: number
  readonly sessionId?: string
  /** Recorded before the agent starts. */
  readonly agent?: SandboxAgent
  /** The isolation of the run; a resumed sandbox gets the same. */
  readonly walls?: SandboxIsolation
}

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

export const RECORD_FILE = 'sandbox.json'

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

/** Whether an agent ever ran in the sandbox; otherwise nothing in it is worth keeping. */
export function hadAgent({ agent, sessionId }: SandboxRecord): boolean {
  return agent !== undefined || sessionId !== undefined
}

/** The number of the user who owns the folder; without root it does not matter. */
export async function numberOf(work: string): Promise<number> {
  const owner = await stat(work).catch(() => undefined)
  return owner !== undefined && isSandboxUid(owner.uid) ? owner.uid - SANDBOX_UID_BASE : -1
}

/**
 * `damaged`: written only in part, or not at all, because the daemon died during the run. `unreadable`: the disk failed,
 * or another version of the worker wrote it; the folder may hold work that exists nowhere else.
 */
export async function readRecord(
  path: string,
  runId: string,
): Promise<SandboxRecord | 'damaged' | 'unreadable'> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) =>
    error.code === 'ENOENT' || error.code === 'ENOTDIR' ? '' : undefined,
  )
  if (text === undefined) return 'unreadable'
  try {
    // Trusted content: the folder belongs to the worker, and the sandbox does not show this file.
    const record = JSON.parse(text) as SandboxRecord
    if (record.v !== 1) return 'unreadable'
    return record.runId === runId && Number.isInteger(record.number) ? record : 'damaged'
  } catch {
    return 'damaged'
  }
}

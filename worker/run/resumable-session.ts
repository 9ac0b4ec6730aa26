/** `findResumableSession` finds the session of an earlier execution in which the agent of a job can go on. */
import { AGENTS } from '../../protocol/agents/registry.ts'
import type { AgentJob } from '../../protocol/frames.ts'
import { openAgentFiles } from '../agents/agent-files.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import type { Sandboxes } from './sandboxes.ts'

/** Returns the id of a session in the run's sandbox that belongs to the job's agent and has a transcript. */
export async function findResumableSession(
  { drivers, log }: Pick<ExecutorDependencies, 'drivers' | 'log'>,
  sandboxes: Sandboxes,
  { run, agent: { provider } }: AgentJob,
): Promise<string | undefined> {
  const record = sandboxes.get(run.id)
  const sessionId = record?.sessionId ?? record?.agent?.session
  if (sessionId === undefined || !AGENTS[provider].isResumable || record?.agent?.provider !== provider)
    return undefined
  try {
    const { home } = sandboxes.foldersOf(run.id)
    const usage = await drivers[provider].readUsage(
      openAgentFiles(home, () => true),
      sessionId,
    )
    return usage.length === 0 ? undefined : sessionId
  } catch (error) {
    log.warn({ err: error }, 'the session of an earlier execution cannot be read; a new one begins')
    return undefined
  }
}

/** `probeInTime` looks for the agents once before a worker registers, and gives up when that takes long. */
import type { Log } from '../core/ports.ts'
import { AGENT_PROBE_MS_MAX } from '../protocol/limits.ts'
import type { WorkerAgents } from '../protocol/worker.ts'
import { realClock } from './clock.ts'

/** The first registration names the agents, unless looking for them takes long. */
export async function probeInTime(
  probeAgents: () => Promise<WorkerAgents>,
  log: Log,
): Promise<{ readonly agents?: WorkerAgents }> {
  let cancel = () => {}
  const late = new Promise<undefined>((resolve) => {
    cancel = realClock.after(AGENT_PROBE_MS_MAX, () => resolve(undefined))
  })
  const agents = await Promise.race([probeAgents().catch(() => undefined), late])
  cancel()
  if (agents === undefined) return {}
  // The host names a missing agent to the runs that need it.
  const problems = Object.values(agents).flatMap(({ problem }) => problem ?? [])
  if (problems.length > 0) log.debug({ problems }, 'agents are missing')
  return { agents }
}

/** Joins the requests to stop one execution, which may come one after the other. */
import type { StopRequest } from './ports.ts'

/**
 * Returns what both requests together ask for; undefined when the later one adds nothing. A kill may follow an interrupt,
 * and the loss of the lease may follow either. The reason is that of the kill, if there is one; an execution keeps the
 * first one as the reason why its run ends.
 */
export function joinStopRequests(
  before: StopRequest | undefined,
  later: StopRequest,
): StopRequest | undefined {
  if (before === undefined) return later
  const how = before.how === 'kill' ? 'kill' : later.how
  const isLeaseLost = before.leaseLost === true || later.leaseLost === true
  if (how === before.how && isLeaseLost === (before.leaseLost === true)) return undefined
  const { reason } = how === before.how ? before : later
  return { how, reason, ...(isLeaseLost ? { leaseLost: true } : {}) }
}

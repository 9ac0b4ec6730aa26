/**
 * Judges every gate between a ticket and a worker, from the decisions that the service itself makes.
 *
 * The gate at which the scheduler holds a run never passes, so the gates agree with the run's queue reason. A run
 * whose gates all pass is dispatched next.
 */
import { GATE_IDS, type Gate, type GateId } from '../../protocol/explain.ts'
import { ticketInCommand } from '../run/name-in-commands.ts'
import { isTerminal } from '../run/run-transitions.ts'
import type { ExplainFacts } from './facts.ts'
import { pass, stop, wait } from './gate.ts'
import { judgeBlockers, judgeEligibility, judgeRepository } from './ticket-gates.ts'
import { judgeLastPoll, judgeTracker } from './tracker-gates.ts'
import { judgeCapacity, judgeCredential, judgeSandbox, judgeWorkers } from './worker-gates.ts'

const judges: Readonly<Record<GateId, (facts: ExplainFacts) => Gate>> = {
  tracker: judgeTracker,
  'last poll': judgeLastPoll,
  eligible: judgeEligibility,
  repository: judgeRepository,
  blockers: judgeBlockers,
  duplicate: judgeDuplicate,
  policy: judgePolicy,
  workers: judgeWorkers,
  capacity: judgeCapacity,
  credential: judgeCredential,
  sandbox: judgeSandbox,
}

export function explainGates(facts: ExplainFacts): Gate[] {
  const { waitsFor, sentTo } = facts.run ?? {}
  return GATE_IDS.map((id) => {
    const gate = judges[id](facts)
    // The run is behind every gate, even behind one that is closed by now.
    if (sentTo !== undefined && (gate.status !== 'pass' || WORKER_GATES.has(id)))
      return pass(id, `the run was sent to ${sentTo}`)
    return gate.status === 'pass' && waitsFor?.gate === id ? wait(id, waitsFor.reason, waitsFor.cure) : gate
  })
}

const WORKER_GATES: ReadonlySet<GateId> = new Set(['workers', 'capacity', 'credential', 'sandbox'])

function judgeDuplicate({ ticket, otherRun }: ExplainFacts): Gate {
  if (otherRun === undefined) return pass('duplicate', 'no other active run')
  const { id, status, isMerged } = otherRun
  if (!isTerminal(status)) return wait('duplicate', `${id} is ${status}`, `switchyard explain ${id}`)
  const { identifier } = ticket
  const again = status === 'completed' || isMerged ? 'start' : 'retry'
  return stop(
    'duplicate',
    `${id} is ${status}, and ${identifier} has not changed its state since`,
    `switchyard ${again} ${ticketInCommand(ticket)}`,
  )
}

function judgePolicy({ config, serviceProblem, startable }: ExplainFacts): Gate {
  if (serviceProblem !== undefined) return wait('policy', serviceProblem)
  if (!config.policy.paused) return pass('policy', 'not paused')
  const runs = startable === 1 ? '1 run' : `${startable} runs`
  return stop('policy', `running work goes on; ${runs} would start`, 'switchyard resume')
}

/** The part of the demand that the fleet can cure: free slots, machines, agents. It says too that dispatching is paused. */
import { Button } from '../../elements/button.tsx'
import { Reason } from '../../elements/reason.tsx'
import { showError } from '../../elements/toasts.ts'
import { countOf } from '../../text/amounts.ts'
import { queueGroups } from '../overview/queue-groups.ts'
import { host } from '../state/host.ts'
import { config, runs } from '../state/records.ts'
import { showPairing } from './pair-worker.tsx'

/** The host's words for runs that one more worker could take, or that wait for the fleet. */
const FLEET_REASONS = /^(fleet at capacity|no workers connected|all workers |no worker has |worker .+ holds )/

export function FleetDemand() {
  const waiting = [...runs.value.values()].filter(
    ({ status, queueReason = '' }) => status === 'queued' && FLEET_REASONS.test(queueReason),
  )
  const isPaused = config.value?.policy.paused === true
  if (waiting.length === 0 && !isPaused) return null
  return (
    <ul class="card padded fleet-demand" aria-label="What the queue waits for">
      {isPaused && (
        <li>
          <Reason
            fact="Dispatching is paused."
            explanation="Runs in progress go on, and no new ones start."
            cure={
              <Button kind="link" act={() => host.resumeDispatch().then(() => {}, showError)}>
                Resume dispatching
              </Button>
            }
          />
        </li>
      )}
      {queueGroups(waiting).map(({ fact, explanation, runs: members }) => (
        <li key={fact}>
          <Reason
            fact={`${fact}.`}
            explanation={`${countOf(members.length, 'run waits', 'runs wait')}. ${explanation ?? ''}`}
            cure={
              <Button kind="link" act={showPairing}>
                Pair a worker
              </Button>
            }
          />
        </li>
      ))}
    </ul>
  )
}

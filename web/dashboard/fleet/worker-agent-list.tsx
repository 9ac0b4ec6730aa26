/** The agents of a worker: those that it can run, and those that it cannot, with the cure where runs need them. */
import { productName } from '../../../client/agent-names.ts'
import type { WorkerAgents } from '../../../protocol/worker.ts'
import { Glyph } from '../../elements/glyph.tsx'
import { config } from '../state/records.ts'
import { neededAgents } from './worker-state.ts'

/** Workers of an earlier version name no agents. */
export function WorkerAgentList({ agents }: { readonly agents: WorkerAgents | undefined }) {
  if (agents === undefined) return null
  const needed = config.value === undefined ? new Set() : neededAgents(config.value)
  const entries = Object.entries(agents)
  const found = entries.filter(([, agent]) => agent.found)
  const absent = entries.filter(([provider, agent]) => !agent.found && !needed.has(provider))
  const problems = entries.filter(
    ([provider, agent]) =>
      (agent.found && agent.problem !== undefined) || (!agent.found && needed.has(provider)),
  )
  return (
    <>
      <ul class="worker-facts">
        {found.map(([provider, { version, loggedIn }]) => (
          <li key={provider}>
            {productName(provider)}
            {version === undefined ? '' : ` ${version}`}
            {loggedIn === true && <span class="faint"> logged in</span>}
          </li>
        ))}
        {absent.map(([provider, { problem }]) => (
          <li class="faint" key={provider} title={problem}>
            no {productName(provider)}
          </li>
        ))}
      </ul>
      {problems.map(([provider, { problem, found: isFound }]) => (
        <p class="worker-problem" key={provider}>
          <Glyph name="needs-you" />
          <span>
            {productName(provider)} {isFound ? 'has a problem' : 'is not found'}:{' '}
            <span class="quiet">{problem ?? 'install it on the machine'}</span>
          </span>
        </p>
      ))}
    </>
  )
}

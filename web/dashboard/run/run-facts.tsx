/** The facts of a run below its title: agent, worker, branch, cost, ticket. */
import type { ComponentChildren } from 'preact'
import { productName } from '../../../client/agent-names.ts'
import type { Run } from '../../../protocol/run.ts'
import { agentOf } from '../../../protocol/run-agent.ts'
import { formatMoney } from '../../text/amounts.ts'
import { shortenMiddle } from '../../text/shorten.ts'
import { ticketAddress, workerAddress } from '../addresses.ts'
import { config, workers } from '../state/records.ts'
import { PRIORITY_NAMES } from '../tickets/priority-names.ts'

const BRANCH_CHARS_MAX = 40

export function RunFacts({ run }: { readonly run: Run }) {
  const { ticket, sandbox, costs, costTotals, agent, pull, result } = run
  const provider = config.value && agentOf(run, config.value)
  const model = costs.at(-1)?.model ?? agent?.model
  const worker = workers.value.find(({ id }) => id === sandbox.workerId)
  const branch = pull?.branch ?? result?.branch
  return (
    <dl class="run-facts">
      {provider !== undefined && (
        <Fact name="Agent">
          {productName(provider)}
          {model !== undefined && `, ${model}`}
        </Fact>
      )}
      {sandbox.workerId !== undefined && (
        <Fact name="Worker">
          <a href={workerAddress(sandbox.workerId)}>
            {worker?.name ?? sandbox.workerName ?? sandbox.workerId}
          </a>
        </Fact>
      )}
      {branch !== undefined && (
        <Fact name="Branch">
          <code title={branch}>{shortenMiddle(branch, BRANCH_CHARS_MAX)}</code>
        </Fact>
      )}
      <Fact name="Cost">{formatMoney(costTotals)}</Fact>
      <Fact name="Ticket">
        <a href={ticketAddress(ticket.id)}>{ticket.identifier}</a>
        {ticket.priority !== 0 && `, ${PRIORITY_NAMES[ticket.priority]}`}
      </Fact>
    </dl>
  )
}

const Fact = ({ name, children }: { readonly name: string; readonly children: ComponentChildren }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
)

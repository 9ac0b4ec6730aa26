/** The panel beside the log of a run: pull request, cost, placement, artifacts, memories, instructions. */
import { hasEnded } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import { Glyph, glyphWord } from '../../elements/glyph.tsx'
import { now } from '../../elements/moments.tsx'
import { countOf, formatMoney, formatShare, formatTokens } from '../../text/amounts.ts'
import { formatInstant } from '../../text/times.ts'
import { pullAddress } from '../addresses.ts'
import { GateList } from '../gates/gate-list.tsx'
import { waitWords } from '../overview/queue-groups.ts'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'
import { useRequest } from '../state/use-request.ts'
import { PanelPart } from './panel-part.tsx'
import { RunArtifacts } from './run-artifacts.tsx'
import { RunMemories } from './run-memories.tsx'
import { nextPublishAt } from './timeline.ts'

export function SidePanel({ run }: { readonly run: Run }) {
  return (
    <aside class="card run-panel" aria-label="About the run">
      {run.status === 'queued' && <WaitingFor run={run} />}
      <PullPart run={run} />
      <CostPart run={run} />
      {run.waitReason !== undefined && (
        <PanelPart title="What it waits for">
          <p class="quiet">{run.waitReason}</p>
        </PanelPart>
      )}
      {run.instructions !== undefined && run.instructions !== '' && (
        <PanelPart title="Instructions">
          <p class="run-instructions">{run.instructions}</p>
        </PanelPart>
      )}
      <RunArtifacts run={run} />
      <RunMemories run={run} />
    </aside>
  )
}

function WaitingFor({ run }: { readonly run: Run }) {
  const { data } = useRequest(`explain ${run.id} ${run.queueReason}`, (signal) =>
    host.explainRun({ id: run.id }, { signal }),
  )
  const placement = useRequest(`place ${run.id} ${run.queueReason}`, (signal) =>
    host.readPlacement({ id: run.id }, { signal }),
  )
  const nextAt = nextPublishAt(run)
  const candidates = placement.data?.workers ?? []
  return (
    <>
      <PanelPart title="What it waits for">
        {nextAt !== undefined && (
          <p>
            The agent is done. Its work is published again at {formatInstant(nextAt, now.value)}, or by
            “Publish now”.
          </p>
        )}
        <p class="quiet" title={run.queueReason}>
          {waitWords(run)}
        </p>
        {nextAt === undefined && data !== undefined && (
          <GateList gates={data.gates.filter(({ status }) => status !== 'pass')} />
        )}
      </PanelPart>
      {candidates.length > 0 && (
        <PanelPart title="Placement" count={countOf(candidates.length, 'worker')}>
          <table class="panel-table">
            <tbody>
              {candidates.map(({ id, name, free, reason }) => (
                <tr key={id}>
                  <td class="mono">{name}</td>
                  <td class="number quiet">{reason ?? `${free} free`}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </PanelPart>
      )}
    </>
  )
}

function PullPart({ run }: { readonly run: Run }) {
  const { prUrl, prState, pull, ticket } = run
  const repo = Object.entries(config.value?.repos ?? {}).find(
    ([, { remote }]) => remote === pull?.remote,
  )?.[0]
  if (prUrl === undefined)
    return (
      <PanelPart title="Pull request">
        <p class="quiet">
          {hasEnded(run) ? 'The run has opened none.' : 'Opens when the work is published.'}
        </p>
      </PanelPart>
    )
  return (
    <PanelPart title="Pull request">
      <p>
        {prState !== undefined && <Glyph name={prState} />}{' '}
        {repo !== undefined && pull !== undefined ? (
          <a href={pullAddress(repo, pull.number)}>
            #{pull.number} {ticket.title}
          </a>
        ) : (
          <a href={prUrl} rel="noreferrer">
            {prUrl}
          </a>
        )}
      </p>
      <p class="quiet">
        {prState === undefined ? 'Its state is not known yet.' : glyphWord(prState)}
        {pull !== undefined && (
          <>
            {' '}
            on <code>{pull.branch}</code>
          </>
        )}
      </p>
    </PanelPart>
  )
}

function CostPart({ run }: { readonly run: Run }) {
  const { costTotals, costs } = run
  if (costTotals === undefined)
    return (
      <PanelPart title="Cost" count="–">
        <p class="quiet">Nothing has been reported yet.</p>
      </PanelPart>
    )
  const { inputTokens, cacheReadTokens, cacheWriteTokens } = costTotals
  const all = inputTokens + cacheReadTokens + cacheWriteTokens
  const isExample = costs.some(({ source }) => source === 'example')
  return (
    <PanelPart title="Cost" count={formatMoney(costTotals)}>
      <table class="panel-table">
        <thead>
          <tr>
            <th>Model</th>
            <th class="number">In</th>
            <th class="number">Out</th>
            <th class="number">Cost</th>
          </tr>
        </thead>
        <tbody>
          {costTotals.byModel.map((total) => (
            <tr key={total.model}>
              <td class="ellipsis">{total.model}</td>
              <td class="number">
                {formatTokens(total.inputTokens + total.cacheReadTokens + total.cacheWriteTokens)}
              </td>
              <td class="number">{formatTokens(total.outputTokens)}</td>
              <td class="number">{formatMoney(total)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="faint">
        {isExample && 'These figures are made up by the scripted agent. '}
        {costTotals.estimated && '~ is estimated from a price table. '}
        {all > 0 && `${formatShare(cacheReadTokens / all)} of the input was read from a cache.`}
      </p>
    </PanelPart>
  )
}

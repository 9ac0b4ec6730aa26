/** Queued runs by what they wait for. A reason is said once, with its cure. */
import { useSignal } from '@preact/signals'
import { productName } from '../../../client/agent-names.ts'
import type { Run } from '../../../protocol/run.ts'
import { agentOf } from '../../../protocol/run-agent.ts'
import { Button } from '../../elements/button.tsx'
import { Age, now } from '../../elements/moments.tsx'
import { Section } from '../../elements/page-head.tsx'
import { Reason } from '../../elements/reason.tsx'
import { showError } from '../../elements/toasts.ts'
import { formatCount } from '../../text/amounts.ts'
import { ageOf, formatDuration, formatInstant } from '../../text/times.ts'
import { runAddress } from '../addresses.ts'
import { host } from '../state/host.ts'
import { config, runs } from '../state/records.ts'
import { PRIORITY_NAMES } from '../tickets/priority-names.ts'
import { chosenClass } from './chosen-run.ts'
import { ownReason, type QueueGroup, queueGroups } from './queue-groups.ts'
import { RowGlyph } from './row-glyph.tsx'

const SHOWN_FIRST = 8

export function Queued() {
  const groups = queueGroups(runs.value.values())
  const count = groups.reduce((sum, group) => sum + group.runs.length, 0)
  if (count === 0) return null
  return (
    <Section
      title="Queued"
      count={formatCount(count)}
      aside="By priority, then age. Grouped by what they wait for."
    >
      <div class="card">
        {groups.map((group) => (
          <Group key={`${group.fact} ${group.until}`} group={group} />
        ))}
      </div>
    </Section>
  )
}

function Group({ group }: { readonly group: QueueGroup }) {
  const isOpen = useSignal(false)
  const shown = isOpen.value ? group.runs : group.runs.slice(0, SHOWN_FIRST)
  return (
    <div class="queue-group">
      <div class="queue-head">
        <Reason fact={group.fact} explanation={explanationOf(group)} cure={<Cure group={group} />} />
        <span class="faint number">{formatCount(group.runs.length)}</span>
      </div>
      <table class="rows queue-rows" aria-label={group.fact}>
        <tbody>
          {shown.map((run) => (
            <QueuedRow key={run.id} run={run} />
          ))}
        </tbody>
      </table>
      {shown.length < group.runs.length && (
        <div class="queue-more">
          <Button
            kind="link"
            act={() => {
              isOpen.value = true
            }}
          >
            Show all {formatCount(group.runs.length)}
          </Button>
        </div>
      )}
    </div>
  )
}

function explanationOf({ explanation = '', until }: QueueGroup): string {
  if (until === undefined) return explanation
  const left = -(ageOf(until, now.value) ?? 0)
  return `Until ${formatInstant(until, now.value)}, in ${formatDuration(left)}. ${explanation}`
}

function Cure({ group: { cure } }: { readonly group: QueueGroup }) {
  if (cure === undefined) return null
  if (cure.to !== 'resume') return <a href={cure.to}>{cure.text}</a>
  return (
    <Button kind="link" act={() => host.resumeDispatch().then(() => {}, showError)}>
      {cure.text}
    </Button>
  )
}

function QueuedRow({ run }: { readonly run: Run }) {
  const { ticket } = run
  return (
    <tr data-run={run.id} class={chosenClass(run.id)}>
      <td class="glyph-cell">
        <RowGlyph run={run} name="queued" />
      </td>
      <td class="mono faint id-cell">{ticket.identifier}</td>
      <td class="row-title">
        <a class="row-link" href={runAddress(run.id)} title={ticket.title}>
          {ticket.title}
        </a>
        {ownReason(run) !== undefined && <span class="faint"> {ownReason(run)}</span>}
      </td>
      <td class="wide-cell quiet">{ticket.repo}</td>
      <td class="wide-cell quiet">{config.value && productName(agentOf(run, config.value))}</td>
      <td class="wide-cell quiet">{ticket.priority !== 0 && PRIORITY_NAMES[ticket.priority]}</td>
      <td class="number age-cell quiet">
        <Age since={run.queuedAt ?? run.createdAt} />
      </td>
    </tr>
  )
}

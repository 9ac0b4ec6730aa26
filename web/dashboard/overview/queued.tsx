/** Queued runs by what they wait for. A reason is said once, with its cure. */

import { useSignal } from '@preact/signals'
import { productName } from '../../../client/agent-names.ts'
import type { Run } from '../../../protocol/run.ts'
import { agentOf } from '../../../protocol/run-agent.ts'
import { Button, OpenButton } from '../../elements/button.tsx'
import { Age, now } from '../../elements/moments.tsx'
import { Section } from '../../elements/page-head.tsx'
import { Reason } from '../../elements/reason.tsx'
import { formatCount } from '../../text/amounts.ts'
import { ageOf, formatDuration, formatInstant } from '../../text/times.ts'
import { runAddress } from '../addresses.ts'
import { resume } from '../runs/pause.tsx'
import { chosenClass } from '../runs/selection.ts'
import { config, runs } from '../state/records.ts'
import { PRIORITY_NAMES } from '../tracker-words.ts'
import { BlockerWords, knownBlockers } from './blocker-words.tsx'
import {
  type GroupHead,
  hostWords,
  ownReason,
  type QueueCure,
  type QueueGroup,
  queueGroups,
} from './queue-groups.ts'
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
        <Reason
          fact={group.fact}
          explanation={explanationOf(group)}
          cure={group.cure && <GroupCure cure={group.cure} />}
        />
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
          <OpenButton isOpen={isOpen}>Show all {formatCount(group.runs.length)}</OpenButton>
        </div>
      )}
    </div>
  )
}

export function explanationOf({ explanation = '', until }: GroupHead): string {
  if (until === undefined) return explanation
  const left = -(ageOf(until, now.value) ?? 0)
  return `Until ${formatInstant(until, now.value)}, in ${formatDuration(left)}. ${explanation}`
}

interface GroupCureProps {
  readonly cure: QueueCure
  /** On the page of a single run the cure is the primary act. */
  readonly isButton?: boolean
}

export function GroupCure({ cure, isButton = false }: GroupCureProps) {
  if (cure.to !== 'resume')
    return (
      <a class={isButton ? 'button primary' : undefined} href={cure.to}>
        {cure.text}
      </a>
    )
  return (
    <Button kind={isButton ? 'primary' : 'link'} act={resume}>
      {cure.text}
    </Button>
  )
}

function QueuedRow({ run }: { readonly run: Run }) {
  const { ticket } = run
  const blockers = knownBlockers(run)
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
        {ownReason(run) !== undefined && (
          <span class="faint">
            {' '}
            {blockers.length > 0 ? <BlockerWords blockers={blockers} /> : hostWords(ownReason(run) ?? '')}
          </span>
        )}
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

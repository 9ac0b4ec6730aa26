/** The list of what needs a person: each entry says what happened and why, and has the button that cures it. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { hasUnpublishedWork } from '../../../client/run-events.ts'
import type { Run } from '../../../protocol/run.ts'
import { shortenEnd } from '../../../protocol/shorten.ts'
import { Button, OpenButton } from '../../elements/button.tsx'
import { Glyph, type StateGlyph } from '../../elements/glyph.tsx'
import { Moment } from '../../elements/moments.tsx'
import { Section } from '../../elements/page-head.tsx'
import { showError, showOutcome } from '../../elements/toasts.ts'
import { countOf, formatCount } from '../../text/amounts.ts'
import { pullAddress, runAddress } from '../addresses.ts'
import { curePlace } from '../gates/cure-places.ts'
import { host } from '../state/host.ts'
import { attention, attentionMore, isAttentionRead, runs } from '../state/records.ts'
import { type AttentionEntry, attentionEntries } from './attention-entries.ts'
import { hostWords } from './queue-groups.ts'

const GLYPHS: Readonly<Record<AttentionEntry['kind'], StateGlyph>> = {
  failed: 'failed',
  conflict: 'conflict',
  review: 'needs-you',
  login: 'needs-you',
  tracker: 'needs-you',
  secret: 'needs-you',
  codehost: 'needs-you',
  disk: 'needs-you',
  damage: 'failed',
  limit: 'limit',
  budget: 'needs-you',
  'worker-away': 'offline',
}

/** On narrow screens the first three are shown. */
const FIRST_SHOWN = 3
/** On wide screens; thousands of tickets may need a person for one reason. */
const FIRST_SHOWN_WIDE = 10
const NAMED_MAX = 6
const ERROR_CHARS_MAX = 160

export function NeedsYou() {
  const isOpen = useSignal(false)
  if (!isAttentionRead.value) return null
  const entries = attentionEntries(attention.value, (id) => runs.value.get(id))
  if (entries.length === 0)
    return (
      <Section title="Needs you">
        <p class="quiet">Nothing needs you.</p>
      </Section>
    )
  return (
    <Section
      title="Needs you"
      count={formatCount(attention.value.length + attentionMore.value)}
      id="needs-you"
    >
      <ul class={`card needs${isOpen.value ? ' open' : ''}`}>
        {(isOpen.value ? entries : entries.slice(0, FIRST_SHOWN_WIDE)).map((entry) => (
          <Entry key={entry.id} entry={entry} />
        ))}
      </ul>
      {entries.length > FIRST_SHOWN && !isOpen.value && (
        <div class={`needs-more${entries.length > FIRST_SHOWN_WIDE ? ' wide' : ''}`}>
          <OpenButton isOpen={isOpen}>Show all {formatCount(entries.length)}</OpenButton>
        </div>
      )}
      {attentionMore.value > 0 && (
        <p class="quiet">{countOf(attentionMore.value, 'older entry', 'older entries')} not listed.</p>
      )}
    </Section>
  )
}

function Entry({ entry }: { readonly entry: AttentionEntry }) {
  const { kind, items, error, since } = entry
  const [item] = items
  if (item === undefined) return null
  const run = runs.value.get(item.runId ?? '')
  const subject = items.length > 1 ? countOf(items.length, 'run') : (run?.ticket.identifier ?? WORDS[kind])
  return (
    <li class="need">
      <Glyph name={GLYPHS[kind]} />
      <span class="mono faint ellipsis">{subject}</span>
      <div class="need-text">
        <strong>{factOf(entry, run?.ticket.title)}</strong>
        <div class="quiet">
          {error !== undefined && <code title={error}>{shortenEnd(error, ERROR_CHARS_MAX)}</code>}{' '}
          {namesOf(entry)}since <Moment at={since} />
        </div>
      </div>
      <div class="need-acts">{actsOf(entry)}</div>
    </li>
  )
}

const WORDS: Readonly<Record<AttentionEntry['kind'], string>> = {
  failed: 'Run',
  conflict: 'Pull request',
  review: 'Pull request',
  login: 'Login',
  tracker: 'Tracker',
  secret: 'Keys',
  codehost: 'Code host',
  disk: 'Disk',
  damage: 'Data',
  limit: 'Limit',
  budget: 'Budget',
  'worker-away': 'Worker',
}

function factOf({ kind, items }: AttentionEntry, title = ''): string {
  const [item] = items
  const words = item === undefined ? '' : hostWords(item.message)
  // The title is unknown until the run has been read.
  const addition = title === '' ? '' : `: ${title}`
  if (kind === 'failed')
    return items.length > 1 ? `${countOf(items.length, 'run')} failed the same way` : `Failed${addition}`
  return kind === 'review' ? `${words}${addition}` : words
}

function namesOf({ items }: AttentionEntry): ComponentChildren {
  if (items.length < 2) return ''
  const named = items.slice(0, NAMED_MAX)
  return (
    <>
      {named.map(({ runId = '' }, at) => (
        <>
          {at > 0 && ', '}
          <a href={runAddress(runId)}>{runs.value.get(runId)?.ticket.identifier ?? 'a run'}</a>
        </>
      ))}
      {items.length > named.length && ` and ${items.length - named.length} more`},{' '}
    </>
  )
}

/** At most two, the one that cures the cause last. */
function actsOf({ kind, items }: AttentionEntry): ComponentChildren {
  const [item] = items
  if (item === undefined) return null
  const { runId, pull, cure } = item
  if (item.mayAcknowledge === true)
    return (
      <Button busyWord="Acknowledging" act={() => acknowledge(item.id)}>
        Acknowledge
      </Button>
    )
  if (kind === 'secret' && runId !== undefined)
    return (
      <a class="button" href={runAddress(runId)}>
        Decide
      </a>
    )
  const ids = items.flatMap((each) => each.runs ?? each.runId ?? [])
  const publishes = ids.length > 0 && ids.every((id) => isUnpublished(runs.value.get(id)))
  if (kind === 'failed' || kind === 'limit' || (publishes && cure?.startsWith('switchyard retry ') === true))
    return (
      <>
        {items.length === 1 && runId !== undefined && (
          <a class="button" href={runAddress(runId)}>
            Show log
          </a>
        )}
        {publishes ? (
          <Button busyWord="Publishing" act={() => retryAll(ids, 'published as soon as a worker is free')}>
            {ids.length > 1 ? `Publish all ${ids.length}` : 'Publish now'}
          </Button>
        ) : (
          <Button busyWord="Retrying" act={() => retryAll(ids, 'queued again')}>
            {ids.length > 1 ? `Retry all ${ids.length}` : 'Retry'}
          </Button>
        )}
      </>
    )
  if (pull?.repo !== undefined)
    return (
      <>
        <a class="button" href={pullAddress(pull.repo, pull.number)}>
          {kind === 'review' ? 'Review' : 'Open'}
        </a>
        {kind === 'conflict' && runId !== undefined && (
          <Button busyWord="Sending" act={() => followUp(runId)}>
            Send follow-up
          </Button>
        )}
      </>
    )
  const place = cure === undefined ? undefined : curePlace(cure)
  return place === undefined ? (
    <span class="quiet">{COMMAND.test(cure ?? '') ? <code>{cure}</code> : cure}</span>
  ) : (
    <a class="button" href={place.to}>
      {place.text}
    </a>
  )
}

/** A sentence may begin with a command. */
const COMMAND = /^switchyard [^,;]*$/

const isUnpublished = (run: Run | undefined): boolean => run !== undefined && hasUnpublishedWork(run)

async function retryAll(ids: readonly string[], done: string): Promise<void> {
  const answers = await Promise.allSettled(ids.map((id) => host.retryRun({ id })))
  const refused = answers.find(({ status }) => status === 'rejected')
  const queued = answers.filter(({ status }) => status === 'fulfilled').length
  if (refused?.status === 'rejected') showError(refused.reason)
  if (queued > 0)
    showOutcome(`${countOf(queued, 'run')} ${done}.`, { to: '/runs?status=queued', text: 'Show' })
}

async function acknowledge(id: string): Promise<void> {
  await host
    .acknowledgeAttention({ body: { id } })
    .then(() => showOutcome('The loss is acknowledged. The damaged database stays in its folder.'), showError)
}

async function followUp(id: string): Promise<void> {
  await host
    .followUpRun({ id })
    .then(() => showOutcome('The follow-up is queued.', { to: runAddress(id), text: 'Show' }), showError)
}

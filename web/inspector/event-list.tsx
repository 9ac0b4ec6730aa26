/** The right of the page: what happens to the chosen actor, newest first, with cause and effects of the chosen record. */
import type { InspectionRecord } from '../../protocol/inspection.ts'
import { Segments } from '../elements/field.tsx'
import { VirtualRows } from '../elements/virtual-rows.tsx'
import { changeQuery } from '../router.ts'
import {
  clockWithMs,
  detailOf,
  filterRecords,
  isTransition,
  markOf,
  RECORD_FILTERS,
  senderOf,
  surroundingsOf,
  titleOf,
  verdictOn,
} from './causes.ts'
import {
  chooseActor,
  chosenActorId,
  chosenRecord,
  cursor,
  eventFilter,
  model,
  moveCursor,
  recordsOfLanes,
  source,
} from './state.ts'

const ROW_HEIGHT = 26

export function EventList() {
  const { histories, lost } = model()
  const all = histories.get(chosenActorId.value)?.records ?? []
  const past = cursor.value === undefined ? all : all.filter(({ n }) => n <= (cursor.value ?? n))
  const records = filterRecords(past, eventFilter.value).toReversed()
  const around = surroundingsOf(recordsOfLanes(), chosenRecord.value)
  return (
    <section class="events" aria-label="Events">
      <div class="events-head">
        <h2>
          Events <span class="faint">{past.length.toLocaleString('en')}</span>
        </h2>
        <Segments
          label="Show"
          value={eventFilter.value}
          options={RECORD_FILTERS}
          choose={(events) => changeQuery({ events: events === 'all' ? undefined : events })}
        />
      </div>
      <Gaps lost={lost} />
      {records.length === 0 ? (
        <p class="quiet padded">
          {past.length > 0
            ? 'No event of this kind.'
            : 'Nothing has happened to the actor since the recording began.'}
        </p>
      ) : (
        <VirtualRows
          class="event-rows"
          label="Events"
          count={records.length}
          height={ROW_HEIGHT}
          keyOf={(index) => records[index]?.n ?? index}
          row={(index) => <Row record={records[index]} around={around} />}
        />
      )}
      <Chosen />
    </section>
  )
}

/** Says what is missing, because a list with a gap looks whole. */
function Gaps({ lost }: { readonly lost: number }) {
  const present = source.value
  const reader = present.is === 'story' ? 'the recorder' : 'this page'
  return (
    <>
      {lost > 0 && (
        <p class="gap" role="note">
          {lost.toLocaleString('en')} {lost === 1 ? 'event is' : 'events are'} missing: {reader} read too
          slowly.
        </p>
      )}
      {present.is === 'story' && !present.isWhole && (
        <p class="gap" role="note">
          The story was cut off: it has no last line.
        </p>
      )}
    </>
  )
}

type Around = ReturnType<typeof surroundingsOf>

function Row({ record, around }: { readonly record: InspectionRecord | undefined; readonly around: Around }) {
  if (record === undefined) return null
  const isChosen = record.n === chosenRecord.value
  const relation = record.n === around.cause ? ' cause' : around.effects.has(record.n) ? ' effect' : ''
  return (
    <span role="cell" class="event-cell">
      <button
        type="button"
        class={`event-row${relation}${record.ignored === true ? ' ignored' : ''}`}
        title={detailOf(record)}
        aria-pressed={isChosen}
        onClick={() => {
          chosenRecord.value = isChosen ? undefined : record.n
        }}
      >
        <time class="mono faint">{clockWithMs(record.at)}</time>
        <span class={`mark mark-${record.is}`} aria-hidden="true">
          {markOf(record)}
        </span>
        <span class="ellipsis">
          <span class={isTransition(record) ? 'tone-accent' : ''}>{titleOf(record)}</span>{' '}
          <span class="faint">{detailOf(record)}</span>
        </span>
      </button>
    </span>
  )
}

/** The verdict in words, then each guard as the machine asked it. */
function Guards({ record }: { readonly record: InspectionRecord }) {
  const verdict = verdictOn(record)
  return (
    <>
      {record.ignored === true && <p class="tone-warn">{verdict}</p>}
      {record.guards?.map(({ name, holds }, place) => (
        <p key={place}>
          <span class={holds ? 'tone-good' : 'tone-warn'}>{holds ? '✓' : '✕'}</span>{' '}
          <span class="mono">{name}</span> {holds ? 'holds' : 'does not hold'}
        </p>
      ))}
    </>
  )
}

/** The chosen record in full, with the ways to its cause and its effects. */
function Chosen() {
  const all = recordsOfLanes()
  const record = all.find(({ n }) => n === chosenRecord.value)
  if (record === undefined) return null
  const { cause, effects } = surroundingsOf(all, record.n)
  const led = all.filter(({ n }) => effects.has(n))
  const go = (n: number, actor: string) => {
    if (actor !== chosenActorId.value) chooseActor(actor)
    chosenRecord.value = n
  }
  const causing = all.find(({ n }) => n === cause)
  return (
    <div class="chosen-record" tabIndex={0} role="group" aria-label="The chosen event">
      <p>
        <strong>{titleOf(record)}</strong> <span class="faint">{record.actor}</span>
      </p>
      <p class="quiet">from {senderOf(record)}</p>
      <Guards record={record} />
      {Object.entries({ ...record.fields, ...record.context }).map(([name, value]) => (
        <p key={name} class="mono ellipsis">
          <span class="faint">{name}</span> {String(value)}
        </p>
      ))}
      <p class="links">
        <button type="button" class="link" onClick={() => moveCursor(record.n)}>
          Go to this instant
        </button>
        {causing !== undefined && (
          <button type="button" class="link" onClick={() => go(causing.n, causing.actor)}>
            Cause: {titleOf(causing)}
          </button>
        )}
        {led.slice(0, 4).map((effect) => (
          <button type="button" class="link" key={effect.n} onClick={() => go(effect.n, effect.actor)}>
            Effect: {titleOf(effect)}
          </button>
        ))}
      </p>
    </div>
  )
}

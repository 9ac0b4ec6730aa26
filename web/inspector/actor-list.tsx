/** The left of the page: all actors in groups, and the field that finds one among them. */
import { computed } from '@preact/signals'
import { useMemo } from 'preact/hooks'
import type { InspectedActor } from '../../protocol/inspection.ts'
import { Segments } from '../elements/field.tsx'
import { VirtualRows } from '../elements/virtual-rows.tsx'
import { changeQuery } from '../router.ts'
import { type ActorRow, actorRows, findActors, GROUPINGS } from './actor-rows.ts'
import { actorsAt, momentOf } from './model.ts'
import {
  actorsVersion,
  addressOfActor,
  chooseActor,
  chosenActor,
  chosenActorId,
  cursor,
  grouping,
  modelInPlace,
  search,
  source,
  tab,
} from './state.ts'

const ROW_HEIGHT = 24

/** A story has no present, so its actors stand as they were at the instant that is looked at. */
const listed = computed<Iterable<InspectedActor>>(() => {
  void actorsVersion.value
  const model = modelInPlace()
  // Groups would move at every frame of the first thousands.
  if (!model.isComplete) return []
  return source.value.is === 'story'
    ? actorsAt(model, cursor.value ?? model.lastN)
    : [...model.actors.values()]
})

const rows = computed<readonly ActorRow[]>(() => {
  const found = findActors(listed.value, search.value)
  const chosen = chosenActor.value
  if (chosen !== undefined && !found.some(({ id }) => id === chosen.id)) found.push(asOfCursor(chosen))
  return actorRows(found, grouping.value)
})

/** The chosen actor stays in the list when it has ended, does not exist yet, or fits no search. */
function asOfCursor(chosen: InspectedActor): InspectedActor {
  const history = modelInPlace().histories.get(chosen.id)
  if (history === undefined) return chosen
  const { state, isOver } = momentOf(history, cursor.value)
  return { ...chosen, state: isOver ? `${state}, over` : state === '' ? 'not there yet' : state }
}

/** The next actor of the list, or the one before. */
export function chooseNext(by: 1 | -1): void {
  const ids = rows.value.flatMap((row) => (row.is === 'actor' ? [row.actor.id] : []))
  const at = ids.indexOf(chosenActorId.value)
  const next = ids[at < 0 ? 0 : at + by]
  if (next !== undefined) chooseActor(next)
}

export function ActorList() {
  const list = rows.value
  const chosen = list.findIndex((row) => row.is === 'actor' && row.actor.id === chosenActorId.value)
  // The list scrolls when a person chooses, groups or searches, not when the chosen one moves because others come.
  const shown = useMemo(
    () => (chosen < 0 ? undefined : chosen),
    [chosenActorId.value, chosen < 0, grouping.value, search.value],
  )
  return (
    <nav class="actors" aria-label="Actors">
      <div class="actors-head">
        <Segments
          label="Group by"
          value={grouping.value}
          options={GROUPINGS}
          choose={(by) => changeQuery({ by: by === 'ticket' ? undefined : by })}
        />
      </div>
      {list.length === 0 ? (
        <p class="quiet padded">
          {search.value !== ''
            ? `No actor fits “${search.value}”.`
            : modelInPlace().isComplete
              ? 'No actor is alive.'
              : 'Reading the actors…'}
        </p>
      ) : (
        <VirtualRows
          class="actor-rows"
          label="Actors"
          count={list.length}
          height={ROW_HEIGHT}
          shown={shown}
          keyOf={(index) => keyOf(list[index], index)}
          row={(index) => <Row row={list[index]} />}
        />
      )}
    </nav>
  )
}

/** The group says the rest. Keys of one ticket differ at their ends. */
function Name({ actor: { id, kind, key } }: { readonly actor: InspectedActor }) {
  if (grouping.value === 'kind') return <span class="ellipsis mono">{key}</span>
  if (grouping.value !== 'ticket') return <span class="ellipsis mono">{id}</span>
  return (
    <span class="ellipsis" title={id}>
      {kind} {key !== kind && <span class="mono faint">{key.length > 16 ? `…${key.slice(-6)}` : key}</span>}
    </span>
  )
}

const keyOf = (row: ActorRow | undefined, index: number): string | number =>
  row === undefined ? index : row.is === 'group' ? `group ${row.name}` : row.actor.id

function Row({ row }: { readonly row: ActorRow | undefined }) {
  if (row === undefined) return null
  if (row.is === 'group')
    return (
      <span role="rowheader" class="actor-group">
        <strong>{row.name}</strong>
        <span class="faint">{row.count.toLocaleString('en')}</span>
      </span>
    )
  const { actor } = row
  const isChosen = actor.id === chosenActorId.value
  return (
    <span role="cell" class="actor-cell">
      <a
        class="actor-row"
        href={addressOfActor(actor.id)}
        aria-current={isChosen ? 'true' : undefined}
        onClick={() => {
          tab.value = 'chart'
        }}
      >
        <Name actor={actor} />
        <span class="faint ellipsis">{actor.state}</span>
      </a>
    </span>
  )
}

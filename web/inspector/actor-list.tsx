/** The left of the page: all actors in groups, and the field that finds one among them. */
import { computed } from '@preact/signals'
import { useMemo } from 'preact/hooks'
import type { InspectedActor } from '../../protocol/inspection.ts'
import { Segments } from '../elements/segments.tsx'
import { VirtualRows } from '../elements/virtual-rows.tsx'
import { changeQuery } from '../router.ts'
import { type ActorRow, actorRows, findActors, GROUPINGS } from './actor-rows.ts'
import { actorsAt } from './actors-at.ts'
import {
  actorsVersion,
  addressOfActor,
  chooseActor,
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
  return source.value.is === 'story'
    ? actorsAt(model, cursor.value ?? model.lastN)
    : [...model.actors.values()]
})

const rows = computed<readonly ActorRow[]>(() => {
  return actorRows(findActors(listed.value, search.value), grouping.value)
})

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
  // The list scrolls when another actor is chosen, not when the chosen one moves because others come or are searched.
  const shown = useMemo(() => (chosen < 0 ? undefined : chosen), [chosenActorId.value, chosen < 0])
  return (
    <nav class="actors" aria-label="Actors">
      <div class="actors-head">
        <Segments
          label="Group by"
          value={grouping.value}
          options={GROUPINGS}
          choose={(by) => changeQuery({ by: by === 'kind' ? undefined : by })}
        />
      </div>
      {list.length === 0 ? (
        <p class="quiet padded">
          {search.value === '' ? 'No actor is alive.' : `No actor fits “${search.value}”.`}
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
        <span class="ellipsis mono">{grouping.value === 'kind' ? actor.key : actor.id}</span>
        <span class="faint ellipsis">{actor.state}</span>
      </a>
    </span>
  )
}

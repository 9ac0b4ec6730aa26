/** The left of the page: all actors in groups, and the field that finds one among them. */
import { computed } from '@preact/signals'
import { Segments } from '../elements/segments.tsx'
import { VirtualRows } from '../elements/virtual-rows.tsx'
import { changeQuery } from '../router.ts'
import { type ActorRow, actorRows, findActors, GROUPINGS } from './actor-rows.ts'
import {
  actorsVersion,
  addressOfActor,
  chooseActor,
  chosenActorId,
  grouping,
  modelInPlace,
  search,
} from './state.ts'

const ROW_HEIGHT = 24

const rows = computed<readonly ActorRow[]>(() => {
  void actorsVersion.value
  return actorRows(findActors(modelInPlace().actors.values(), search.value), grouping.value)
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
          shown={chosen < 0 ? undefined : chosen}
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
      <a class="actor-row" href={addressOfActor(actor.id)} aria-current={isChosen ? 'true' : undefined}>
        <span class="ellipsis mono">{grouping.value === 'kind' ? actor.key : actor.id}</span>
        <span class="faint ellipsis">{actor.state}</span>
      </a>
    </span>
  )
}

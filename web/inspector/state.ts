/**
 * The inspector's state: the model, its source, and the choices of a person. Choices stand in the
 * address, so that it can be linked.
 */
import { computed, signal } from '@preact/signals'
import type { InspectedActor, InspectionRecord, StoryHead } from '../../protocol/inspection.ts'
import { INSPECT_FOLLOWED_MAX } from '../../protocol/limits.ts'
import { address, changeQuery } from '../router.ts'
import { GROUPINGS, type Grouping, relatedActors } from './actor-rows.ts'
import { RECORD_FILTERS, type RecordFilter } from './causes.ts'
import { createModel, type Model } from './model.ts'

export type Source =
  | { readonly is: 'connecting' }
  | { readonly is: 'live' }
  | { readonly is: 'reconnecting'; readonly since: number; readonly reason: string }
  | { readonly is: 'signed-out' }
  /** A story that is not whole has been cut off before its last line. */
  | { readonly is: 'story'; readonly head: StoryHead; readonly isWhole: boolean }
  | { readonly is: 'failed'; readonly reason: string }

export const source = signal<Source>({ is: 'connecting' })

/** Changed in place, because there may be ten thousand actors; `version` grows with each change. */
let current: Model = createModel()
export const version = signal(0)
/** Grows only when actors come, go or change their state. */
export const actorsVersion = signal(0)

export function model(): Model {
  void version.value
  return current
}

export function replaceModel(replacement: Model): void {
  current = replacement
  version.value += 1
  actorsVersion.value += 1
}

export const modelInPlace = (): Model => current

/** The last record that counts; undefined: the present. */
export const cursor = signal<number | undefined>(undefined)
export const chosenRecord = signal<number | undefined>(undefined)

export const TABS = [
  ['actors', 'Actors'],
  ['chart', 'Chart'],
  ['events', 'Events'],
  ['sequence', 'Sequence'],
] as const
/** The part that is shown where there is room for one only. */
export const tab = signal<(typeof TABS)[number][0]>('chart')

export const chosenActorId = computed(() => address.value.query.get('actor') ?? '')
export const search = computed(() => address.value.query.get('q') ?? '')
export const grouping = computed<Grouping>(() => {
  const by = address.value.query.get('by')
  return GROUPINGS.find(([name]) => name === by)?.[0] ?? 'ticket'
})

export const eventFilter = computed<RecordFilter>(() => {
  const shown = address.value.query.get('events')
  return RECORD_FILTERS.find(([name]) => name === shown)?.[0] ?? 'all'
})

export function chooseActor(id: string): void {
  chosenRecord.value = undefined
  changeQuery({ actor: id }, { replace: false })
}

export const addressOfActor = (id: string): string => {
  const query = new URLSearchParams(address.value.query)
  query.set('actor', id)
  return `/?${query}`
}

export const chosenActor = computed<InspectedActor | undefined>(() => {
  void actorsVersion.value
  return current.actors.get(chosenActorId.value) ?? current.histories.get(chosenActorId.value)?.base.actor
})

const LANES_MAX = 8

/** The actors that stand together in the sequence. */
export const lanes = computed<readonly string[]>(() => {
  const actor = chosenActor.value
  if (actor === undefined) return []
  // Actors that have ended stay beside the chosen one.
  const known = new Map([...current.histories].map(([id, { base }]) => [id, base.actor]))
  for (const [id, alive] of current.actors) known.set(id, alive)
  return relatedActors(known.values(), actor, LANES_MAX).map(({ id }) => id)
})

export const followed = computed(() => lanes.value.slice(0, INSPECT_FOLLOWED_MAX))

/** Records of the lanes, in their order. */
export function recordsOfLanes(): readonly InspectionRecord[] {
  const { histories } = model()
  return lanes.value.flatMap((id) => histories.get(id)?.records ?? []).sort((a, b) => a.n - b.n)
}

export function moveCursor(n: number | undefined): void {
  cursor.value = n
}

/** Goes one record back or on; beyond the newest the present follows. */
export function step(by: 1 | -1): void {
  const records = recordsOfLanes()
  const at = cursor.value ?? records.at(-1)?.n ?? 0
  const next = by < 0 ? records.findLast(({ n }) => n < at) : records.find(({ n }) => n > at)
  if (next !== undefined) {
    cursor.value = next.n
    chosenRecord.value = next.n
  } else if (by > 0 && source.value.is === 'live') cursor.value = undefined
}

export function togglePause(): void {
  cursor.value = cursor.value === undefined ? current.lastN : undefined
}

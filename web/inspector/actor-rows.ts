/** The rows of the list of actors: groups with their counts, and the actors that fit what is searched. */
import type { InspectedActor } from '../../protocol/inspection.ts'

export const GROUPINGS = [
  ['ticket', 'Ticket'],
  ['kind', 'Kind'],
  ['worker', 'Worker'],
  ['state', 'State'],
] as const
export type Grouping = (typeof GROUPINGS)[number][0]

export type ActorRow =
  | { readonly is: 'group'; readonly name: string; readonly count: number }
  | { readonly is: 'actor'; readonly actor: InspectedActor }

/** Words in any order; each has to stand somewhere in the actor's names. */
export function findActors(actors: Iterable<InspectedActor>, search: string): InspectedActor[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const found: InspectedActor[] = []
  for (const actor of actors) {
    if (words.length === 0) found.push(actor)
    else {
      const text = textOf(actor)
      if (words.every((word) => text.includes(word))) found.push(actor)
    }
  }
  return found
}

const texts = new WeakMap<InspectedActor, string>()

function textOf(actor: InspectedActor): string {
  const known = texts.get(actor)
  if (known !== undefined) return known
  const { id, state, run = '', ticket = '', lease = '', worker = '', process = '' } = actor
  const text = `${id} ${state} ${run} ${ticket} ${lease} ${worker} ${process}`.toLowerCase()
  texts.set(actor, text)
  return text
}

const NONE: Readonly<Record<Grouping, string>> = {
  ticket: 'system',
  kind: '',
  worker: 'of no worker',
  state: '',
}

const ORDER = ['root', 'settings', 'intake', 'tracker', 'run', 'lease', 'worker', 'connection']
const placeOf = (name: string): number => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length)

/** Actors keep the order in which they came, so that nothing moves while somebody reads. */
export function actorRows(actors: readonly InspectedActor[], by: Grouping): ActorRow[] {
  const nameOf = by === 'ticket' ? ticketNames(actors) : (actor: InspectedActor) => actor[by]
  const groups = new Map<string, InspectedActor[]>()
  for (const actor of actors) {
    const name = nameOf(actor) ?? NONE[by]
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [actor])
    else group.push(actor)
  }
  return inOrder([...groups], by).flatMap(([name, members]): ActorRow[] => [
    { is: 'group', name, count: members.length },
    ...members.map((actor) => ({ is: 'actor' as const, actor })),
  ])
}

type Group = [name: string, members: InspectedActor[]]

function inOrder(groups: Group[], by: Grouping): Group[] {
  const isNone = ([name]: Group) => name === NONE[by]
  if (by !== 'ticket')
    return groups.sort((a, b) =>
      isNone(a) ? 1 : isNone(b) ? -1 : placeOf(a[0]) - placeOf(b[0]) || a[0].localeCompare(b[0]),
    )
  for (const [, members] of groups) if (members.length > 1) members.sort((a, b) => laneOf(a) - laneOf(b))
  // New tickets come in at the upper edge.
  return [...groups.filter((group) => !isNone(group)).reverse(), ...groups.filter(isNone)]
}

/** A lease names its run and an execution its lease; only the run names its ticket. */
function ticketNames(actors: Iterable<InspectedActor>): (actor: InspectedActor) => string | undefined {
  const ofRun = new Map<string, string>()
  const runOfLease = new Map<string, string>()
  for (const { run, lease, ticket } of actors) {
    if (run !== undefined && ticket !== undefined) ofRun.set(run, ticket)
    if (run !== undefined && lease !== undefined) runOfLease.set(lease, run)
  }
  return ({ ticket, run, lease }) => ticket ?? ofRun.get(run ?? runOfLease.get(lease ?? '') ?? '')
}

/** The actors that belong to the same run, lease or worker, the chosen one among them: the lanes of the sequence. */
export function relatedActors(
  actors: Iterable<InspectedActor>,
  chosen: InspectedActor,
  max: number,
): InspectedActor[] {
  const all = [...actors]
  const leases = all.filter(({ kind }) => kind === 'lease')
  const own = leases.filter(({ run, lease }) =>
    chosen.kind === 'lease' ? lease === chosen.lease : chosen.run !== undefined && run === chosen.run,
  )
  const runs = new Set([chosen.run, ...own.map(({ run }) => run)].filter((id) => id !== undefined))
  const workers = new Set(
    [chosen.worker, ...own.map(({ worker }) => worker)].filter((id) => id !== undefined),
  )
  const isRelated = (actor: InspectedActor): boolean =>
    actor.id === chosen.id ||
    (actor.run !== undefined && runs.has(actor.run)) ||
    (actor.worker !== undefined && workers.has(actor.worker) && actor.kind !== 'lease') ||
    (chosen.kind === 'worker' && actor.worker === chosen.key)
  const found = all.filter(isRelated).sort((a, b) => laneOf(a) - laneOf(b))
  const kept = found.slice(0, max)
  return kept.some(({ id }) => id === chosen.id) ? kept : [chosen, ...kept.slice(0, max - 1)]
}

const LANES = [
  'intake',
  'tracker',
  'run',
  'lease',
  'attach',
  'connection',
  'worker',
  'link',
  'execution',
  'booted',
]
const laneOf = ({ kind }: InspectedActor): number =>
  LANES.includes(kind) ? LANES.indexOf(kind) : LANES.length

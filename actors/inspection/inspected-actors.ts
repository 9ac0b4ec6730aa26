/**
 * Describes live actors to people: their state, what they belong to, their pending deadlines, and the fields of their
 * context that may be shown.
 */
import { shortName, showFields } from '../../core/inspection/shown-fields.ts'
import type { ActorDetail, InspectedActor } from '../../protocol/inspection.ts'
import { INSPECT_FIELDS_MAX } from '../../protocol/limits.ts'
import type { LiveActor } from '../runtime/live-actor.ts'
import { statePath } from '../runtime/snapshot-codec.ts'

export const actorIdOf = ({ kind, key }: LiveActor): string => shortName(`${kind.name}/${key}`)

export function describeActor(actor: LiveActor, since: number | undefined): InspectedActor {
  const { kind, key, lastGood } = actor
  return {
    id: actorIdOf(actor),
    kind: kind.name,
    key: shortName(key),
    state: statePath(lastGood.value),
    ...(since === undefined ? {} : { since }),
    ...ownersOf(kind.name, key, lastGood.context),
  }
}

export function describeInDetail(actor: LiveActor, since: number | undefined): ActorDetail {
  const { fields, hidden } = showFields(actor.lastGood.context)
  return {
    actor: describeActor(actor, since),
    context: fields,
    hidden,
    deadlines: Object.fromEntries([...(actor.deadlines ?? [])].slice(0, INSPECT_FIELDS_MAX)),
  }
}

/** The fields by which a context names what its actor belongs to. */
const OWNERS = { runId: 'run', ticketId: 'ticket', leaseId: 'lease', workerId: 'worker' } as const
const OWN_KINDS: Readonly<Record<string, string>> = {
  run: 'run',
  lease: 'lease',
  execution: 'lease',
  worker: 'worker',
}

type Owners = Pick<InspectedActor, 'run' | 'ticket' | 'lease' | 'worker'>

function ownersOf(kind: string, key: string, context: unknown): Owners {
  const owners: Record<string, string> = {}
  const outer = Object(context) as Record<string, unknown>
  const run = Object(outer.run) as Record<string, unknown>
  const { id: ticketId } = Object(run.ticket) as Record<string, unknown>
  // A run's ids stand in its record.
  for (const fields of [outer, { ...run, ticketId }])
    for (const [field, name] of Object.entries(OWNERS)) {
      const id = fields[field]
      if (typeof id === 'string' && id !== '') owners[name] = shortName(id)
    }
  const own = OWN_KINDS[kind]
  if (own !== undefined) owners[own] = shortName(key)
  return owners
}

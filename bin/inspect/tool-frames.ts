/**
 * Translates the frames of the inspection socket into those of xstate's public inspection protocol, which tools for any
 * xstate program read.
 *
 * The fields are those that the receiver of @statelyai/inspect 0.7 expects.
 */
import type { InspectFrame, InspectionRecord, ShownFields } from '../../protocol/inspection.ts'

/** The definition of each kind's machine, as JSON text. */
export type MachineDefinitions = ReadonlyMap<string, string>

interface ToolActor {
  state: string
  context: ShownFields
}

/** Every actor is a child of the root, whose kind and key have one name. */
const ROOT_ID = 'root/root'
const VERSION = '5'
const NO_EVENT = { type: 'xstate.init' }

export class ToolFrames {
  readonly #definitions: MachineDefinitions
  readonly #actors = new Map<string, ToolActor>()

  constructor(definitions: MachineDefinitions) {
    this.#definitions = definitions
  }

  translate(frame: InspectFrame, now: number): object[] {
    if (frame.type === 'inspect-hello') this.#actors.clear()
    if (frame.type === 'inspect-detail') {
      const { actor, context } = frame.detail
      this.#actors.set(actor.id, { state: actor.state, context })
      return [this.#actorFrame(actor.id, now)]
    }
    return frame.type === 'inspect-records'
      ? frame.records.flatMap((record) => this.#recordFrames(record))
      : []
  }

  #recordFrames(record: InspectionRecord): object[] {
    const { actor: id, is, name, at, after, from, fields, context = {} } = record
    const isNew = is === 'created' || is === 'restored'
    if (isNew) this.#actors.set(id, { state: after ?? '', context: {} })
    const actor = this.#actors.get(id)
    if (actor === undefined) return []
    if (after !== undefined) actor.state = after
    actor.context = { ...actor.context, ...context }
    if (isNew) return [this.#actorFrame(id, at)]
    if (is === 'ended') {
      this.#actors.delete(id)
      return [this.#snapshotFrame(id, at, { type: 'xstate.done.actor' }, actor, 'done')]
    }
    if (is !== 'event') return []
    const event = { ...fields, type: name }
    const sourceId = from?.is === 'actor' ? from.name : undefined
    return [
      { ...common('@xstate.event', id, at), event, ...(sourceId === undefined ? {} : { sourceId }) },
      this.#snapshotFrame(id, at, event, actor, 'active'),
    ]
  }

  #actorFrame(id: string, at: number): object {
    const actor = this.#actors.get(id)
    const definition = this.#definitions.get(id.slice(0, id.indexOf('/')))
    return {
      ...common('@xstate.actor', id, at),
      name: id,
      ...(id === ROOT_ID ? {} : { parentId: ROOT_ID }),
      ...(definition === undefined ? {} : { definition }),
      snapshot: actor === undefined ? {} : snapshotOf(actor, 'active'),
    }
  }

  #snapshotFrame(id: string, at: number, event: object, actor: ToolActor, status: 'active' | 'done'): object {
    return {
      ...common('@xstate.snapshot', id, at),
      event: event ?? NO_EVENT,
      snapshot: snapshotOf(actor, status),
    }
  }
}

const common = (type: string, sessionId: string, at: number) => ({
  type,
  sessionId,
  rootId: ROOT_ID,
  createdAt: String(at),
  id: null,
  _version: VERSION,
})

const snapshotOf = ({ state, context }: ToolActor, status: 'active' | 'done') => ({
  status,
  value: stateValueOf(state),
  context,
})

/** `held.streaming` stands as `{ held: 'streaming' }`. */
function stateValueOf(path: string): unknown {
  const dot = path.indexOf('.')
  return dot < 0 ? path : { [path.slice(0, dot)]: stateValueOf(path.slice(dot + 1)) }
}

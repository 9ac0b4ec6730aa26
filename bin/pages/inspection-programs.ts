/** Lets inspection tools of others listen to the actors of a host: all actors first, then what happens to them. */

import type { ClientConnection, HostAddress } from '../../client/connection.ts'
import { InspectFeed } from '../../client/host-feed.ts'
import { sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import type { InspectFrame, InspectionRecord, ShownFields } from '../../protocol/inspection.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { PageServerOptions } from '../../transport/pages/page-server-options.ts'

const PATH = '/inspect/events'

export const inspectionPrograms = (address: HostAddress): PageServerOptions['programs'] =>
  programsOf({ address: () => address, send: sendByNode, dial: dialByNode })

export function programsOf(connection: ClientConnection): NonNullable<PageServerOptions['programs']> {
  return {
    path: PATH,
    source: {
      open(send, end) {
        let feed: InspectFeed | undefined
        let isClosed = false
        const fail = (error: unknown) => {
          if (!isClosed) end(messageOf(error))
        }
        readDefinitions().then((definitions) => {
          if (isClosed) return
          const frames = new ToolFrames(definitions)
          feed = new InspectFeed(connection, {
            onFrame(frame) {
              for (const made of frames.translate(frame, Date.now())) if (!send(JSON.stringify(made))) return
            },
            // A tool that connects again gets all actors again.
            onLost: fail,
            onEnd: fail,
          })
          feed.follow({ actors: [], all: true, details: true })
        }, fail)
        return {
          close() {
            isClosed = true
            feed?.close()
          },
        }
      },
    },
  }
}

/** The machines are loaded only when somebody asks, because a command that only shows a page has no use for them. */
async function readDefinitions(): Promise<MachineDefinitions> {
  const [{ hostKinds }, { daemonKinds }] = await Promise.all([
    import('../../actors/root/modules.ts'),
    import('../../actors/daemon/modules.ts'),
  ])
  return new Map(
    [...hostKinds, ...daemonKinds].map(({ name, logic }) => [name, JSON.stringify(logic.config)]),
  )
}

/** The definition of each kind's machine, as JSON text. */
type MachineDefinitions = ReadonlyMap<string, string>

// ---- frames for tools ----------------------------------------------------------------------------------------------

interface ToolActor {
  state: string
  context: ShownFields
}

/** Every actor is a child of the root, whose kind and key have one name. */
const ROOT_ID = 'root/root'
const VERSION = '5'
const NO_EVENT = { type: 'xstate.init' }

/**
 * Translates the frames of the inspection socket into those of xstate's public inspection protocol, which tools for any
 * xstate program read.
 *
 * The fields are those that the receiver of @statelyai/inspect 0.7 expects.
 */
class ToolFrames {
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

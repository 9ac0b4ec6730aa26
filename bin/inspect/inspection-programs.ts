/** Lets inspection tools of others listen to the actors of a host: all actors first, then what happens to them. */
import type { ClientConnection, HostAddress } from '../../client/connection.ts'
import { InspectFeed } from '../../client/inspect-feed.ts'
import { sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import type { PageServerOptions } from '../../transport/pages/page-server-options.ts'
import { type MachineDefinitions, ToolFrames } from './tool-frames.ts'

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
          if (!isClosed) end(error instanceof Error ? error.message : String(error))
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

/** The sockets of people: dashboards, terminals and inspectors, with frames drawn from their schemas. */
import { createChecker } from '../../../protocol/parse.ts'
import { routes } from '../../../protocol/routes.ts'
import { damaged } from '../../support/damage.ts'
import { SchemaValues } from '../../support/schema-values.ts'
import type { FuzzedHost } from './fuzzed-host.ts'
import { FuzzedSocket } from './fuzzed-socket.ts'

/** A refused frame ends its socket, so few are broken. */
const BROKEN_SHARE = 0.2
const FRAMES_MAX = 12

export const VIEWERS = ['dashboardSocket', 'attachSocket', 'inspectSocket'] as const
export type Viewer = (typeof VIEWERS)[number]

/**
 * A viewer is a socket, from its opening until it leaves or is sent away.
 *
 * @param resumedRun a run whose sandbox is resumed: only that one has a terminal
 * @param meanwhile runs after each frame
 */
export async function visit(
  host: FuzzedHost,
  viewer: Viewer,
  resumedRun: string | undefined,
  meanwhile: () => Promise<void>,
): Promise<void> {
  const { path, frames } = routes[viewer]
  const listed = host.conversation.hostApi.runs({ limit: 30 })
  const runs = listed.ok ? listed.value.runs : []
  const runId = resumedRun ?? runs[0]?.id ?? 'run-0'
  const values = new SchemaValues(host.random, (key) =>
    key === 'runId' ? runs.map(({ id }) => id) : key === 'actors' ? [[`run/${runId}`]] : [],
  )
  const check = createChecker(frames.to)
  const socket = new FuzzedSocket(host, path.replace(':id', runId))
  await socket.open()
  const count = 1 + host.random.below(FRAMES_MAX)
  for (let sent = 0; sent < count && !socket.isClosed; sent++) {
    const harm = host.drawHarm(BROKEN_SHARE)
    const calls = host.calls
    socket.send(damaged(host.random, values.draw(frames.from), harm))
    await socket.catchUp()
    for (const frame of socket.newFrames()) host.checkFrame(check, frame)
    // A dashboard's frames need no call; the socket of a refused one is closed.
    const isReached = viewer === 'dashboardSocket' ? !socket.isClosed : host.calls > calls
    host.shares.add(viewer, harm, isReached)
    await meanwhile()
  }
  await socket.leave()
}

/**
 * Measures what it costs a host that somebody inspects its actors: processor time per cycle with one viewer of one run,
 * divided by that of a host that nobody watches.
 *
 * The viewer also sees every actor come, change and go, as the page does. While nobody watches, the actor system asks
 * once for each message whether somebody does; that is part of every other entry.
 */
import { InspectFeed } from '../../client/host-feed.ts'
import { sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import { type ProductHost, startProductHost } from '../bench-hosts.ts'
import type { BenchResources } from '../bench-resources.ts'
import type { Effort, Entry } from '../entry.ts'
import { compareFigure, type Figure, type Pair } from '../figures.ts'
import { waitUntilIdle } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'
import { measureCycles, SLOTS, WORKERS } from './cycles.ts'

const COUNT = 1_000
const TURNS = 5
const SESSIONS = 3
const TARGET = { of: 'ratio', is: 'at most', bound: 1.1 } as const

export const inspect: Entry = {
  name: 'inspect',
  about: 'processor time per cycle of a host that somebody inspects / of one that nobody does',
  async measure(effort, resources) {
    await buildProduct(resources)
    return [await compareViewers(resources, effort)]
  },
}

/** Each session has hosts of its own. What a host does later counts, so a session ends when both have nothing to do. */
async function compareViewers(resources: BenchResources, { quick }: Effort): Promise<Figure> {
  const pairs: Pair[] = []
  for (let session = 0; session < (quick ? 1 : SESSIONS); session++)
    pairs.push(await compareOnce(resources, session % 2 === 0))
  return compareFigure({ name: 'cycles, one viewer', unit: 'µs a cycle', target: TARGET }, pairs)
}

/** @param isWatchedFirst the order in which the hosts take their turns */
async function compareOnce(resources: BenchResources, isWatchedFirst: boolean): Promise<Pair> {
  const start = async (): Promise<ProductHost> => {
    const host = await startProductHost(resources, { waiting: COUNT * (TURNS + 1) + WORKERS * SLOTS })
    await host.workerLoad.enroll(WORKERS, SLOTS)
    return host
  }
  const [watched, alone] = [await start(), await start()]
  const feed = watchOneRun(watched)
  const turn = async (): Promise<void> => {
    for (const host of isWatchedFirst ? [watched, alone] : [alone, watched])
      await measureCycles(host, COUNT, 0)
  }
  await turn()
  const before = [await waitUntilIdle(watched.child.pid), await waitUntilIdle(alone.child.pid)] as const
  for (let n = 0; n < TURNS; n++) await turn()
  const after = [await waitUntilIdle(watched.child.pid), await waitUntilIdle(alone.child.pid)] as const
  feed.close()
  await Promise.all([watched.stop(), alone.stop()])
  const perCycle = 1_000 / (COUNT * TURNS)
  return { ours: (after[0] - before[0]) * perCycle, raw: (after[1] - before[1]) * perCycle }
}

/** Follows the first run that the host names, as a person does who has opened its page. */
function watchOneRun({ served }: ProductHost): InspectFeed {
  const address = { url: `http://127.0.0.1:${served.port}`, token: served.token }
  let isFollowing = false
  const feed = new InspectFeed(
    { address: () => address, send: sendByNode, dial: dialByNode },
    {
      onFrame(frame) {
        if (isFollowing || frame.type !== 'inspect-actors') return
        const run = frame.changed.find(({ kind }) => kind === 'run')
        if (run === undefined) return
        isFollowing = true
        feed.follow({ actors: [run.id] })
      },
      onEnd(error) {
        throw error
      },
    },
  )
  return feed
}

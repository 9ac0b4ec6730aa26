/**
 * Reports a second through a worker's outbox: told, numbered, put on disk, sent, acknowledged, taken off the disk.
 *
 * Beside it the same texts go by hand into LMDB and through the same kind of socket, in a process of its own like ours.
 * Both speak to a server that only counts.
 */

import { bareYard, type Yard } from '../bench-hosts.ts'
import type { Child, Workshop } from '../bench-resources.ts'
import { type Effort, type Entry, inTurn } from '../entry.ts'
import { compared } from '../figures.ts'
import { ACK_FRAMES, type Took } from '../raw/worker-load-protocol.ts'
import { amount } from '../table.ts'

/** Whole acknowledgements: what is left over would wait for a heartbeat. */
const FRAMES = ACK_FRAMES * 60
const FRAMES_QUICK = ACK_FRAMES * 20

type Who = 'ours' | 'bare'

export const outbox: Entry = {
  name: 'outbox',
  about: 'reports a second through a worker’s outbox on disk / the raw parts by hand',
  async measure(effort, workshop) {
    const ours = await contestant(workshop, 'ours')
    const raw = await contestant(workshop, 'bare')
    const pairs = await inTurn(effort.rounds, { ours: () => ours.turn(effort), raw: () => raw.turn(effort) })
    await ours.leave()
    await raw.leave()
    const notes = [`processor time each: ours ${ours.micros()}, raw ${raw.micros()}`]
    return [compared({ name: 'outbox, reports', unit: 'a second', notes }, pairs)]
  },
}

async function contestant(workshop: Workshop, who: Who) {
  const yard: Yard = await bareYard(workshop, 'bare-frames', 'sink')
  const folder = workshop.folder(`outbox-${who}`)
  const child: Child = workshop.script('bench/raw/outbox.ts', folder, String(yard.port), who)
  await child.line()
  let [frames, ms] = [0, 0]
  return {
    micros: () => `${amount((ms * 1000) / frames)} µs`,
    async turn({ quick }: Effort): Promise<number> {
      const count = quick ? FRAMES_QUICK : FRAMES
      child.say(String(count))
      const took = JSON.parse(await child.line()) as Took
      frames += count
      ms += took.crewMs
      return count / (took.ms / 1000)
    },
    async leave(): Promise<void> {
      await child.stop()
      await yard.leave()
      workshop.removeFolder(folder)
    },
  }
}

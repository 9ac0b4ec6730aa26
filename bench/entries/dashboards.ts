/**
 * A thousand dashboards watching one busy run: deliveries a second, beside bare publishing of the same text.
 *
 * Both servers are processes of their own, watched by a third. Reading a thousand sockets costs as much as writing
 * them, so what the server itself spent on a delivery stands in the notes: it is free of that.
 */

import { type Child, cpuMs, type Workshop } from '../bench-resources.ts'
import { type Entry, inTurn } from '../entry.ts'
import { compared, spread } from '../figures.ts'
import { eventFrameBytes } from '../raw/dashboard-protocol.ts'
import { amount } from '../table.ts'

const DASHBOARDS = 1_000
const BURST = 1_600
const BURST_QUICK = 480

export const dashboards: Entry = {
  name: 'dashboards',
  about: `deliveries/s to ${DASHBOARDS} dashboard sockets / bare publish`,
  async measure(effort, workshop) {
    const contestants = { ours: await contestant(workshop, 'ours'), raw: await contestant(workshop, 'raw') }
    const burst = effort.quick ? BURST_QUICK : BURST
    const micros = { ours: [] as number[], raw: [] as number[] }
    const turn = (who: 'ours' | 'raw') => async () => {
      const { perSecond, cpuMicros } = await deliver(contestants[who], burst)
      micros[who].push(cpuMicros)
      return perSecond
    }
    const pairs = await inTurn(effort.rounds, { ours: turn('ours'), raw: turn('raw') })
    for (const { server, watchers } of Object.values(contestants)) {
      await watchers.stop()
      await server.stop()
    }
    const [own, bare] = [spread(micros.ours).median, spread(micros.raw).median]
    const notes = [
      `processor time a delivery: ours ${amount(own)} µs, raw ${amount(bare)} µs, raw/ours ${amount(bare / own)}`,
    ]
    return [
      compared(
        {
          name: `push to ${DASHBOARDS} dashboards`,
          unit: 'deliveries/s',
          target: { of: 'ratio', is: 'at least', bound: 0.5 },
          notes,
        },
        pairs,
      ),
    ]
  },
}

interface Contestant {
  readonly server: Child
  readonly watchers: Child
}

async function contestant(workshop: Workshop, which: 'ours' | 'raw'): Promise<Contestant> {
  const server = workshop.script('bench/raw/push-server.ts', which)
  const watchers = workshop.script('bench/raw/dashboard-clients.ts', await server.line(), String(DASHBOARDS))
  await watchers.line()
  return { server, watchers }
}

async function deliver(
  { server, watchers }: Contestant,
  burst: number,
): Promise<{ perSecond: number; cpuMicros: number }> {
  const before = cpuMs(server.pid) ?? Number.NaN
  watchers.say(String(burst * eventFrameBytes()))
  server.say(String(burst))
  const ms = Number(await watchers.line())
  await server.line()
  const spent = (cpuMs(server.pid) ?? Number.NaN) - before
  const deliveries = burst * DASHBOARDS
  return { perSecond: deliveries / (ms / 1000), cpuMicros: (spent * 1000) / deliveries }
}

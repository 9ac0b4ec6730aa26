/**
 * Measures the longest turn of a host's event loop while a hundred clients read a long log at once, and how fast they
 * all get it.
 */
import type { Entry } from '../entry.ts'
import { absoluteFigure } from '../figures.ts'
import { longestTurnMs, TURN_TARGET } from '../longest-turn.ts'
import { buildProduct, startHost } from '../served-host.ts'

const READERS = 100
const LOG_MIB = 24
const MIB = 1024 * 1024

export const logReaders: Entry = {
  name: 'log-readers',
  about: `longest turn of the event loop while ${READERS} clients read a log of ${LOG_MIB} MiB`,
  async measure({ rounds }, resources) {
    await buildProduct(resources)
    const folder = resources.createFolder('host')
    const filler = resources.startScript('bench/raw/fill-log.ts', folder, String(LOG_MIB))
    const runId = await filler.readLine()
    await filler.ended
    const host = await startHost(resources, folder)
    const turns: number[] = []
    const rates: number[] = []
    await longestTurnMs(host)
    for (let round = 0; round < rounds; round++) {
      const began = performance.now()
      const args = [String(host.port), host.token, runId, String(READERS)]
      const readers = resources.startScript('bench/raw/log-readers.ts', ...args)
      const bytes = Number(await readers.readLine())
      rates.push(bytes / MIB / ((performance.now() - began) / 1_000))
      turns.push(await longestTurnMs(host))
    }
    await host.child.stop()
    resources.removeFolder(folder)
    const what = `${READERS} readers of ${LOG_MIB} MiB`
    return [
      absoluteFigure({ name: `${what}, longest turn`, unit: 'ms', target: TURN_TARGET }, turns),
      absoluteFigure({ name: `${what}, together`, unit: 'MiB/s' }, rates),
    ]
  },
}

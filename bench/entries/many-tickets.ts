/**
 * Measures what one edited ticket costs among thousands, each of which has a queued run.
 *
 * The figure is the host's processor time from the edit until it rests again: reading the ticket, deciding about it, and
 * storing what has changed. No dashboard is connected.
 */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { StoredConfig } from '../../protocol/config.ts'
import { startProductHost, WORKING_CONFIG } from '../bench-hosts.ts'
import type { Entry } from '../entry.ts'
import { absoluteFigure } from '../figures.ts'
import { longestTurnMs, TURN_TARGET } from '../longest-turn.ts'
import { waitForRest, waitUntilIdle } from '../process-usage.ts'
import { buildProduct } from '../served-host.ts'

const TICKETS = 5_000
const EDITS = 5
/** The host reads the folder again at this interval even when nothing has changed. */
const POLL_SECONDS = 3_600

export const manyTickets: Entry = {
  name: 'many-tickets',
  about: 'one ticket edited among 5,000 with queued runs',
  async measure({ rounds }, resources) {
    await buildProduct(resources)
    const path = join(resources.createFolder('tickets'), 'tickets')
    mkdirSync(path)
    const draft = join(path, '..', 'draft')
    const write = (at: number, title: string): void => {
      writeFileSync(draft, `---\ntitle: ${title}\nstate: Todo\n---\nDo it, please.\n`)
      renameSync(draft, join(path, `T-${at}.md`))
    }
    for (let at = 0; at < TICKETS; at++) write(at, `Number ${at}`)
    const tracker = { driver: 'local', path, pollSeconds: POLL_SECONDS } as const
    const host = await startProductHost(resources, {}, { ...WORKING_CONFIG, tracker } as StoredConfig)
    const { pid } = host.child
    await waitForRest(pid)
    const firstPollTurn = await longestTurnMs(host.served)
    const turns: number[] = []
    const costs: number[] = []
    for (let round = 0; round <= rounds; round++) {
      const before = await waitUntilIdle(pid)
      let rested = before
      for (let edit = 0; edit < EDITS; edit++) {
        write((TICKETS * edit) / EDITS, `Changed ${round}`)
        rested = await waitUntilIdle(pid)
      }
      const turn = await longestTurnMs(host.served)
      // The first round warms up.
      if (round === 0) continue
      costs.push((rested - before) / EDITS)
      turns.push(turn)
    }
    await host.stop()
    return [
      absoluteFigure(
        {
          name: `one ticket edited among ${TICKETS}`,
          unit: 'ms',
          target: { of: 'ours', is: 'at most', bound: 5 },
          notes: [`processor time of the host, mean of ${EDITS} edits`],
        },
        costs,
      ),
      absoluteFigure({ name: '  longest turn', unit: 'ms', target: TURN_TARGET }, turns),
      absoluteFigure(
        { name: `  longest turn since the start, all ${TICKETS} new`, unit: 'ms', target: TURN_TARGET },
        [firstPollTurn],
      ),
    ]
  },
}

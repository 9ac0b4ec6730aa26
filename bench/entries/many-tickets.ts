/**
 * Measures what one edited ticket costs among thousands, each of which has a queued run.
 *
 * The figure is the host's processor time from the edit until it rests again: reading the ticket, deciding about it, and
 * storing what has changed. What an unchanged host uses in the same time is measured right afterwards and subtracted. No
 * dashboard is connected.
 */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startProductHost, WORKING_CONFIG } from '../bench-hosts.ts'
import type { Entry } from '../entry.ts'
import { absoluteFigure } from '../figures.ts'
import { longestTurnMs, TURN_TARGET } from '../longest-turn.ts'
import { cpuMs, waitForRest, waitUntilIdle } from '../process-usage.ts'
import { buildProduct, type ServedHost, writeHostConfig } from '../served-host.ts'

const TICKETS = 5_000
const EDITS = 5
const LISTED_CHECK_MS = 50
const LISTED_MS_MAX = 60_000
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
    const host = await startProductHost(resources, {})
    const { pid } = host.child
    // Turns are measured from the first request on, so the host learns of its tickets afterwards.
    await longestTurnMs(host.served)
    const tracker = { driver: 'local', path, pollSeconds: POLL_SECONDS } as const
    writeHostConfig(host.folder, host.port, { ...WORKING_CONFIG, tracker })
    await waitUntilListed(host.served)
    await waitForRest(pid)
    const firstPollTurn = await longestTurnMs(host.served)
    const turns: number[] = []
    const costs: number[] = []
    for (let round = 0; round <= rounds; round++) {
      const costsOfRound: number[] = []
      for (let edit = 0; edit < EDITS; edit++) {
        const before = await waitUntilIdle(pid)
        const from = performance.now()
        write(Math.floor((TICKETS * edit) / EDITS), `Changed ${round}`)
        const rested = await waitUntilIdle(pid)
        await sleep(performance.now() - from)
        const unchanged = (cpuMs(pid) ?? Number.NaN) - rested
        costsOfRound.push(rested - before - unchanged)
      }
      const turn = await longestTurnMs(host.served)
      // The first round warms up.
      if (round === 0) continue
      costs.push(...costsOfRound)
      turns.push(turn)
    }
    await host.stop()
    return [
      absoluteFigure(
        {
          name: `one ticket edited among ${TICKETS}`,
          unit: 'ms',
          target: { of: 'ours', is: 'at most', bound: 5 },
          notes: ['processor time of the host until it rests, less that of an unchanged host'],
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

/** Waits until the tracker has been polled. */
async function waitUntilListed({ port, token }: ServedHost): Promise<void> {
  const until = performance.now() + LISTED_MS_MAX
  while (performance.now() < until) {
    const response = await fetch(`http://127.0.0.1:${port}/api/tracker/status`, {
      headers: { authorization: `Bearer ${token}` },
    })
    const { seen } = (await response.json()) as { seen?: number }
    if (seen === TICKETS) return
    await sleep(LISTED_CHECK_MS)
  }
  throw new Error(`the tracker did not list ${TICKETS} tickets within ${LISTED_MS_MAX} ms`)
}

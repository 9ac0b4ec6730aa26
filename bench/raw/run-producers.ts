/** Requests runs of tickets over several connections at once, one request at a time on each. */
import { setTimeout as sleep } from 'node:timers/promises'
import { TicketRequests } from './ticket-requests.ts'

const RETRY_MS = 20

export interface RunProducers {
  readonly port: number
  readonly token: string
  readonly producers: number
  readonly tickets: number
  /** How many runs have ended; a ticket has at most one run that has not. */
  ended(): number
}

/** Resolves when the host has confirmed all runs; a confirmed run is on disk. */
export async function requestRuns(
  { port, token, producers, tickets, ended }: RunProducers,
  count: number,
): Promise<void> {
  let next = 0
  const produce = async (): Promise<void> => {
    const requests = new TicketRequests(port, token)
    while (next < count) {
      const at = next++
      while (at - ended() >= tickets) await sleep(RETRY_MS)
      await requestRun(requests, `/api/tickets/T-${at % tickets}/run`)
    }
    requests.close()
  }
  await Promise.all(Array.from({ length: producers }, produce))
}

async function requestRun(requests: TicketRequests, path: string): Promise<void> {
  for (;;) {
    const status = await requests.requestRun(path)
    if (status < 300) return
    // The host has not polled the tracker yet, or the ticket's earlier run ends later than those after it.
    if (status !== 404 && status !== 409) throw new Error(`${path} answered ${status}`)
    await sleep(RETRY_MS)
  }
}

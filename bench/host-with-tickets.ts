/**
 * Starts a host with tickets in a folder whose runs are requested through the API: none of them is eligible.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { StoredConfig } from '../protocol/config.ts'
import { type ProductHost, type StoredRunCounts, startProductHost, WORKING_CONFIG } from './bench-hosts.ts'
import type { BenchResources } from './bench-resources.ts'

/** Only the requests are measured: a poll reads all files once more, because they are new. */
const POLL_SECONDS = 3_600
/** No ticket is in this state. */
const ELIGIBLE = { states: ['Nowhere'] }

export function startHostWithTickets(
  resources: BenchResources,
  past: StoredRunCounts,
  tickets: number,
): Promise<ProductHost> {
  const path = join(resources.createFolder('tickets'), 'tickets')
  mkdirSync(path)
  for (let at = 0; at < tickets; at++)
    writeFileSync(join(path, `T-${at}.md`), `---\ntitle: Number ${at}\nstate: Backlog\n---\nDo it.\n`)
  const config: StoredConfig = {
    ...WORKING_CONFIG,
    tracker: { driver: 'local', path, pollSeconds: POLL_SECONDS, eligible: ELIGIBLE },
  }
  return startProductHost(resources, past, config)
}

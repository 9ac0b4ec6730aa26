/**
 * The worker's side of a run's model requests: the proxy with a key, a budget and the meter, on a socket.
 *
 * Arguments: the vendor's port, the file of its certificate, the folder of the socket. Prints the socket's path.
 */
import { readFileSync } from 'node:fs'
import { realClock } from '../../bin/process/clock.ts'
import { PRICES } from '../../core/run/price-table.ts'
import { createModelMeter } from '../../worker/model-api/create-model-meter.ts'
import { DialedUpstream } from '../../worker/model-api/dialed-upstream.ts'
import { openModelAccess } from '../../worker/model-api/model-access.ts'
import { openModelApi } from '../../worker/model-api/model-api.ts'

const [port, certificate = '', folder = ''] = process.argv.slice(2)
const credential = { kind: 'api-key', value: `sk-ant-api03-${'k'.repeat(80)}` } as const
const access = openModelAccess('agentA', credential, Date.now())
if (!access.ok) throw new Error(access.refusal.message)
const api = await openModelApi({
  access: { ...access.value, origin: `https://127.0.0.1:${port}` },
  folder,
  rules: { provider: 'agentA', serverTools: [] },
  upstream: new DialedUpstream({ certificateAuthorities: [readFileSync(certificate, 'utf8')] }),
  meter: createModelMeter({ provider: 'agentA', prices: PRICES, limits: { maxCostUsd: 1_000_000 } }),
  log: () => {},
  clock: realClock,
})
console.log(api.socketPath)

/**
 * `createDemandClient` asks the host for the demand, and changes the state of this machine's own worker.
 *
 * The worker's credential is read again for each request, because the worker may be enrolled meanwhile. Each request
 * has a connection of its own, so none depends on the fate of an earlier one.
 */
import { request } from 'undici'
import type { DemandAnswer, DemandPort, DemandRequest, OwnDemand } from '../core/fleet/supervision.ts'
import { toSingleLine, truncate } from '../core/safe-text.ts'
import { checkFleetDemand } from '../protocol/demand.ts'
import type { DrainHolder } from '../protocol/worker.ts'
import { type DialAddress, DialNetwork, describeFailure, trustOf } from './dial-network.ts'
import { readStoredCredential } from './identity-files.ts'

/** Time limit of a request to the host. */
const SUPERVISOR_REQUEST_MS_MAX = 15_000

export interface DemandClientOptions extends DialAddress {
  readonly credentialFile: string
  /** In whose name the worker is drained. */
  readonly holder: Exclude<DrainHolder, 'operator'>
}

const CHANNEL = /^ws(s?):(.*)\/ws\/worker$/
const REASON_CHARS_MAX = 300
const ANSWER_BYTES_MAX = 64 * 1024

export function createDemandClient(options: DemandClientOptions): DemandPort {
  return {
    async ask(asked) {
      try {
        return await sendRequest(options, asked)
      } catch (error) {
        return { is: 'unanswered', reason: describeFailure(error) }
      }
    },
  }
}

async function sendRequest(options: DemandClientOptions, asked: DemandRequest): Promise<DemandAnswer> {
  const { url, credentialFile, proxies } = options
  const credential = await readStoredCredential(credentialFile)
  if (credential === undefined)
    return { is: 'unanswered', reason: `the worker is not enrolled: ${credentialFile} is missing` }
  const network = new DialNetwork(proxies, trustOf(options), SUPERVISOR_REQUEST_MS_MAX)
  try {
    const { statusCode, body } = await request(addressOf(url(), credential.workerId, asked, options.holder), {
      method: asked === 'read' ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${credential.secret}` },
      dispatcher: network,
      signal: AbortSignal.timeout(SUPERVISOR_REQUEST_MS_MAX),
    })
    const text = (await body.text()).slice(0, ANSWER_BYTES_MAX)
    return statusCode === 200
      ? readAnswer(text)
      : { is: 'unanswered', reason: describeRefusal(statusCode, text) }
  } finally {
    network.dispose()
  }
}

function addressOf(url: string, workerId: string, asked: DemandRequest, holder: string): string {
  const base = url.replace(CHANNEL, 'http$1:$2')
  const query = new URLSearchParams({ workerId })
  if (asked === 'read') return `${base}/api/worker/demand?${query}`
  query.set('state', asked === 'drain' ? 'draining' : 'active')
  query.set('by', holder)
  return `${base}/api/worker/state?${query}`
}

function readAnswer(text: string): DemandAnswer {
  const read = checkFleetDemand(JSON.parse(text))
  if (!read.ok) return { is: 'unanswered', reason: `the answer of the host can't be read: ${read.error}` }
  const { worker } = read.value
  if (worker === undefined) return { is: 'unanswered', reason: 'the host named no worker' }
  const demand: OwnDemand = { ...read.value, worker }
  return { is: 'answered', demand }
}

function describeRefusal(status: number, text: string): string {
  const detail = truncate(toSingleLine(text), REASON_CHARS_MAX)
  return `the host answered ${status}${detail === '' ? '' : `: ${detail}`}`
}

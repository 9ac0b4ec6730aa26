/**
 * Connecting an account, step by step: the request, and what the person does next.
 *
 * A flow ends with its account connected, a reason to give a key by hand, or a failure. Credentials are sent once and
 * kept nowhere.
 */
import type { ConnectPollResponse, ConnectResponse } from '../../../protocol/connect.ts'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'
import type { Account } from './accounts.ts'

export type FlowStep =
  | {
      readonly is: 'device'
      readonly code: string
      readonly page: string
      readonly intervalMs: number
      readonly endsAt: number
    }
  | { readonly is: 'redirect'; readonly page: string }
  /** The login goes on in a browser of the host's machine. */
  | { readonly is: 'elsewhere'; readonly detail: string }
  | { readonly is: 'key'; readonly reason: string | undefined }
  | { readonly is: 'failed'; readonly reason: string }
  | { readonly is: 'connected'; readonly detail: string }

const SECOND = 1_000

export async function beginConnecting(provider: Account['provider']): Promise<FlowStep> {
  if (provider !== 'storage') return stepOf(await host.connectProvider({ provider }))
  const answer = await host.connectStorage()
  if (answer.status === 'unavailable') return { is: 'failed', reason: answer.reason }
  if (answer.status === 'login-started') return { is: 'elsewhere', detail: answer.detail }
  return { is: 'connected', detail: answer.r2.account ?? 'wrangler is logged in' }
}

function stepOf(answer: ConnectResponse): FlowStep {
  switch (answer.status) {
    case 'connected':
      config.value = answer.config
      return { is: 'connected', detail: answer.detail }
    case 'device':
      return {
        is: 'device',
        code: answer.userCode,
        page: answer.verificationUri,
        intervalMs: answer.interval * SECOND,
        endsAt: Date.now() + answer.expiresIn * SECOND,
      }
    case 'redirect':
      return { is: 'redirect', page: answer.url }
    case 'manual':
      return { is: 'key', reason: answer.reason }
  }
}

/** Undefined while nobody has confirmed the code. */
export const pollCode = async (): Promise<FlowStep | undefined> => stepAfter(await host.pollCodehost())

/** For a browser that could not open the address to which the tracker sent it back. */
export const pasteAddress = async (pasted: string): Promise<FlowStep | undefined> =>
  stepAfter(await host.pasteTrackerAddress({ body: { address: pasted } }))

function stepAfter(answer: ConnectPollResponse): FlowStep | undefined {
  if (answer.status === 'pending') return undefined
  if (answer.status === 'error') return { is: 'failed', reason: answer.detail }
  config.value = answer.config
  return { is: 'connected', detail: answer.detail }
}

/** Sends a key by hand; an empty one disconnects. Throws the provider's reason for refusing it. */
export async function sendKey(field: NonNullable<Account['keyField']>, key: string): Promise<string> {
  const answer = await host.changeCredentials({ body: { [field]: key } })
  config.value = answer.config
  const [result] = Object.values(answer.results)
  if (result?.ok === false) throw new Error(result.detail)
  return result?.detail ?? ''
}

/**
 * Acts as a person with a browser who connects accounts.
 *
 * The person follows the service's URL to the tracker's consent page and approves or refuses there, or enters the code
 * of a device flow at the code host.
 */
import { expect } from '@jest/globals'
import type { ConnectPollResponse, ConnectResponse } from '../../protocol/connect.ts'
import { SYSTEM_WAIT_MS_MAX } from './dashboard-client.ts'
import type { FakeLinear } from './linear/linear.ts'
import { OWNER, type ProviderSystem } from './system-with-providers.ts'
import { until } from './until.ts'

export interface BrowserPage {
  readonly status: number
  readonly text: string
}

const HOPS_MAX = 3

/** Decides at the consent page and returns the callback URL without opening it. */
export async function decideConsent(
  linear: FakeLinear,
  url: string,
  decision: 'approve' | 'refuse' = 'approve',
): Promise<string> {
  let at = new URL(url)
  for (let hop = 0; hop < HOPS_MAX; hop++) {
    if (at.origin === linear.url) at.searchParams.set(decision, '1')
    const response = await fetch(at, { redirect: 'manual' })
    const location = response.headers.get('location')
    if (location === null)
      throw new Error(`${at.pathname} answered with a page instead of a redirect: ${await response.text()}`)
    at = new URL(location, at)
    if (at.pathname === '/api/connect/tracker/callback') return at.href
  }
  throw new Error(`more than ${HOPS_MAX} redirects, the last one to ${at.origin}${at.pathname}`)
}

/** Fetches a page like a browser, without the launch token. */
export async function fetchPage(url: string): Promise<BrowserPage> {
  const response = await fetch(url)
  return { status: response.status, text: await response.text() }
}

/** Connects the code host by a device flow: the person enters the code while the dashboard polls. */
export async function connectByDevice(system: ProviderSystem): Promise<void> {
  const begun = (await system.send('POST', '/api/connect/codehost')).body as ConnectResponse
  if (begun.status !== 'device') throw new Error(JSON.stringify(begun))
  const poll = async () =>
    (await system.send('POST', '/api/connect/codehost/poll')).body as ConnectPollResponse
  expect(await poll()).toEqual({ status: 'pending' })
  system.github.device.approve(begun.userCode, OWNER)
  let polled: ConnectPollResponse = { status: 'pending' }
  const isOver = async (): Promise<boolean> => {
    polled = await poll()
    return polled.status !== 'pending'
  }
  await until('the person’s approval arrives', isOver, SYSTEM_WAIT_MS_MAX, 50)
  expect(polled).toMatchObject({ status: 'connected', detail: expect.stringContaining(OWNER) })
}

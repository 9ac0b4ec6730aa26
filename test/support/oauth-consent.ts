/**
 * A person before a browser: follows the service's address to the tracker's consent page, decides there, and brings
 * back the address that the tracker sends the browser to; or types the code in that the code host asks for.
 */
import { expect } from '@jest/globals'
import type { ConnectPollResponse, ConnectResponse } from '../../protocol/connect.ts'
import { SYSTEM_WAIT_MS_MAX } from './dashboard-client.ts'
import type { FakeLinear } from './linear/linear.ts'
import { until } from './real-files.ts'
import { OWNER, type ProviderSystem } from './system-with-providers.ts'

export interface BrowserPage {
  readonly status: number
  readonly text: string
}

const HOPS_MAX = 3

/** The address of the callback; it is not opened yet. */
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
    if (location === null) throw new Error(`${at.pathname} shows a page: ${await response.text()}`)
    at = new URL(location, at)
    if (at.pathname === '/api/connect/tracker/callback') return at.href
  }
  throw new Error(`the browser was sent on and on, at last to ${at.origin}${at.pathname}`)
}

/** As a browser does, which knows no launch token. */
export async function fetchPage(url: string): Promise<BrowserPage> {
  const response = await fetch(url)
  return { status: response.status, text: await response.text() }
}

/** The code host's own flow: the code is typed in while the dashboard asks whether it has been. */
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
  await until('the code host is connected', isOver, SYSTEM_WAIT_MS_MAX, 50)
  expect(polled).toMatchObject({ status: 'connected', detail: expect.stringContaining(OWNER) })
}

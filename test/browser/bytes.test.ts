/** How many bytes the dashboard takes over the wire: real Chromium counts them, as they come out of the network. */
import { expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { openPage, SLOW } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 200_000
/** Long enough for what a page asks for by itself. */
const QUIET_MS = 1_500

/** Counts the bytes of answers with their heads, and of the texts of sockets, which are not compressed. */
async function meter(
  page: Page,
): Promise<{ readonly take: () => Promise<number>; readonly frames: string[] }> {
  const session = await page.context().newCDPSession(page)
  const frames: string[] = []
  const asked = new Set<string>()
  let bytes = 0
  let changedAt = Date.now()
  const add = (count: number): void => {
    bytes += count
    changedAt = Date.now()
  }
  session.on('Network.requestWillBeSent', ({ requestId }) => {
    asked.add(requestId)
    add(0)
  })
  session.on('Network.loadingFailed', ({ requestId }) => asked.delete(requestId))
  session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    asked.delete(requestId)
    add(encodedDataLength)
  })
  session.on('Network.webSocketFrameReceived', ({ response }) => {
    frames.push(response.payloadData)
    add(Buffer.byteLength(response.payloadData))
  })
  await session.send('Network.enable')
  return {
    frames,
    take: async () => {
      await until('the page is quiet', () => asked.size === 0 && Date.now() - changedAt > QUIET_MS)
      const taken = bytes
      bytes = 0
      return taken
    },
  }
}

async function openCold(host: SampleHost) {
  // Files that a service worker keeps are asked for by the worker, from the browser's cache.
  const page = await openPage({ serviceWorkers: 'block' })
  const metered = await meter(page)
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor(SLOW)
  await page.getByRole('heading', { name: 'Recently finished' }).waitFor(SLOW)
  return { page, ...metered }
}

test.each([
  [{ finishedRuns: 20, tickets: 12 }, 70_000],
  [{ finishedRuns: 2_290, tickets: 10_000 }, 150_000],
])(
  'of %j the overview takes at most %d bytes, and a page of runs or tickets 60,000',
  async (setup, bytesMax) => {
    const host = await openSampleHost(setup)
    const { page, take } = await openCold(host)
    const overview = await take()
    await page.locator('nav a[href="/settings"]').first().click()
    await page.getByRole('heading', { name: 'Settings' }).waitFor(SLOW)
    const settings = await take()
    await page.locator('nav a[href="/runs"]').first().click()
    await page.getByRole('heading', { name: 'Runs', exact: true }).waitFor(SLOW)
    await page.getByRole('table').getByRole('link').first().waitFor(SLOW)
    const runs = await take()
    await page.locator('nav a[href="/tickets"]').first().click()
    await page.getByRole('table', { name: /in the order in which they are taken/ }).waitFor(SLOW)
    const tickets = await take()
    expect(overview).toBeLessThanOrEqual(bytesMax)
    expect(settings).toBeLessThanOrEqual(60_000)
    expect(runs).toBeLessThanOrEqual(60_000)
    expect(tickets).toBeLessThanOrEqual(60_000)
  },
  TEST_MS_MAX,
)

test(
  'one changed ticket of 10,000 takes at most 4,000 bytes, and is shown',
  async () => {
    const host = await openSampleHost({ tickets: 10_000 })
    const ordered = host.hostApi.tickets()
    const { page, frames, take } = await openCold(host)
    await page.getByRole('link', { name: 'Tickets' }).first().click()
    await page.getByRole('table', { name: /^10,000 tickets/ }).waitFor(SLOW)
    await take()
    const [first, ...others] = ordered
    if (first === undefined) throw new Error('there is no ticket')
    const taken: number[] = []
    // On a busy machine the page may ask for something of its own meanwhile, such as a part of its code.
    for (const times of ['once', 'twice', 'three times']) {
      frames.length = 0
      const tickets = [{ ...first, title: `Renamed ${times} while somebody looks` }, ...others]
      host.hostApi.tickets = () => tickets
      host.hostApi.push({ type: 'tickets', tickets })
      await page.getByText(`Renamed ${times} while somebody looks`).waitFor(SLOW)
      taken.push(await take())
      expect(frames.map((text) => JSON.parse(text).type)).toContain('tickets-changed')
    }
    expect(Math.min(...taken)).toBeLessThanOrEqual(4_000)
  },
  TEST_MS_MAX,
)

/** Pushes to the dashboard in a real browser: what they say stays, whatever else arrives and whether the page is seen. */
import { expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { openPage } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'
import { until } from '../support/until.ts'

const RUN = 'run-000412'

async function signIn(page: Page, host: SampleHost): Promise<void> {
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()
}

test('an answer that is older than a push does not bring the run back', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  const isCancelled = page.locator('.run-state', { hasText: 'Cancelled' })
  let isAnswered = false
  await page.route(`**/api/runs/${RUN}`, async (route) => {
    const answer = await route.fetch()
    host.hostApi.push({ type: 'run-updated', run: host.sample.run(412, 'cancelled') })
    await isCancelled.waitFor()
    await route.fulfill({ response: answer })
    isAnswered = true
  })
  await page.goto(`${host.origin}/runs/${RUN}`)
  await until('the request is answered', () => isAnswered)
  // The page reads the answer in a few turns, and draws in the next frame.
  await page.evaluate('new Promise((resolve) => setTimeout(() => requestAnimationFrame(resolve), 100))')
  expect(await isCancelled.count()).toBe(1)
})

test('what waits for the next picture is applied when the page gets hidden before it', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  // No browser paints a hidden page.
  await page.evaluate('globalThis.requestAnimationFrame = () => { globalThis.hasAsked = true; return 0 }')
  const [item] = host.sample.attention()
  if (item === undefined) throw new Error('the sample needs nobody')
  host.hostApi.push({ type: 'attention', items: [item] })
  await until('the push waits', () => page.evaluate<boolean>('globalThis.hasAsked === true'))
  expect(await page.title()).toContain('(6)')
  await page.evaluate(`
    Object.defineProperty(document, 'hidden', { value: true })
    document.dispatchEvent(new Event('visibilitychange'))
  `)
  await until('the push is applied', async () => (await page.title()).startsWith('(1)'), 10_000)
  host.hostApi.push({ type: 'attention', items: [] })
  await until('a later push is applied', async () => (await page.title()).startsWith('Overview'), 10_000)
})

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

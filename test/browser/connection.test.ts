/** The dashboard's connection in a real browser: a listener that is started again, and what the page says meanwhile. */
import { expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { openPage, openWindow } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'
import { useNodeListener } from '../support/test-listener.ts'
import { until } from '../support/until.ts'

// The native listener cannot open its port again before the kernel has forgotten the connections of the one before.
useNodeListener()

async function signIn(page: Page, host: SampleHost): Promise<void> {
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()
}

test('a listener that is started again knows no browser, and each tab says so and comes back', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  const second = await openWindow(page)
  await second.goto(`${host.origin}/runs`)
  await second.getByText('Live', { exact: true }).waitFor()

  await host.page.close('the test closes it')
  for (const tab of [page, second]) await tab.getByText('Reconnecting', { exact: true }).waitFor()
  const reopened = await host.reopen()
  for (const tab of [page, second]) await tab.getByText('not signed in').waitFor()

  // Only the fragment of the address changes.
  await page.evaluate('globalThis.isSameDocument = true')
  await page.goto(reopened.createLink())
  await page.getByText('Live', { exact: true }).waitFor()
  expect([page.url(), await page.evaluate('globalThis.isSameDocument')]).toEqual([`${host.origin}/`, true])

  await second.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  await second.getByText('Live', { exact: true }).waitFor()
})

test('a page that was never live claims nothing, and opens one socket however often a person tries', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  const open = new Set<unknown>()
  let isRefused = true
  await page.routeWebSocket(/\/ws\?changes=1$/, (socket) => {
    if (isRefused) void socket.close()
    else open.add(socket)
  })
  await page.goto(host.page.createLink())
  const tryNow = page.getByRole('button', { name: 'Try now' })
  await tryNow.waitFor()
  const texts = await page.locator('body').innerText()
  expect(texts).toContain('Reconnecting.')
  expect(texts).not.toMatch(/What you see is from|in progress|Tracker disconnected/)

  for (let click = 0; click < 4; click += 1) await tryNow.click()
  isRefused = false
  await until('a socket is open', () => open.size > 0)
  // Each pause before another attempt is over by then.
  await page.waitForTimeout(1_500)
  expect(open.size).toBe(1)
})

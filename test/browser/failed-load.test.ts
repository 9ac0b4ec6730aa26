/** A page of the dashboard whose part of the program comes late or never, in a real browser. */
import { expect, test } from '@jest/globals'
import type { Page, WebSocketRoute } from 'playwright-core'
import { openPage } from '../support/browser.ts'
import { openSampleHost } from '../support/sample-host.ts'
import { until } from '../support/until.ts'

/** What a service worker asks for is not the page's request. */
async function withoutServiceWorker(page: Page): Promise<void> {
  await page.addInitScript("Object.defineProperty(navigator, 'serviceWorker', { value: undefined })")
}

async function press(page: Page, keys: string): Promise<void> {
  for (const key of keys) await page.keyboard.press(key)
}

test('a page that comes late does not take the place of the one that was opened after it', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await withoutServiceWorker(page)
  let come = (): void => {}
  const isLate = new Promise<void>((resolve) => {
    come = resolve
  })
  await page.route(/\/assets\/runs-page/, async (route) => {
    await isLate
    await route.continue()
  })
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()
  await press(page, 'gr')
  await press(page, 'gf')
  await page.getByRole('heading', { name: 'Fleet' }).waitFor()
  const hasCome = page.waitForResponse(/\/assets\/runs-page/)
  come()
  await hasCome
  // Time enough to run the part and to draw.
  await page.waitForTimeout(300)
  expect(await page.getByRole('heading', { name: 'Fleet' }).count()).toBe(1)
})

test('a page that could not be loaded is loaded again once by itself, and whenever a person asks', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await withoutServiceWorker(page)
  let [isAway, isPartAway, documents] = [false, true, 0]
  const sockets = new Set<WebSocketRoute>()
  await page.routeWebSocket(/\/ws\?changes=1$/, (socket) => {
    if (isAway) void socket.close()
    else {
      sockets.add(socket)
      socket.connectToServer()
    }
  })
  await page.route(/\/assets\/(runs|fleet)-page/, (route) => (isPartAway ? route.abort() : route.continue()))
  page.on('load', () => {
    documents += 1
  })
  const failure = page.getByText('This could not be loaded')
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()

  await press(page, 'gr')
  await until('the document is loaded again', () => documents === 2)
  await failure.waitFor()
  await page.getByText('Live', { exact: true }).waitFor()
  // Time enough for another one.
  await page.waitForTimeout(500)
  expect(documents).toBe(2)

  isPartAway = false
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('heading', { name: 'Runs' }).waitFor()
  await page.getByText('Live', { exact: true }).waitFor()

  isAway = true
  isPartAway = true
  for (const socket of sockets) await socket.close()
  await page.getByText('Reconnecting', { exact: true }).waitFor()
  await press(page, 'gf')
  await failure.waitFor()
  expect(documents).toBe(3)
  isAway = false
  isPartAway = false
  await page.getByRole('heading', { name: 'Fleet' }).waitFor()
  expect(documents).toBe(4)
})

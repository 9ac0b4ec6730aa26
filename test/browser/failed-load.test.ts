/** A page of the dashboard whose part of the program does not come, in a real browser. */
import { expect, test } from '@jest/globals'
import type { WebSocketRoute } from 'playwright-core'
import { openPage } from '../support/browser.ts'
import { openSampleHost } from '../support/sample-host.ts'
import { until } from '../support/until.ts'

test('a page that could not be loaded is loaded again once by itself, and whenever a person asks', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  // What a service worker asks for is not the page's request.
  await page.addInitScript("Object.defineProperty(navigator, 'serviceWorker', { value: undefined })")
  let [isAway, isPartAway, documents] = [false, true, 0]
  const sockets = new Set<WebSocketRoute>()
  await page.routeWebSocket(/\/ws$/, (socket) => {
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
  const openByKeys = async (keys: string) => {
    for (const key of keys) await page.keyboard.press(key)
  }
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()

  await openByKeys('gr')
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
  await openByKeys('gf')
  await failure.waitFor()
  expect(documents).toBe(3)
  isAway = false
  isPartAway = false
  await page.getByRole('heading', { name: 'Fleet' }).waitFor()
  expect(documents).toBe(4)
})

/** The dashboard at its limits: thousands of records, no mouse, no listener. */
import { expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { openPage, SLOW } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 200_000

async function signIn(page: Page, host: SampleHost): Promise<void> {
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor(SLOW)
}

test(
  '2,000 runs and 10,000 tickets are listed, and only the rows in view are in the document',
  async () => {
    const host = await openSampleHost({ finishedRuns: 2_000, tickets: 10_000 })
    const page = await openPage()
    await signIn(page, host)
    await page.goto(`${host.origin}/runs`)
    const total = host.hostApi.runsById.size
    await page.getByText(`${total.toLocaleString('en-US')} runs`, { exact: true }).waitFor(SLOW)
    await page.getByRole('searchbox', { name: 'Search the runs' }).fill('ENG-11999')
    await page.getByRole('link', { name: 'Describe worker pairing' }).first().waitFor(SLOW)
    await page.goto(`${host.origin}/tickets`)
    await page.getByRole('table', { name: /^10,000 tickets/ }).waitFor(SLOW)
    expect(await page.getByRole('row').count()).toBeLessThan(120)
  },
  TEST_MS_MAX,
)

test(
  'of 10,000 tickets the page shows what is asked: searched, filtered, sorted, and read on at its end',
  async () => {
    const host = await openSampleHost({ tickets: 10_000 })
    const failed = host.sample.run(1_500, 'failed')
    const unchanged = host.sample.run(1_501, 'completed', { result: { artifacts: [] } })
    for (const run of [failed, unchanged]) host.hostApi.runsById.set(run.id, run)
    const asked: string[] = []
    const page = await openPage()
    page.on('request', (request) => {
      const { pathname, search } = new URL(request.url())
      if (pathname === '/api/tickets') asked.push(search)
    })
    await signIn(page, host)
    await page.locator('nav a[href="/tickets"]').first().click()
    const table = page.getByRole('table')
    await page.getByRole('table', { name: /^10,000 tickets/ }).waitFor(SLOW)
    expect(asked).toEqual(['?omit=description&skip=0&limit=50'])
    await table.evaluate((rows) => rows.scrollTo(0, 50 * 40))
    await until('the next page is asked for', () => asked.at(-1) === '?omit=description&skip=50&limit=50')
    await page.getByRole('searchbox', { name: 'Search the tickets' }).fill('eng-1500')
    await page.getByRole('table', { name: /^1 ticket,/ }).waitFor(SLOW)
    await page.getByRole('link', { name: 'Failed' }).waitFor(SLOW)
    await page.getByText('1 ticket found', { exact: false }).waitFor(SLOW)
    await page.getByRole('searchbox', { name: 'Search the tickets' }).fill('eng-1501')
    await page.getByRole('link', { name: 'Changed nothing' }).click()
    await page.getByText('Changed nothing', { exact: true }).waitFor(SLOW)
    await page.goBack()
    await page.getByRole('searchbox', { name: 'Search the tickets' }).fill('')
    await page.getByLabel('Every repository').selectOption('acme/docs')
    await page.getByRole('table', { name: /^2,500 tickets/ }).waitFor(SLOW)
    await page.getByLabel('Order', { exact: true }).selectOption('newest')
    await page.getByRole('table', { name: '2,500 tickets', exact: true }).waitFor(SLOW)
    expect(new URL(page.url()).search).toBe('?repo=acme%2Fdocs&sort=newest')
    const renamed = { ...host.sample.ticket(1_002), title: 'Renamed, and changed just now' }
    const tickets = host.hostApi.tickets().map((ticket) => (ticket.id === renamed.id ? renamed : ticket))
    host.hostApi.tickets = () => tickets
    host.hostApi.push({ type: 'tickets', tickets })
    await page.goBack()
    await page.goForward()
    await page.getByRole('table', { name: '2,500 tickets', exact: true }).waitFor(SLOW)
    await page.getByRole('searchbox', { name: 'Search the tickets' }).fill('changed just now')
    await page.getByRole('link', { name: 'Renamed, and changed just now' }).waitFor(SLOW)
  },
  TEST_MS_MAX,
)

test(
  'a run is found, marked, opened and left by keys alone',
  async () => {
    const host = await openSampleHost()
    const page = await openPage()
    await signIn(page, host)
    for (const key of ['g', 'r']) await page.keyboard.press(key)
    await page.getByRole('heading', { name: 'Runs' }).waitFor(SLOW)
    await page.getByText('ENG-404').first().waitFor(SLOW)
    await page.keyboard.press('j')
    await page.keyboard.press('x')
    await page.getByText('1 run marked').waitFor(SLOW)
    await page.keyboard.press('Shift+J')
    await page.getByText('2 runs marked').waitFor(SLOW)
    await page.keyboard.press('Enter')
    await page.getByRole('log').waitFor(SLOW)
    expect(await page.evaluate('document.activeElement?.tagName')).toBe('H1')
    await page.keyboard.press('Escape')
    await page.getByRole('heading', { name: 'Runs' }).waitFor(SLOW)
    await page.keyboard.press('?')
    await page.getByRole('dialog').getByText('Next run').waitFor(SLOW)
    await page.keyboard.press('Escape')
    // Keys do nothing else while a dialog is open, and a browser closes it a moment later.
    await page.getByRole('dialog').waitFor({ state: 'hidden', ...SLOW })
    await page.keyboard.press('Control+K')
    await page.getByRole('combobox', { name: 'Search or act' }).pressSequentially('cost')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Costs' }).waitFor(SLOW)
  },
  TEST_MS_MAX,
)

test(
  'the page opens without its listener, and says so',
  async () => {
    const host = await openSampleHost()
    const page = await openPage()
    await signIn(page, host)
    await until('the page is kept', async () =>
      page.evaluate<boolean>(
        "navigator.serviceWorker.ready.then(() => caches.keys()).then((names) => names.some((name) => name.startsWith('switchyard')))",
      ),
    )
    await page.reload()
    await page.getByText('Live', { exact: true }).waitFor(SLOW)
    expect(
      await page.evaluate<boolean>("caches.match('/api/health').then((kept) => kept === undefined)"),
    ).toBe(true)
    await host.page.close('the test closes it')
    await page.reload()
    await page.getByText('Reconnecting', { exact: true }).waitFor(SLOW)
  },
  TEST_MS_MAX,
)

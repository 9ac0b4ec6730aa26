/** Runs that the page does not read first, in a real browser: the overview counts and names them all the same. */
import { expect, test } from '@jest/globals'
import type { Run } from '../../protocol/run.ts'
import { openPage } from '../support/browser.ts'
import { openSampleHost } from '../support/sample-host.ts'
import { until } from '../support/until.ts'

/** As many as the page reads first. */
const NEWEST = 100
const DAYS_AGO = 3 * 24 * 60

test('the counts of today are marked until all runs of today are read, and then right', async () => {
  const host = await openSampleHost()
  const { hostApi, sample } = host
  const many = (from: number, count: number, status: Run['status'], minutes: number): Run[] =>
    Array.from({ length: count }, (_, index) =>
      sample.run(from + index, status, { finishedAt: sample.ago(minutes), createdAt: sample.ago(minutes) }),
    )
  const ended = [
    ...many(1_000, 700, 'failed', DAYS_AGO),
    ...many(2_000, 3, 'completed', 0),
    ...many(3_000, 424, 'failed', 0),
  ].reverse()
  hostApi.runsById.clear()
  for (const run of ended) hostApi.runsById.set(run.id, run)
  const review = sample.itemOf(1_001, 'review', 'review asked on acme/api#1')
  hostApi.attention = () => ({ items: [review] })

  const page = await openPage()
  let goOn = (): void => {}
  const mayGoOn = new Promise<void>((resolve) => {
    goOn = resolve
  })
  await page.route(/\/api\/runs(\/|\?.*(endedSince|prState))/, async (route) => {
    await mayGoOn
    await route.continue()
  })
  const figure = async (word: string) =>
    (await page.locator('.flow-figure', { hasText: word }).textContent())?.trim()
  const fact = () => page.locator('.need strong').textContent()
  await page.goto(host.page.createLink())
  await page.getByText('Review asked').waitFor()
  expect(await figure('Failed')).toBe(`≥${NEWEST} Failed`)
  expect(await figure('Completed today')).toBe('≥0 Completed today')
  await page.getByText(`≥${NEWEST} today`).waitFor()
  expect(await fact()).toBe('Review asked on acme/api#1')

  goOn()
  await page.getByText('427 today', { exact: true }).waitFor()
  expect(await figure('Failed')).toBe('424 Failed')
  expect(await figure('Completed today')).toBe('3 Completed today')
  // No page that was read has the run.
  const title = sample.ticket(1_001).title
  await until(
    'the entry has its title',
    async () => (await fact()) === `Review asked on acme/api#1: ${title}`,
  )

  // The same for what is pushed later.
  hostApi.runsById.set('run-000007', sample.run(7, 'completed'))
  hostApi.push({ type: 'attention', items: [sample.itemOf(7, 'review', 'review asked on acme/api#7')] })
  const lone = `Review asked on acme/api#7: ${sample.ticket(7).title}`
  await until('the other entry has its title', async () => (await fact()) === lone)
})

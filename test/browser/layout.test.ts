/** Parts of pages at their places in a real browser: none is cut off, none covers another, heads stand over columns. */
import { expect, test } from '@jest/globals'
import type { Locator, Page } from 'playwright-core'
import type { RunStatus } from '../../protocol/run.ts'
import { openPage } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'
import { until } from '../support/until.ts'

async function signIn(page: Page, host: SampleHost): Promise<void> {
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()
}

async function boxOf(element: Locator): Promise<Readonly<Record<'x' | 'y' | 'width' | 'height', number>>> {
  await element.waitFor()
  const box = await element.boundingBox()
  if (box === null) throw new Error('the element has no box')
  return box
}

test('the flow drawing with one worker and large numbers is whole, and no figure covers another', async () => {
  const host = await openSampleHost()
  const { sample, hostApi } = host
  const ended = (status: RunStatus, from: number, count: number) =>
    Array.from({ length: count }, (_, at) => sample.run(from + at, status, { finishedAt: sample.ago(0) }))
  hostApi.helloAnswer = {
    ...hostApi.helloAnswer,
    runs: [
      ...ended('completed', 1_000, 3),
      ...ended('failed', 2_000, 200),
      ...ended('cancelled', 3_000, 115),
    ],
    workers: sample.workers().slice(0, 1),
  }
  const page = await openPage()
  await signIn(page, host)
  const card = await boxOf(page.locator('.flow'))
  const figure = (word: string) => boxOf(page.locator('.flow-figure', { hasText: word }))
  const [completed, failed, cancelled] = [
    await figure('Completed'),
    await figure('Failed'),
    await figure('Cancelled'),
  ]
  expect(completed.y).toBeGreaterThan(card.y)
  expect(cancelled.y + cancelled.height).toBeLessThan(card.y + card.height)
  expect(cancelled.x + cancelled.width).toBeLessThan(card.x + card.width)
  expect(cancelled.x - (failed.x + failed.width)).toBeGreaterThan(4)
})

test('the heads of the runs stand over their columns at every width', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/runs`)
  const columns = (row: string) =>
    page
      .locator(`${row} >> nth=0`)
      .evaluate((element) =>
        [...element.children]
          .filter((column) => column.getClientRects().length > 0)
          .map((column) => Math.round(column.getBoundingClientRect().left)),
      )
  await page.locator('.run-rows .run-line').first().waitFor()
  for (const width of [1_440, 1_200, 900, 720]) {
    await page.setViewportSize({ width, height: 800 })
    const [heads, cells] = [await columns('.run-heads'), await columns('.run-rows .run-line')]
    expect([width, heads]).toEqual([width, cells])
  }
})

test('a name of any length leaves a phone its width, and labels that do not fit are left out', async () => {
  const host = await openSampleHost()
  const { sample, hostApi } = host
  const repo = 'an-organization-with-a-very-long-name/a-repository-with-a-longer-one'
  const run = sample.run(412, 'running')
  const labels = ['agent', 'a label that has far more words than most', 'third']
  const ticket = { ...sample.ticket(1_003), labels }
  hostApi.runsById.set(run.id, { ...run, ticket: { ...run.ticket, repo } })
  hostApi.tickets = () => [ticket]
  const page = await openPage({ width: 390, height: 844 })
  await signIn(page, host)
  await page.goto(`${host.origin}/runs`)
  await page.getByLabel('Repository').locator('option', { hasText: repo }).waitFor({ state: 'attached' })
  expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBe(390)

  await page.goto(`${host.origin}/runs/${run.id}`)
  const waited = page.locator('.timeline-label.queued')
  // The words of a bar are in view when they are in the box of their label.
  const isWhole = () =>
    waited.evaluate((label) => {
      const words = label.ownerDocument.createRange()
      words.selectNodeContents(label)
      const [text, box] = [words.getBoundingClientRect(), label.getBoundingClientRect()]
      return text.top < box.bottom && text.right <= box.right
    })
  await waited.waitFor({ state: 'attached' })
  expect(await isWhole()).toBe(false)
  await page.setViewportSize({ width: 1_600, height: 900 })
  await until('there is room for the words', isWhole)

  await page.goto(`${host.origin}/tickets`)
  const more = page.locator('.ticket-labels').getByText('+1')
  const [cell, sign] = [await boxOf(page.locator('.ticket-rows .ticket-labels')), await boxOf(more)]
  expect(sign.x + sign.width).toBeLessThanOrEqual(cell.x + cell.width)
})

test('the cost and the age of a finished run are whole, however small or old', async () => {
  const host = await openSampleHost()
  const [run] = host.sample.finishedRuns(1)
  if (run?.costTotals === undefined) throw new Error('the run has no cost')
  const costTotals = { ...run.costTotals, costUsd: 0.0037, estimated: true }
  const finishedAt = host.sample.ago(24 * 60 - 1)
  host.hostApi.runsById.clear()
  host.hostApi.runsById.set(run.id, { ...run, costTotals, finishedAt })
  const page = await openPage()
  await signIn(page, host)
  for (const width of [1_440, 900, 360]) {
    await page.setViewportSize({ width, height: 800 })
    for (const text of ['~$0.0037', /^(23|24) h 5?\d m$|^1 d/]) {
      const cell = page.locator('.finished-rows td', { hasText: text })
      expect(await cell.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0)
    }
  }
})

test('on a phone the titles of rows are read, every segment is reachable, and no count covers its icon', async () => {
  const host = await openSampleHost()
  const page = await openPage({ width: 390, height: 844 })
  await signIn(page, host)
  const title = page.locator('.finished-rows').getByText('Compress usage snapshots before archiving').first()
  await title.waitFor()
  expect(
    await title.evaluate(({ scrollHeight, clientHeight, scrollWidth, clientWidth }) => [
      scrollHeight - clientHeight,
      scrollWidth - clientWidth,
    ]),
  ).toEqual([0, 0])
  const [icon, count] = [
    await boxOf(page.locator('.bar-below [aria-current] .icon')),
    await boxOf(page.locator('.bar-below [aria-current] .place-count')),
  ]
  expect(count.x).toBeGreaterThanOrEqual(icon.x + icon.width)
  for (const word of ['Queued', 'In progress', 'Completed', 'Failed', 'Cancelled'])
    await page.locator('.flow-counts').getByText(word, { exact: true }).waitFor()
  await page.goto(`${host.origin}/runs`)
  const last = page.locator('.segments').first().getByRole('button').last()
  const box = await boxOf(last)
  expect(box.x + box.width).toBeLessThanOrEqual(390)
})

test('the list of pull requests has checks, size, comments and author, and a dash for what is not known', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/pulls?state=all`)
  const row = (title: string) => page.locator('.pull-table tbody tr', { hasText: title })
  const words = async (title: string) => (await row(title).innerText()).replaceAll(/\s+/g, ' ')
  await row('Move session cookies').waitFor()
  expect(await words('Move session cookies')).toMatch(
    /Failed .*\+118 .*−41 3 files 12 switchyard ENG-371 32 m$/,
  )
  expect(await words('Announce toasts')).toMatch(/Running .*\+4 .*−0 1 file 1 switchyard/)
  expect(await words('Spike: gRPC')).toMatch(/worker channel – – – switchyard/)
  const countTruncatedHeads = () =>
    page
      .locator('.pull-table th')
      .evaluateAll(
        (heads) => heads.filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).length,
      )
  expect(await countTruncatedHeads()).toBe(0)
  await page.setViewportSize({ width: 390, height: 800 })
  await row('Move session cookies').getByText('12 comments').waitFor()
  expect(await words('Move session cookies')).toMatch(
    /Checks failed .*\+118 .*−41 3 files 12 comments switchyard/,
  )
  expect(await words('Spike: gRPC')).not.toMatch(/checks|file|comment/i)
  expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBe(390)
})

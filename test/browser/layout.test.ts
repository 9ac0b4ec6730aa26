/** Parts of pages at their places in a real browser: none is cut off, none covers another, heads stand over columns. */
import { expect, test } from '@jest/globals'
import type { Locator, Page } from 'playwright-core'
import type { RunStatus } from '../../protocol/run.ts'
import { openPage } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'

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

test('the cost of a finished run is whole, however small', async () => {
  const host = await openSampleHost()
  const [run] = host.sample.finishedRuns(1)
  if (run?.costTotals === undefined) throw new Error('the run has no cost')
  const costTotals = { ...run.costTotals, costUsd: 0.0037, estimated: true }
  host.hostApi.runsById.set(run.id, { ...run, costTotals })
  const page = await openPage()
  await signIn(page, host)
  for (const width of [1_440, 900, 360]) {
    await page.setViewportSize({ width, height: 800 })
    const cell = page.locator('.finished-rows').getByText('~$0.0037')
    expect(await cell.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0)
  }
})

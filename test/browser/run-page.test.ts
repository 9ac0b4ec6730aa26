/** The page of a run says first what its state is about: why it waits, what may be done, what failed. */
import { expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import type { RunEvent } from '../../protocol/run.ts'
import { openPage } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'
import { until } from '../support/until.ts'

async function signIn(page: Page, host: SampleHost): Promise<void> {
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()
}

test('the page of a queued run is about its reason, its moment and its cure, until it has a log', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/runs/run-000413`)
  const wait = page.getByRole('region', { name: 'What it waits for' })
  await wait.getByRole('heading', { name: 'Fleet at capacity' }).waitFor()
  await wait.getByText(/^Queued since \d\d:\d\d, 4\d m \d\d s\.$/).waitFor()
  await wait.getByRole('link', { name: 'Pair a worker' }).waitFor()
  expect(await page.getByRole('log').count()).toBe(0)
  host.hostApi.push({ type: 'run-updated', run: host.sample.run(413, 'running') })
  await page.getByRole('log').waitFor()
  expect(await wait.count()).toBe(0)
})

test('a blocked run says what became of each blocker, and leads to its run', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  const row = page.locator('.queue-rows [data-run="run-000420"]')
  await row.getByText('ENG-380 failed, ENG-412 is running').waitFor()
  await page.goto(`${host.origin}/runs?status=queued`)
  await page.locator('.run-outcome').getByText('Blocked: ENG-380 failed, ENG-412 is running').waitFor()
  await page.locator('.run-outcome').getByRole('link', { name: 'ENG-412' }).click()
  await page.waitForURL('**/runs/run-000412')
  await page.goto(`${host.origin}/runs/run-000420`)
  const wait = page.getByRole('region', { name: 'What it waits for' })
  await wait.getByText('ENG-412 is running').waitFor()
  await wait.getByText('ENG-380 failed').waitFor()
  await wait.getByRole('link', { name: 'ENG-380' }).click()
  await page.waitForURL('**/runs/run-000380')
})

test.each([
  ['run-000412', undefined, ['Cancel run…']],
  ['run-000398', 'Retry…', []],
  ['run-000215', 'Open diff', []],
])('the head of %s has one primary act, and nothing beside it destroys', async (id, primary, destructive) => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/runs/${id}`)
  const head = page.locator('.page-head')
  await head.getByRole('button', { name: 'More acts' }).waitFor()
  expect(await head.locator('.acts > .button.primary').allTextContents()).toEqual(
    primary === undefined ? [] : [primary],
  )
  expect(await head.locator('.acts > .destructive, .acts > [aria-disabled]').count()).toBe(0)
  await head.getByRole('button', { name: 'More acts' }).click()
  const entries = head.getByRole('menuitem')
  expect(await head.locator('[role=menuitem].destructive').allTextContents()).toEqual(destructive)
  const last = await entries.last().getAttribute('class')
  expect(last).toBe(destructive.length > 0 ? 'destructive' : '')
})

test('a failed run says its error once, with the last lines before it', async () => {
  const host = await openSampleHost()
  const error = 'verification failed: npm test ended with exit code 1'
  const run = host.sample.run(398, 'failed', { error })
  host.hostApi.runsById.set(run.id, run)
  host.hostApi.helloAnswer = { ...host.hostApi.helloAnswer, runs: [run] }
  const at = host.sample.ago(1)
  const outputs = [...Array.from({ length: 30 }, (_, case_) => `PASS case ${case_}`), 'Expected 3, got 4']
  const events: object[] = [
    { type: 'status', from: 'queued', to: 'running' },
    ...outputs.map((text) => ({ type: 'log', stream: 'stdout', text })),
    { type: 'status', from: 'running', to: 'failed', reason: error },
  ]
  host.hostApi.eventsById.set(
    run.id,
    events.map((event, index) => ({ ...event, runId: run.id, index, at }) as RunEvent),
  )
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/runs/${run.id}`)
  const note = page.locator('.run-error')
  await note.getByText('Expected 3, got 4').waitFor()
  await note.getByText('PASS case 29').waitFor()
  expect(await note.getByText('PASS case 1', { exact: true }).count()).toBe(0)
  await page.locator('.log-phase', { hasText: 'Failed' }).waitFor()
  expect(await page.getByText(error).count()).toBe(1)
  await note.getByRole('link', { name: 'Show in the log' }).click()
  await page.locator('.log-line.chosen', { hasText: 'Expected 3, got 4' }).waitFor()
})

test('each page names its document, a run with its ticket and its state', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  const names = {
    '/': 'Overview',
    '/runs': 'Runs',
    '/runs/run-000380': 'ENG-380 Drop the unused legacy_sessions table · failed',
    '/runs/run-000398/attempts': 'Attempts of ENG-398',
    '/nowhere': 'No such page',
  }
  for (const [path, name] of Object.entries(names)) {
    await page.goto(host.origin + path)
    await until(
      `the document is named ${name}`,
      async () => (await page.title()) === `(6) ${name} · switchyard`,
    )
  }
  await page.getByRole('link', { name: 'Go to the overview' }).click()
  await until('the name follows', async () => (await page.title()) === '(6) Overview · switchyard')
})

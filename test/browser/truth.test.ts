/** The pages claim what is true, in a real browser: nothing before it is known, and no value of an earlier moment. */
import { expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { yes } from '../../core/result.ts'
import type { RunEvent } from '../../protocol/run.ts'
import { openPage } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'
import { until } from '../support/until.ts'

async function signIn(page: Page, host: SampleHost): Promise<void> {
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()
}

const mainOf = (page: Page): Promise<string> => page.locator('main').innerText()

test('a page claims nothing of what it has not read yet', async () => {
  const host = await openSampleHost()
  const page = await openPage({ serviceWorkers: 'block' })
  await signIn(page, host)
  let goOn = (): void => {}
  const mayGoOn = new Promise<void>((resolve) => {
    goOn = resolve
  })
  await page.route(/\/api\/(?!health)/, async (route) => {
    await mayGoOn
    await route.continue()
  })
  const claims = /^(No|There is no|Nothing|None)\b|no run yet|none was|\$0\.00|^[\d,]+ (run|fact|pull)/m
  for (const path of ['/', '/runs', '/pulls', '/costs', '/memories', '/connect']) {
    await page.goto(`${host.origin}${path}`)
    await page.getByText('Live', { exact: true }).waitFor()
    await page.locator('main h1').waitFor()
    // The skeleton of a part comes after a moment.
    await page.waitForTimeout(300)
    expect([path, claims.exec(await mainOf(page))?.[0]]).toEqual([path, undefined])
  }
  await page.goto(`${host.origin}/costs`)
  goOn()
  await page.getByText(/has cost anything/).waitFor()
})

test('runs are counted exactly, however few of them are read', async () => {
  const host = await openSampleHost({ finishedRuns: 700 })
  const all = host.hostApi.runsById.size
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/runs`)
  const head = page.locator('.page-head')
  await head.getByText(`${all} runs`).waitFor()
  await page.getByLabel('Search the runs').fill('keyboard focus')
  const found = [...host.hostApi.runsById.values()].filter(({ ticket }) =>
    /keyboard focus/i.test(ticket.title),
  )
  await head.getByText(`${found.length} runs`).waitFor()
  expect(host.hostApi.runQueries.every((query) => JSON.stringify(query).includes('limit'))).toBe(true)
})

test('the end of the list of runs brings the next ones, down to the first', async () => {
  const host = await openSampleHost({ finishedRuns: 300 })
  const last = [...host.hostApi.runsById.keys()].sort()[0] ?? ''
  const title = host.hostApi.runsById.get(last)?.ticket.identifier ?? ''
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/runs`)
  const rows = page.locator('.run-rows')
  await rows.locator('.run-line').first().waitFor()
  await until('the first run is in view', async () => {
    await rows.evaluate((element) => element.scrollTo(0, element.scrollHeight))
    return (await rows.getByText(title, { exact: true }).count()) > 0
  })
})

test('a view of the runs is saved, found again and deleted', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/runs?status=failed&sort=oldest`)
  await page.getByRole('button', { name: 'Save view…' }).click()
  await page.getByLabel('Name').fill('Old failures')
  await page.keyboard.press('Enter')
  await page.goto(`${host.origin}/runs`)
  await page.getByLabel('Saved view').selectOption('Old failures')
  await page.waitForURL('**/runs?status=failed&sort=oldest')
  await page.getByRole('button', { name: 'Delete view' }).click()
  await page.getByRole('button', { name: 'Save view…' }).waitFor()
  expect(await page.getByLabel('Saved view').count()).toBe(0)
})

test('a confirmation shows the value that the setting will have', async () => {
  const host = await openSampleHost()
  const { hostApi } = host
  const prices = { sonnet: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 } }
  const config = { ...hostApi.config(), agent: { ...hostApi.config().agent, prices } }
  hostApi.helloAnswer = { ...hostApi.helloAnswer, config }
  hostApi.changed = (_, confirm) =>
    confirm === undefined
      ? { ok: false, refusal: { kind: 'conflict', message: 'confirm it', confirm: ['agent.prices'] } }
      : yes({ config, applied: 'live' })
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/settings#agent.prices`)
  const row = page.locator('[id="agent.prices"]')
  await row.getByRole('button', { name: /^(Edit|Change)/ }).click()
  await row.locator('textarea').fill(JSON.stringify({ sonnet: { ...prices.sonnet, input: 4 } }))
  await row.getByRole('button', { name: 'Save' }).click()
  const shown = page.getByRole('dialog').locator('.difference')
  const after = (await shown.innerText()).split('→')[1] ?? ''
  expect(JSON.parse(after)).toEqual({ sonnet: { ...prices.sonnet, input: 4 } })
})

test('a page without a code host, and a list of many needs, lead on', async () => {
  const host = await openSampleHost()
  const { hostApi, sample } = host
  hostApi.answers.delete('pulls')
  const items = Array.from({ length: 40 }, (_, at) => sample.itemOf(3_000 + at, 'conflict', `conflict ${at}`))
  hostApi.attention = () => ({ items, more: 7 })
  const page = await openPage()
  await signIn(page, host)
  const needs = page.locator('.need')
  await needs.first().waitFor()
  await page.getByText('7 older entries not listed.').waitFor()
  expect(await needs.count()).toBe(10)
  await page.getByRole('button', { name: 'Show all 40' }).click()
  await until('all are shown', async () => (await needs.count()) === 40)
  await page.goto(`${host.origin}/pulls`)
  await page.getByRole('link', { name: 'Connect the code host' }).click()
  await page.waitForURL('**/connect#codehost')
})

test("the age of the tracker's last poll is one of the last poll", async () => {
  const host = await openSampleHost()
  const { hostApi, sample } = host
  const { helloAnswer } = hostApi
  const linearStatus = { ...helloAnswer.linearStatus, lastPollAt: sample.ago(5), nextPollAt: sample.ago(0) }
  hostApi.helloAnswer = { ...helloAnswer, linearStatus }
  const page = await openPage()
  await signIn(page, host)
  await page.getByText('polled 5 m ago').waitFor()
  hostApi.trackerStatus = () => ({
    ...linearStatus,
    lastPollAt: new Date().toISOString(),
    nextPollAt: sample.ago(-5),
  })
  await page.getByText(/polled \d s ago/).waitFor()
})

test('a run is of the agent of its repository, in every place', async () => {
  const host = await openSampleHost()
  const { hostApi, sample } = host
  const run = sample.run(413, 'queued', { queueReason: 'fleet at capacity' })
  const config = {
    ...hostApi.config(),
    repos: { [run.ticket.repo ?? '']: { remote: 'acme/web', agent: 'agentB' as const } },
  }
  hostApi.runsById.clear()
  hostApi.runsById.set(run.id, run)
  hostApi.helloAnswer = { ...hostApi.helloAnswer, config, runs: [run] }
  const page = await openPage()
  await signIn(page, host)
  await page.locator('.queue-rows').getByText('Codex').waitFor()
  await page.goto(`${host.origin}/runs/${run.id}`)
  await page.locator('.run-facts').getByText('Codex').waitFor()
  // The reason has one name on all pages.
  await page.getByText('Fleet at capacity').first().waitFor()
  await page.goto(`${host.origin}/runs`)
  await page.getByText('Fleet at capacity').first().waitFor()
})

test('what a tool printed is opened, found, and led to as the first error', async () => {
  const host = await openSampleHost()
  const runId = 'run-000412'
  const message = (type: string, content: object) => ({
    type: 'agent',
    provider: 'agentA',
    message: { type, message: { role: type, content: [content] } },
  })
  const output = [...Array.from({ length: 40 }, (_, at) => `PASS case ${at}`), 'FAIL src/cart.test.ts']
  const events: object[] = [
    message('assistant', { type: 'tool_use', id: 'a', name: 'Bash', input: { command: 'npm test' } }),
    message('user', { type: 'tool_result', tool_use_id: 'a', content: output.join('\n') }),
    message('assistant', { type: 'text', text: 'The cart fails.' }),
  ]
  const at = host.sample.ago(1)
  host.hostApi.eventsById.set(
    runId,
    events.map((event, index) => ({ ...event, runId, index, at }) as RunEvent),
  )
  const page = await openPage()
  await signIn(page, host)
  const open = () => page.goto(`${host.origin}/runs/${runId}`)
  await open()
  await page.getByText('The cart fails.').waitFor()
  const first = page.locator('.log-line', { hasText: 'PASS case 0' })
  expect(await first.count()).toBe(0)
  await page.getByRole('button', { name: 'Run', exact: false, expanded: false }).click()
  await first.waitFor()
  await page.getByRole('button', { name: 'Run', exact: false, expanded: true }).click()
  await first.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'First error' }).click()
  await page.locator('.log-line.chosen', { hasText: 'FAIL src/cart.test.ts' }).waitFor()
  await page.goto('about:blank')
  await open()
  await page.getByLabel('Search the log').fill('src/cart')
  await page.locator('.log-line.current', { hasText: 'FAIL src/cart.test.ts' }).waitFor()
})

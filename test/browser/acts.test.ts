/** Forms, dialogs, keys and links in the hands of a person, in a real browser: words, places and money are kept. */
import { expect, test } from '@jest/globals'
import type { Locator, Page } from 'playwright-core'
import { yes } from '../../core/result.ts'
import type { AttentionItem } from '../../protocol/attention.ts'
import type { RunEvent } from '../../protocol/run.ts'
import { openPage } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'
import { until } from '../support/until.ts'

async function signIn(page: Page, host: SampleHost): Promise<void> {
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()
}

test('a form that is on its way is not sent again by Enter', async () => {
  const host = await openSampleHost()
  const { hostApi } = host
  const { createTicket } = hostApi
  let isAnswered = false
  const titles: string[] = []
  hostApi.createTicket = async (wanted) => {
    titles.push(wanted.title)
    await until('the answer is sent', () => isAnswered)
    return createTicket(wanted)
  }
  const page = await openPage()
  await signIn(page, host)
  await page.keyboard.press('n')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Title').fill('Paid once')
  for (let time = 0; time < 3; time++) await page.keyboard.press('Enter')
  await dialog.getByRole('button', { name: 'Creating' }).waitFor()
  isAnswered = true
  await dialog.waitFor({ state: 'detached' })
  await page.getByText('is created and queued').first().waitFor()
  expect(titles).toEqual(['Paid once'])
})

test('work that waits to be published says so, is published by a button, and asks its agent by another', async () => {
  const host = await openSampleHost()
  const { hostApi, sample } = host
  const nextAt = sample.ago(-4)
  const queueReason = `publishing again at ${nextAt}: a rule refused the push`
  const sandbox = { id: 'box-1', workerId: 'wk-kestrel-01', unpublished: true as const }
  const waiting = [501, 502].map((at) => sample.run(at, 'queued', { queueReason, sandbox }))
  const [first] = waiting
  if (first === undefined) throw new Error('there is no run')
  for (const run of waiting) hostApi.runsById.set(run.id, run)
  const begun = sample.log(first.id, 4)
  const changes = ['queued', 'preparing', 'queued'].map((to, at) => ({
    to,
    reason: queueReason,
    index: 4 + at,
  }))
  const at = sample.ago(1)
  const tries = changes.map((change) => ({ ...change, type: 'status', runId: first.id, at }) as RunEvent)
  hostApi.eventsById.set(first.id, [...begun, ...tries])
  hostApi.helloAnswer = { ...hostApi.helloAnswer, runs: waiting }
  const item: AttentionItem = {
    id: 'publish:refused',
    kind: 'codehost',
    message: 'their pushes are refused',
    cure: 'switchyard retry ENG-501 ENG-502',
    runs: waiting.map(({ id }) => id),
    since: at,
  }
  hostApi.attention = () => ({ items: [item] })
  const asked: unknown[] = []
  hostApi.retryRun = async (id, options) => {
    asked.push([id, options?.instructions])
    return yes(waiting.find((run) => run.id === id) ?? first)
  }
  const page = await openPage()
  await signIn(page, host)
  await page.getByRole('button', { name: 'Publish all 2' }).click()
  await page.getByText('2 runs published as soon as').first().waitFor()
  // Requests of a browser may overtake each other.
  expect(asked.splice(0).sort()).toEqual(waiting.map(({ id }) => [id, undefined]).sort())

  await page.goto(`${host.origin}/runs/${first.id}`)
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await timeline.getByText('Publishing, try 3').waitFor()
  await timeline.getByText('Next at').waitFor()
  expect(await timeline.getByText(/^Attempt/).allTextContents()).toEqual(['Attempt 1'])
  await page.getByText('It is published again at').waitFor()
  expect(await page.getByText('Run it again').count()).toBe(0)
  await page.getByRole('button', { name: 'Publish now' }).click()
  await until('the work is to be published', () => asked.length === 1)
  await page.getByRole('button', { name: 'Ask the agent again…' }).click()
  const dialog = page.getByRole('dialog')
  const send = dialog.getByRole('button', { name: 'Ask the agent' })
  expect(await send.getAttribute('aria-disabled')).toBe('true')
  await dialog.getByLabel('Instructions').fill('Keep the rule.')
  await send.click()
  await dialog.waitFor({ state: 'detached' })
  expect(asked).toEqual([
    [first.id, undefined],
    [first.id, 'Keep the rule.'],
  ])
})

test('a loss is acknowledged by a button, and its entry vanishes with the next push', async () => {
  const host = await openSampleHost()
  const { hostApi, sample } = host
  const item: AttentionItem = {
    id: 'damage:set aside state.1.set-aside',
    kind: 'damage',
    message: 'its database is gone',
    cure: 'switchyard runs acknowledge',
    runs: ['run-000007'],
    mayAcknowledge: true,
    since: sample.ago(1),
  }
  hostApi.attention = () => ({ items: [item] })
  const asked: string[] = []
  hostApi.acknowledgeAttention = async (id) => {
    asked.push(id)
    hostApi.push({ type: 'attention', items: [] })
    return yes({ items: [] })
  }
  const page = await openPage()
  await signIn(page, host)
  await page.getByRole('button', { name: 'Acknowledge' }).click()
  await page.getByText('The loss').first().waitFor()
  await page.getByText('Nothing needs you.').waitFor()
  expect(asked).toEqual([item.id])
})

test('a dialog closes by a click beside it, and by none that touches it', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  await page.keyboard.press('n')
  const title = page.getByRole('dialog').getByLabel('Title')
  await title.fill('Kept words')
  const [frame, field] = [await boxOf(page.getByRole('dialog')), await boxOf(title)]
  await page.mouse.click(frame.x + 4, frame.y + frame.height / 2)
  // A selection that is dragged out of the field ends beside the dialog, and one may come back from there.
  for (const [from, to] of [
    [field.x + 20, frame.x - 40],
    [frame.x - 40, frame.x + 4],
  ] as const) {
    await page.mouse.move(from, field.y + 8)
    await page.mouse.down()
    await page.mouse.move(to, field.y + 8)
    await page.mouse.up()
  }
  expect(await title.inputValue()).toBe('Kept words')
  await page.mouse.click(frame.x - 40, field.y)
  await title.waitFor({ state: 'detached' })
})

test('Enter opens the link that has the focus, not the chosen row', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/runs`)
  await page.getByText('ENG-404').first().waitFor()
  await page.keyboard.press('j')
  await page.locator('.run-line.chosen').waitFor()
  await page.getByRole('link', { name: 'Fleet' }).first().focus()
  await page.keyboard.press('Enter')
  await page.waitForURL('**/fleet')
})

test('a checkbox that has the focus leaves letters and Escape to the list', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/runs`)
  const mark = page.getByRole('checkbox', { name: 'Mark ENG-412' })
  const marked = page.getByText('1 run marked')
  await mark.click()
  await marked.waitFor()
  await page.keyboard.press('Escape')
  await marked.waitFor({ state: 'detached' })
  await mark.click()
  await page.keyboard.press('j')
  await page.locator('.run-line.chosen').waitFor()
  await page.keyboard.press('Space')
  await marked.waitFor({ state: 'detached' })
})

test('Escape closes an open menu alone, and its button has the focus again', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/runs/run-000412`)
  const button = page.getByRole('button', { name: 'More acts' })
  await button.click()
  const entry = page.getByRole('menuitem', { name: 'Copy link' })
  await entry.waitFor()
  // A letter of the page chooses nothing behind the menu.
  await page.keyboard.press('Shift+C')
  await page.keyboard.press('Escape')
  await entry.waitFor({ state: 'hidden' })
  expect(await button.evaluate((element) => element.ownerDocument.activeElement === element)).toBe(true)
  expect(await page.getByRole('dialog').count()).toBe(0)
  expect(page.url()).toBe(`${host.origin}/runs/run-000412`)
})

test('the palette keeps the chosen row in view', async () => {
  const host = await openSampleHost()
  const page = await openPage({ height: 500 })
  await signIn(page, host)
  await page.keyboard.press('Control+K')
  const [list, chosen] = [page.locator('.palette-list'), page.locator('.palette-row[aria-selected="true"]')]
  await chosen.waitFor()
  const isInView = async () => {
    const [at, view] = [await boxOf(chosen), await boxOf(list)]
    return at.y >= view.y && at.y + at.height <= view.y + view.height
  }
  await page.keyboard.press('ArrowUp')
  await until('the last row is in view', isInView)
  expect(await list.evaluate(({ scrollTop }) => scrollTop)).toBeGreaterThan(0)
  await page.keyboard.press('ArrowDown')
  await until('the first row is in view', isInView)
})

test('the link to the content leads the Tab key past the navigation', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  await page.getByText('Recently finished').first().waitFor()
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/#main')
  await page.keyboard.press('Tab')
  expect(await page.evaluate("document.activeElement.closest('main') !== null")).toBe(true)
})

test('going back finds the rows and the part of the page that were in view', async () => {
  const host = await openSampleHost({ finishedRuns: 300 })
  const page = await openPage({ height: 700 })
  await signIn(page, host)
  // A row that is drawn again between being found and being clicked would be a link outside the page.
  const open = async (link: string): Promise<void> => {
    await page.evaluate(`document.querySelector('${link}').click()`)
    await page.getByRole('log').waitFor()
  }
  const pageOffset = () => page.evaluate<number>('scrollY')
  await page.locator('.finished-rows').waitFor()
  await page.evaluate('scrollTo(0, 400)')
  await open('.finished-rows a')
  expect(await pageOffset()).toBe(0)
  await page.goBack()
  await until('the overview is where it was', async () => (await pageOffset()) === 400)

  await page.getByRole('link', { name: 'Runs' }).first().click()
  const rows = page.locator('.run-rows')
  const rowsOffset = () => rows.evaluate(({ scrollTop }) => scrollTop)
  const scroll = async (): Promise<void> => {
    // The end of the first page brings the next one.
    await until('the list is long enough', async () => {
      await rows.evaluate((element) => element.scrollTo(0, 3_000))
      return (await rowsOffset()) === 3_000
    })
    await rows.locator('[data-index="105"]').waitFor()
  }
  await scroll()
  await open('.run-rows [data-index="105"] a')
  await page.goBack()
  await rows.locator('[data-index="105"]').waitFor()
  await until('the rows are where they were', async () => (await rowsOffset()) === 3_000)
  // A page that is loaded again has its offsets from the history too.
  await page.reload()
  await rows.locator('[data-index="105"]').waitFor()
})

test('an address of a line shows the line, wherever it stands in the log', async () => {
  const host = await openSampleHost({ logLines: 2_600 })
  const events = host.hostApi.eventsById.get('run-000412') ?? []
  const [first] = events
  const text = Array.from({ length: 1_300 }, (_, at) => `part ${at + 1}`).join('\n')
  if (first !== undefined) events[2_500] = { ...first, type: 'log', index: 2_500, stream: 'stdout', text }
  const page = await openPage()
  await signIn(page, host)
  for (const [fragment, line] of [
    ['L50', 'src/case-49.test.ts'],
    ['L2001-L2003', 'src/case-2000.test.ts'],
    ['L2501.1215', 'part 1215'],
  ] as const) {
    await page.goto('about:blank')
    await page.goto(`${host.origin}/runs/run-000412#${fragment}`)
    const row = page.locator('.log-line.chosen', { hasText: line })
    await until(`${fragment} is in view`, async () => {
      const [at, view] = [await boxOf(row), await boxOf(page.locator('.log-scroller'))]
      return at.y > view.y && at.y + at.height < view.y + view.height
    })
  }
})

type Box = Readonly<Record<'x' | 'y' | 'width' | 'height', number>>

async function boxOf(element: Locator): Promise<Box> {
  await element.waitFor()
  const box = await element.boundingBox()
  if (box === null) throw new Error('the element has no box')
  return box
}

/**
 * Every page of the dashboard in a real browser before sample records: axe finds nothing in both themes, nothing is
 * wider than a narrow screen, and hostile texts stay texts.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { openPage } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'
import { until } from '../support/until.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** The path of each page, and a word that shows that it has drawn its data. */
const PAGES: readonly (readonly [path: string, word: string])[] = [
  ['/', 'Recently finished'],
  ['/runs', 'ENG-404'],
  ['/runs/run-000412', 'Attempt 1'],
  ['/runs/run-000412?diff=1', 'no confirmed pull request'],
  ['/runs/run-000413', 'What it waits for'],
  ['/runs/run-000398/attempts', 'setup failed'],
  ['/pulls', 'Announce toasts'],
  ['/pulls/acme%2Fapi/482', 'Unexpected any'],
  ['/tickets', 'ENG-1003'],
  ['/tickets/t-1003', '12 of 14 slots'],
  ['/fleet', 'kestrel-01'],
  ['/costs', 'Costs'],
  ['/memories', 'TZ=UTC'],
  ['/settings', 'policy'],
  ['/connect', 'Connect'],
]

/** The link leads to the overview. */
async function signIn(page: Page, host: SampleHost): Promise<void> {
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()
}

interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly target: readonly unknown[]; readonly html: string }[]
}

/** No page plays a sound, and no other rule that runs by default needs what axe would load for itself. */
async function violationsOf(page: Page): Promise<string[]> {
  const found = await page.evaluate<readonly Violation[]>(
    `(async () => {
      if (globalThis.axe === undefined) { ${AXE} }
      return (await globalThis.axe.run(document, { resultTypes: ['violations'], preload: false })).violations
    })()`,
  )
  return found.flatMap(({ id, nodes }) =>
    nodes.map(({ target, html }) => `${id}: ${target.join(' ')}: ${html.slice(0, 160)}`),
  )
}

describe('every page', () => {
  test('has nothing that axe objects to, in both themes', async () => {
    const host = await openSampleHost()
    const problems: string[] = []
    const page = await openPage()
    await signIn(page, host)
    let theme: 'light' | 'dark' = 'light'
    const examine = async (path: string): Promise<void> => {
      for (const problem of await violationsOf(page)) problems.push(`${theme} ${path}: ${problem}`)
    }
    // Half of the pages are opened in each theme, and then change it.
    for (const [path, word] of PAGES) {
      await page.goto(`${host.origin}${path}`)
      await page.getByText(word).first().waitFor()
      await examine(path)
      theme = theme === 'light' ? 'dark' : 'light'
      await page.emulateMedia({ colorScheme: theme })
      await examine(path)
    }
    expect(problems).toEqual([])
  })

  test('fits on a narrow screen', async () => {
    const host = await openSampleHost()
    const page = await openPage({ width: 360, height: 780 })
    await signIn(page, host)
    const wide: string[] = []
    for (const [path, word] of PAGES) {
      await page.goto(`${host.origin}${path}`)
      await page.getByText(word).first().waitFor({ state: 'attached' })
      const width = await page.evaluate<number>('document.documentElement.scrollWidth')
      if (width > 360) wide.push(`${path}: ${width}`)
    }
    expect(wide).toEqual([])
  })
})

test('hostile texts in tickets, logs, diffs, checks and artifacts stay texts', async () => {
  const host = await openSampleHost()
  const attack = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'
  const run = host.sample.run(412, 'failed', {
    error: attack,
    result: { artifacts: [`${attack}.html`], summary: attack },
  })
  const hostile = { ...run, ticket: { ...run.ticket, title: attack, description: attack, labels: [attack] } }
  host.hostApi.runsById.set(hostile.id, hostile)
  host.hostApi.helloAnswer = { ...host.hostApi.helloAnswer, runs: [hostile], tickets: [hostile.ticket] }
  host.hostApi.eventsById.set(hostile.id, [
    {
      type: 'log',
      runId: hostile.id,
      index: 0,
      at: hostile.createdAt,
      stream: 'stdout',
      text: `\u001b[31m${attack}\u001b]8;;javascript:alert(1)\u0007x`,
    },
    {
      type: 'agent',
      runId: hostile.id,
      index: 1,
      at: hostile.createdAt,
      provider: 'agentA',
      message: { type: 'text', text: attack },
    },
  ])
  const page = await openPage()
  await signIn(page, host)
  for (const path of [
    '/',
    '/runs',
    `/runs/${hostile.id}`,
    '/tickets',
    `/tickets/${hostile.ticket.id}`,
    '/pulls/acme%2Fapi/482',
  ]) {
    await page.goto(`${host.origin}${path}`)
    await page.locator('h1').waitFor()
    await page.waitForLoadState('networkidle')
    expect([path, await page.title()]).toEqual([path, expect.not.stringContaining('owned')])
    expect([path, await page.locator('main img, main script, main a[href^="javascript"]').count()]).toEqual([
      path,
      0,
    ])
  }
})

test('the rows of the overview are reached, marked and opened by keys, and a run that ends leaves late', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  const chosen = page.locator('main [data-run].chosen')
  // The keys come after the page has drawn its rows.
  await until('a row is chosen', async () => {
    await page.keyboard.press('j')
    return (await chosen.count()) > 0
  })
  const first = await chosen.getAttribute('data-run')
  await page.keyboard.press('j')
  const second = await chosen.getAttribute('data-run')
  expect(second).not.toBe(first)
  await page.keyboard.press('x')
  await page.getByText('1 run marked').waitFor()
  await page.keyboard.press('Shift+K')
  await page.getByText('2 runs marked').waitFor()
  expect(await chosen.getAttribute('data-run')).toBe(first)
  expect(await page.locator('.progress-row input:checked').count()).toBe(2)
  await page.keyboard.press('Escape')
  await page.getByText('2 runs marked').waitFor({ state: 'detached' })

  const row = page.locator('.progress-table [data-run="run-000412"]')
  const ended = host.sample.run(412, 'completed')
  host.hostApi.push({ type: 'run-updated', run: ended })
  await row.locator('[aria-label="completed" i]').waitFor()
  await page.locator('.finished-rows [data-run="run-000412"]').waitFor()
  expect(await row.count()).toBe(0)

  await page.keyboard.press('j')
  const target = await chosen.getAttribute('data-run')
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/runs/${target}`)
})

test('two attempts of a run stand side by side, each with its own part of the log', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await signIn(page, host)
  await page.goto(`${host.origin}/runs/run-000398`)
  await page.getByRole('link', { name: 'Compare attempts' }).click()
  const column = (number: number) => page.getByRole('region', { name: `Attempt ${number}` })
  await column(1).getByText('setup failed').first().waitFor()
  await column(1).getByText('Failed', { exact: true }).first().waitFor()
  await column(1).getByText('src/case-13.test.ts').waitFor()
  await column(2).getByText('src/case-29.test.ts').waitFor()
  expect(await column(1).getByText('src/case-29.test.ts').count()).toBe(0)
  // The numbers of the lines are those of the log of the run.
  await column(2).getByText('44', { exact: true }).waitFor()
  await column(1).getByLabel('Attempt').selectOption('2')
  expect(page.url()).toContain('left=2')
  await page.keyboard.press('Escape')
  await page.waitForURL(/run-000398$/)
})

test('a browser without a session is told how to get one, and a link works once', async () => {
  const host = await openSampleHost()
  const page = await openPage()
  await page.goto(host.origin)
  await page.getByText('not signed in').waitFor()
  const link = host.page.createLink()
  await page.goto('about:blank')
  await page.goto(link)
  await page.getByText('Live', { exact: true }).waitFor()
  expect(page.url()).not.toContain('code')
  const second = await openPage()
  await second.goto(link)
  await second.getByText('not signed in').waitFor()
})

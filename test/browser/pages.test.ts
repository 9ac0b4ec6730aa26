/**
 * Every page of the dashboard in a real browser before sample records: axe finds nothing in both themes, nothing is
 * wider than a narrow screen, and hostile texts stay texts.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { yes } from '../../core/result.ts'
import { openPage, type PageSetup } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'
import { until } from '../support/until.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** The path of each page, and a word that shows that it has drawn its data. */
const PAGES: readonly (readonly [path: string, word: string])[] = [
  ['/', 'Recently finished'],
  ['/runs', 'ENG-10019'],
  ['/runs/run-000412', 'Attempt 1'],
  ['/runs/run-000412?diff=1', 'no confirmed pull request'],
  ['/runs/run-000420', 'ENG-380'],
  ['/runs/run-000413', 'What it waits for'],
  ['/runs/run-000223', 'Attempt 1'],
  ['/runs/run-000404', 'Attempt 1'],
  ['/runs/run-000371', 'Attempt 1'],
  ['/runs/run-000395', 'Attempt 1'],
  ['/runs/run-000398', 'Attempt 2'],
  ['/runs/run-000371?terminal=1', 'The sandbox is released'],
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
  ['/nowhere', 'No such page'],
]
/** Keys, each with a word of the dialog that it opens above a page. */
const DIALOGS: readonly (readonly [key: string, word: string])[] = [
  ['?', 'Keys'],
  ['Control+k', 'Overview'],
  ['n', 'Title'],
]

const VIEWS: readonly (readonly [name: string, view: PageSetup])[] = [
  ['at its usual size', {}],
  ['at twice the size', { width: 720, height: 500, scale: 2 }],
  ['on a phone', { width: 390, height: 844 }],
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

/**
 * No page plays a sound, and no other rule that runs by default needs what axe would load for itself. A frame, such as
 * that of the terminal, is examined by itself.
 */
async function violationsOf(page: Page): Promise<string[]> {
  const found: Violation[] = []
  for (const frame of page.frames())
    found.push(
      ...(await frame.evaluate<readonly Violation[]>(
        `(async () => {
          if (globalThis.axe === undefined) { ${AXE} }
          const options = { resultTypes: ['violations'], preload: false, iframes: false }
          return (await globalThis.axe.run(document, options)).violations
        })()`,
      )),
    )
  return found.flatMap(({ id, nodes }) =>
    nodes.map(({ target, html }) => `${id}: ${target.join(' ')}: ${html.slice(0, 160)}`),
  )
}

/** The sample host, where the terminal of a run can be opened. */
async function openHost(): Promise<SampleHost> {
  const host = await openSampleHost()
  const sandbox = { id: 'box-1', workerId: 'wk-kestrel-01' }
  const run = host.sample.run(371, 'completed', { sandbox, agentSessionId: 's-1' })
  host.hostApi.runsById.set(run.id, run)
  return host
}

describe('every page', () => {
  test.each(VIEWS)('has nothing that axe objects to, in both themes, %s', async (_, view) => {
    const host = await openHost()
    const problems: string[] = []
    const page = await openPage(view)
    await signIn(page, host)
    let theme: 'light' | 'dark' = 'light'
    const examine = async (path: string): Promise<void> => {
      for (const problem of await violationsOf(page)) problems.push(`${theme} ${path}: ${problem}`)
    }
    // Half of the pages are opened in each theme, and then change it.
    for (const [path, word] of PAGES) {
      await page.goto(`${host.origin}${path}`)
      await page.locator('main').getByText(word).first().waitFor()
      await examine(path)
      theme = theme === 'light' ? 'dark' : 'light'
      await page.emulateMedia({ colorScheme: theme })
      await examine(path)
    }
    for (const [key, word] of DIALOGS) {
      await page.keyboard.press(key)
      const dialog = page.getByRole('dialog')
      await dialog.getByText(word).first().waitFor()
      await examine(key)
      await page.keyboard.press('Escape')
      await dialog.waitFor({ state: 'detached' })
    }
    expect(problems).toEqual([])
  })

  test('fits on a narrow screen', async () => {
    const host = await openHost()
    const page = await openPage({ width: 360, height: 780 })
    await signIn(page, host)
    const wide: string[] = []
    for (const [path, word] of PAGES) {
      await page.goto(`${host.origin}${path}`)
      await page.locator('main').getByText(word).first().waitFor({ state: 'attached' })
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
  const title = `${attack}${'W'.repeat(5_000)}`
  const hostile = { ...run, ticket: { ...run.ticket, title, description: attack, labels: [attack] } }
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
    expect([path, await page.title()]).toEqual([path, expect.stringMatching(/ · switchyard$/)])
    expect([path, await page.locator('main img, main script, main a[href^="javascript"]').count()]).toEqual([
      path,
      0,
    ])
    expect([path, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([path, 1440])
  }
})

/** Raw HTML as people and attackers write it, and what the page makes of it. */
const RAW_HTML: readonly (readonly [markdown: string, shown: string])[] = [
  [
    '<details open><summary onclick="own()">More</summary>\n\nhidden **text**\n\n</details>',
    '<details open=""><summary>More</summary><p>hidden <strong>text</strong></p>\n</details>',
  ],
  ['H<sub>2</sub>O, x<sup onmouseover=own()>2</sup><br/>a', '<p>H<sub>2</sub>O, x<sup>2</sup><br>a</p>\n'],
  ['press <kbd class="k" onfocus=\'own("x")\' tabindex=1>Ctrl</kbd>', '<p>press <kbd>Ctrl</kbd></p>\n'],
  ['a <!-- for <b>authors</b> --> b <!--> c', '<p>a  b  c</p>\n'],
  ['<p align="center" onload=own()>middle</p>', '<p align="center">middle</p>'],
  [
    '3. three\n\n|a|\n|-:|\n|b|',
    '<ol start="3">\n<li>three</li>\n</ol>\n<table>\n<thead>\n<tr>\n<th align="right">a</th>\n</tr>\n</thead>\n<tbody><tr>\n<td align="right">b</td>\n</tr>\n</tbody></table>\n',
  ],
  [
    '<img src="https://pictures.test/a.png" alt="A & B" onerror="own()">',
    '<a href="https://pictures.test/a.png" target="_blank" rel="noopener noreferrer nofollow">picture: A &amp; B</a>',
  ],
  [
    '<a href="javascript:own()" onclick="own()">go</a>',
    '<p><a target="_blank" rel="noopener noreferrer nofollow">go</a></p>\n',
  ],
  ['<svg onload=own()><style><img src=x onerror=own()></style></svg>\n\nafter', '<p></p>\n<p>after</p>\n'],
  ['<script>own()</script>\n\n<iframe srcdoc="own()" onload=own()></iframe>\n\nafter', '<p>after</p>\n'],
  ['<style>*{color:red}</style>\n<div style="color:red" title="a > b" onclick="own()">x</div>', 'x'],
  ['<div>\n<script onload=own()\n</div>\n<img title="<img src=x onerror=own()>">y', '\n'],
  [
    '- [x] `<b onclick=own()>`\n- 1 < 2 <unfinished onclick="own()"',
    '<ul>\n<li>☑ <code>&lt;b onclick=own()&gt;</code></li>\n<li>1 &lt; 2 &lt;unfinished onclick="own()"</li>\n</ul>\n',
  ],
]

test('raw HTML of a description loses its handlers before a parser sees it, and renders otherwise', async () => {
  const host = await openSampleHost()
  const [ticket] = host.hostApi.helloAnswer.tickets
  if (ticket === undefined) throw new Error('the sample host has no ticket')
  const page = await openPage()
  await signIn(page, host)
  const shown: [string, string][] = []
  for (const [markdown] of RAW_HTML) {
    const described = { ...ticket, description: markdown }
    host.hostApi.tickets = () => [described]
    host.hostApi.explainTicket = () => yes({ ticket: described, gates: [] })
    await page.goto(`${host.origin}/tickets/${ticket.id}`)
    const place = page.locator('.markdown')
    await until('the text is drawn', async () => (await place.textContent()) !== '')
    shown.push([markdown, await place.innerHTML()])
  }
  expect(shown).toEqual(RAW_HTML)
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

/**
 * Every filter of every page in the hands of a person, in a real browser. What a filter shows is what a page shows that is
 * loaded with the address that the filter leaves, and some choice of each filter shows something else than before.
 */
import { expect, test } from '@jest/globals'
import type { Locator, Page } from 'playwright-core'
import { yes } from '../../core/result.ts'
import { openPage } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'
import { samplePulls } from '../support/sample-pulls.ts'
import { until } from '../support/until.ts'

const PAGES = [
  '/runs',
  '/runs/run-000412',
  '/runs/run-000398/attempts',
  '/pulls?state=all',
  '/tickets',
  '/fleet',
  '/costs',
  '/memories',
  '/settings',
] as const
/** Choices of a filter until one has an effect; further ones take the same way, and each loads a page. */
const CHOICES_MAX = 3

async function signIn(page: Page, host: SampleHost): Promise<void> {
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()
}

const chosenOn = (page: Page): Promise<string> =>
  page.evaluate(`[
    ...[...document.querySelectorAll('main select, main input:not([type=checkbox])')].map((field) => field.value),
    ...[...document.querySelectorAll('main [aria-pressed=true]')].map((button) => button.textContent),
  ].join('\\n')`)

const NOT_BUSY = '\n0 parts are busy'

/** The words of the page without ages, which go on. */
const wordsOn = async (page: Page): Promise<string> =>
  (
    await page.evaluate<string>(`(() => {
      const main = document.querySelector('main')
      return main.innerText + '\\n' + main.querySelectorAll('[aria-busy=true]').length + ' parts are busy'
    })()`)
  ).replace(/\b\d+ (s|m|h|d)\b/g, '')

/** Costs of two agents, and pull requests of two repositories: a choice among them shows something. */
function addVariety({ hostApi, sample }: SampleHost): void {
  for (const run of [...hostApi.runsById.values()].filter(({ costTotals }) => costTotals !== undefined)) {
    const provider = Number(run.id.slice(-1)) % 2 === 0 ? 'agentA' : 'agentB'
    const { byModel: _, ...costs } = run.costTotals ?? { ...NO_TOKENS, byModel: [], estimated: false }
    hostApi.runsById.set(run.id, { ...run, costs: [{ label: 'agent', provider, ...costs }] })
  }
  const runs = hostApi.helloAnswer.runs.map((run) => hostApi.runsById.get(run.id) ?? run)
  hostApi.helloAnswer = { ...hostApi.helloAnswer, runs }
  const { pulls, errors } = samplePulls(sample)
  const others = pulls.map((pull) => ({ ...pull, repo: 'acme/web', number: pull.number + 100 }))
  hostApi.answers.set('pulls', yes({ pulls: [...pulls, ...others], errors }))
}

const NO_TOKENS = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 }

interface Filters {
  /** The page in which filters are touched, and one in which the same address is loaded. */
  readonly page: Page
  readonly loaded: Page
  readonly problems: string[]
}

/** Returns the words that are shown. */
async function compare({ page, loaded, problems }: Filters, act: string): Promise<string> {
  await loaded.goto('about:blank')
  await loaded.goto(page.url())
  const shown = async (each: Page) => `${await wordsOn(each)}\n${await chosenOn(each)}`
  const isSame = async (): Promise<boolean> => {
    const [words, wanted] = [await shown(page), await shown(loaded)]
    return words === wanted && words.includes(NOT_BUSY)
  }
  await until('both pages are the same', isSame).catch(async () =>
    problems.push(`${act} at ${page.url()}:\n${await shown(page)}\n--- but loaded\n${await shown(loaded)}`),
  )
  return wordsOn(page)
}

/** The acts that one filter offers, besides the one that leaves everything. */
async function choicesOf(filter: Locator): Promise<readonly (readonly [string, () => Promise<void>])[]> {
  const kind = await filter.evaluate(({ tagName }) => tagName)
  if (kind === 'SELECT') {
    const options = filter.locator('option')
    const values = await options.evaluateAll((all) => all.map((each) => String(Reflect.get(each, 'value'))))
    const current = await filter.inputValue()
    return values
      .filter((value) => value !== current)
      .slice(0, CHOICES_MAX)
      .map((value) => [value, async () => void (await filter.selectOption(value))])
  }
  if (kind === 'INPUT') return ['pin', 'nothing is called so'].map((text) => [text, () => filter.fill(text)])
  const buttons = await filter.locator('button[aria-pressed=false]').all()
  const names = await Promise.all(buttons.map((button) => button.textContent()))
  return names.map((name) => [
    name ?? '',
    () => filter.getByRole('button', { name: name ?? '', exact: true }).click(),
  ])
}

test.each(PAGES)('every filter of %s does what its address says', async (path) => {
  const host = await openSampleHost({ finishedRuns: 50 })
  addVariety(host)
  const filters: Filters = { page: await openPage(), loaded: await openPage(), problems: [] }
  const { page, problems } = filters
  for (const each of [page, filters.loaded]) await signIn(each, host)
  await page.goto(`${host.origin}${path}`)
  const bars = ['.filters > .segments', '.filters > select', '.filters > input', '.page-head .segments']
  const places = [...bars, '.log-bar > .segments', '.log-search > input', '.attempt-facts > select'].join(
    ', ',
  )
  await page.locator(places).first().waitFor()
  const before = await compare(filters, 'nothing')
  const chosen = await chosenOn(page)
  const count = await page.locator(places).count()
  for (let at = 0; at < count; at++) {
    const filter = page.locator(places).nth(at)
    const label = (await filter.getAttribute('aria-label')) ?? ''
    let hasEffect = false
    for (const [name, choose] of await choicesOf(filter)) {
      if (hasEffect) break
      await choose()
      await until('the address has it', () => page.url() !== `${host.origin}${path}`)
      hasEffect = (await compare(filters, `${label}: ${name}`)) !== before || hasEffect
      await page.evaluate(
        `history.replaceState(null, '', ${JSON.stringify(path)}); dispatchEvent(new PopStateEvent('popstate'))`,
      )
      await until('everything is shown again', async () => (await chosenOn(page)) === chosen)
    }
    if (!hasEffect) problems.push(`${label} shows the same whatever is chosen`)
  }
  expect(problems).toEqual([])
})

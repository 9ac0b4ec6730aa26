/** The page of a pull request in a real browser: two columns, marks of comments, and the order on a phone. */
import { expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { no, yes } from '../../core/result.ts'
import { openPage } from '../support/browser.ts'
import { openSampleHost, type SampleHost } from '../support/sample-host.ts'
import { samplePull } from '../support/sample-pulls.ts'

const PATH = '/pulls/acme%2Fapi/482'

async function openPull(width = 1440): Promise<{ readonly page: Page; readonly host: SampleHost }> {
  const host = await openSampleHost()
  const page = await openPage({ width })
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()
  await page.goto(`${host.origin}${PATH}`)
  await page.locator('.diff-line').first().waitFor()
  return { page, host }
}

test('a diff stands in two columns for as long as a person likes, is walked by keys, and has one column on a phone', async () => {
  const { page } = await openPull()
  const split = page.getByRole('button', { name: 'Split', exact: true })
  expect(await page.locator('.diff-pair').count()).toBe(0)
  await split.focus()
  await page.keyboard.press('Enter')
  const pair = page.locator('.diff-pair', { hasText: 'SameSite=Lax' })
  expect(await pair.locator('.diff-line').allInnerTexts()).toEqual([
    expect.stringContaining('SameSite=Lax'),
    expect.stringContaining('SameSite=Strict'),
  ])
  await page.reload()
  await pair.waitFor()
  // The removed line, the added line beside it, and a comment on that.
  await pair.locator('.removed .diff-text').click()
  await page.keyboard.press('j')
  await page.locator('.diff-pair .added.chosen', { hasText: 'SameSite=Strict' }).waitFor()
  await page.keyboard.press('c')
  await page.locator('.comment-box textarea').waitFor()
  await page.setViewportSize({ width: 390, height: 800 })
  await page.locator('.diff-pair').first().waitFor({ state: 'detached' })
  expect(await split.count()).toBe(0)
  expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBe(390)
})

test('words, comments and keywords of code have colours of their own', async () => {
  const { page } = await openPull()
  await page.locator('.diff-line.context').first().waitFor()
  const colours = await page.evaluate<readonly string[]>(
    `[...document.querySelectorAll('.diff-line.context')[0].querySelectorAll('.diff-text, .code-keyword, .code-text')]
      .map((part) => getComputedStyle(part).color)`,
  )
  expect([colours.length, new Set(colours).size]).toEqual([3, 3])
})

test('a comment that was sent stays on its line until the code host returns it', async () => {
  const { page, host } = await openPull()
  const { hostApi, sample } = host
  const line = page.locator('.diff-line', { hasText: 'sessions.set(id, session)' })
  const comment = async (words: string) => {
    await line.locator('.diff-text').click()
    await page.keyboard.press('c')
    await page.locator('.comment-box textarea').fill(words)
  }
  const sendReview = async () => {
    await page.getByRole('button', { name: 'Comment…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Comment', exact: true }).click()
  }
  expect(await line.getByLabel('Has comments').count()).toBe(0)
  await comment('Which sessions?')
  await page.getByRole('button', { name: 'Add to review' }).click()
  await page.getByText('Line 14, not sent').waitFor()
  await line.getByLabel('Has comments').waitFor()
  // A review that is refused leaves its comments unsent.
  await sendReview()
  await page.getByRole('dialog').getByRole('alert').waitFor()
  await page.keyboard.press('Escape')
  await page.getByText('Line 14, not sent').waitFor()
  hostApi.answers.set('reviewPull', yes(undefined))
  await sendReview()
  await page.getByText('the code host does not show it yet').waitFor()
  await page.reload()
  await page.getByText('the code host does not show it yet').waitFor()
  const pull = samplePull(sample)
  const [thread] = pull.conversation.threads
  if (thread === undefined) throw new Error('the sample has no thread')
  const comments = thread.comments.map((each) => ({ ...each, body: 'Which sessions?' }))
  const returned = { ...thread, id: 't2', line: 14, comments }
  const conversation = { ...pull.conversation, threads: [thread, returned] }
  hostApi.answers.set('pull', yes({ ...pull, conversation }))
  await page.reload()
  await page.locator('.pull-thread', { hasText: 'Which sessions?' }).waitFor()
  expect(await page.getByText('the code host does not show it yet').count()).toBe(0)
  await line.getByLabel('Has comments').waitFor()
})

test('a phone has title, state and checks before the diff', async () => {
  const { page } = await openPull(390)
  const top = async (place: string) => (await page.locator(place).first().boundingBox())?.y ?? Number.NaN
  const tops = [await top('h1'), await top('.run-state'), await top('.check-list'), await top('.diff')]
  expect(tops).toEqual(tops.toSorted((a, b) => a - b))
  expect(await page.getByText('Commits', { exact: true }).count()).toBe(1)
})

test('marks that turn text are seen in names of files and in lines', async () => {
  const host = await openSampleHost()
  const { pull } = host.hostApi
  const patch = '@@ -1 +1 @@\n-if (isAdmin) {\n+if (\u202eisAdmin\u2066) {'
  host.hostApi.pull = async (...asked) => {
    const found = await pull(...asked)
    if (!found.ok) return found
    const [file] = found.value.files
    if (file === undefined) throw new Error('there is no file')
    return yes({ ...found.value, files: [{ ...file, path: 'src/bad\u202egnp.exe', patch }] })
  }
  const page = await openPage()
  await page.goto(host.page.createLink())
  await page.getByText('Live', { exact: true }).waitFor()
  await page.goto(`${host.origin}${PATH}`)
  expect(await page.locator('.diff-line.added .diff-text').innerText()).toBe('if (\ufffdisAdmin\ufffd) {')
  expect(await page.locator('main').innerText()).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/)
  expect(await page.getByText('bad\ufffdgnp.exe').count()).toBeGreaterThan(1)
})

test('a merge names the commit that the page shows, and says when the branch has another', async () => {
  const { page, host } = await openPull()
  const asked: unknown[] = []
  const { headSha } = samplePull(host.sample)
  const { pull } = host.hostApi
  host.hostApi.pull = async (...place) => {
    const found = await pull(...place)
    return found.ok ? yes({ ...found.value, mergeableState: 'clean' }) : found
  }
  await page.reload()
  host.hostApi.mergePull = async (_repo, _number, request) => {
    asked.push(request)
    return no('conflict', 'the branch has other commits')
  }
  await page.getByRole('button', { name: 'Merge…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: /^Merge (pull request|anyway)$/ }).click()
  await dialog.getByText('the branch has other commits').waitFor()
  expect(asked).toEqual([{ method: expect.any(String), headSha }])
})

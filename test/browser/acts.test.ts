/** Forms, dialogs, keys and links in the hands of a person, in a real browser: words, places and money are kept. */
import { expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
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

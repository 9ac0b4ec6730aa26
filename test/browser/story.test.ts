/**
 * A day at the dashboard, in a real browser before a real host with real sandboxes and the scripted agent: start from
 * words, follow the log, open the terminal and type, comment on a line and send it to the agent, review, merge, drain,
 * and a host that is killed and started again without a reload of the page.
 */
import { expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import type { Run } from '../../protocol/run.ts'
import { openPage, openWindow, SLOW } from '../support/browser.ts'
import { type CommandProcess, runCommand } from '../support/command-process.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 300_000

interface Dashboard {
  readonly command: CommandProcess
  readonly page: Page
  readonly origin: string
}

async function openDashboard(system: LocalSystem): Promise<Dashboard> {
  const command = runCommand(['dashboard', '--no-open', '--port', '0', '--data-dir', system.dataDir])
  await until('the link is printed', () => command.out().includes('\n'))
  const link = command.out().trim()
  const page = await openPage()
  await page.goto(link)
  await page.getByText('Live', { exact: true }).waitFor(SLOW)
  return { command, page, origin: new URL(link).origin }
}

/** The browser tells a page of a paste by such an event. */
const PASTE = `(() => {
  const clipboardData = new DataTransfer()
  clipboardData.setData('text/plain', 'say pasted here')
  const paste = new ClipboardEvent('paste', { clipboardData, bubbles: true })
  document.querySelector('.xterm-helper-textarea').dispatchEvent(paste)
})()`

const script = (...lines: readonly string[]): string => ['```switchyard', ...lines, '```'].join('\n')

test(
  'a ticket made from words becomes a pull request that is reviewed, followed up and merged',
  async () => {
    const system = await LocalSystem.open()
    await system.pairWorker()
    const { page, origin } = await openDashboard(system)

    // Start from words.
    await page.keyboard.press('n')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Title').fill('Keep a greeting')
    await dialog
      .getByLabel('Description')
      .fill(script(`run ${GATE}`, 'write greeting.txt', '  hello', 'commit Greet', 'say All done here.'))
    await dialog.getByLabel('Repository').selectOption('plain')
    await dialog
      .getByRole('button', { name: /^Create|^Start/ })
      .last()
      .click()
    await dialog.waitFor({ state: 'detached' })
    const started = await findRun(system, 'Keep a greeting')

    // Two windows agree, and the log is followed.
    await page.goto(`${origin}/runs/${started.id}`)
    const second = await openWindow(page)
    await second.goto(origin)
    await system.waitForGate(started)
    await page.getByText('Running', { exact: false }).first().waitFor(SLOW)
    await second.getByRole('link', { name: 'Keep a greeting' }).first().waitFor(SLOW)
    system.openGates(started)
    await page.getByText('All done here.').first().waitFor(SLOW)
    await page.getByRole('button', { name: 'Send follow-up…' }).waitFor(SLOW)
    await second.getByText('Recently finished').waitFor(SLOW)

    // The terminal: type, and see the answer.
    await page.getByRole('button', { name: 'Open terminal' }).click()
    const terminal = page.frameLocator('iframe')
    await terminal.getByText('Connected.').waitFor(SLOW)
    await terminal.locator('.xterm-accessibility').getByText('/help lists').first().waitFor(SLOW)
    await terminal.locator('.xterm-helper-textarea').pressSequentially('say typed here')
    await page.keyboard.press('Enter')
    await terminal.locator('.xterm-accessibility').getByText('typed here').first().waitFor(SLOW)
    // A second person sees the same screen, and is told that it is shared; what is pasted is typed.
    await second.goto(`${origin}/runs/${started.id}?terminal=1`)
    await second.getByText('Somebody had it open before you').waitFor(SLOW)
    const shared = second.frameLocator('iframe')
    await shared.locator('.xterm-accessibility').getByText('typed here').first().waitFor(SLOW)
    const field = shared.locator('.xterm-helper-textarea')
    await field.focus()
    await field.evaluate(PASTE)
    await field.press('Enter')
    await shared.locator('.xterm-accessibility').getByText('pasted here').first().waitFor(SLOW)
    await second.goto(origin)
    // A window behind another draws nothing.
    await page.bringToFront()
    await terminal.locator('.xterm-accessibility').getByText('pasted here').first().waitFor(SLOW)
    await page.keyboard.press('Control+]')
    await page.keyboard.press('d')
    await page.locator('iframe').waitFor({ state: 'detached' })
    await releaseByApi(system, started)

    // A comment on a line goes to the agent.
    const [pull] = system.pulls('plain')
    await page.goto(`${origin}/pulls/plain/${pull?.number}`)
    await page.getByText('hello', { exact: true }).first().waitFor(SLOW)
    await page.getByRole('button', { name: 'Comment on line 1' }).first().click()
    const box = page.locator('.comment-box textarea')
    await box.fill('Say goodbye too.')
    await page.reload()
    await page.locator('.comment-box textarea').waitFor(SLOW)
    expect(await page.locator('.comment-box textarea').inputValue()).toBe('Say goodbye too.')
    await page.getByRole('button', { name: 'Send to agent' }).click()
    await until('the follow-up has the words', async () => {
      const run = await system.findRun(started.ticket.identifier)
      return run?.instructions?.includes('Say goodbye too.') === true
    })
    await system.waitForEnd(started.ticket.identifier)

    await reviewPull(page, `${origin}/pulls/plain/${pull?.number}`)

    // Merge.
    await page.goto(`${origin}/pulls/plain/${pull?.number}`)
    await page.getByRole('button', { name: 'Merge…' }).click(SLOW)
    await page.getByRole('dialog').getByText('This speaks against it').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Merge anyway' }).click()
    await page.getByText('It is merged.').first().waitFor(SLOW)
    expect(system.git('plain', 'show', 'main:greeting.txt')).toContain('hello')
  },
  TEST_MS_MAX,
)

test(
  'a host that is killed in the middle of a log is found again without a reload, and a drained worker takes nothing',
  async () => {
    const system = await LocalSystem.open()
    await system.pairWorker()
    const { page, origin } = await openDashboard(system)

    // The host is killed in the middle of a log: the page goes on with it, and shows each line once.
    system.writeTicket('MID-1', ['say Before the kill.', `run ${GATE}`, 'say After the kill.'])
    const run = await system.waitForStatus('MID-1', 'running')
    await page.goto(`${origin}/runs/${run.id}`)
    const log = page.getByRole('log')
    await log.getByText('Before the kill.').waitFor(SLOW)
    await system.waitForGate(run)
    await page.evaluate('globalThis.sameDocument = true')
    system.host.process.kill('SIGKILL')
    await system.host.exit
    await page.getByText('Reconnecting', { exact: true }).first().waitFor(SLOW)
    await system.startHost()
    system.openGates(run)
    await log.getByText('After the kill.').waitFor(SLOW)
    expect(await log.getByText('Before the kill.').count()).toBe(1)
    expect(await page.evaluate('globalThis.sameDocument')).toBe(true)
    await system.waitForEnd('MID-1')

    await page.goto(`${origin}/fleet`)
    await page
      .getByRole('button', { name: /^Drain/ })
      .first()
      .click()
    await page
      .getByText(/Safe to stop|No new runs start/)
      .first()
      .waitFor(SLOW)

    await page.goto(origin)
    system.writeTicket('LATE-1', ['say late'])
    await page.getByText('workers are draining').waitFor(SLOW)
  },
  TEST_MS_MAX,
)

/** A review with a comment on a line, an answer to it, its end, and a pull request that is closed for a while. */
async function reviewPull(page: Page, address: string): Promise<void> {
  const button = (name: string) => page.getByRole('button', { name })
  const dialog = page.getByRole('dialog')
  await page.goto(address)
  await button('Comment on line 1').first().click(SLOW)
  await page.locator('.comment-box textarea').fill('Which greeting?')
  await button('Add to review').click()
  await page.getByText(/^1 comment in your review/).waitFor(SLOW)
  await button('Request changes…').click()
  await dialog.getByLabel('Words for all of it').fill('One question.')
  await dialog.getByRole('button', { name: 'Request changes' }).click()
  await dialog.waitFor({ state: 'detached' })
  const thread = page.locator('.pull-thread', { hasText: 'Which greeting?' }).first()
  await thread.waitFor(SLOW)
  await page.getByText('One question.').first().waitFor(SLOW)
  await thread.getByRole('button', { name: 'Reply' }).click()
  await thread.getByLabel('Your answer').fill('The usual one.')
  await thread.getByRole('button', { name: 'Send reply' }).click()
  await thread.getByText('The usual one.').waitFor(SLOW)
  await thread.getByRole('button', { name: 'Resolve' }).click()
  await page.getByText('Resolved: 2 comments').first().waitFor(SLOW)

  await button('Close…').click()
  await dialog.getByRole('button', { name: 'Close pull request' }).click()
  await button('Reopen').click(SLOW)
  await button('Merge…').waitFor(SLOW)
}

async function findRun(system: LocalSystem, title: string): Promise<Run> {
  let found: Run | undefined
  await until(`a run of ${title}`, async () => {
    const { body } = await system.host.request('/api/runs')
    found = (body as Run[]).find(({ ticket }) => ticket.title === title)
    return found !== undefined
  })
  if (found === undefined) throw new Error('no run')
  return found
}

/** A view that was left releases the sandbox only after a while. */
async function releaseByApi(system: LocalSystem, { id }: Run): Promise<void> {
  await until('the sandbox is released', async () => {
    const { status } = await system.host.request(`/api/runs/${id}/release`, { method: 'POST' })
    return status === 200
  })
}

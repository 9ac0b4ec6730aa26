/**
 * The ten commonest jobs at the dashboard, in a real browser before a real host: each by the mouse and by the keyboard
 * alone, from the overview, with its clicks and keys counted. A word that a person types counts once.
 */
import { expect, test } from '@jest/globals'
import type { Locator, Page } from 'playwright-core'
import { openPage, SLOW } from '../support/browser.ts'
import { runCommand } from '../support/command-process.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { until } from '../support/until.ts'

/** A part that is farther away than this is not within reach of the Tab key. */
const TABS_MAX = 8
const TEST_MS_MAX = 600_000

/** Counts what a hand does on the page. */
class Hand {
  clicks = 0
  keys = 0
  words = 0

  readonly page: Page

  constructor(page: Page) {
    this.page = page
  }

  async click(place: Locator): Promise<void> {
    this.clicks += 1
    await place.first().click(SLOW)
  }

  /** A list of the browser's own opens by a click, and a second one chooses. */
  async choose(list: Locator, value: string): Promise<void> {
    this.clicks += 2
    await list.selectOption(value)
  }

  async press(...keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      this.keys += 1
      await this.page.keyboard.press(key)
    }
  }

  async type(words: string): Promise<void> {
    this.words += 1
    await this.page.keyboard.type(words)
  }

  /** What is typed before a dialog has its field is lost, on slow machines. */
  async takesKeys(label: string): Promise<void> {
    await this.page.getByLabel(label).and(this.page.locator(':focus')).waitFor(SLOW)
  }

  async tabTo(place: Locator): Promise<void> {
    const isFocused = () => place.evaluate((element) => element.ownerDocument.activeElement === element)
    for (let step = 0; step < TABS_MAX && !(await isFocused()); step++) await this.press('Tab')
  }

  /** The palette finds anything by its name. */
  async call(name: string): Promise<void> {
    await this.press('Control+K')
    const list = this.page.locator('.palette-list')
    await list.waitFor(SLOW)
    await this.type(name)
    await list.locator('.palette-row[aria-selected="true"]', { hasText: name }).waitFor(SLOW)
    await this.press('Enter')
    await list.waitFor({ state: 'detached' })
  }

  button(name: string | RegExp): Locator {
    return this.page.getByRole('button', { name })
  }

  link(name: string | RegExp): Locator {
    return this.page.getByRole('link', { name })
  }

  async see(text: string | RegExp): Promise<void> {
    await this.page.getByText(text).first().waitFor(SLOW)
  }
}

interface Job {
  readonly name: string
  /** The job may take so much by the mouse, and so much by the keyboard. */
  readonly most: { readonly clicks: number; readonly keys: number; readonly words: number }
  readonly byMouse: (hand: Hand) => Promise<void>
  readonly byKeys: (hand: Hand) => Promise<void>
}

/** The first of a pair is for the mouse, the second for the keys, where a job uses up what it works on. */
const [FIRST, SECOND] = ['DONE-1', 'DONE-2'] as const

const JOBS: readonly Job[] = [
  {
    name: 'why a run waits',
    most: { clicks: 1, keys: 2, words: 1 },
    byMouse: async (hand) => {
      await hand.click(hand.link('About WAIT-1'))
      await hand.see(/1 of 1 slots|slots taken/)
    },
    byKeys: async (hand) => {
      await hand.call('WAIT-1')
      await hand.see(/1 of 1 slots|slots taken/)
    },
  },
  {
    name: 'the first error of a run',
    most: { clicks: 2, keys: 3, words: 1 },
    byMouse: async (hand) => {
      await hand.click(hand.link('About BAD-1'))
      await hand.click(hand.button('First error'))
      await hand.page.locator('.log-line.chosen', { hasText: 'no such rule' }).waitFor(SLOW)
    },
    byKeys: async (hand) => {
      await hand.call('BAD-1')
      await hand.button('First error').waitFor(SLOW)
      await hand.press('e')
      await hand.page.locator('.log-line.chosen', { hasText: 'no such rule' }).waitFor(SLOW)
    },
  },
  {
    name: 'a run from words',
    most: { clicks: 4, keys: 2, words: 1 },
    byMouse: async (hand) => {
      await hand.click(hand.button('Start run'))
      await hand.takesKeys('Title')
      await hand.type('Words of the mouse')
      await hand.choose(hand.page.getByLabel('Repository'), 'plain')
      await hand.click(hand.page.getByRole('dialog').getByRole('button', { name: /^(Create|Start)/ }))
      await hand.see('is created and queued')
    },
    byKeys: async (hand) => {
      await hand.press('n')
      await hand.takesKeys('Title')
      await hand.type('Words of the keys')
      await hand.press('Enter')
      await hand.see('is created and queued')
    },
  },
  {
    name: 'an answer on a line',
    most: { clicks: 4, keys: 14, words: 1 },
    byMouse: async (hand) => {
      await hand.click(hand.link('Pull requests'))
      await hand.click(hand.link(`About ${FIRST}`))
      await hand.click(hand.button('Comment on line 1'))
      await hand.page.locator('.comment-box textarea:focus').waitFor(SLOW)
      await hand.type('Say goodbye too.')
      await hand.click(hand.button('Send to agent'))
      await hand.see('is queued')
    },
    byKeys: async (hand) => {
      await openPullByKeys(hand, SECOND)
      await hand.page.locator('.diff-line').first().waitFor(SLOW)
      await hand.press('j', 'c')
      await hand.page.locator('.comment-box textarea:focus').waitFor(SLOW)
      await hand.type('Say goodbye too.')
      await hand.tabTo(hand.button('Send to agent'))
      await hand.press('Enter')
      await hand.see('is queued')
    },
  },
  {
    name: 'a merge',
    most: { clicks: 4, keys: 11, words: 1 },
    byMouse: async (hand) => {
      await hand.click(hand.link('Pull requests'))
      await hand.click(hand.link('About GOOD-1'))
      await hand.click(hand.button('Merge…'))
      await hand.click(hand.page.getByRole('dialog').getByRole('button', { name: /^Merge/ }))
      await hand.see('It is merged.')
    },
    byKeys: async (hand) => {
      await openPullByKeys(hand, 'GOOD-2')
      await hand.button('Merge…').waitFor(SLOW)
      await hand.call('Merge #')
      await hand.page.getByRole('dialog').getByLabel('Method').waitFor()
      await hand.press('Tab', 'Tab', 'Enter')
      await hand.see('It is merged.')
    },
  },
  {
    name: 'a terminal',
    most: { clicks: 2, keys: 3, words: 1 },
    byMouse: async (hand) => {
      await hand.click(hand.link('About GOOD-1'))
      await hand.click(hand.button('Open terminal'))
      await seeTerminal(hand)
    },
    byKeys: async (hand) => {
      await hand.call('GOOD-2')
      await hand.button('Open terminal').waitFor(SLOW)
      await hand.press('a')
      await seeTerminal(hand)
    },
  },
  {
    name: 'a drain',
    most: { clicks: 2, keys: 5, words: 1 },
    byMouse: async (hand) => {
      await hand.click(hand.link('Fleet'))
      await hand.click(hand.button(/^Drain /))
      await hand.button(/^Enable /).waitFor(SLOW)
      await hand.button(/^Enable /).click()
      await hand.button(/^Drain /).waitFor(SLOW)
    },
    byKeys: async (hand) => {
      await hand.press('g', 'f')
      await hand.button(/^Drain /).waitFor(SLOW)
      await hand.press('j')
      await hand.call('Drain ')
      await hand.button(/^Enable /).waitFor(SLOW)
      await hand.button(/^Enable /).click()
      await hand.button(/^Drain /).waitFor(SLOW)
    },
  },
  {
    name: 'the cost of today',
    most: { clicks: 1, keys: 2, words: 0 },
    byMouse: async (hand) => {
      await hand.click(hand.link('Costs'))
      await hand.see(/^~?\$\d/)
    },
    byKeys: async (hand) => {
      await hand.press('g', 'c')
      await hand.see(/^~?\$\d/)
    },
  },
  {
    name: 'a run of the last week',
    most: { clicks: 5, keys: 14, words: 2 },
    byMouse: async (hand) => {
      await hand.click(hand.link('Runs'))
      await hand.choose(hand.page.getByLabel('Created'), '7d')
      await hand.click(hand.page.getByLabel('Search the runs'))
      await hand.type('BAD-1')
      await hand.see(/^1 run/)
      await hand.click(hand.link('About BAD-1'))
      await hand.button('First error').waitFor(SLOW)
    },
    byKeys: async (hand) => {
      await hand.press('g', 'r')
      await hand.page.getByLabel('Search the runs').waitFor(SLOW)
      await hand.press('/')
      await hand.type('BAD-1')
      await hand.see(/^1 run/)
      // From the search to the times, where a letter chooses.
      await hand.press('Tab', 'Tab', 'Tab', 'Tab')
      await hand.type('Last 7')
      await hand.see(/^1 run/)
      await hand.tabTo(hand.link('About BAD-1').first())
      await hand.press('Enter')
      await hand.button('First error').waitFor(SLOW)
    },
  },
  {
    name: 'a setting with its confirmation',
    most: { clicks: 5, keys: 12, words: 2 },
    byMouse: async (hand) => {
      await hand.click(hand.link('Settings'))
      await hand.click(hand.page.getByLabel('Search the settings'))
      await hand.type('sandbox.allowedHosts')
      await hand.click(hand.button(/^(Set|Change) sandbox\.allowedHosts/))
      await hand.page.locator('.setting-editor .input:focus').waitFor(SLOW)
      await hand.type('one.example')
      await hand.click(hand.button('Save'))
      await hand.click(hand.page.getByRole('dialog').getByRole('button', { name: 'Change setting' }))
      await hand.see('one.example')
    },
    byKeys: async (hand) => {
      await hand.press('g', 's')
      await hand.page.getByLabel('Search the settings').waitFor(SLOW)
      await hand.press('/')
      await hand.type('server.allowedOrigins')
      await hand.tabTo(hand.button(/^(Set|Change) server/))
      await hand.press('Enter')
      await hand.page.locator('.setting-editor .input:focus').waitFor(SLOW)
      await hand.type('https://two.example')
      await hand.press('Control+Enter')
      await hand.page.getByRole('dialog').waitFor(SLOW)
      await hand.press('Tab', 'Enter')
      await hand.see('https://two.example')
    },
  },
]

async function openPullByKeys(hand: Hand, ticket: string): Promise<void> {
  await hand.press('g', 'p')
  await hand.link(`About ${ticket}`).first().waitFor(SLOW)
  const chosen = hand.page.locator('.pull-table .chosen', { hasText: `About ${ticket}` })
  for (let row = 0; row < 6 && (await chosen.count()) === 0; row++) await hand.press('j')
  await hand.press('Enter')
}

async function seeTerminal(hand: Hand): Promise<void> {
  const terminal = hand.page.frameLocator('iframe')
  await terminal.locator('.xterm-accessibility').getByText('/help lists').first().waitFor(SLOW)
  // The terminal keeps every key but this one.
  await hand.page.keyboard.press('Control+]')
  await hand.page.keyboard.press('d')
  await hand.page.locator('iframe').waitFor({ state: 'detached' })
}

test(
  'the ten commonest jobs take few clicks, or few keys',
  async () => {
    const system = await LocalSystem.open({ concurrency: 1 })
    await system.pairWorker()
    const work = (name: string) => [`write ${name}.txt`, '  hello', `commit ${name}`]
    for (const name of [FIRST, SECOND, 'GOOD-1', 'GOOD-2']) system.writeTicket(name, work(name))
    system.writeTicket('BAD-1', ['say Trying.', 'run echo "error: no such rule" >&2; exit 3'])
    for (const name of [FIRST, SECOND, 'GOOD-1', 'GOOD-2', 'BAD-1']) await system.waitForEnd(name)
    system.writeTicket('HELD-1', [`run ${GATE}`])
    await system.waitForStatus('HELD-1', 'running')
    system.writeTicket('WAIT-1', ['say late'])
    await system.waitForStatus('WAIT-1', 'queued')

    const command = runCommand(['dashboard', '--no-open', '--port', '0', '--data-dir', system.dataDir])
    await until('the link is printed', () => command.out().includes('\n'))
    const link = command.out().trim()
    const page = await openPage()
    await page.goto(link)
    await page.getByText('Live', { exact: true }).waitFor(SLOW)
    const tooMuch: string[] = []
    for (const { name, most, byMouse, byKeys } of JOBS) {
      const open = async (hand: Hand): Promise<Hand> => {
        await page.goto(new URL('/', link).href)
        await page.getByText('Live', { exact: true }).waitFor(SLOW)
        await page.getByText('Recently finished').waitFor(SLOW)
        return hand
      }
      const failure = (hand: string) => (error: Error) => {
        throw new Error(`${name}, ${hand}: ${error.message}`)
      }
      const mouse = await open(new Hand(page))
      await byMouse(mouse).catch(failure('by the mouse'))
      const keys = await open(new Hand(page))
      await byKeys(keys).catch(failure('by keys'))
      expect([name, mouse.keys, keys.clicks]).toEqual([name, 0, 0])
      if (mouse.clicks > most.clicks || keys.keys > most.keys || keys.words > most.words)
        tooMuch.push(`${name}: ${mouse.clicks} clicks, or ${keys.keys} keys and ${keys.words} words`)
    }
    expect(tooMuch).toEqual([])
  },
  TEST_MS_MAX,
)

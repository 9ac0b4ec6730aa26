/**
 * The inspector in a real browser before a real host: a run is followed from queued to completed by its lit states, and
 * what was recorded meanwhile is replayed with nothing running.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { createWebSocketReceiver } from '@statelyai/inspect'
import type { Page } from 'playwright-core'
import type { InspectionRecord, StoryLine } from '../../protocol/inspection.ts'
import { openPage, SLOW } from '../support/browser.ts'
import { type CommandProcess, runCommand } from '../support/command-process.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const SECRET = 'planted-7f3a9c51e0'

async function openInspector(...args: readonly string[]): Promise<{ command: CommandProcess; link: string }> {
  const command = runCommand(['inspect', '--no-open', '--port', '0', ...args])
  await until('the link is printed', () => command.out().includes('\n'))
  return { command, link: command.out().trim() }
}

const litState = (page: Page) => page.locator('.chart .active > text').first()
const runRow = (page: Page, id: string) => page.locator(`a.actor-row[href*="actor=run%2F${id}"]`)
const row = (page: Page, text: string) => page.locator('a.actor-row', { hasText: text }).first()

async function violations(page: Page): Promise<string[]> {
  const found = await page.evaluate<readonly { id: string; nodes: readonly { html: string }[] }[]>(
    `(async () => { ${AXE}; return (await globalThis.axe.run(document, { resultTypes: ['violations'] })).violations })()`,
  )
  return found.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 160)}`))
}

test('a run is followed by its lit states, and its story is replayed when all has ended', async () => {
  const system = await LocalSystem.open()
  await system.pairWorker()
  const live = await openInspector('--data-dir', system.dataDir)
  const story = join(system.folder, 'story.jsonl')
  const recorder = runCommand(['inspect', '--record', story, '--data-dir', system.dataDir])
  await until('the story begins', () => recorder.err().includes('Recording what the actors do'))
  const page = await openPage()
  await page.goto(live.link)
  await page.getByText('Live', { exact: true }).first().waitFor(SLOW)
  await row(page, 'serving').click()
  await page.getByText('serving').first().waitFor(SLOW)
  expect(await litState(page).textContent()).toBe('serving')

  // A tool of others sees the same actors, with a code of its own.
  const { origin } = new URL(live.link)
  const again = runCommand([
    'inspect',
    '--no-open',
    '--port',
    new URL(live.link).port,
    '--data-dir',
    system.dataDir,
  ])
  await until('another link is printed', () => again.out().includes('\n'))
  const code = /#code=(.*)$/m.exec(again.out())?.[1] ?? ''
  const received: { type: string; sessionId: string; name?: string; snapshot?: { value?: unknown } }[] = []
  createWebSocketReceiver({
    server: `${origin.replace('http', 'ws')}/inspect/events?code=${code}`,
  }).subscribe((event) => {
    received.push(event as (typeof received)[number])
  })
  // What happens before its connection stands is not told to the tool.
  await until('the tool receives the actors that are there', () => received.length > 0)

  system.writeTicket('SEEN-1', [`say ${SECRET}`, `run ${GATE}`, 'write a.txt', '  a', 'commit A'])
  const run = await system.waitForStatus('SEEN-1', 'running')
  await page.locator('.actor-group', { hasText: 'SEEN-1' }).waitFor(SLOW)
  await runRow(page, run.id).click()
  await page.locator('.chart .active > text', { hasText: 'running' }).waitFor(SLOW)
  // Its lease and its connection stand beside it.
  const lanes = page.locator('.lane-heads text')
  for (const kind of ['lease/', 'connection/', 'worker/'])
    await lanes.filter({ hasText: kind }).first().waitFor(SLOW)
  await page.locator('.message .name', { hasText: 'accepted' }).first().waitFor(SLOW)
  expect(await violations(page)).toEqual([])
  system.openGates(run)
  await system.waitForEnd('SEEN-1')
  await page.locator('.state-tag', { hasText: 'completed, over' }).waitFor(SLOW)
  await page.locator('.chart .active > text', { hasText: 'completed' }).waitFor(SLOW)

  // Back in time by keys: one event, then another.
  await page.getByText('Live', { exact: true }).first().waitFor(SLOW)
  for (let n = 0; n < 3; n++) await page.keyboard.press(',')
  await page.getByText('Paused').waitFor(SLOW)
  await page.keyboard.press('Space')
  await page.getByText('Paused').waitFor({ state: 'detached' })
  // A button that has the focus is pressed by Space; nothing is paused.
  const changesOnly = page.locator('.events-head').getByRole('button', { name: 'State' })
  await changesOnly.focus()
  await page.keyboard.press('Space')
  await page.locator('.events-head [aria-pressed="true"]', { hasText: 'State' }).waitFor(SLOW)
  expect(await page.getByText('Paused').count()).toBe(0)
  // The filter stands in the address, and the sequence takes the room that it is given.
  expect(page.url()).toContain('events=state')
  const sequence = page.getByRole('region', { name: 'Sequence' })
  const bottom = page.viewportSize()?.height ?? 0
  const { height = 0 } = (await sequence.boundingBox()) ?? {}
  await page.getByRole('separator', { name: 'Height of the sequence' }).focus()
  for (let n = 0; n < 2; n++) await page.keyboard.press('ArrowUp')
  expect((await sequence.boundingBox())?.height).toBe(height + 48)
  await page.mouse.move(700, bottom - height - 48)
  await page.mouse.down()
  await page.mouse.move(700, bottom - height + 40)
  await page.mouse.up()
  expect((await sequence.boundingBox())?.height).toBe(height - 40)
  // The usual size, twice the size, and a phone.
  for (const width of [1440, 720, 390]) {
    await page.setViewportSize({ width, height: 844 })
    for (const part of width === 1440 ? ['All'] : ['Actors', 'Chart', 'Events', 'Sequence']) {
      if (part !== 'All') await page.locator('.tabs').getByRole('button', { name: part }).click()
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        expect([width, part, await violations(page)]).toEqual([width, part, []])
      }
    }
  }

  const actors = received.filter(({ type }) => type === '@xstate.actor')
  expect(actors.map(({ name }) => name)).toEqual(expect.arrayContaining(['root/root', `run/${run.id}`]))
  const values = received
    .filter(({ type, sessionId }) => type === '@xstate.snapshot' && sessionId === `run/${run.id}`)
    .map(({ snapshot }) => snapshot?.value)
  expect(values).toEqual(expect.arrayContaining(['preparing', 'running', 'finalizing', 'completed']))

  recorder.process.kill('SIGINT')
  expect(await recorder.exit).toBe(0)
  live.command.process.kill('SIGTERM')
  await live.command.exit
  system.host.process.kill('SIGKILL')
  expect(`${readFileSync(story, 'utf8')}${JSON.stringify(received)}`).not.toContain(SECRET)

  // The story needs no host.
  const replay = await openInspector(story)
  const viewer = await openPage()
  await viewer.goto(replay.link)
  await viewer.getByText('A story of a host').waitFor(SLOW)
  await viewer.locator('#find-actor').fill(run.id)
  await runRow(viewer, run.id).click()
  await viewer.locator('.chart .active > text', { hasText: 'completed' }).waitFor(SLOW)
  const slider = viewer.getByLabel('Instant')
  const seen = new Set<string>()
  await slider.focus()
  await viewer.keyboard.press('Home')
  const rows = Number(await slider.getAttribute('max'))
  for (let n = 0; n < rows; n++) {
    await viewer.keyboard.press('ArrowRight')
    seen.add((await litState(viewer).textContent()) ?? '')
  }
  expect([...seen]).toEqual(['queued', 'preparing', 'running', 'finalizing', 'completed'])
}, 180_000)

test('the pages of a run and of the fleet lead to their actors', async () => {
  const system = await LocalSystem.open({ hostArgs: ['--inspect', '0'] })
  await system.pairWorker()
  const dashboard = runCommand(['dashboard', '--no-open', '--port', '0', '--data-dir', system.dataDir])
  await until('the link is printed', () => dashboard.out().includes('\n'))
  system.writeTicket('SEEN-2', [`run ${GATE}`, 'write a.txt', '  a', 'commit A'])
  const run = await system.waitForStatus('SEEN-2', 'running')
  const page = await openPage()
  const link = new URL(dashboard.out().trim())
  await page.goto(link.href)
  await page.goto(`${link.origin}/runs/${run.id}`)
  const opens = async (press: () => Promise<void>) => {
    const [opened] = await Promise.all([page.waitForEvent('popup', SLOW), press()])
    await chosenRow(opened).waitFor(SLOW)
    await opened.locator('.chart .active').waitFor(SLOW)
    return new URL(opened.url()).searchParams.get('actor')
  }
  expect(await opens(() => page.getByRole('button', { name: 'Open inspector' }).click(SLOW))).toBe(
    `run/${run.id}`,
  )
  await page.goto(`${link.origin}/fleet`)
  await page.getByRole('button', { name: /^More about/ }).click(SLOW)
  expect(await opens(() => page.getByText('Open inspector').click(SLOW))).toBe(
    `worker/${run.sandbox?.workerId}`,
  )
  system.openGates(run)
  await system.waitForEnd('SEEN-2')
  await page.goto(`${link.origin}/runs/${run.id}`)
  const ended = { hasText: 'Open inspector' }
  await page.locator('.run-panel [aria-disabled="true"]', ended).waitFor(SLOW)
  await page
    .locator('.run-head [role="menuitem"][aria-disabled="true"]', ended)
    .waitFor({ ...SLOW, state: 'attached' })
}, 120_000)

// ---- a story that is written here, so that nothing has to happen first --------------------------------------------

const WHOLE = { hidden: 0, deadlines: {} }
const HEAD: StoryLine = { story: 1, at: 1_000, version: '1', source: 'simulation', title: 'seed 7' }

function runLine(n: number, state: string): StoryLine {
  const key = `run-${String(n).padStart(5, '0')}`
  const actor = { id: `run/${key}`, kind: 'run', key, state, run: key, ticket: `ENG-${n}` }
  return { actor, context: {}, ...WHOLE }
}

const LEASE: StoryLine = {
  actor: { id: 'lease/ls-2', kind: 'lease', key: 'ls-2', state: 'offered', run: 'run-00002', lease: 'ls-2' },
  context: {},
  ...WHOLE,
}
const SETTINGS: StoryLine = {
  actor: { id: 'settings/settings', kind: 'settings', key: 'settings', state: 'idle' },
  context: {},
  ...WHOLE,
}

const happened = (n: number, fields: Partial<InspectionRecord>): InspectionRecord => ({
  n,
  at: 1_000 + n,
  actor: 'run/run-00002',
  is: 'event',
  name: '',
  ...fields,
})

const NEWS = [
  happened(1, { name: 'granted', before: 'queued', after: 'queued', from: { is: 'module', name: '' } }),
  happened(2, {
    actor: 'lease/ls-2',
    name: 'accepted',
    before: 'offered',
    after: 'held',
    from: { is: 'frame', name: 'dispatch-accepted' },
  }),
  happened(3, {
    name: 'accepted',
    before: 'queued',
    after: 'preparing',
    from: { is: 'actor', name: 'lease/ls-2' },
  }),
  happened(4, {
    name: 'lease lost',
    before: 'preparing',
    after: 'preparing',
    from: { is: 'actor', name: 'lease/ls-2' },
    guards: [{ name: 'hasNoLease', holds: false }],
    ignored: true,
  }),
  happened(5, { name: 'priority changed', before: 'preparing', after: 'preparing', ignored: true }),
  happened(6, { name: 'ended completed', before: 'preparing', after: 'completed' }),
  happened(7, { is: 'ended' }),
]

async function openStory(lines: readonly StoryLine[], setup?: Parameters<typeof openPage>[0]): Promise<Page> {
  const file = join(tempFolder(), 'story.jsonl')
  writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  const { link } = await openInspector(file)
  const page = await openPage(setup)
  await page.goto(link)
  return page
}

const chosenRow = (page: Page) => page.locator('a.actor-row[aria-current="true"]')

test('a story opens at what happened last, under its ticket, and the chosen actor stays in the list', async () => {
  const page = await openStory([HEAD, SETTINGS, runLine(1, 'queued'), runLine(2, 'queued'), LEASE, ...NEWS])
  await chosenRow(page).waitFor(SLOW)
  expect(new URL(page.url()).searchParams.get('actor')).toBe('run/run-00002')
  expect(await page.locator('.actor-rows .virtual-row').allInnerTexts()).toEqual([
    ...[
      /ENG-2/,
      /run.*\n?completed/,
      /lease.*\n?held/,
      /ENG-1/,
      /run.*\n?queued/,
      /system/,
      /settings.*\n?idle/,
    ].map((pattern) => expect.stringMatching(pattern)),
  ])

  // Ignored events say why; the chosen one lists its guards.
  const lost = page.locator('.event-row', { hasText: 'lease lost' })
  expect(await lost.innerText()).toContain('ignored because hasNoLease does not hold')
  expect(await page.locator('.event-row', { hasText: 'priority changed' }).innerText()).toContain(
    'nothing in preparing',
  )
  await lost.click()
  await page.locator('.chosen-record', { hasText: 'hasNoLease does not hold' }).waitFor(SLOW)

  // Every arrow of the sequence names its sender.
  const names = await page.locator('.message .name').allTextContents()
  expect(names).toHaveLength(7)
  for (const name of names) expect(name).toMatch(/ from \S/)
  expect(names.join('\n')).toContain('accepted from lease/ls-2')
  expect(names.join('\n')).toContain('accepted from frame dispatch-accepted')

  // Neither a search, nor another grouping, nor an instant before its time takes the chosen actor away.
  await page.locator('#find-actor').fill('settings')
  await page.locator('a.actor-row', { hasText: 'settings' }).waitFor(SLOW)
  expect(await chosenRow(page).innerText()).toContain('run')
  await page.locator('#find-actor').fill('')
  for (const grouping of ['Kind', 'Worker', 'State', 'Ticket']) {
    await page.locator('.actors-head').getByRole('button', { name: grouping }).click()
    await expectInside(page)
  }
  await row(page, 'lease').click()
  await page.getByLabel('Instant').focus()
  await page.keyboard.press('Home')
  expect(await chosenRow(page).innerText()).toContain('offered')
  expect(await violations(page)).toEqual([])
}, 60_000)

/** The chosen row is in view. */
async function expectInside(page: Page): Promise<void> {
  const [list, chosen] = [
    await page.locator('.actor-rows').boundingBox(),
    await chosenRow(page).boundingBox(),
  ]
  expect(chosen?.y).toBeGreaterThanOrEqual(list?.y ?? Number.POSITIVE_INFINITY)
  expect(chosen?.y).toBeLessThan((list?.y ?? 0) + (list?.height ?? 0))
}

test('a chart is zoomed and moved by buttons, keys, wheel and pointer, and can be read at first', async () => {
  const page = await openStory([HEAD, runLine(2, 'queued'), LEASE, ...NEWS])
  const drawing = page.locator('.chart > svg')
  await page.locator('.chart .active').waitFor(SLOW)
  const size = async () => (await drawing.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 }
  const textPx = () =>
    page.evaluate<number>(`(() => {
      const svg = document.querySelector('.chart > svg')
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width
      const texts = [...svg.querySelectorAll('text')]
      return scale * Math.min(...texts.map((text) => Number.parseFloat(getComputedStyle(text).fontSize)))
    })()`)
  expect(await textPx()).toBeGreaterThanOrEqual(11.99)
  const first = await size()
  const zoomIn = page.getByRole('button', { name: 'Zoom in' })
  await zoomIn.click()
  const larger = await size()
  expect(larger.width).toBeCloseTo(first.width * 1.25, 0)
  await page.locator('.chart').focus()
  await page.keyboard.press('-')
  expect((await size()).width).toBeCloseTo(first.width, 0)
  for (let n = 0; n < 3; n++) await page.keyboard.press('+')
  const before = await size()
  // The shortcut is the browser's own.
  await page.keyboard.press('Control+0')
  expect((await size()).width).toBeCloseTo(before.width, 0)
  await page.keyboard.press('ArrowRight')
  expect((await size()).x).toBeCloseTo(before.x - 48, 0)
  const place = (await page.locator('.chart').boundingBox()) ?? before
  const middle = { x: place.x + place.width / 2, y: place.y + place.height / 2 }
  await page.mouse.move(middle.x, middle.y)
  await page.mouse.down()
  await page.mouse.move(middle.x + 30, middle.y + 20, { steps: 3 })
  await page.mouse.up()
  const dragged = await size()
  expect([Math.round(dragged.x - before.x), Math.round(dragged.y - before.y)]).toEqual([-18, 20])
  await page.mouse.wheel(0, 200)
  await until('the wheel zooms out', async () => (await size()).width < dragged.width)
  await page.setViewportSize({ width: 390, height: 844 })
  await page.getByRole('button', { name: 'Fit' }).click()
  const [whole, narrow] = [await size(), (await page.locator('.chart').boundingBox()) ?? first]
  expect(whole.width).toBeLessThanOrEqual(narrow.width + 1)
  expect(whole.height).toBeLessThanOrEqual(narrow.height + 1)
  // An arrow is still chosen by a click.
  await page.setViewportSize({ width: 1440, height: 1000 })
  await page.getByRole('button', { name: 'Fit' }).click()
  await page.locator('.chart .arrow text', { hasText: 'accepted' }).click()
  await page.locator('.arrow-list', { hasText: 'accepted' }).waitFor(SLOW)
}, 60_000)

test('labels of charts stand beside their arrows, and on no other label and no state', async () => {
  const page = await openStory([HEAD, runLine(2, 'queued'), ...NEWS.slice(0, 1)], { width: 1600 })
  await page.locator('.chart .active').waitFor(SLOW)
  const overlaps = await page.evaluate<readonly string[]>(`(() => {
    const place = document.querySelector('.chart')
    const meets = (a, b) =>
      a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2
    const boxes = (selector) => [...place.querySelectorAll(selector)].map((shape) => shape.getBoundingClientRect())
    return Object.entries(${readFileSync('docs/machines/charts.json', 'utf8')}).flatMap(([name, { svg }]) => {
      place.replaceChildren(new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement)
      const labels = boxes('.arrow > text')
      const states = boxes('.state > path, .state > polygon, .any > path')
      return labels
        .filter((label, at) => [...labels.slice(at + 1), ...states].some((other) => meets(label, other)))
        .map(() => name)
    })
  })()`)
  expect(overlaps).toEqual([])
}, 60_000)

test('of ten thousand actors only those in view are in the page', async () => {
  const lines = Array.from({ length: 10_000 }, (_, n) => runLine(n, 'queued'))
  const page = await openStory([HEAD, ...lines])
  await chosenRow(page).waitFor(SLOW)
  expect(await page.getByLabel('Find an actor').getAttribute('placeholder')).toBe('Find one of 10,000 actors')
  expect(await page.locator('a.actor-row').count()).toBeLessThan(60)
  await page.locator('#find-actor').fill('ENG-4711')
  await page.locator('.actor-group', { hasText: 'ENG-4711' }).waitFor(SLOW)
}, 60_000)

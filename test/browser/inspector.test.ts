/**
 * The inspector in a real browser before a real host: a run is followed from queued to completed by its lit states, and
 * what was recorded meanwhile is replayed with nothing running.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { createWebSocketReceiver } from '@statelyai/inspect'
import type { Page } from 'playwright-core'
import { openPage } from '../support/browser.ts'
import { type CommandProcess, runCommand } from '../support/command-process.ts'
import { GATE, LocalSystem } from '../support/local-system.ts'
import { until } from '../support/until.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const SLOW = { timeout: 60_000 }
const SECRET = 'planted-7f3a9c51e0'

async function openInspector(...args: readonly string[]): Promise<{ command: CommandProcess; link: string }> {
  const command = runCommand(['inspect', '--no-open', '--port', '0', ...args])
  await until('the link is printed', () => command.out().includes('\n'))
  return { command, link: command.out().trim() }
}

const litState = (page: Page) => page.locator('.chart .active > text').first()
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
  await row(page, run.id).click()
  await page.locator('.chart .active > text', { hasText: 'running' }).waitFor(SLOW)
  // Its lease and its connection stand beside it.
  const lanes = page.locator('.lane-heads text')
  for (const kind of ['lease/', 'connection/', 'worker/'])
    await lanes.filter({ hasText: kind }).first().waitFor(SLOW)
  await page.locator('.message .name', { hasText: 'accepted' }).first().waitFor(SLOW)
  expect(await violations(page)).toEqual([])
  system.openGates(run)
  await system.waitForEnd('SEEN-1')
  await page.getByText('completed, over').waitFor(SLOW)
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
  await page.emulateMedia({ colorScheme: 'dark' })
  expect(await violations(page)).toEqual([])
  await page.setViewportSize({ width: 390, height: 844 })
  for (const part of ['Actors', 'Events', 'Sequence']) {
    await page.locator('.tabs').getByRole('button', { name: part }).click()
    expect([part, await violations(page)]).toEqual([part, []])
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
  await row(viewer, run.id).click()
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

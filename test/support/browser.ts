/**
 * Real Chromium, once for a test file, and pages in it that fail the test when the page reports an error.
 *
 * A violation of the page's policy, an exception and a failed script are errors; a request that the host refuses is not.
 */
import { afterAll, afterEach, expect } from '@jest/globals'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { PATIENCE } from './until.ts'

const PROGRAM = '/usr/bin/chromium'
const ACT_MS_MAX = 30_000
/** For what a page shows only after work of the host, or on a busy machine. */
export const SLOW = { timeout: 60_000 * PATIENCE }
const FLAGS = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]
/** Chromium has no sandbox of its own for root. */
const ROOT_FLAGS = process.getuid?.() === 0 ? ['--no-sandbox'] : []

let browser: Promise<Browser> | undefined
const contexts = new Set<BrowserContext>()
const errors: string[] = []

export interface PageSetup {
  readonly width?: number
  readonly height?: number
  readonly theme?: 'light' | 'dark'
  /** Pixels of the screen for each of the page; a person who zooms in has more of them, and fewer of the page's. */
  readonly scale?: number
  /** Requests that pass a service worker cannot be held by a test. */
  readonly serviceWorkers?: 'allow' | 'block'
}

/** A page in a browser profile of its own, without cookies. */
export async function openPage({
  width = 1440,
  height = 1000,
  theme = 'light',
  scale = 1,
  serviceWorkers = 'allow',
}: PageSetup = {}): Promise<Page> {
  browser ??= chromium.launch({ executablePath: PROGRAM, args: [...FLAGS, ...ROOT_FLAGS] })
  const context = await (await browser).newContext({
    viewport: { width, height },
    deviceScaleFactor: scale,
    colorScheme: theme,
    reducedMotion: 'reduce',
    serviceWorkers,
  })
  context.setDefaultTimeout(ACT_MS_MAX * PATIENCE)
  contexts.add(context)
  return watched(await context.newPage())
}

/** Another window of the same browser profile. */
export const openWindow = async (page: Page): Promise<Page> => watched(await page.context().newPage())

function watched(page: Page): Page {
  page.on('pageerror', (error) => errors.push(error.stack ?? error.message))
  page.on('console', (message) => {
    if (message.type() === 'error' && !/Failed to load resource|WebSocket connection/.test(message.text()))
      errors.push(message.text())
  })
  return page
}

afterEach(async () => {
  for (const context of contexts) await context.close()
  contexts.clear()
  expect(errors.splice(0)).toEqual([])
})

afterAll(async () => {
  await (await browser)?.close()
})

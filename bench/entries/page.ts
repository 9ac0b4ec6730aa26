/**
 * Measures the dashboard's page in real Chromium: the first rows of the overview of a large installation, scrolling a
 * long log, and typing while a run prints thousands of lines a second.
 *
 * The host is a fake one with sample records behind the real listeners, all in this process, so its work counts too.
 */

import { join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'
import { createHostForwarder } from '../../bin/pages/host-forwarder.ts'
import { DASHBOARD_PAGE } from '../../bin/pages/page-kinds.ts'
import { realClock } from '../../bin/process/clock.ts'
import { chooseProgramListener } from '../../bin/process/program-listener.ts'
import { sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import { openApiDocument } from '../../protocol/openapi.ts'
import type { RunEvent } from '../../protocol/run.ts'
import { createFakeHostApi, type FakeHostApi } from '../../test/support/fake-host-api.ts'
import { SampleRecords } from '../../test/support/sample-records.ts'
import { openPageServer } from '../../transport/pages/page-server.ts'
import type { PageServer } from '../../transport/pages/page-server-options.ts'
import { openHostServer } from '../../transport/server.ts'
import type { BenchResources } from '../bench-resources.ts'
import type { Entry } from '../entry.ts'
import { absoluteFigure, type Figure } from '../figures.ts'
import { buildProduct } from '../served-host.ts'
import { noTrail, silentLog } from '../silent-log.ts'

const RUNS = 2_000
const TICKETS = 10_000
const LOG_LINES = 200_000
const LINES_PER_MS = 5
const BUSY_MS = 8_000
const WAIT_MS_MAX = 120_000
const TOKEN = 'bench-launch-token-0123456789abcdefghijklmno'
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

interface PageBench {
  readonly hostApi: FakeHostApi
  readonly server: PageServer
  readonly browser: Browser
  readonly runId: string
  close(): Promise<void>
}

export const page: Entry = {
  name: 'page',
  about: 'the dashboard in Chromium: first rows, scrolling a long log, typing beside a busy one',
  async measure({ rounds }, resources) {
    await buildProduct(resources)
    const bench = await openBench(resources)
    const firstRows: number[] = []
    const frames: number[] = []
    const inputs: number[] = []
    for (let round = 0; round < rounds; round++) {
      firstRows.push(await measureFirstRows(bench))
      frames.push(await measureScrolling(bench))
      inputs.push(...(await measureTyping(bench)))
    }
    await bench.close()
    return figuresOf(firstRows, frames, inputs)
  },
}

function figuresOf(
  firstRows: readonly number[],
  frames: readonly number[],
  inputs: readonly number[],
): Figure[] {
  const sorted = [...inputs].sort((a, b) => a - b)
  const p95 = sorted[Math.floor(sorted.length * 0.95)] ?? 0
  return [
    absoluteFigure(
      {
        name: `page, first rows of the overview, ${RUNS} runs`,
        unit: 'ms',
        target: { of: 'ours', is: 'at most', bound: 1_000 },
        notes: [`${TICKETS} tickets in the same hello; no processor time, because nothing is compared`],
      },
      firstRows,
    ),
    absoluteFigure(
      {
        name: `page, longest frame, scrolling ${LOG_LINES} lines`,
        unit: 'ms',
        target: { of: 'ours', is: 'at most', bound: 50 },
      },
      frames,
    ),
    absoluteFigure(
      {
        name: 'page, input delay at 5,000 lines/s, p95',
        unit: 'ms',
        target: { of: 'ours', is: 'at most', bound: 100 },
        notes: [`${inputs.length} keys`],
      },
      [p95],
    ),
  ]
}

async function openBench(resources: BenchResources): Promise<PageBench> {
  const hostApi = createFakeHostApi()
  const sample = new SampleRecords(Date.now())
  const runs = [...sample.busyRuns(), ...sample.finishedRuns(RUNS)]
  for (const run of runs) hostApi.runsById.set(run.id, run)
  const busy = sample.run(412, 'running')
  hostApi.eventsById.set(busy.id, sample.log(busy.id, LOG_LINES))
  hostApi.helloAnswer = {
    ...hostApi.helloAnswer,
    runs,
    tickets: sample.tickets(TICKETS),
    workers: sample.workers(),
  }
  const { listener } = chooseProgramListener()
  const opened = await openHostServer({
    hostApi,
    listener,
    token: TOKEN,
    version: '0.1.0',
    clock: realClock,
    log: silentLog,
    trail: noTrail,
    meters: { count: () => {}, gauge: () => {}, observe: () => {} },
    openApi: openApiDocument,
    metricsText: () => '',
    management: { host: '127.0.0.1', port: 0 },
  })
  if (!opened.ok) throw new Error(opened.refusal.message)
  const url = `http://127.0.0.1:${opened.value.managementPort}`
  const forwarder = createHostForwarder({
    address: () => ({ url, token: TOKEN }),
    send: sendByNode,
    dial: dialByNode,
  })
  const served = await openPageServer({
    listener,
    clock: realClock,
    log: silentLog,
    address: { host: '127.0.0.1', port: 0 },
    portSetting: '--port',
    ...DASHBOARD_PAGE,
    linkSecret: TOKEN,
    folder: join(resources.root, 'dist', 'web', 'dashboard'),
    forwarder,
  })
  if (!served.ok) throw new Error(served.refusal.message)
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: FLAGS })
  const close = async (): Promise<void> => {
    await browser.close()
    await served.value.close('the bench is over')
    await opened.value.close('the bench is over')
  }
  return { hostApi, server: served.value, browser, runId: busy.id, close }
}

async function openSignedIn({ browser, server }: PageBench): Promise<Page> {
  const opened = await browser.newPage({ viewport: { width: 1440, height: 1000 } })
  await opened.goto(server.createLink())
  await opened.locator('.progress-row[data-run]').first().waitFor()
  return opened
}

/** The page's policy forbids the browser tool to compile a condition there, so it is asked again and again. */
async function waitUntil(opened: Page, condition: string): Promise<void> {
  const end = Date.now() + WAIT_MS_MAX
  while (!(await opened.evaluate<boolean>(condition))) {
    if (Date.now() > end) throw new Error(`waited ${WAIT_MS_MAX} ms for: ${condition}`)
    await opened.waitForTimeout(50)
  }
}

/** From the navigation to the first row that is drawn, by the page's own clock. */
async function measureFirstRows(bench: PageBench): Promise<number> {
  const opened = await openSignedIn(bench)
  await opened.addInitScript(
    `const watch = () => document.querySelector('.progress-row[data-run]') === null ? requestAnimationFrame(watch) : requestAnimationFrame(() => { globalThis.firstRowAt = performance.now() }); watch()`,
  )
  await opened.goto(`http://127.0.0.1:${bench.server.port}/`)
  await waitUntil(opened, 'globalThis.firstRowAt !== undefined')
  const at = await opened.evaluate<number>('globalThis.firstRowAt')
  await opened.close()
  return at
}

/** The longest distance of two frames while the wheel turns. */
async function measureScrolling(bench: PageBench): Promise<number> {
  const opened = await openSignedIn(bench)
  await opened.goto(`http://127.0.0.1:${bench.server.port}/runs/${bench.runId}`)
  await opened.getByText('Load all').click()
  await waitUntil(opened, "document.querySelector('.log-older') === null")
  await opened.mouse.move(600, 600)
  await opened.evaluate(
    'globalThis.gaps = []; let last = performance.now(); const step = (at) => { globalThis.gaps.push(at - last); last = at; requestAnimationFrame(step) }; requestAnimationFrame(step)',
  )
  for (let turn = 0; turn < 150; turn++) {
    await opened.mouse.wheel(0, -600 - 20 * turn)
    await opened.waitForTimeout(16)
  }
  const longest = await opened.evaluate<number>('Math.max(...globalThis.gaps.slice(2))')
  await opened.close()
  return longest
}

/** The delays of keys while a run prints, as the browser's own event timing has them. */
async function measureTyping(bench: PageBench): Promise<readonly number[]> {
  const opened = await openSignedIn(bench)
  await opened.goto(`http://127.0.0.1:${bench.server.port}/runs/${bench.runId}`)
  await opened.getByRole('log').waitFor()
  await opened.evaluate(
    "globalThis.delays = []; new PerformanceObserver((list) => { for (const entry of list.getEntries()) if (entry.name === 'keydown') globalThis.delays.push(entry.processingStart - entry.startTime) }).observe({ type: 'event', durationThreshold: 16 })",
  )
  const printing = print(bench)
  for (let key = 0; key < BUSY_MS / 100; key++) {
    await opened.keyboard.press('j')
    await opened.waitForTimeout(100)
  }
  await printing
  // A key that was drawn within a frame is not reported, and had no delay worth the name.
  const reported = await opened.evaluate<readonly number[]>('globalThis.delays')
  const others = Math.max(0, BUSY_MS / 100 - reported.length)
  await opened.close()
  return [...reported, ...Array.from({ length: others }, () => 0)]
}

async function print({ hostApi, runId }: PageBench): Promise<void> {
  const events = hostApi.eventsById.get(runId) ?? []
  const began = performance.now()
  const first = events.length
  while (performance.now() - began < BUSY_MS) {
    const due = Math.floor((performance.now() - began) * LINES_PER_MS) + first
    while (events.length < due) {
      const event: RunEvent = {
        type: 'log',
        runId,
        index: events.length,
        at: new Date().toISOString(),
        stream: 'stdout',
        text: `building module ${events.length} of many, with some words to fill the line`,
      }
      events.push(event)
      hostApi.push({ type: 'run-event', event })
    }
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

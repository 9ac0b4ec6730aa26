/**
 * Opens servers for a test and closes them after the test, even when it fails.
 *
 * A listener that stays open would keep the whole test run from ending without any message.
 */
import { afterEach } from '@jest/globals'
import type { HostApi } from '../../actors/api/host-api.ts'
import { realClock } from '../../bin/process/clock.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import { openApiDocument } from '../../protocol/openapi.ts'
import type { HostServer } from '../../transport/host-server.ts'
import { type HostServerOptions, openHostServer } from '../../transport/server.ts'
import { createFakeHostApi, type FakeHostApi } from './fake-host-api.ts'
import { noTrail } from './recording-log.ts'
import { testListener } from './test-listener.ts'

export const TOKEN = 'test-launch-token-0123456789abcdefghijklmnop'

const closers = new Set<() => unknown>()

/** Registers a callback that runs after the test. Returns a function that takes it back. */
export function closeAfterTest(close: () => unknown): () => void {
  closers.add(close)
  return () => void closers.delete(close)
}

afterEach(async () => {
  const due = [...closers].reverse()
  closers.clear()
  for (const close of due) await close()
})

export interface SettableClock extends Clock {
  wind(ms: number): void
  /** The count of pending timers, which often shows what a listener has received. */
  timerCount(): number
}

/** A clock that advances only by its method; callbacks for the end of a tick still run by themselves. */
export function createSettableClock(): SettableClock {
  let now = 0
  const waiting = new Set<{ at: number; run: () => void }>()
  return {
    now: () => now,
    monotonic: () => now,
    after: (ms, run) => {
      const timer = { at: now + ms, run }
      waiting.add(timer)
      return () => void waiting.delete(timer)
    },
    endOfTick: (run) => void setImmediate(run),
    timerCount: () => waiting.size,
    wind: (ms) => {
      now += ms
      const due = [...waiting].filter(({ at }) => at <= now).sort((a, b) => a.at - b.at)
      for (const timer of due) if (waiting.delete(timer)) timer.run()
    },
  }
}

/** A log that keeps its entries as text. */
export function createTextLog(): Log & { readonly lines: string[] } {
  const lines: string[] = []
  const note = (level: string) => (fields: object, message: string) => {
    const err = Reflect.get(fields, 'err')
    lines.push(`${level} ${message} ${JSON.stringify(fields)} ${err instanceof Error ? err.stack : ''}`)
  }
  return { lines, debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') }
}

export function createCountingMeters(): Meters & { readonly counts: Map<string, number> } {
  const counts = new Map<string, number>()
  const key = (name: string, labels: object = {}): string => [name, ...Object.values(labels)].join(' ')
  return {
    counts,
    count: (name, labels, by = 1) =>
      void counts.set(key(name, labels), (counts.get(key(name, labels)) ?? 0) + by),
    gauge: (name, value, labels) => void counts.set(key(name, labels), value),
    observe: () => {},
  }
}

export interface TestServer {
  readonly server: HostServer
  readonly hostApi: FakeHostApi
  readonly log: ReturnType<typeof createTextLog>
  readonly meters: ReturnType<typeof createCountingMeters>
  readonly port: number
  readonly fleetPort: number
  readonly url: string
}

/** Closes the server; a settable clock has to be advanced meanwhile. */
export async function closeServer(server: HostServer, clock: Clock | undefined): Promise<void> {
  let over = false
  const closing = server.close('the test is over').then(() => {
    over = true
  })
  while (clock !== undefined && 'wind' in clock && typeof clock.wind === 'function' && !over) {
    clock.wind(1000)
    await new Promise((resolve) => setImmediate(resolve))
  }
  await closing
}

export function serverOptions(hostApi: HostApi, given: Partial<HostServerOptions> = {}): HostServerOptions {
  return {
    hostApi,
    listener: testListener(),
    token: TOKEN,
    version: '0.1.0',
    clock: realClock,
    log: createTextLog(),
    meters: createCountingMeters(),
    trail: noTrail,
    openApi: openApiDocument,
    metricsText: () => 'switchyard_test 1\n',
    management: { host: '127.0.0.1', port: 0 },
    fleet: { host: '127.0.0.1', port: 0 },
    ...given,
  }
}

export async function openTestServer(given: Partial<HostServerOptions> = {}): Promise<TestServer> {
  const hostApi = createFakeHostApi()
  const log = createTextLog()
  const meters = createCountingMeters()
  const opened = await openHostServer(serverOptions(hostApi, { log, meters, ...given }))
  if (!opened.ok) throw new Error(opened.refusal.message)
  const server = opened.value
  closeAfterTest(() => closeServer(server, given.clock))
  const port = server.managementPort
  return {
    server,
    hostApi,
    log,
    meters,
    port,
    fleetPort: server.fleetPort ?? 0,
    url: `http://127.0.0.1:${port}`,
  }
}

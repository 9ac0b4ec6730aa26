/** A client pool on a manual clock, with a service that replies when and what the test says. */
import type { Urgency } from '../../../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../../../core/result.ts'
import { HttpClientPool } from '../../../../providers/http/client-pool.ts'
import type {
  RateLimitedClient,
  RateLimitRules,
  ServiceRequest,
} from '../../../../providers/http/client-types.ts'
import type { HttpReply, HttpRequest } from '../../../../providers/http/http-types.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'

export const ORIGIN = 'https://api.example'

export interface SentTestRequest {
  readonly request: HttpRequest
  readonly path: string
  /** Monotonic time of sending. */
  readonly at: number
  reply(status: number, headers?: Record<string, string>, text?: string): Promise<void>
  fail(): Promise<void>
}

/** The test service reports `left` of `limit` until `reset` (wall milliseconds), and `more-left` of a second resource. */
export const TEST_RULES: RateLimitRules = {
  name: 'Service',
  resourceOf: ({ url }) => (url.includes('/search') ? 'search' : 'core'),
  budgets: ({ headers }, { url }) => {
    const resource = headers.resource ?? (url.includes('/search') ? 'search' : 'core')
    const resetsAt = headers.reset === undefined ? {} : { resetsAt: Number(headers.reset) }
    const limit = headers.limit === undefined ? {} : { limit: Number(headers.limit) }
    const left =
      headers.left === undefined ? [] : [{ resource, remaining: Number(headers.left), ...limit, ...resetsAt }]
    const more = headers['more-left']
    return more === undefined ? left : [...left, { resource: 'points', remaining: Number(more), ...resetsAt }]
  },
  tooManyRequestsMs: ({ status, headers }) => (status === 420 ? Number(headers.wait ?? 60_000) : undefined),
  concurrencyMax: 4,
  writeIntervalMs: 1_000,
}

export function createClientBench(more: Partial<RateLimitRules> = {}) {
  const clock = new ManualClock()
  const log = createRecordingLog()
  const sent: SentTestRequest[] = []
  let inFlight = 0
  const random = { fraction: () => 0.5 }
  const ask = (request: HttpRequest): Promise<Result<HttpReply>> =>
    new Promise((resolve) => {
      inFlight += 1
      const settle = async (answer: Result<HttpReply>) => {
        inFlight -= 1
        resolve(answer)
        await clock.settle()
      }
      sent.push({
        request,
        path: new URL(request.url).pathname,
        at: clock.monotonic(),
        reply: (status, headers = {}, text = '') => settle(yes({ status, headers, text })),
        fail: () => settle(no('failed', 'api.example could not be reached (ECONNRESET)')),
      })
    })
  const pool = new HttpClientPool({ http: { send: ask }, clock, random, log })
  const client = pool.clientFor({ ...TEST_RULES, ...more }, ORIGIN, 's3cret')
  return { clock, log, sent, pool, client, inFlight: () => inFlight }
}

export function serviceRequest(
  path: string,
  urgency: Urgency = 'background',
  more: Partial<ServiceRequest> = {},
): ServiceRequest {
  return {
    method: 'GET',
    url: `${ORIGIN}${path}`,
    headers: { authorization: 'Bearer s3cret' },
    urgency,
    ...more,
  }
}

/** Sends a request. `now` is its state: `waits`, the reply, or the refusal's message. */
export function sendTracked(client: RateLimitedClient, request: ServiceRequest): { now: string } {
  const progress = { now: 'waits' }
  void client.send(request).then((answer) => {
    progress.now = answer.ok ? `${answer.value.status} ${answer.value.text}`.trim() : answer.refusal.message
  })
  return progress
}

export const paths = (sent: readonly SentTestRequest[]): string[] => sent.map(({ path }) => path)

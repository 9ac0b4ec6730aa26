/**
 * startHelperServer opens the helper's only listener and limits, reports and drains its requests.
 *
 * The listener is public, so the helper stores nothing and trusts nothing: request limits per address apply first, then
 * the request checks that every listener of this program applies. Browsers only follow the redirect to the tracker;
 * requests from page scripts carry an Origin header and are refused. Several helpers may run behind a load balancer.
 */
import type { Cancel, Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'
import { type Result, yes } from '../core/result.ts'
import { HELPER_DRAIN_MS_MAX } from '../protocol/limits.ts'
import { helperRoutes } from '../protocol/routes.ts'
import type { Http } from '../providers/http/http-types.ts'
import { HttpHandler } from '../transport/http.ts'
import { type Address, createApp, type HttpListener, listen } from '../transport/listener-port.ts'
import { type Reply, refusal, send, sendWithoutBody } from '../transport/reply.ts'
import type { Admission, AdmissionCheck } from '../transport/request-checks.ts'
import { createRequestCounter, type RequestCounter } from '../transport/request-counter.ts'
import { createRouter } from '../transport/router.ts'
import { createCodehostApi } from './codehost.ts'
import { clientAddress, createRequestLimiter, type RequestLimiter } from './limiter.ts'
import { createHelperRoutes } from './routes.ts'
import type { HelperSettings } from './settings.ts'
import { createTrackerOauthApi } from './tracker.ts'
import { createUpstream } from './upstream.ts'

/** Space for the longest code or token and the rest of the body. */
export const HELPER_BODY_BYTES_MAX = 16 * 1024

export interface HelperServerOptions {
  readonly settings: HelperSettings
  readonly listener: HttpListener
  readonly http: Http
  readonly clock: Clock
  readonly log: Log
  readonly address: Address
  /** The address of the helper's documentation. */
  readonly docsUrl: string
  /** The limit per client address. */
  readonly requestsPerMinute: number
  /** The number of load balancers in front of the helper whose X-Forwarded-For entries are trusted. */
  readonly trustedProxies: number
}

export interface HelperServer {
  readonly port: number
  /** Stops accepting connections and lets running replies finish for at most HELPER_DRAIN_MS_MAX. */
  close(): Promise<void>
}

export async function startHelperServer(options: HelperServerOptions): Promise<Result<HelperServer>> {
  const { settings, http, clock, log, address } = options
  const app = createApp(options.listener)
  if (!app.ok) return app
  const upstream = createUpstream(http, clock)
  const routes = createHelperRoutes({
    ...options,
    tracker: createTrackerOauthApi(settings.tracker, upstream),
    codehost: createCodehostApi(settings.codehost, upstream),
  })
  const counter = createRequestCounter()
  const handler = new HttpHandler({
    admit,
    route: createRouter(routes),
    clock,
    log,
    counter,
    bodyBytesMax: HELPER_BODY_BYTES_MAX,
  })
  app.value.any(limitRequests(handler, counter, options))
  const listening = await listen(app.value, address, '--port')
  if (!listening.ok) return listening
  const stopReporting = startReporting(counter, options)
  const finish = (): void => {
    stopReporting()
    app.value.close()
  }
  let closing: Promise<void> | undefined
  return yes({
    port: listening.value.port,
    close: () => {
      listening.value.stop()
      closing ??= drain(handler, clock).then(finish)
      return closing
    },
  })
}

// ---- request checks ------------------------------------------------------------------------------------------------

const ADMITTED: Admission = {}
const ORIGIN_REFUSED: Admission = {
  refused: refusal(403, 'web pages may not call this service; only a switchyard host may'),
}
const UNKNOWN_PATH: Admission = {
  refused: refusal(404, 'there is nothing at this path; GET / lists what there is'),
}

const admit: AdmissionCheck = (head, found) => {
  if (head.origins > 0) return ORIGIN_REFUSED
  return found === undefined ? UNKNOWN_PATH : ADMITTED
}

/** Applies the request limits before reading the request, so that a refusal costs almost nothing. */
function limitRequests(
  handler: HttpHandler,
  counter: RequestCounter,
  options: HelperServerOptions,
): HttpHandler['handle'] {
  const limits = createRequestLimiter(options.clock, options.requestsPerMinute)
  return (response, request) => {
    // Load balancers send all health checks from one address.
    const isHealthCheck = request.getUrl() === helperRoutes.health.path
    const reply = isHealthCheck
      ? undefined
      : limitReply(limits, readClientAddress(response, request, options.trustedProxies))
    if (reply === undefined) return handler.handle(response, request)
    counter.count(undefined, reply.status)
    if (request.getCaseSensitiveMethod() === 'HEAD') sendWithoutBody(response, reply)
    else send(response, reply)
  }
}

function limitReply(limits: RequestLimiter, client: string): Reply | undefined {
  const seconds = limits.waitSeconds(client)
  if (seconds === undefined) return undefined
  const message = `too many requests from this address; wait ${seconds} s`
  return refusal(429, message, [['retry-after', String(seconds)]])
}

type AnswerArguments = Parameters<HttpHandler['handle']>

function readClientAddress(
  response: AnswerArguments[0],
  request: AnswerArguments[1],
  trustedProxies: number,
): string {
  const forwarded: string[] = []
  // Repeated headers form one list, and clients can forge its first entries.
  if (trustedProxies > 0)
    request.forEach((name, value) => {
      if (name === 'x-forwarded-for') forwarded.push(value)
    })
  return clientAddress(
    Buffer.from(response.getRemoteAddressAsText()).toString('latin1'),
    forwarded,
    trustedProxies,
  )
}

// ---- counting ------------------------------------------------------------------------------------------------------

const REPORT_MS = 60_000

/** Logs once a minute how many replies were sent, refusals included. A line per request could fill the disk. */
function startReporting(counter: RequestCounter, { clock, log }: HelperServerOptions): Cancel {
  let cancel: Cancel = () => {}
  const report = (): void => {
    const answered: Record<string, number> = {}
    const count = (_name: string, labels: Readonly<Record<string, string>> = {}, by = 1): void => {
      answered[`${labels.route} ${labels.status}`] = by
    }
    counter.report({ count, gauge: () => {}, observe: () => {} })
    if (Object.keys(answered).length > 0) log.info({ answered }, 'replies sent within the last minute')
    cancel = clock.after(REPORT_MS, report)
  }
  cancel = clock.after(REPORT_MS, report)
  return () => cancel()
}

// ---- stopping ------------------------------------------------------------------------------------------------------

const DRAIN_POLL_MS = 20

async function drain(handler: HttpHandler, clock: Clock): Promise<void> {
  handler.refuseNew()
  const until = clock.monotonic() + HELPER_DRAIN_MS_MAX
  // Wait at least once, so that the last reply leaves before its connection is closed.
  do await new Promise<void>((resolve) => clock.after(DRAIN_POLL_MS, resolve))
  while (handler.pendingCount() > 0 && clock.monotonic() < until)
}

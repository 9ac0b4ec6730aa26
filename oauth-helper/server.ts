/**
 * The helper's one listener: who may ask how often, and its end.
 *
 * It is open to anybody, so it keeps nothing and believes nothing: limits by address come before all else, then the
 * same fences as on every other listener of the house. Browsers come only to be sent on to the tracker; a page that
 * asks from a script says so with an Origin, and is refused. Any number of helpers can stand behind a balancer.
 */
import type { Cancel, Clock, Log } from '../core/ports.ts'
import { type Result, yes } from '../core/result.ts'
import { HELPER_BODY_BYTES_MAX, HELPER_DRAIN_MS_MAX } from '../protocol/limits.ts'
import { helperRoutes } from '../protocol/routes.ts'
import type { Http } from '../providers/http/http.ts'
import { type HttpDoor, httpDoor } from '../transport/http.ts'
import { type Address, listen, newApp } from '../transport/listener.ts'
import { type Reply, refusal, send, sendWithoutBody } from '../transport/reply.ts'
import type { Admission, Admit } from '../transport/request-checks.ts'
import { type Tally, tally } from '../transport/request-counter.ts'
import { router } from '../transport/router.ts'
import { clientAddress } from './addresses.ts'
import { createCodehostApi } from './codehost.ts'
import { createRequestLimiter, type RequestLimiter } from './limiter.ts'
import { createHelperRoutes } from './routes.ts'
import type { HelperSettings } from './settings.ts'
import { createTrackerOauthApi } from './tracker.ts'
import { createUpstream } from './upstream.ts'

export interface HelperServerOptions {
  readonly settings: HelperSettings
  readonly http: Http
  readonly clock: Clock
  readonly log: Log
  readonly address: Address
  /** Where people read about it. */
  readonly docsUrl: string
  /** Of one client address. */
  readonly requestsPerMinute: number
  /** Balancers in a row before it, whose word on the client's address counts. */
  readonly trustedProxies: number
}

export interface HelperServer {
  readonly port: number
  /** No new connections; replies that somebody waits for may finish for a while. */
  close(): Promise<void>
}

export function startHelperServer(ports: HelperServerOptions): Result<HelperServer> {
  const { settings, http, clock, log, address } = ports
  const app = newApp()
  if (!app.ok) return app
  const upstream = createUpstream(http, clock)
  const routes = createHelperRoutes({
    ...ports,
    tracker: createTrackerOauthApi(settings.tracker, upstream),
    codehost: createCodehostApi(settings.codehost, upstream),
  })
  const counter = tally()
  const listener = httpDoor({
    admit,
    route: router(routes),
    clock,
    log,
    tally: counter,
    bodyBytesMax: HELPER_BODY_BYTES_MAX,
  })
  app.value.any('/*', limitRequests(listener, counter, ports))
  const listening = listen(app.value, address)
  if (!listening.ok) return listening
  const stopReporting = startReporting(counter, ports)
  const finish = (): void => {
    stopReporting()
    app.value.close()
  }
  let closing: Promise<void> | undefined
  return yes({
    port: listening.value.port,
    close: () => {
      listening.value.stop()
      closing ??= drain(listener, clock).then(finish)
      return closing
    },
  })
}

// ---- fences --------------------------------------------------------------------------------------------------------

const ADMITTED: Admission = {}
const ORIGIN_REFUSED: Admission = {
  refused: refusal(403, 'pages may not ask here; this service is asked by a switchyard host'),
}
const UNKNOWN_PATH: Admission = {
  refused: refusal(404, 'there is nothing at this path; GET / lists what there is'),
}

const admit: Admit = (head, found) => {
  if (head.origins > 0) return ORIGIN_REFUSED
  return found === undefined ? UNKNOWN_PATH : ADMITTED
}

/** Before anything else is read of a request, so that what is refused here costs next to nothing. */
function limitRequests(listener: HttpDoor, counter: Tally, ports: HelperServerOptions): HttpDoor['answer'] {
  const limits = createRequestLimiter(ports.clock, ports.requestsPerMinute)
  return (response, request) => {
    // A balancer asks it from one address for everybody.
    const isHealthCheck = request.getUrl() === helperRoutes.health.path
    const reply = isHealthCheck
      ? undefined
      : limitReply(limits, readClientAddress(response, request, ports.trustedProxies))
    if (reply === undefined) return listener.answer(response, request)
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

type AnswerArguments = Parameters<HttpDoor['answer']>

function readClientAddress(
  response: AnswerArguments[0],
  request: AnswerArguments[1],
  trustedProxies: number,
): string {
  const forwarded: string[] = []
  // A doubled header is one list, and its first part is the one that a stranger can write.
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

/** Once a minute what was answered, refusals included: a line each would let a stranger fill the disk. */
function startReporting(counter: Tally, { clock, log }: HelperServerOptions): Cancel {
  let cancel: Cancel = () => {}
  const report = (): void => {
    const answered: Record<string, number> = {}
    const count = (_name: string, labels: Readonly<Record<string, string>> = {}, by = 1): void => {
      answered[`${labels.route} ${labels.status}`] = by
    }
    counter.report({ count, gauge: () => {}, observe: () => {} })
    if (Object.keys(answered).length > 0) log.info({ answered }, 'answered within the last minute')
    cancel = clock.after(REPORT_MS, report)
  }
  cancel = clock.after(REPORT_MS, report)
  return () => cancel()
}

// ---- stopping ------------------------------------------------------------------------------------------------------

const DRAIN_POLL_MS = 20

async function drain(listener: HttpDoor, clock: Clock): Promise<void> {
  listener.shut()
  const until = clock.monotonic() + HELPER_DRAIN_MS_MAX
  // One look at least, so that the last reply leaves before its connection is closed.
  do await new Promise<void>((resolve) => clock.after(DRAIN_POLL_MS, resolve))
  while (listener.waiting() > 0 && clock.monotonic() < until)
}

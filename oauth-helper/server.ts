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
import { clientOf } from './addresses.ts'
import { codehostDesk } from './codehost.ts'
import { type Limiter, limiter } from './limiter.ts'
import { helperRows } from './routes.ts'
import type { HelperSettings } from './settings.ts'
import { trackerDesk } from './tracker.ts'
import { makeUpstream } from './upstream.ts'

export interface HelperParts {
  readonly settings: HelperSettings
  readonly http: Http
  readonly clock: Clock
  readonly log: Log
  readonly address: Address
  /** Where people read about it. */
  readonly docs: string
  /** Of one client address. */
  readonly requestsPerMinute: number
  /** Balancers in a row before it, whose word on the client's address counts. */
  readonly proxies: number
}

export interface Helper {
  readonly port: number
  /** No new connections; replies that somebody waits for may finish for a while. */
  close(): Promise<void>
}

export function openHelper(parts: HelperParts): Result<Helper> {
  const { settings, http, clock, log, address } = parts
  const made = newApp()
  if (!made.ok) return made
  const upstream = makeUpstream(http, clock)
  const rows = helperRows({
    ...parts,
    tracker: trackerDesk(settings.tracker, upstream),
    codehost: codehostDesk(settings.codehost, upstream),
  })
  const counts = tally()
  const door = httpDoor({
    admit,
    route: router(rows),
    clock,
    log,
    tally: counts,
    bodyBytesMax: HELPER_BODY_BYTES_MAX,
  })
  made.value.any('/*', limited(door, counts, parts))
  const listening = listen(made.value, address)
  if (!listening.ok) return listening
  const quiet = reporting(counts, parts)
  const finish = (): void => {
    quiet()
    made.value.close()
  }
  let closing: Promise<void> | undefined
  return yes({
    port: listening.value.port,
    close: () => {
      listening.value.stop()
      closing ??= drained(door, clock).then(finish)
      return closing
    },
  })
}

// ---- fences --------------------------------------------------------------------------------------------------------

const WELCOME: Admission = {}
const ORIGIN_REFUSED: Admission = {
  refused: refusal(403, 'pages may not ask here; this service is asked by a switchyard host'),
}
const UNKNOWN: Admission = {
  refused: refusal(404, 'there is nothing at this path; GET / lists what there is'),
}

const admit: Admit = (head, found) => {
  if (head.origins > 0) return ORIGIN_REFUSED
  return found === undefined ? UNKNOWN : WELCOME
}

/** Before anything else is read of a request, so that what is refused here costs next to nothing. */
function limited(door: HttpDoor, counts: Tally, parts: HelperParts): HttpDoor['answer'] {
  const limits = limiter(parts.clock, parts.requestsPerMinute)
  return (response, request) => {
    // A balancer asks it from one address for everybody.
    const isFree = request.getUrl() === helperRoutes.health.path
    const reply = isFree ? undefined : tooOften(limits, clientAsking(response, request, parts.proxies))
    if (reply === undefined) return door.answer(response, request)
    counts.count(undefined, reply.status)
    if (request.getCaseSensitiveMethod() === 'HEAD') sendWithoutBody(response, reply)
    else send(response, reply)
  }
}

function tooOften(limits: Limiter, client: string): Reply | undefined {
  const seconds = limits.waitSeconds(client)
  if (seconds === undefined) return undefined
  const message = `too many requests from this address; wait ${seconds} s`
  return refusal(429, message, [['retry-after', String(seconds)]])
}

type Asked = Parameters<HttpDoor['answer']>

function clientAsking(response: Asked[0], request: Asked[1], proxies: number): string {
  const forwarded: string[] = []
  // A doubled header is one list, and its first part is the one that a stranger can write.
  if (proxies > 0)
    request.forEach((name, value) => {
      if (name === 'x-forwarded-for') forwarded.push(value)
    })
  return clientOf(Buffer.from(response.getRemoteAddressAsText()).toString('latin1'), forwarded, proxies)
}

// ---- counting ------------------------------------------------------------------------------------------------------

const REPORT_MS = 60_000

/** Once a minute what was answered, refusals included: a line each would let a stranger fill the disk. */
function reporting(counts: Tally, { clock, log }: HelperParts): Cancel {
  let cancel: Cancel = () => {}
  const report = (): void => {
    const answered: Record<string, number> = {}
    const count = (_name: string, labels: Readonly<Record<string, string>> = {}, by = 1): void => {
      answered[`${labels.route} ${labels.status}`] = by
    }
    counts.report({ count, gauge: () => {}, observe: () => {} })
    if (Object.keys(answered).length > 0) log.info({ answered }, 'answered within the last minute')
    cancel = clock.after(REPORT_MS, report)
  }
  cancel = clock.after(REPORT_MS, report)
  return () => cancel()
}

// ---- stopping ------------------------------------------------------------------------------------------------------

const LOOK_MS = 20

async function drained(door: HttpDoor, clock: Clock): Promise<void> {
  door.shut()
  const until = clock.monotonic() + HELPER_DRAIN_MS_MAX
  // One look at least, so that the last reply leaves before its connection is closed.
  do await new Promise<void>((resolve) => clock.after(LOOK_MS, resolve))
  while (door.waiting() > 0 && clock.monotonic() < until)
}

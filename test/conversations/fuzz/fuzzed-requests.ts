/**
 * FuzzedRequests sends requests that are drawn from the schemas of the routes, usually with one part spoiled, and checks
 * each answer.
 */
import { createChecker } from '../../../protocol/parse.ts'
import { ErrorBody, type Route, routes } from '../../../protocol/routes.ts'
import { damaged, type Harm, HOSTILE_TEXTS } from '../../support/damage.ts'
import { createRawClient, type RawClient, type RawReply, requestText } from '../../support/raw-client.ts'
import { type DrawnValue, SchemaValues } from '../../support/schema-values.ts'
import { TOKEN } from '../../support/test-resources.ts'
import type { FuzzedHost } from './fuzzed-host.ts'

const BROKEN_SHARE = 0.4
/** Lists of what exists are read again after so many requests. */
const LIST_EVERY = 20

interface Credentials {
  readonly workerId: string
  readonly credential: string
}

type Part = 'params' | 'query' | 'body'

interface Attempt {
  readonly name: string
  readonly route: Route
  readonly text: string
  readonly harm: Harm
}

export class FuzzedRequests {
  /** Answers that break a law. */
  readonly wrong: string[] = []
  readonly statuses = new Map<number, number>()
  readonly #host: FuzzedHost
  readonly #workers: () => readonly Credentials[]
  readonly #table: readonly (readonly [string, Route])[] = Object.entries<Route>(routes).filter(
    ([, route]) => route.socket !== true,
  )
  readonly #unanswered = new Set<Attempt>()
  #client: RawClient | undefined
  #known: Readonly<Record<string, readonly string[]>> = {}
  #sent = 0

  /** @param workers those that hold a credential of this host */
  constructor(host: FuzzedHost, workers: () => readonly Credentials[]) {
    this.#host = host
    this.#workers = workers
  }

  async send(): Promise<void> {
    if (this.#sent++ % LIST_EVERY === 0) this.#known = this.#whatExists()
    const attempt = this.#draw()
    const calls = this.#host.calls
    const reply = await this.#ask(attempt)
    const isHandled = this.#host.calls > calls || (reply !== undefined && isSuccess(reply.status))
    this.#host.shares.add('request', attempt.harm, isHandled)
    if (reply?.status === 409 && attempt.name === 'changeSettings') await this.#confirm(attempt, reply)
  }

  /** Everything is answered once enough time has passed. */
  unanswered(): string[] {
    return [...this.#unanswered].map(({ text }) => text)
  }

  close(): void {
    this.#client?.close()
    this.#client = undefined
  }

  // ---- asking ------------------------------------------------------------------------------------------------------

  async #ask(attempt: Attempt): Promise<RawReply | undefined> {
    this.#client ??= createRawClient(this.#host.port)
    this.#unanswered.add(attempt)
    const answered = this.#client.ask(attempt.text).then((reply) => {
      this.#unanswered.delete(attempt)
      this.#judge(attempt, reply)
      return reply
    })
    const reply = await this.#host.turnUntil(answered)
    // The next request does not wait for this one.
    if (reply === undefined) this.#client = undefined
    return reply
  }

  #judge({ name, route, text }: Attempt, { status, body }: RawReply): void {
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1)
    const isAllowed = status > 0 && (status < 500 || route.errorStatuses.includes(status))
    const fault = isAllowed ? faultOf(route, status, body) : 'the status'
    if (fault !== undefined) this.wrong.push(`${name} ${status} ${fault}: ${body.slice(0, 500)} to ${text}`)
  }

  /** A change that gives power over the machine passes once the request confirms it. */
  async #confirm(attempt: Attempt, reply: RawReply): Promise<void> {
    const { confirm } = JSON.parse(reply.body) as { confirm?: unknown }
    const head = attempt.text.slice(0, attempt.text.indexOf('\r\n\r\n') + 4)
    const body = attempt.text.slice(head.length)
    if (confirm === undefined || !body.startsWith('{"patch":') || this.#host.random.chance(0.5)) return
    const confirmed = `{"confirm":${latin1(JSON.stringify(confirm))},${body.slice(1)}`
    const text = head.replace(/Content-Length: \d+/, `Content-Length: ${confirmed.length}`) + confirmed
    await this.#ask({ ...attempt, text })
  }

  // ---- drawing -----------------------------------------------------------------------------------------------------

  #draw(): Attempt {
    const { random } = this.#host
    const [name, route] = random.pick(this.#table)
    const worker = route.access.startsWith('worker') ? this.#anyWorker() : undefined
    const values = new SchemaValues(random, (key) => this.#knownOf(route, key, worker))
    const parts = (['params', 'query', 'body'] as const).filter((part) => route[part] !== undefined)
    const harm = this.#host.drawHarm(BROKEN_SHARE)
    const spoiled = parts.length === 0 ? undefined : random.pick(parts)
    const harmOf = (part: Part): Harm => (part === spoiled ? harm : 'none')
    const path = this.#path(route, values, harmOf('params'))
    const query = this.#query(route, values, harmOf('query'), spoiled === undefined ? harm : 'none')
    const isBodySent = route.body !== undefined && (route.isBodyOptional !== true || random.chance(0.8))
    const body =
      route.body !== undefined && isBodySent ? damaged(random, values.draw(route.body), harmOf('body')) : ''
    const headers = ['Host: localhost', `Authorization: Bearer ${worker?.credential ?? TOKEN}`]
    if (body !== '') headers.push('Content-Type: application/json')
    const text = requestText(route.method, path + query, headers, latin1(body))
    return { name, route, text, harm: spoiled === undefined && harm === 'strained' ? 'none' : harm }
  }

  #path(route: Route, values: SchemaValues, harm: Harm): string {
    if (route.params === undefined) return route.path
    const texts = this.#texts(values.draw(route.params), harm)
    return route.path.replaceAll(
      /:(\w+)/g,
      (_, name: string) => texts.find(([key]) => key === name)?.[1] ?? '',
    )
  }

  #query(route: Route, values: SchemaValues, harm: Harm, harmOfNone: Harm): string {
    if (route.query === undefined) return harmOfNone === 'broken' ? `?${this.#host.random.pick(PAIRS)}` : ''
    const pairs = this.#texts(values.draw(route.query), harm).map(([key, text]) => `${key}=${text}`)
    if (harm === 'broken' && this.#host.random.chance(0.4)) pairs.push(this.#host.random.pick(PAIRS))
    return pairs.length === 0 ? '' : `?${pairs.join('&')}`
  }

  /** The texts of an object as a URL writes them: the key, and its encoded value. */
  #texts({ root, places }: DrawnValue, harm: Harm): (readonly [string, string])[] {
    const { random } = this.#host
    const texts = Object.entries(Object(root.value)).flatMap(([key, value]) =>
      [value].flat().map((text): readonly [string, string] => [key, encoded(String(text))]),
    )
    if (harm === 'none' || texts.length === 0) return texts
    const at = random.below(texts.length)
    const shape = places.find(({ key }) => key === texts[at]?.[0])?.shape
    const limits = [shape?.minimum, shape?.maximum].flatMap((limit) =>
      limit === undefined ? [] : [String(limit)],
    )
    const strains = shape?.type === 'string' ? HOSTILE_TEXTS.map(encoded) : limits
    const text =
      harm === 'broken' ? random.pick(BROKEN_TEXTS) : random.pick([...strains, texts[at]?.[1] ?? ''])
    return texts.map((pair, index) => (index === at ? [pair[0], text] : pair))
  }

  // ---- what exists -------------------------------------------------------------------------------------------------

  #anyWorker(): Credentials | undefined {
    const workers = this.#workers()
    return workers.length === 0 ? undefined : this.#host.random.pick(workers)
  }

  #whatExists(): Readonly<Record<string, readonly string[]>> {
    const { hostApi, tracker } = this.#host.conversation
    const runs = hostApi.runs({ limit: 30 })
    return {
      runs: runs.ok ? runs.value.runs.map(({ id }) => id) : [],
      tickets: [...tracker.tickets.keys()].slice(-30),
      workers: hostApi.fleet().workers.map(({ id }) => id),
      joinKeys: hostApi.joinKeys().joinKeys.map(({ id }) => id),
      attention: hostApi.attention().items.map(({ id }) => id),
      memories: Object.values(hostApi.memories()).flatMap(
        (kept) => JSON.stringify(kept).match(/mem-\w+/g) ?? [],
      ),
    }
  }

  #knownOf(route: Route, key: string, worker: Credentials | undefined): readonly unknown[] {
    const kind = KINDS_OF_IDS.find(([path]) => route.path.startsWith(path))?.[1]
    if (key === 'id') return this.#known[kind ?? ''] ?? []
    if (key === 'workerId') return worker === undefined ? (this.#known.workers ?? []) : [worker.workerId]
    if (key === 'repo') return [route.path.startsWith('/api/memories') ? 'owner/name' : 'main']
    if (key === 'number') return [1, 2, 3, 4]
    if (key === 'before' || key === 'ticket') return this.#known[key === 'ticket' ? 'tickets' : 'runs'] ?? []
    return route.path.endsWith('/:name') && key === 'name' ? ['log.txt', 'shot.png'] : []
  }
}

const KINDS_OF_IDS: readonly (readonly [string, string])[] = [
  ['/api/runs', 'runs'],
  ['/api/tickets', 'tickets'],
  ['/api/workers/join-keys', 'joinKeys'],
  ['/api/workers', 'workers'],
  ['/api/attention', 'attention'],
  ['/api/memories', 'memories'],
]

const PAIRS = [
  'x=1',
  '__proto__=1',
  'constructor=1',
  'limit=1&limit=2',
  '%',
  '=',
  'a=%ff',
  'tail=1&tail=',
  'toString',
]
const BROKEN_TEXTS = [
  '',
  '%zz',
  '%ff',
  '%ED%A0%80',
  '..',
  '.',
  '%2e%2e%2f',
  '-1',
  '1e3',
  '9007199254740993',
  '0x10',
  'NaN',
  'y'.repeat(1_025),
  'y'.repeat(12_000),
]

const isSuccess = (status: number): boolean => status >= 200 && status < 400
const latin1 = (text: string): string => Buffer.from(text).toString('latin1')
/** Text that is not well-formed has no encoding, so its broken characters are replaced. */
const encoded = (text: string): string => encodeURIComponent(Buffer.from(text).toString())

/** Returns how an answer differs from what the route promises. */
function faultOf(route: Route, status: number, body: string): string | undefined {
  const schema = isSuccess(status) ? route.response : body.startsWith('{') ? ErrorBody : 'html'
  if (typeof schema === 'string') return undefined
  const checked = createChecker(schema)(JSON.parse(body))
  return checked.ok ? undefined : checked.error
}

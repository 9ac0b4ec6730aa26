/**
 * Laws of the rate-limited client for every order of requests and replies.
 *
 * The model knows only the requests, what was sent, and the replies. Each request is judged at the moment of sending,
 * without reading the client's state.
 */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Urgency } from '../../../../core/ports/code-host.ts'
import { createClientBench, type SentTestRequest, serviceRequest, TEST_RULES } from './client-fixture.ts'

const RUNS = 300
const RESOURCES = ['core', 'search'] as const
const LIMIT = 100

type Step =
  | { readonly is: 'ask'; readonly urgency: Urgency; readonly resource: string; readonly writes: boolean }
  | {
      readonly is: 'reply'
      readonly which: number
      readonly how: ReplyKind
      readonly seconds: number
      readonly left: number
    }
  | { readonly is: 'pass'; readonly ms: number }
type ReplyKind = 'fine' | 'rejected' | 'exhausted' | 'lost'

const urgency = fc.constantFrom<Urgency>('person', 'background')
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      is: fc.constant('ask' as const),
      urgency,
      resource: fc.constantFrom(...RESOURCES),
      writes: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      is: fc.constant('reply' as const),
      which: fc.nat(10),
      how: fc.constantFrom<ReplyKind>('fine', 'fine', 'fine', 'fine', 'rejected', 'exhausted', 'lost'),
      seconds: fc.integer({ min: 0, max: 40 }),
      left: fc.nat(LIMIT),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      is: fc.constant('pass' as const),
      ms: fc.constantFrom(1, 500, 1_000, 20_000, 60_000),
    }),
  },
)

interface LawRequest {
  readonly path: string
  readonly urgency: Urgency
  readonly resource: string
  readonly writes: boolean
  outcome: string | undefined
}

/** The state of one rate limit window as far as replies reveal it. */
interface ExpectedWindow {
  isBlocked: boolean
  isRateLimited: boolean
  until: number
  probe: SentTestRequest | undefined
}

class ClientModel {
  readonly bench = createClientBench()
  readonly requests: LawRequest[] = []
  readonly violations: string[] = []
  #seen = 0
  #lastWrite = Number.NEGATIVE_INFINITY
  readonly #open: SentTestRequest[] = []
  readonly #windows = new Map<string, ExpectedWindow>()
  readonly #reports = new Map<string, { left: number; until: number; of: SentTestRequest }>()

  async send(urgency: Urgency, resource: string, writes: boolean): Promise<LawRequest> {
    const ask: LawRequest = {
      path: `/${resource}/${this.requests.length}`,
      urgency,
      resource,
      writes,
      outcome: undefined,
    }
    this.requests.push(ask)
    const wanted = serviceRequest(ask.path, urgency, { method: writes ? 'POST' : 'GET' })
    void this.bench.client.send(wanted).then((answer) => {
      ask.outcome = answer.ok ? String(answer.value.status) : answer.refusal.kind
    })
    await this.judgeSent()
    return ask
  }

  async reply(which: number, how: ReplyKind, seconds: number, left: number): Promise<void> {
    const sent = this.#open[which % Math.max(1, this.#open.length)]
    if (sent === undefined) return
    const ask = this.#requestOf(sent)
    // A person's lost read is retried after a pause that the model cannot see.
    const effective = how === 'lost' && ask.urgency === 'person' && !ask.writes ? 'fine' : how
    this.#open.splice(this.#open.indexOf(sent), 1)
    const now = this.bench.clock.monotonic()
    const reset = { limit: String(LIMIT), reset: String(this.bench.clock.now() + seconds * 1_000) }
    const until = now + Math.max(1_000, seconds * 1_000)
    if (effective !== 'lost') {
      const remaining = effective === 'exhausted' ? 0 : effective === 'rejected' ? Math.max(1, left) : left
      this.#applyReport(ask.resource, remaining, until, sent, effective === 'exhausted')
    }
    const rejecting = effective === 'rejected' ? '' : effective === 'exhausted' ? ask.resource : undefined
    this.#judgeReply(ask, sent, rejecting, effective === 'lost', now, until)
    const wait = { wait: String(seconds * 1_000) }
    if (effective === 'lost') await sent.fail()
    else if (effective === 'fine') await sent.reply(200, { left: String(left), ...reset })
    else if (effective === 'exhausted') await sent.reply(420, { left: '0', ...reset, ...wait })
    else await sent.reply(420, { left: String(Math.max(1, left)), ...reset, ...wait })
    await this.judgeSent()
  }

  async pass(ms: number): Promise<void> {
    await this.bench.clock.advance(ms)
    await this.judgeSent()
  }

  /** Serves all requests while hours pass. */
  async serveAll(): Promise<void> {
    for (let round = 0; round < 400 && this.requests.some(({ outcome }) => outcome === undefined); round++) {
      while (this.#open.length > 0) await this.reply(0, 'fine', 0, LIMIT)
      await this.pass(1_000)
    }
  }

  async judgeSent(): Promise<void> {
    await this.bench.clock.settle()
    for (const sent of this.bench.sent.slice(this.#seen)) this.#judge(sent)
    this.#seen = this.bench.sent.length
  }

  #requestOf({ path }: SentTestRequest): LawRequest {
    const found = this.requests.find((ask) => ask.path === path)
    if (found === undefined) throw new Error(`nobody asked for ${path}`)
    return found
  }

  #windowOf(name: string): ExpectedWindow {
    const gate = this.#windows.get(name) ?? {
      isBlocked: false,
      isRateLimited: false,
      until: 0,
      probe: undefined,
    }
    this.#windows.set(name, gate)
    return gate
  }

  #applyReport(resource: string, left: number, until: number, of: SentTestRequest, isRefused: boolean): void {
    const known = this.#reports.get(resource)
    if (known !== undefined && this.#order(known.of) > this.#order(of)) return
    this.#reports.set(resource, { left, until, of })
    const gate = this.#windowOf(resource)
    if (left <= 0 && isRefused) return
    if (left <= 0) {
      gate.until = Math.max(until, gate.isBlocked ? gate.until : until)
      gate.isRateLimited = gate.isBlocked && gate.isRateLimited
      gate.isBlocked = true
    } else if (gate.isBlocked && !gate.isRateLimited && gate.probe !== of) gate.isBlocked = false
  }

  #order(sent: SentTestRequest): number {
    return this.bench.sent.indexOf(sent)
  }

  #judgeReply(
    ask: LawRequest,
    sent: SentTestRequest,
    refuser: string | undefined,
    isLost: boolean,
    now: number,
    until: number,
  ): void {
    for (const name of ['', ask.resource]) {
      const gate = this.#windowOf(name)
      if (name === refuser) {
        // A stated pause takes precedence over the instant at which the budget is full again.
        gate.until = Math.max(until, gate.isBlocked && gate.isRateLimited ? gate.until : until)
        gate.isBlocked = true
        gate.isRateLimited = true
      } else if (gate.probe === sent && !isLost && refuser === undefined && gate.until <= now)
        gate.isBlocked = false
      if (gate.probe === sent) gate.probe = undefined
    }
  }

  #judge(sent: SentTestRequest): void {
    const ask = this.#requestOf(sent)
    this.#open.push(sent)
    if (this.#open.length > TEST_RULES.concurrencyMax) this.#wrong(sent, 'leaves although there is no room')
    for (const name of ['', ask.resource]) this.#judgeGate(sent, this.#windowOf(name))
    const word = this.#reports.get(ask.resource)
    if (word !== undefined && sent.at < word.until && !this.#windowOf(ask.resource).isBlocked) {
      const floor = ask.urgency === 'person' ? 0 : LIMIT * 0.2
      if (word.left <= floor) this.#wrong(sent, `leaves although ${word.left} are left`)
    }
    if (ask.urgency === 'background') {
      const person = this.requests.find((request) => this.#couldGo(request, sent))
      if (person !== undefined) this.#wrong(sent, `leaves although a person waits for ${person.path}`)
    }
    if (!ask.writes) return
    if (sent.at - this.#lastWrite < TEST_RULES.writeIntervalMs) this.#wrong(sent, 'writes without a pause')
    this.#lastWrite = sent.at
  }

  #judgeGate(sent: SentTestRequest, gate: ExpectedWindow): void {
    if (!gate.isBlocked) return
    if (sent.at < gate.until) this.#wrong(sent, 'leaves although it is shut')
    if (gate.probe !== undefined) this.#wrong(sent, 'leaves beside the probe')
    gate.probe = sent
  }

  #couldGo(ask: LawRequest, { at }: SentTestRequest): boolean {
    const isAway = this.#open.some(({ path }) => path === ask.path)
    if (ask.urgency !== 'person' || ask.outcome !== undefined || isAway) return false
    if (['', ask.resource].some((name) => this.#windowOf(name).isBlocked)) return false
    const word = this.#reports.get(ask.resource)
    // The last requests of a budget may be running already.
    if (word !== undefined && at < word.until && word.left <= TEST_RULES.concurrencyMax) return false
    return !ask.writes || at - this.#lastWrite >= TEST_RULES.writeIntervalMs
  }

  #wrong(sent: SentTestRequest, what: string): void {
    this.violations.push(`${sent.path} at ${sent.at} ms ${what}`)
  }
}

test('in every order: slots, pauses, reserves and blocks are kept, people go first, and every request is answered', async () => {
  let sent = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const judge = new ClientModel()
      for (const act of steps) {
        if (act.is === 'ask') await judge.send(act.urgency, act.resource, act.writes)
        else if (act.is === 'reply') await judge.reply(act.which, act.how, act.seconds, act.left)
        else await judge.pass(act.ms)
      }
      await judge.serveAll()
      expect(judge.violations).toEqual([])
      expect(judge.requests.filter(({ outcome }) => outcome === undefined)).toEqual([])
      // Background requests start once people's requests are done.
      await judge.pass(3_600_000)
      for (const resource of RESOURCES) await judge.send('background', resource, false)
      await judge.serveAll()
      expect(judge.requests.slice(-2).map(({ outcome }) => outcome)).toEqual(['200', '200'])
      expect(judge.violations).toEqual([])
      sent += judge.bench.sent.length
    }),
    { numRuns: RUNS },
  )
  expect(sent).toBeGreaterThan(RUNS * 2)
})

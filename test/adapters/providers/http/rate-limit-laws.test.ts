/**
 * What holds for a courier whatever is asked in whatever order, and whatever the service answers.
 *
 * The judge knows only what was asked, sent and replied. It never looks into a courier, and judges each request at the
 * moment when it leaves the house.
 */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Urgency } from '../../../../core/provider-ports.ts'
import { errand, manners, rig, type Sent } from './client-fixture.ts'

const RUNS = 300
const RESOURCES = ['core', 'search'] as const
const LIMIT = 100

type Step =
  | { readonly is: 'ask'; readonly urgency: Urgency; readonly resource: string; readonly writes: boolean }
  | {
      readonly is: 'reply'
      readonly which: number
      readonly how: How
      readonly seconds: number
      readonly left: number
    }
  | { readonly is: 'pass'; readonly ms: number }
type How = 'fine' | 'refused' | 'spent' | 'lost'

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
      how: fc.constantFrom<How>('fine', 'fine', 'fine', 'fine', 'refused', 'spent', 'lost'),
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

interface Ask {
  readonly path: string
  readonly urgency: Urgency
  readonly resource: string
  readonly writes: boolean
  outcome: string | undefined
}

/** What may be known of one gate from outside. */
interface Gate {
  isShut: boolean
  wasTold: boolean
  until: number
  probe: Sent | undefined
}

class Judge {
  readonly house = rig()
  readonly asks: Ask[] = []
  readonly wrongs: string[] = []
  #seen = 0
  #lastWrite = Number.NEGATIVE_INFINITY
  readonly #open: Sent[] = []
  readonly #gates = new Map<string, Gate>()
  readonly #words = new Map<string, { left: number; until: number; of: Sent }>()

  async ask(urgency: Urgency, resource: string, writes: boolean): Promise<Ask> {
    const ask: Ask = {
      path: `/${resource}/${this.asks.length}`,
      urgency,
      resource,
      writes,
      outcome: undefined,
    }
    this.asks.push(ask)
    const wish = errand(ask.path, urgency, { method: writes ? 'POST' : 'GET' })
    void this.house.courier.send(wish).then((answer) => {
      ask.outcome = answer.ok ? String(answer.value.status) : answer.refusal.kind
    })
    await this.look()
    return ask
  }

  async reply(which: number, how: How, seconds: number, left: number): Promise<void> {
    const sent = this.#open[which % Math.max(1, this.#open.length)]
    if (sent === undefined) return
    const ask = this.#askOf(sent)
    // A question of a person that is lost pauses by itself, which cannot be seen from outside.
    const how2 = how === 'lost' && ask.urgency === 'person' && !ask.writes ? 'fine' : how
    this.#open.splice(this.#open.indexOf(sent), 1)
    const now = this.house.clock.monotonic()
    const reset = { limit: String(LIMIT), reset: String(this.house.clock.now() + seconds * 1_000) }
    const until = now + Math.max(1_000, seconds * 1_000)
    if (how2 !== 'lost') {
      const said = how2 === 'spent' ? 0 : how2 === 'refused' ? Math.max(1, left) : left
      this.#hear(ask.resource, said, until, sent, how2 === 'spent')
    }
    const refuser = how2 === 'refused' ? '' : how2 === 'spent' ? ask.resource : undefined
    this.#judgeReply(ask, sent, refuser, how2 === 'lost', now, until)
    const wait = { wait: String(seconds * 1_000) }
    if (how2 === 'lost') await sent.lose()
    else if (how2 === 'fine') await sent.reply(200, { left: String(left), ...reset })
    else if (how2 === 'spent') await sent.reply(420, { left: '0', ...reset, ...wait })
    else await sent.reply(420, { left: String(Math.max(1, left)), ...reset, ...wait })
    await this.look()
  }

  async pass(ms: number): Promise<void> {
    await this.house.clock.advance(ms)
    await this.look()
  }

  /** Everything is served, and hours go by. */
  async calm(): Promise<void> {
    for (let round = 0; round < 400 && this.asks.some(({ outcome }) => outcome === undefined); round++) {
      while (this.#open.length > 0) await this.reply(0, 'fine', 0, LIMIT)
      await this.pass(1_000)
    }
  }

  async look(): Promise<void> {
    await this.house.clock.turn()
    for (const sent of this.house.sent.slice(this.#seen)) this.#judge(sent)
    this.#seen = this.house.sent.length
  }

  #askOf({ path }: Sent): Ask {
    const found = this.asks.find((ask) => ask.path === path)
    if (found === undefined) throw new Error(`nobody asked for ${path}`)
    return found
  }

  #gate(name: string): Gate {
    const gate = this.#gates.get(name) ?? { isShut: false, wasTold: false, until: 0, probe: undefined }
    this.#gates.set(name, gate)
    return gate
  }

  #hear(resource: string, left: number, until: number, of: Sent, isRefused: boolean): void {
    const known = this.#words.get(resource)
    if (known !== undefined && this.#order(known.of) > this.#order(of)) return
    this.#words.set(resource, { left, until, of })
    const gate = this.#gate(resource)
    if (left <= 0 && isRefused) return
    if (left <= 0) {
      gate.until = Math.max(until, gate.isShut ? gate.until : until)
      gate.wasTold = gate.isShut && gate.wasTold
      gate.isShut = true
    } else if (gate.isShut && !gate.wasTold && gate.probe !== of) gate.isShut = false
  }

  #order(sent: Sent): number {
    return this.house.sent.indexOf(sent)
  }

  #judgeReply(
    ask: Ask,
    sent: Sent,
    refuser: string | undefined,
    isLost: boolean,
    now: number,
    until: number,
  ): void {
    for (const name of ['', ask.resource]) {
      const gate = this.#gate(name)
      if (name === refuser) {
        // For how long it wants to be left alone goes before when its budget is full again.
        gate.until = Math.max(until, gate.isShut && gate.wasTold ? gate.until : until)
        gate.isShut = true
        gate.wasTold = true
      } else if (gate.probe === sent && !isLost && refuser === undefined && gate.until <= now)
        gate.isShut = false
      if (gate.probe === sent) gate.probe = undefined
    }
  }

  #judge(sent: Sent): void {
    const ask = this.#askOf(sent)
    this.#open.push(sent)
    if (this.#open.length > manners.concurrencyMax) this.#wrong(sent, 'leaves although there is no room')
    for (const name of ['', ask.resource]) this.#judgeGate(sent, this.#gate(name))
    const word = this.#words.get(ask.resource)
    if (word !== undefined && sent.at < word.until && !this.#gate(ask.resource).isShut) {
      const floor = ask.urgency === 'person' ? 0 : LIMIT * 0.2
      if (word.left <= floor) this.#wrong(sent, `leaves although ${word.left} are left`)
    }
    if (ask.urgency === 'background') {
      const person = this.asks.find((other) => this.#couldGo(other, sent))
      if (person !== undefined) this.#wrong(sent, `leaves although a person waits for ${person.path}`)
    }
    if (!ask.writes) return
    if (sent.at - this.#lastWrite < manners.writeIntervalMs) this.#wrong(sent, 'writes without a pause')
    this.#lastWrite = sent.at
  }

  #judgeGate(sent: Sent, gate: Gate): void {
    if (!gate.isShut) return
    if (sent.at < gate.until) this.#wrong(sent, 'leaves although it is shut')
    if (gate.probe !== undefined) this.#wrong(sent, 'leaves beside the probe')
    gate.probe = sent
  }

  #couldGo(ask: Ask, { at }: Sent): boolean {
    const isAway = this.#open.some(({ path }) => path === ask.path)
    if (ask.urgency !== 'person' || ask.outcome !== undefined || isAway) return false
    if (['', ask.resource].some((name) => this.#gate(name).isShut)) return false
    const word = this.#words.get(ask.resource)
    // The last ones of a budget may be under way already.
    if (word !== undefined && at < word.until && word.left <= manners.concurrencyMax) return false
    return !ask.writes || at - this.#lastWrite >= manners.writeIntervalMs
  }

  #wrong(sent: Sent, what: string): void {
    this.wrongs.push(`${sent.path} at ${sent.at} ms ${what}`)
  }
}

test('in whatever order: room, pauses, reserves and closures are kept, people go first, and nobody is forgotten', async () => {
  let sent = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const judge = new Judge()
      for (const one of steps) {
        if (one.is === 'ask') await judge.ask(one.urgency, one.resource, one.writes)
        else if (one.is === 'reply') await judge.reply(one.which, one.how, one.seconds, one.left)
        else await judge.pass(one.ms)
      }
      await judge.calm()
      expect(judge.wrongs).toEqual([])
      expect(judge.asks.filter(({ outcome }) => outcome === undefined)).toEqual([])
      // What nobody waits for has its turn when people have had theirs.
      await judge.pass(3_600_000)
      for (const resource of RESOURCES) await judge.ask('background', resource, false)
      await judge.calm()
      expect(judge.asks.slice(-2).map(({ outcome }) => outcome)).toEqual(['200', '200'])
      expect(judge.wrongs).toEqual([])
      sent += judge.house.sent.length
    }),
    { numRuns: RUNS },
  )
  expect(sent).toBeGreaterThan(RUNS * 2)
})

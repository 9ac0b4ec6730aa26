/**
 * What a durable change costs: one small record on disk before the caller is answered.
 *
 * Three ways in turn, on the same disk: lmdb-js by hand, the store's ledger, and a life behind the actor host whose
 * transition is committed before its effect answers. Every caller waits for its answer before it asks again, so the
 * number of callers is the size of a batch. A virtual disk is ten times slower for seconds at a time, so a round is
 * cut into slices that are short beside that, and the three take turns at every slice.
 */
import { ActorHost } from '../../actors/kit/host.ts'
import { realChance, realClock } from '../../bin/clock.ts'
import type { LifeRecord, Store } from '../../core/ports.ts'
import { openStore } from '../../store/store.ts'
import { type Effort, type Entry, inTurn } from '../entry.ts'
import { compared, type Figure, roundsOf } from '../figures.ts'
import { mute, noMeters } from '../mute.ts'
import { COUNTER, type CounterEffect, counterContext, counterKind } from '../raw/counter.ts'
import { type GroupCommit, groupCommit } from '../raw/group-commit.ts'
import { amount } from '../table.ts'

const CALLERS = [1, 64, 1024] as const
const SLICES = 8
const TARGET = { of: 'ratio', is: 'at least', bound: 0.6 } as const
/** What the store makes of the record below. */
const RECORD_BYTES = 79

export const durable: Entry = {
  name: 'durable',
  about: 'durable writes and transitions a second / lmdb-js group commit',
  async measure(effort, workshop) {
    const [ourFolder, rawFolder] = [workshop.folder('store'), workshop.folder('lmdb')]
    const parts = { clock: realClock, chance: realChance, log: mute, meters: noMeters }
    const store = await openStore({ ...parts, dataDir: ourFolder })
    const raw = groupCommit(rawFolder)
    const lives = new Lives(store)
    const figures: Figure[] = []
    for (const callers of CALLERS) figures.push(...(await measure(callers, effort, { store, raw, lives })))
    lives.stop()
    await Promise.all([store.close(), raw.close()])
    for (const folder of [ourFolder, rawFolder]) workshop.removeFolder(folder)
    return figures
  },
}

interface Contestants {
  readonly store: Store
  readonly raw: GroupCommit
  readonly lives: Lives
}

async function measure(
  callers: number,
  effort: Effort,
  { store, raw, lives }: Contestants,
): Promise<Figure[]> {
  const keys = Array.from({ length: callers }, (_, at) => `life-${String(at).padStart(6, '0')}`)
  const value = new Uint8Array(RECORD_BYTES).fill(120)
  const write = (key: string) => {
    const record: LifeRecord = { v: 1, s: 'e', c: counterContext(key) }
    return [{ table: 'life', kind: COUNTER, key, record }] as const
  }
  const writes = keys.map(write)
  const costs = { raw: new Cost(), ledger: new Cost(), lives: new Cost() }
  const contestant = (who: keyof typeof costs, ask: (caller: number) => Promise<unknown>) => () =>
    costs[who].of(() => closedLoop(callers, effort.roundMs / SLICES, ask))
  const slices = await inTurn(effort.rounds * SLICES, {
    raw: contestant('raw', (at) => raw.put(keys[at] ?? '', value)),
    ledger: contestant('ledger', (at) => store.ledger.commit(writes[at] ?? [])),
    lives: contestant('lives', (at) => lives.step(keys[at] ?? '')),
  })
  const figure = (name: string, who: 'ledger' | 'lives'): Figure => {
    const pairs = slices.map((slice) => ({ ours: slice[who], raw: slice.raw }))
    const notes = [`processor time each: ours ${costs[who].text}, raw ${costs.raw.text}`]
    return compared(
      { name: `${name}, ${callers}`, unit: 'a second', target: TARGET, notes },
      roundsOf(pairs, SLICES),
    )
  }
  return [figure('ledger commit', 'ledger'), figure('life transition', 'lives')]
}

interface Loop {
  readonly answers: number
  readonly perSecond: number
}

/** So many callers, each asking again once it was answered. */
async function closedLoop(
  callers: number,
  ms: number,
  ask: (caller: number) => Promise<unknown>,
): Promise<Loop> {
  const from = performance.now()
  const until = from + ms
  let answers = 0
  const caller = async (at: number): Promise<void> => {
    while (performance.now() < until) {
      await ask(at)
      answers++
    }
  }
  await Promise.all(Array.from({ length: callers }, (_, at) => caller(at)))
  return { answers, perSecond: answers / ((performance.now() - from) / 1000) }
}

/** Processor time of this process, the database's own thread included: what the disk does has no part in it. */
class Cost {
  #micros = 0
  #answers = 0

  async of(loop: () => Promise<Loop>): Promise<number> {
    const before = process.cpuUsage()
    const { answers, perSecond } = await loop()
    const { user, system } = process.cpuUsage(before)
    this.#micros += user + system
    this.#answers += answers
    return perSecond
  }

  get text(): string {
    return `${amount(this.#micros / this.#answers)} µs`
  }
}

/** Lives behind a host, and whoever waits for one of them to have stepped durably. */
class Lives {
  readonly #host: ActorHost
  readonly #waiting = new Map<string, () => void>()

  constructor(store: Store) {
    this.#host = new ActorHost({
      clock: realClock,
      ledger: store.ledger,
      log: mute,
      meters: noMeters,
      kinds: [counterKind],
      // The only kind there is has only this effect.
      effects: (effect) => this.#waiting.get((effect as CounterEffect).name)?.(),
      fatal: (reason) => {
        throw new Error(reason)
      },
    })
  }

  step(name: string): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.set(name, resolve)
      if (this.#host.tell(COUNTER, name, { type: 'step' })) return
      this.#host.bear(COUNTER, name, { name })
      this.#host.tell(COUNTER, name, { type: 'step' })
    })
  }

  stop(): void {
    this.#host.stop()
  }
}

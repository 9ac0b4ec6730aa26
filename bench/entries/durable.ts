/**
 * What a durable change costs: one small record on disk before the caller is answered.
 *
 * Three ways in turn, on the same disk: lmdb-js by hand, the store's ledger, and a life behind the actor host whose
 * transition is committed before its effect answers. Every caller waits for its answer before it asks again, so the
 * number of callers is the size of a batch.
 */
import { ActorHost } from '../../actors/kit/host.ts'
import { realChance, realClock } from '../../bin/clock.ts'
import type { LifeRecord, Store } from '../../core/ports.ts'
import { openStore } from '../../store/store.ts'
import { type Effort, type Entry, inTurn } from '../entry.ts'
import { compared, type Figure } from '../figures.ts'
import { mute, noMeters } from '../mute.ts'
import { COUNTER, type CounterEffect, counterContext, counterKind } from '../raw/counter.ts'
import { type GroupCommit, groupCommit } from '../raw/group-commit.ts'

const CALLERS = [1, 64, 1024] as const
const TARGET = { of: 'ratio', is: 'at least', bound: 0.6 } as const
/** What the record below is once it is encoded: measured by the store's own codec, a number by number, a text by text. */
const RECORD_BYTES = 88

export const durable: Entry = {
  name: 'durable',
  about: 'durable writes and transitions a second / lmdb-js group commit',
  async measure(effort, workshop) {
    const [ourFolder, rawFolder] = [workshop.folder('store'), workshop.folder('lmdb')]
    const store = await openStore({
      dataDir: ourFolder,
      clock: realClock,
      chance: realChance,
      log: mute,
      meters: noMeters,
    })
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
  const keys = Array.from({ length: callers }, (_, at) => keyOf(at))
  const value = new Uint8Array(RECORD_BYTES).fill(120)
  const records = keys.map((name): LifeRecord => ({ v: 1, s: 'e', c: counterContext(name) }))
  const rounds = await inTurn(effort.rounds, {
    raw: () => closedLoop(callers, effort.roundMs, (at) => raw.put(keys[at] ?? '', value)),
    ledger: () =>
      closedLoop(callers, effort.roundMs, (at) =>
        store.ledger.commit([
          { table: 'life', kind: COUNTER, key: keys[at] ?? '', record: records[at] ?? null },
        ]),
      ),
    lives: () => closedLoop(callers, effort.roundMs, (at) => lives.step(keys[at] ?? '')),
  })
  const pairs = (who: 'ledger' | 'lives') => rounds.map((round) => ({ ours: round[who], raw: round.raw }))
  const label = { unit: 'a second', target: TARGET }
  return [
    compared({ ...label, name: `ledger commit, ${callers}` }, pairs('ledger')),
    compared({ ...label, name: `life transition, ${callers}` }, pairs('lives')),
  ]
}

const keyOf = (at: number): string => `life-${String(at).padStart(6, '0')}`

/** So many callers, each asking again once it was answered. Answers how many answers came in a second. */
async function closedLoop(
  callers: number,
  ms: number,
  ask: (caller: number) => Promise<unknown>,
): Promise<number> {
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
  return answers / ((performance.now() - from) / 1000)
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

import { mkdtempSync, rmSync } from 'node:fs'
import { ActorHost } from '../actors/kit/host.ts'
import { realChance, realClock } from '../bin/clock.ts'
import { openStore } from '../store/store.ts'
import { mute, noMeters } from './mute.ts'
import { COUNTER, counterContext, counterKind } from './raw/counter.ts'
import { groupCommit } from './raw/group-commit.ts'

const folder = mkdtempSync('/work/main/node_modules/.cache/switchyard/p-lives-')
const store = await openStore({
  dataDir: folder,
  clock: realClock,
  chance: realChance,
  log: mute,
  meters: noMeters,
})
const n = Number(process.argv[2])
const who = process.argv[3]
const waiting = new Map<string, () => void>()
const host = new ActorHost({
  clock: realClock,
  ledger:
    who === 'nodisk'
      ? { commit: () => new Promise<void>((r) => setImmediate(r)), lives: store.ledger.lives }
      : store.ledger,
  log: mute,
  meters: noMeters,
  kinds: [counterKind],
  effects: (e) => waiting.get((e as unknown as { name: string }).name)?.(),
  fatal: (r) => {
    throw new Error(r)
  },
})
const keys = Array.from({ length: n }, (_, at) => `life-${String(at).padStart(6, '0')}`)
for (const k of keys) host.bear(COUNTER, k, { name: k })
await host.settled()
const raw = groupCommit(mkdtempSync(folder + '/raw-'))
const value = new Uint8Array(88).fill(120)
const records = keys.map((k) => ({ v: 1, s: 'e', c: counterContext(k) }))
const ask =
  who === 'raw'
    ? (at: number) => raw.put(keys[at]!, value)
    : who === 'ledger'
      ? (at: number) =>
          store.ledger.commit([{ table: 'life', kind: COUNTER, key: keys[at]!, record: records[at]! }])
      : (at: number) =>
          new Promise<void>((r) => {
            waiting.set(keys[at]!, r)
            host.tell(COUNTER, keys[at]!, { type: 'step' })
          })
let answers = 0,
  nb = 0
const from = performance.now(),
  until = from + Number(process.argv[4] ?? 4000)
const c0 = process.cpuUsage()
await Promise.all(
  keys.map(async (_, at) => {
    while (performance.now() < until) {
      if (at === 0) nb++
      await ask(at)
      answers++
    }
  }),
)
const s = (performance.now() - from) / 1000
const c1 = process.cpuUsage(c0)
console.log(
  who,
  n,
  Math.round(answers / s),
  '/s',
  ((s * 1000) / nb).toFixed(2),
  'ms/batch',
  ((c1.user + c1.system) / answers).toFixed(2),
  'cpu µs each',
)
host.stop()
await store.close()
await raw.close()
rmSync(folder, { recursive: true })

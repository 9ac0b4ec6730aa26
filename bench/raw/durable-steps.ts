/**
 * Who takes part in the durable measurement: each steps a life, and answers when that step is on disk.
 *
 * All but the one with ready bytes do the same work: the record really changes, is encoded anew, and is read back
 * from a freshly opened database at the end, where it must say as many steps as were answered.
 */
import { ActorSystem } from '../../actors/runtime/actor-system.ts'
import { realClock, realRandom } from '../../bin/clock.ts'
import type { ActorSnapshot, Store, Write } from '../../core/ports.ts'
import { openStore } from '../../store/store.ts'
import { mute, noMeters } from '../silent-log.ts'
import {
  COUNTER,
  type CounterContext,
  type CounterEffect,
  type CounterEvent,
  type CounterRecord,
  counterKind,
  recordOf,
  stepByHand,
} from './counter.ts'
import { groupCommit } from './group-commit.ts'

export interface Stepper {
  /** Resolves when the step is on disk. A caller waits for one step at a time. */
  step(life: number, caller: number): Promise<unknown>
  /** Closes, opens anew, and reads the steps of each life from disk; undefined when they are not counted. */
  finish(): Promise<readonly number[] | undefined>
}

export type MakeStepper = (folder: string, contexts: readonly CounterContext[]) => Promise<Stepper>

/** Bytes made once and never changed: what the disk and lmdb's thread take, without the work of whoever writes. */
export const readyBytes =
  (length: number): MakeStepper =>
  async (folder, contexts) => {
    const table = groupCommit.ofBytes(folder)
    const value = new Uint8Array(length).fill(120)
    const keys = contexts.map(({ name }) => name)
    await Promise.all(keys.map((key) => table.put(key, value)))
    return {
      step: (life) => table.put(keys[life] ?? '', value),
      finish: async () => {
        await table.close()
        return undefined
      },
    }
  }

export const byHand: MakeStepper = async (folder, contexts) => {
  const table = groupCommit.ofRecords<CounterRecord>(folder)
  const records = contexts.map(recordOf)
  await Promise.all(records.map((record) => table.put(record.c.name, record)))
  return {
    step: (life) => {
      const record = stepByHand(records[life] as CounterRecord)
      return table.put(record.c.name, record)
    },
    finish: async () => {
      await table.close()
      const again = groupCommit.ofRecords<CounterRecord>(folder)
      const counts = records.map(({ c }) => again.get(c.name)?.c.n ?? -1)
      await again.close()
      return counts
    },
  }
}

/** How long the record of one life is on disk, by lmdb's own encoder. */
export async function bytesOf(folder: string, context: CounterContext): Promise<number> {
  const table = groupCommit.ofRecords<CounterRecord>(folder)
  // The first record of a shape is written before the shape is shared.
  for (let time = 0; time < 2; time++) await table.put(context.name, recordOf(context))
  const bytes = table.bytesOf(context.name)
  await table.close()
  return bytes
}

export const byLedger: MakeStepper = async (folder, contexts) => {
  const store = await open(folder)
  const records = contexts.map(recordOf)
  const write = (record: CounterRecord): Write => ({
    table: 'snapshot',
    kind: COUNTER,
    key: record.c.name,
    record: record as ActorSnapshot,
  })
  await store.database.commit(records.map(write))
  return {
    step: (life) => store.database.commit([write(stepByHand(records[life] as CounterRecord))]),
    finish: () => closedAndCounted(store, folder, contexts),
  }
}

export const byHost: MakeStepper = async (folder, contexts) => {
  const store = await open(folder)
  const waiting: (() => void)[] = []
  const system = new ActorSystem({
    clock: realClock,
    database: store.database,
    log: mute,
    meters: noMeters,
    kinds: [counterKind],
    // The only kind there is has only this effect.
    runEffect: (effect) => waiting[(effect as CounterEffect).caller]?.(),
    onFatal: (reason) => {
      throw new Error(reason)
    },
  })
  for (const context of contexts) system.spawn(COUNTER, context.name, context)
  await system.settled()
  const keys = contexts.map(({ name }) => name)
  return {
    step: (life, caller) =>
      new Promise((resolve, reject) => {
        waiting[caller] = resolve as () => void
        const event: CounterEvent = { type: 'step', caller }
        if (!system.send(COUNTER, keys[life] ?? '', event)) reject(new Error(`there is no life ${life}`))
      }),
    finish: () => {
      system.stop()
      return closedAndCounted(store, folder, contexts)
    },
  }
}

function open(dataDir: string): Promise<Store> {
  return openStore({ dataDir, clock: realClock, random: realRandom, log: mute, meters: noMeters })
}

async function closedAndCounted(
  store: Store,
  folder: string,
  contexts: readonly CounterContext[],
): Promise<number[]> {
  await store.close()
  const again = await open(folder)
  const counts = contexts.map(({ name }) => {
    const fields = again.database.snapshots.get(COUNTER, name)?.c as CounterContext | undefined
    return fields?.n ?? -1
  })
  await again.close()
  return counts
}

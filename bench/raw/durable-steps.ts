/**
 * The contestants of the durable benchmark: each steps an actor and answers when the step is on disk.
 *
 * All except the one with ready bytes do the same work: they change the record and encode it again. At the end they
 * read it from a newly opened database, where it must show the number of answered steps.
 */
import { ActorSystem } from '../../actors/runtime/actor-system.ts'
import { realClock, realRandom } from '../../bin/process/clock.ts'
import type { ActorSnapshot, Store, Write } from '../../core/ports/store.ts'
import { openStore } from '../../store/store.ts'
import { noMeters, silentLog } from '../silent-log.ts'
import {
  COUNTER,
  type CounterContext,
  type CounterEffect,
  type CounterEvent,
  type CounterRecord,
  counterKind,
  createRecord,
  stepRecord,
} from './counter.ts'
import { groupCommit } from './group-commit.ts'

export interface Stepper {
  /** Resolves when the step is on disk. A caller waits for one step at a time. */
  step(actor: number, caller: number): Promise<unknown>
  /**
   * Closes the database, opens it again, and reads the steps of each actor from disk; undefined when they are not
   * counted.
   */
  finish(): Promise<readonly number[] | undefined>
}

export type MakeStepper = (folder: string, contexts: readonly CounterContext[]) => Promise<Stepper>

/** Writes bytes that never change: the cost of disk and lmdb's thread without encoding. */
export const readyBytesStepper =
  (length: number): MakeStepper =>
  async (folder, contexts) => {
    const table = groupCommit.ofBytes(folder)
    const value = new Uint8Array(length).fill(120)
    const keys = contexts.map(({ name }) => name)
    await Promise.all(keys.map((key) => table.put(key, value)))
    return {
      step: (actor) => table.put(keys[actor] ?? '', value),
      finish: async () => {
        await table.close()
        return undefined
      },
    }
  }

export const lmdbStepper: MakeStepper = async (folder, contexts) => {
  const table = groupCommit.ofRecords<CounterRecord>(folder)
  const records = contexts.map(createRecord)
  await Promise.all(records.map((record) => table.put(record.c.name, record)))
  return {
    step: (actor) => {
      const record = stepRecord(records[actor] as CounterRecord)
      return table.put(record.c.name, record)
    },
    finish: async () => {
      await table.close()
      const reopened = groupCommit.ofRecords<CounterRecord>(folder)
      const counts = records.map(({ c }) => reopened.get(c.name)?.c.n ?? -1)
      await reopened.close()
      return counts
    },
  }
}

/** The length of an actor's record on disk, in lmdb's own encoding. */
export async function encodedBytes(folder: string, context: CounterContext): Promise<number> {
  const table = groupCommit.ofRecords<CounterRecord>(folder)
  // The first record of a shape is written before the shape is shared.
  for (let time = 0; time < 2; time++) await table.put(context.name, createRecord(context))
  const bytes = table.bytesOf(context.name)
  await table.close()
  return bytes
}

export const databaseStepper: MakeStepper = async (folder, contexts) => {
  const store = await openDatabase(folder)
  const records = contexts.map(createRecord)
  const write = (record: CounterRecord): Write => ({
    table: 'snapshot',
    kind: COUNTER,
    key: record.c.name,
    record: record as ActorSnapshot,
  })
  await store.database.commit(records.map(write))
  return {
    step: (actor) => store.database.commit([write(stepRecord(records[actor] as CounterRecord))]),
    finish: () => closeAndCountSteps(store, folder, contexts),
  }
}

export const actorSystemStepper: MakeStepper = async (folder, contexts) => {
  const store = await openDatabase(folder)
  const callers: (() => void)[] = []
  const system = new ActorSystem({
    clock: realClock,
    database: store.database,
    log: silentLog,
    meters: noMeters,
    kinds: [counterKind],
    // The only actor kind has only this effect.
    modules: () => ({ runEffect: (effect) => callers[(effect as CounterEffect).caller]?.() }),
    onFatal: (reason) => {
      throw new Error(reason)
    },
  })
  for (const context of contexts) system.spawn(COUNTER, context.name, context)
  await system.settled()
  const keys = contexts.map(({ name }) => name)
  return {
    step: (actor, caller) =>
      new Promise((resolve, reject) => {
        callers[caller] = resolve as () => void
        const event: CounterEvent = { type: 'step', caller }
        if (!system.send(COUNTER, keys[actor] ?? '', event)) reject(new Error(`there is no actor ${actor}`))
      }),
    finish: () => {
      system.stop()
      return closeAndCountSteps(store, folder, contexts)
    },
  }
}

function openDatabase(dataDir: string): Promise<Store> {
  return openStore({ dataDir, clock: realClock, random: realRandom, log: silentLog, meters: noMeters })
}

async function closeAndCountSteps(
  store: Store,
  folder: string,
  contexts: readonly CounterContext[],
): Promise<number[]> {
  await store.close()
  const reopened = await openDatabase(folder)
  const counts = contexts.map(({ name }) => {
    const fields = reopened.database.snapshots.get(COUNTER, name)?.c as CounterContext | undefined
    return fields?.n ?? -1
  })
  await reopened.close()
  return counts
}

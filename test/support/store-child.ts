/**
 * A process that writes to a store and prints what was acknowledged, for tests that make its disk fail or kill it.
 *
 * faults <folder> <write|grow|sync> <errno> <lasting|once> <from> <to>: for each n a database with the n-th failure
 * flood <folder> <first>: commits until killed, counting up from `first`
 * events <data directory> <number>: commits events until killed; some runs continue in later processes
 * frames <data directory> <number>: commits frames of a worker until killed, and deletes acknowledged ones
 * lock <folder> <rounds> <start> <ms>: locks <folder>/<round> at the same instants as other processes, one every <ms>
 * own <data directory> [word]: opens a store, commits and reads once, prints the error that prevents it
 * own-as <data directory> <user>: the same as a user other than root
 * child <folder>: locks the folder, and starts a process that outlives this one; prints its id
 * earlier <data directory>: opens a store with a lock file of the version that knew one process namespace
 */
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { realClock as clock, realRandom as random } from '../../bin/process/clock.ts'
import type { StoreState } from '../../core/ports/store.ts'
import { codeOf } from '../../protocol/message-of.ts'
import { lockDataDir } from '../../store/data-folder.ts'
import { LmdbControlDatabase } from '../../store/lmdb/control-database.ts'
import { acquireLock } from '../../store/lock.ts'
import { openStore } from '../../store/store.ts'
import { openWorkerStore } from '../../store/worker-store.ts'
import { logEvent, putEvents, putSnapshot, runId } from '../adapters/store/samples.ts'
import { createRecordingLog, noMeters as meters } from './recording-log.ts'

const log = createRecordingLog()

/** Written synchronously, so a line that was printed before a kill is visible. */
const print = (line: string) => writeSync(1, `${line}\n`)
process.on('unhandledRejection', (error) => print(`unhandled ${String(error)}`))

const openDatabase = (folder: string) =>
  new LmdbControlDatabase({
    folder,
    clock,
    log,
    meters,
    emergencySpaceBytes: 64 * 1024,
    identifyDatabase: () => 'in-00000000000000aa',
  })
const record = (n: number, bytes = 0) => {
  return { v: 1, s: 'held', c: { n, padding: 'x'.repeat(bytes + (n % 300)), [`key${n % 40}`]: n } }
}

const WAVES = 45

async function faults(folder: string, what: string, errno: string, lasts: string, from: number, to: number) {
  for (let n = from; n <= to; n++) await oneFault(folder, what, errno, lasts, n)
  print('done')
  // A heap that lmdb has overrun may fail during exit; all results are printed already.
  process.kill(process.pid, 'SIGKILL')
}

async function oneFault(folder: string, what: string, errno: string, lasts: string, n: number) {
  const own = join(folder, `${n}`)
  const control = String(process.env.DISK_FAULTS)
  const full = join(folder, `full-${n}`)
  mkdirSync(own)
  print(`begin ${n}`)
  // An aborted earlier process leaves its fault armed, and opening a store writes too.
  rmSync(control, { force: true })
  const database = openDatabase(own)
  const states: string[] = []
  const ready = new Promise<void>((resolve) => {
    database.onState((state: StoreState) => {
      states.push(state.is)
      if (state.is === 'degraded') rmSync(full, { force: true })
      else resolve()
    })
  })
  if (lasts === 'lasting') writeFileSync(full, '')
  rmSync(control, { force: true })
  writeFileSync(control, `${what} ${n} ${errno} ${lasts === 'lasting' ? full : '-'}\n`)
  await writeWaves(database, n, what === 'grow' ? 30_000 : 0)
  if (states.length > 0) await ready
  rmSync(control, { force: true })
  print(`states ${n} ${states.join(',')}`)
  await database.close()
  print(`closed ${n}`)
}

async function writeWaves(database: LmdbControlDatabase, n: number, bytes: number) {
  for (let wave = 0; wave < WAVES; wave++) {
    await Promise.all(
      Array.from({ length: 1 + (wave % 4) }, async (_, i) => {
        const key = `k-${wave}-${i}`
        const kind = wave === 20 ? 'late-kind' : 'lease'
        try {
          // A broken database cannot be read, and refuses every commit.
          const isBroken = database.state().is === 'broken'
          const event = logEvent(runId(i), isBroken ? 0 : database.eventBuffer.nextIndex(runId(i)))
          await database.commit([
            putSnapshot(kind, key, record(wave * 10 + i, bytes)),
            putEvents(runId(i), [event]),
          ])
          print(`ack ${n} ${kind} ${key} ${wave * 10 + i}`)
        } catch (error) {
          print(`refused ${n} ${kind} ${key} ${error instanceof Error ? error.name : ''}`)
        }
      }),
    )
  }
}

async function flood(folder: string, first: number) {
  const database = openDatabase(folder)
  print('open')
  await Promise.all(
    Array.from({ length: 32 }, async (_, caller) => {
      for (let n = first; ; n++) {
        const both = [caller, caller + 1000].map((key) => ({
          table: 'snapshot' as const,
          kind: n % 7 === 0 ? 'worker' : 'lease',
          key: `k-${key}`,
          record: record(n),
        }))
        await database.commit(both)
        print(`ack ${n % 7 === 0 ? 'worker' : 'lease'} ${caller} ${n}`)
      }
    }),
  )
}

async function events(dataDir: string, processNumber: number) {
  const store = await openStore({ dataDir, clock, random, log, meters, emergencySpaceBytes: 64 * 1024 })
  print('open')
  await Promise.all(
    Array.from({ length: 12 }, async (_, caller) => {
      for (let round = 0; ; round++) {
        // Some runs of a caller continue in every process, and some grow large.
        const id = runId(round % 4 === 0 ? caller : 1_000 * (1 + processNumber * 12 + caller) + round)
        for (let n = 0; n < 8; n++) {
          const first = store.events.nextIndex(id)
          const text = 'x'.repeat(caller === 0 ? 30_000 : (first * 97) % 2_000)
          const chunk = Array.from({ length: 1 + (n % 3) }, (_, i) => logEvent(id, first + i, text))
          await store.database.commit([
            putEvents(id, chunk),
            putSnapshot('lease', id, record(first + chunk.length)),
          ])
          print(`ack ${id} ${first + chunk.length}`)
        }
      }
    }),
  )
}

/** Frame n of a lease, with a length that depends on n, up to the longest allowed frame. */
const sampleFrameText = (n: number) => `${n} ${'x'.repeat(n % 40 === 7 ? 1_000_000 : (n * 7_919) % 3_000)}`

async function frames(dataDir: string, processNumber: number) {
  const workerStore = await openWorkerStore({
    dataDir,
    clock,
    random,
    log,
    meters,
    emergencySpaceBytes: 64 * 1024,
  })
  print('open')
  await Promise.all(
    Array.from({ length: 6 }, async (_, caller) => {
      const lease = `ls-${processNumber}-${caller}`
      for (let n = 1; ; n++) {
        const key = `${lease}/${String(n).padStart(10, '0')}`
        const trimmed = `${lease}/${String(n - 20).padStart(10, '0')}`
        await workerStore.commit([
          { table: 'key-value', collection: 'frame', key, value: { text: sampleFrameText(n) } },
          { table: 'key-value', collection: 'frame', key: trimmed, value: null },
          { table: 'key-value', collection: 'outbox', key: lease, value: { acked: Math.max(0, n - 20) } },
        ])
        print(`ack ${lease} ${n}`)
      }
    }),
  )
}

async function lock(folder: string, rounds: number, start: number, everyMs: number) {
  for (let round = 0; round < rounds; round++) {
    while (Date.now() < start + round * everyMs) {
      // Busy waiting: only the same instant in all processes makes a race.
    }
    try {
      await lockDataDir({ dataDir: join(folder, `${round}`), clock, random, log })
      print(`won ${round}`)
    } catch (error) {
      print(`lost ${round} ${error instanceof Error ? error.name : codeOf(error)}`)
    }
  }
  print('done')
  // Stays alive, and so keeps its locks, until the parent has read everything.
  setInterval(() => {}, 1_000)
}

async function own(dataDir: string, word: string | undefined) {
  const takeOver = word === 'by-hand' || word === 'exclusive-volume' ? word : undefined
  try {
    const store = await openStore({ dataDir, clock, random, log, meters, takeOver, emergencySpaceBytes: 0 })
    await store.database.commit([putSnapshot('lease', 'own', record(1))])
    // LMDB lists a process from its first read on.
    store.database.snapshots.get('lease', 'own')
    print('owns')
    setInterval(() => {}, 1_000)
  } catch (error) {
    print(error instanceof Error ? `${error.name} ${error.message}` : String(error))
  }
}

function child(folder: string) {
  acquireLock(folder, { clock, random })
  const { pid } = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' })
  print(`${pid}`)
  setInterval(() => {}, 1_000)
}

async function earlier(dataDir: string) {
  await own(dataDir, undefined)
  const { pid, began, boot, nonce } = JSON.parse(readFileSync(join(dataDir, 'lock.1'), 'utf8'))
  writeFileSync(join(dataDir, 'lock.1'), JSON.stringify({ pid, began, boot, nonce }))
  print('wrote')
}

const [mode, folder = '', ...rest] = process.argv.slice(2)
if (mode === 'faults')
  await faults(folder, String(rest[0]), String(rest[1]), String(rest[2]), Number(rest[3]), Number(rest[4]))
else if (mode === 'flood') await flood(folder, Number(rest[0]))
else if (mode === 'events') await events(folder, Number(rest[0]))
else if (mode === 'frames') await frames(folder, Number(rest[0]))
else if (mode === 'own') await own(folder, rest[0])
else if (mode === 'own-as') {
  process.setuid?.(Number(rest[0]))
  await own(folder, undefined)
} else if (mode === 'child') child(folder)
else if (mode === 'earlier') await earlier(folder)
else if (mode === 'lock') await lock(folder, Number(rest[0]), Number(rest[1]), Number(rest[2]))

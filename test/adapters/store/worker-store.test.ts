/** Tests of a worker's store: whole commits after any kill, frames of full length, a single user. */
import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import { WORKER_FRAME_BYTES_MAX } from '../../../protocol/limits.ts'
import { DataDirInUse, NotADataDir } from '../../../store/errors.ts'
import { openStore } from '../../../store/store.ts'
import { openWorkerStore } from '../../../store/worker-store.ts'
import { runTypeScript } from '../../support/child-process.ts'
import { drawSeed, Random } from '../../support/random.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'

const CYCLES = Number(process.env.KILL_CYCLES ?? 8)
const seed = drawSeed()
const storeOptions = {
  clock: realClock,
  random: realRandom,
  log: createRecordingLog(),
  meters: noMeters,
  emergencySpaceBytes: 64 * 1024,
}
const open = (dataDir: string) => openWorkerStore({ dataDir, ...storeOptions })
const keyOf = (lease: string, n: number) => `${lease}/${String(n).padStart(10, '0')}`

test('committed data is there after reopening, frames of full length included', async () => {
  const dataDir = join(diskFolder(), 'worker')
  const store = await open(dataDir)
  const text = 'é'.repeat(WORKER_FRAME_BYTES_MAX / 2)
  await store.commit([
    { table: 'snapshot', kind: 'execution', key: 'ls-1', record: { v: 1, s: 'w', c: { runId: 'run-1' } } },
    { table: 'key-value', collection: 'frame', key: keyOf('ls-1', 1), value: { text } },
    { table: 'key-value', collection: 'outbox', key: 'ls-1', value: { acked: 0 } },
  ])
  await store.close()

  const again = await open(dataDir)
  expect(again.snapshots.get('execution', 'ls-1')).toEqual({ v: 1, s: 'w', c: { runId: 'run-1' } })
  expect(again.keyValues.get('frame', keyOf('ls-1', 1))).toEqual({ text })
  expect(again.keyValues.get('outbox', 'ls-1')).toEqual({ acked: 0 })
  await again.close()
})

test('iterating many long frames holds few of them in memory at a time', async () => {
  const store = await open(diskFolder())
  const count = 96
  for (let n = 0; n < count; n++)
    await store.commit([
      {
        table: 'key-value',
        collection: 'frame',
        key: keyOf('ls-1', n),
        value: { text: 'x'.repeat(1_000_000) },
      },
    ])
  const walk = store.keyValues.all('frame')
  const before = process.memoryUsage()
  let seen = 0
  for (const [key] of walk) {
    expect(key).toBe(keyOf('ls-1', seen))
    if (seen === 0) {
      const after = process.memoryUsage()
      const grown = after.external + after.heapUsed - before.external - before.heapUsed
      expect(grown).toBeLessThan(40 * 1024 * 1024)
    }
    seen += 1
  }
  expect(seen).toBe(count)
  await store.close()
})

test('the directory is owner-only, and one daemon at a time uses it', async () => {
  const dataDir = join(diskFolder(), 'worker')
  const store = await open(dataDir)
  expect(statSync(dataDir).mode & 0o777).toBe(0o700)
  await expect(open(dataDir)).rejects.toThrow(DataDirInUse)
  await store.close()
  const again = await open(dataDir)
  await again.close()
})

test('a folder with other content is left unchanged', async () => {
  const shared = join(diskFolder(), 'home')
  mkdirSync(shared)
  chmodSync(shared, 0o755)
  writeFileSync(join(shared, 'letter.txt'), '')
  await expect(open(shared)).rejects.toThrow(NotADataDir)
  expect(readdirSync(shared)).toEqual(['letter.txt'])
})

test('a worker refuses the data directory of a host', async () => {
  const dataDir = diskFolder()
  const store = await openStore({ dataDir, ...storeOptions })
  await store.close()
  await expect(open(dataDir)).rejects.toThrow(/of a host/)
})

test('drafts of a crash are removed', async () => {
  const dataDir = diskFolder()
  writeFileSync(join(dataDir, '.credential.json.1a2b.draft'), 'half')
  const store = await open(dataDir)
  expect(readdirSync(dataDir).filter((name) => name.endsWith('.draft'))).toEqual([])
  await store.close()
})

test(
  `killed ${CYCLES} times while frames are added and deleted (SEED=${seed})`,
  async () => {
    const random = new Random(seed)
    const dataDir = diskFolder()
    const known = new Map<string, number>()
    for (let cycle = 0; cycle < CYCLES; cycle++) {
      const child = runTypeScript('test/support/store-child.ts', ['frames', dataDir, `${cycle}`])
      await until('the child writes', () => child.lines.length > 30)
      await new Promise((resolve) => setTimeout(resolve, random.below(400)))
      child.process.kill('SIGKILL')
      expect([await child.ended, ...child.errors]).toEqual(['SIGKILL'])
      for (const line of child.lines) {
        const [what, lease = '', n] = line.split(' ')
        if (what === 'ack') known.set(lease, Number(n))
      }
      expect(await findWrongFrames(dataDir, known)).toEqual([])
    }
    expect(known.size).toBe(6 * CYCLES)
  },
  30_000 + CYCLES * 15_000,
)

/**
 * Expects, for each lease, its last twenty whole frames and a matching acknowledgement; more than acknowledged only
 * as a whole commit.
 */
async function findWrongFrames(dataDir: string, known: ReadonlyMap<string, number>): Promise<string[]> {
  const store = await open(dataDir)
  const wrong: string[] = []
  const held = new Map<string, number[]>()
  for (const [key, value] of store.keyValues.all('frame')) {
    const [lease = '', digits] = key.split('/')
    const n = Number(digits)
    held.set(lease, [...(held.get(lease) ?? []), n])
    const text = String(Reflect.get(value, 'text'))
    const length = n % 40 === 7 ? 1_000_000 : (n * 7_919) % 3_000
    if (text !== `${n} ${'x'.repeat(length)}`) wrong.push(`${key}: torn`)
  }
  for (const [lease, acknowledged] of known) {
    const frames = held.get(lease) ?? []
    const acked = Number(Reflect.get(store.keyValues.get('outbox', lease) ?? {}, 'acked'))
    const last = frames.at(-1) ?? 0
    if (last < acknowledged) wrong.push(`${lease}: ${acknowledged} acknowledged, ${last} found`)
    if (acked !== Math.max(0, last - 20)) wrong.push(`${lease}: half a commit, ${acked} and ${last}`)
    const expected = Array.from({ length: Math.min(20, last) }, (_, at) => last - Math.min(20, last) + 1 + at)
    if (frames.join() !== expected.join()) wrong.push(`${lease}: holes`)
  }
  await store.close()
  return wrong
}

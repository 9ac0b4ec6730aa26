/**
 * Golden snapshots, as each version of each snapshot codec wrote them: they must be readable for ever.
 *
 * The file of the current version also holds the codec's fingerprint. When states, codes or fields change, this fails;
 * then give the codec a new version and a lift from the old one; `GOLDEN=write npm run jest -- test/machines/golden`
 * writes the file of the new version. Never change an old file, except for names of states.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import { daemonKinds } from '../../actors/daemon/modules.ts'
import { hostKinds } from '../../actors/root/modules.ts'
import type { ActorKind } from '../../actors/runtime/actor-kind.ts'
import { createSnapshotCodec } from '../../actors/runtime/snapshot-codec.ts'
import type { ActorSnapshot } from '../../core/ports/store.ts'
import { LeaseFields, RunFields, snapshotShape } from '../../protocol/actor-snapshots.ts'
import type { Run } from '../../protocol/run.ts'
import { CrashDatabase } from '../support/crash-database.ts'
import { type ActorPose, createIsolatedSystem, executions, leases, runs, workers } from './durable-model.ts'

interface Golden {
  readonly fingerprint: string
  readonly records: readonly {
    readonly state: string
    readonly key: string
    readonly record: ActorSnapshot
    /** The run record beside the snapshot. */
    readonly run?: Run
  }[]
}

const folder = join(dirname(fileURLToPath(import.meta.url)), 'golden')
const read = (file: string): Golden => JSON.parse(readFileSync(join(folder, file), 'utf8'))
const posed: Readonly<Record<string, readonly ActorPose[]>> = {
  lease: leases,
  run: runs,
  worker: workers,
  execution: executions,
}
const durable = [...hostKinds, ...daemonKinds].filter((kind) => kind.codec !== undefined)
const fileOf = ({ name, codec: written }: ActorKind): string => `${name}.v${written?.version}.json`

async function written(kind: ActorKind): Promise<Golden> {
  const records = await Promise.all(
    (posed[kind.name] ?? []).map(async (pose) => {
      const stage = createIsolatedSystem()
      stage.pose(pose)
      await stage.flush()
      const record = stage.database.snapshotTable.get(kind.name)?.get(pose.key)
      if (record === undefined) throw new Error(`no ${pose.state} ${kind.name} was written`)
      const run = kind.split === undefined ? undefined : stage.database.runs.get(pose.key)
      return { state: pose.state, key: pose.key, record, ...(run === undefined ? {} : { run }) }
    }),
  )
  return { fingerprint: kind.codec?.fingerprint() ?? '', records }
}

test('every stored kind has golden snapshots of its current version', async () => {
  for (const kind of durable) {
    const path = join(folder, fileOf(kind))
    if (process.env.GOLDEN === 'write' && !existsSync(path))
      writeFileSync(path, `${JSON.stringify(await written(kind), undefined, 2)}\n`)
  }
  const files = readdirSync(folder)
  expect(durable.map(fileOf).filter((file) => !files.includes(file))).toEqual([])
})

describe.each(durable.map((kind) => [kind.name, kind] as const))('%s', (name, kind) => {
  test('its states, codes and fields are those of its version: a change needs a new version', () => {
    expect(kind.codec?.fingerprint()).toBe(read(fileOf(kind)).fingerprint)
  })

  test('is encoded as when its version was new', async () => {
    expect(await written(kind)).toEqual(read(fileOf(kind)))
  })

  const files = readdirSync(folder).filter((file) => file.startsWith(`${name}.v`))
  test.each(files)('%s: every snapshot is restored, in its state', (file) => {
    for (const { state, key, record, run } of read(file).records) {
      const database = new CrashDatabase()
      database.snapshotTable.set(name, new Map([[key, record]]))
      if (run !== undefined) database.runs.set(key, run)
      const seen: unknown[] = []
      const { system } = createIsolatedSystem(database, undefined, {
        onStateChange: ({ after }) => void seen.push(after.value),
      })
      expect(system.restore()).toMatchObject({ ok: true, value: { restored: 1, damaged: [] } })
      expect(seen[0]).toBe(state)
    }
  })
})

test('another state, code, field or version has another fingerprint', () => {
  const states = { offered: 'o', held: 'h' }
  const print = (change: Partial<Parameters<typeof createSnapshotCodec>[0]> = {}) =>
    createSnapshotCodec({
      version: 1,
      states,
      schema: snapshotShape(LeaseFields),
      lifts: {},
      ...change,
    }).fingerprint()
  const prints = [
    print(),
    print({ states: { ...states, closed: 'x' } }),
    print({ states: { ...states, held: 'H' } }),
    print({ schema: snapshotShape(RunFields) }),
    print({ version: 2 }),
  ]
  expect(new Set(prints).size).toBe(prints.length)
})

/** A full or failing disk at every write and every sync: acknowledged data is never missing. */
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { realClock } from '../../../bin/process/clock.ts'
import { LmdbControlDatabase } from '../../../store/lmdb/control-database.ts'
import { compileC, runTypeScript } from '../../support/child-process.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { identifyDatabase, runId } from './samples.ts'

const ENOSPC = 28
const EIO = 5
const shim = compileC('test/support/disk-faults.c', ['-shared', '-fPIC', '-O1', '-U_FILE_OFFSET_BITS'])

type FaultKind = 'write' | 'grow' | 'sync'

interface ChildReport {
  readonly acks: { readonly n: string; readonly kind: string; readonly key: string; readonly value: number }[]
  readonly refusals: string[]
  readonly states: Map<string, string>
  readonly unhandled: string[]
  /** Rounds in which the bug of lmdb-js ended the process. */
  aborts: number
}

async function runFaults(
  folder: string,
  what: FaultKind,
  errno: number,
  lasts: 'lasting' | 'once',
  to: number,
): Promise<ChildReport> {
  const env = { LD_PRELOAD: shim, DISK_FAULTS: join(folder, 'control') }
  const lines: string[] = []
  let aborts = 0
  for (let from = 1; from <= to; ) {
    const child = runTypeScript(
      'test/support/store-child.ts',
      ['faults', folder, what, `${errno}`, lasts, `${from}`, `${to}`],
      env,
    )
    const end = await child.ended
    lines.push(...child.lines)
    if (child.lines.at(-1) === 'done') break
    // lmdb-js 3.5.6 overruns its error buffer when a write fails, which malloc may detect at any later time. The bug
    // costs the process but no acknowledged data; the preallocation prevents it on a full disk.
    if (what === 'sync' || (end !== 'SIGABRT' && end !== 'SIGSEGV')) {
      throw new Error(`the child ended with ${end}:\n${child.errors.slice(-20).join('\n')}`)
    }
    aborts++
    from =
      1 +
      Number(
        child.lines
          .filter((line) => line.startsWith('begin '))
          .at(-1)
          ?.split(' ')[1] ?? from,
      )
  }
  return { ...parseReport(lines), aborts }
}

function parseReport(lines: readonly string[]): ChildReport {
  const words = lines.map((line) => line.split(' '))
  const of = (what: string) => words.filter(([first]) => first === what)
  return {
    acks: of('ack').map(([, n = '', kind = '', key = '', value]) => ({ n, kind, key, value: Number(value) })),
    refusals: of('refused').map((each) => each.join(' ')),
    states: new Map(of('states').map(([, n = '', states = '']) => [n, states])),
    unhandled: lines.filter((line) => line.startsWith('unhandled')),
    aborts: 0,
  }
}

async function findMissing(folder: string, acks: ChildReport['acks']): Promise<string[]> {
  const lacks: string[] = []
  for (const n of new Set(acks.map((ack) => ack.n))) {
    const log = createRecordingLog()
    const database = new LmdbControlDatabase({
      folder: join(folder, n),
      clock: realClock,
      log,
      meters: noMeters,
      emergencySpaceBytes: 0,
      identifyDatabase,
    })
    const own = acks.filter((each) => each.n === n)
    for (const ack of own) {
      const found = database.snapshots.get(ack.kind, ack.key)?.c as { readonly n: number } | undefined
      if (found?.n !== ack.value) lacks.push(`${n}: ${ack.key}`)
    }
    for (const i of [0, 1, 2, 3]) {
      const indexes = [...database.eventBuffer.small.chunks(runId(i))].map(({ first }) => first)
      const known = own.filter(({ key }) => key.endsWith(`-${i}`)).length
      if (indexes.length < known || indexes.some((index, at) => index !== at))
        lacks.push(`${n}: events of ${i}`)
    }
    await database.close()
  }
  return lacks
}

test('a disk without space to grow: commits wait, succeed once there is space, and the store is ready again', async () => {
  const folder = diskFolder()
  const { acks, refusals, states, unhandled, aborts } = await runFaults(folder, 'grow', ENOSPC, 'lasting', 4)
  expect([...states.values()]).toEqual(Array(4).fill('degraded,ready'))
  expect(aborts).toBe(0)
  expect(refusals).toEqual([])
  expect(unhandled).toEqual([])
  expect(await findMissing(folder, acks)).toEqual([])
}, 240_000)

test('a full disk at any write of the database itself: the same batch succeeds later', async () => {
  const folder = diskFolder()
  const { acks, refusals, states, unhandled, aborts } = await runFaults(
    folder,
    'write',
    ENOSPC,
    'lasting',
    40,
  )
  expect([...new Set(states.values())]).toEqual(['degraded,ready'])
  expect(states.size).toBeGreaterThanOrEqual(40 - aborts)
  expect(refusals).toEqual([])
  expect(unhandled).toEqual([])
  expect(await findMissing(folder, acks)).toEqual([])
}, 240_000)

test.each<[string, FaultKind]>([
  ['a failing sync', 'sync'],
  ['a failing write', 'write'],
])(
  '%s at any point: the store is broken, later commits are refused, acknowledged data is there',
  async (_name, what) => {
    const folder = diskFolder()
    const { acks, refusals, states, unhandled, aborts } = await runFaults(folder, what, EIO, 'once', 40)
    expect([...new Set(states.values())]).toEqual(['broken'])
    expect(states.size).toBeGreaterThanOrEqual(40 - aborts)
    expect(refusals.length).toBeGreaterThanOrEqual(40 - aborts)
    expect(refusals.filter((line) => !line.endsWith(' StoreBroken'))).toEqual([])
    expect(unhandled).toEqual([])
    expect(await findMissing(folder, acks)).toEqual([])
  },
  240_000,
)

test('a sync that fails on a full disk means a full disk, not a broken one', async () => {
  const folder = diskFolder()
  const { acks, refusals, states } = await runFaults(folder, 'sync', ENOSPC, 'lasting', 8)
  expect([...new Set(states.values())]).toEqual(['degraded,ready'])
  expect(refusals).toEqual([])
  expect(await findMissing(folder, acks)).toEqual([])
}, 240_000)

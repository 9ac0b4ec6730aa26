/** Tests that a host over a damaged data directory serves the rest, and names what is damaged where people look. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import { DAMAGE_CURE } from '../../../core/damage.ts'
import type { Store } from '../../../core/ports/store.ts'
import { checkDataDir } from '../../../store/check-data-dir.ts'
import { setAsideDamage } from '../../../store/set-aside.ts'
import { createInMemoryHost } from '../../support/host-in-memory.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { closeAfterTest } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'
import { changeRow, createWholeDirectory, flipBit, openAt } from './damage.ts'
import {
  logEvents,
  putEvents,
  putKeyValue,
  putRun,
  putSnapshot,
  runId,
  sampleRun,
  sampleSnapshot,
} from './samples.ts'

async function withHistory(): Promise<string> {
  const dataDir = diskFolder()
  const store = await openAt(dataDir)
  await store.database.commit([
    ...[1, 2, 3].map((n) => putRun(sampleRun(n, 'completed'))),
    putEvents(runId(1), logEvents(runId(1), 0, 4)),
    putSnapshot('worker', 'wk-0000000000000001', sampleSnapshot(1)),
    putKeyValue('memory', 'acme/api', { memories: [{ id: 'm-1', fact: 'a fact', hits: 1 }] }),
  ])
  await store.close()
  return dataDir
}

async function startHost(store: Store) {
  const { host, ended } = createInMemoryHost(undefined, { clock: realClock, store })
  const stop = async () => {
    host.stop('the test ends')
    await until('the host has ended', () => ended.length > 0)
    await store.close()
  }
  closeAfterTest(stop)
  host.start()
  await until('the host serves', () => host.hostApi.isOpen() || ended.length > 0)
  return { hostApi: host.hostApi, ended, stop }
}

test('lists have the rest, the route of a damaged run answers 500 with its id, and attention names all', async () => {
  const dataDir = await withHistory()
  await changeRow(dataDir, 'runs', runId(2), flipBit)
  await changeRow(dataDir, 'life:worker', 'wk-0000000000000001', flipBit)
  await changeRow(dataDir, 'facts', 'yacme/api', flipBit)
  await changeRow(dataDir, 'events-small', `${runId(1)}!00000000`, flipBit)
  const store = await openAt(dataDir)
  const { hostApi, ended } = await startHost(store)
  expect(ended).toEqual([])
  const listed = hostApi.runs({})
  expect(listed).toMatchObject({ ok: true, value: { runs: [{ id: runId(3) }, { id: runId(1) }] } })
  for (const refused of [hostApi.run(runId(2)), hostApi.runEvents(runId(2), {}), hostApi.placement(runId(2))])
    expect(refused).toMatchObject({
      ok: false,
      refusal: { kind: 'failed', message: expect.stringMatching(`${runId(2)}.*${DAMAGE_CURE}`) },
    })
  expect(hostApi.run(runId(7))).toMatchObject({ ok: false, refusal: { kind: 'unknown' } })
  expect(hostApi.hello()).toMatchObject({ runs: [{ id: runId(3) }, { id: runId(1) }] })
  expect(await hostApi.clearMemories('acme/api')).toMatchObject({ ok: false, refusal: { kind: 'failed' } })
  const events = hostApi.runEvents(runId(1), {})
  const lines: string[] = []
  if (events.ok) for await (const batch of events.value.events) lines.push(...batch)
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { index: 3, stream: 'system', text: expect.stringContaining('events 0 to 3 of this log are damaged') },
  ])
  const { items } = hostApi.attention()
  expect(items.map(({ id, kind }) => [kind, id]).sort()).toEqual([
    ['damage', 'damage:actor worker wk-0000000000000001'],
    ['damage', `damage:events ${runId(1)} 0`],
    ['damage', `damage:run ${runId(2)}`],
    ['damage', 'damage:value memory acme/api'],
  ])
})

test('attention names what is damaged in logs that nobody has read', async () => {
  const dataDir = await createWholeDirectory()
  const log = join(dataDir, 'runs', runId(2), 'events.jsonl')
  writeFileSync(log, flipBit(readFileSync(log)))
  await changeRow(dataDir, 'events-small', `${runId(1)}!00000000`, flipBit)
  await changeRow(dataDir, 'events-log', runId(0), () => Buffer.from([0xf5, 0, 0, 0, 0, 1]))
  const named = (await checkDataDir(dataDir, { random: realRandom })).damage.map(({ id }) => `damage:${id}`)
  expect(named).toHaveLength(3)
  const { hostApi } = await startHost(await openAt(dataDir))
  await until('all are named', () => {
    const ids = hostApi.attention().items.map(({ id }) => id)
    return named.every((id) => ids.includes(id))
  })
})

test('an acknowledged loss is silent while it is missing, and named when its record is there and damaged', async () => {
  const dataDir = await withHistory()
  const MEMORY = 'value memory acme/api'
  await changeRow(dataDir, 'facts', 'yacme/api', flipBit)
  await changeRow(dataDir, 'runs', runId(2), flipBit)
  await setAsideDamage(dataDir, realClock)
  const first = await startHost(await openAt(dataDir))
  const [setAside] = first.hostApi.attention().items.filter(({ mayAcknowledge }) => mayAcknowledge === true)
  expect(await first.hostApi.acknowledgeAttention(setAside?.id ?? '')).toMatchObject({ ok: true })
  expect(first.hostApi.run(runId(2))).toMatchObject({ ok: false, refusal: { kind: 'failed' } })
  expect(first.hostApi.attention().items).toEqual([])
  await first.stop()

  const store = await openAt(dataDir)
  await store.database.commit([putKeyValue('memory', 'acme/api', { memories: [] })])
  await store.close()
  await changeRow(dataDir, 'facts', 'yacme/api', flipBit)
  const { damage, lost } = await checkDataDir(dataDir, { random: realRandom })
  expect(damage.map(({ id }) => id)).toEqual([MEMORY])
  expect(lost.map(({ id }) => id)).toEqual([`run ${runId(2)}`])
  const again = await startHost(await openAt(dataDir))
  expect(again.hostApi.run(runId(2))).toMatchObject({ ok: false, refusal: { kind: 'failed' } })
  expect(again.hostApi.attention().items.map(({ id }) => id)).toEqual([`damage:${MEMORY}`])
})

test('what is damaged again after it was written anew is damaged since then', async () => {
  const dataDir = await withHistory()
  const since = async () => {
    await changeRow(dataDir, 'facts', 'yacme/api', flipBit)
    const store = await openAt(dataDir)
    const { hostApi, stop } = await startHost(store)
    const [item] = hostApi.attention().items
    expect(item?.id).toBe('damage:value memory acme/api')
    await store.database.commit([putKeyValue('memory', 'acme/api', { memories: [] })])
    expect(hostApi.attention().items).toEqual([])
    await stop()
    return Date.parse(item?.since ?? '')
  }
  const first = await since()
  expect(await since()).toBeGreaterThan(first)
})

/** `switchyard check-data` over a real data directory: beside a running host, after damage, and setting it aside. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from '@jest/globals'
import { realRandom } from '../../bin/process/clock.ts'
import type { AttentionResponse } from '../../protocol/attention.ts'
import { checkDataDir } from '../../store/check-data-dir.ts'
import { garblePage, pagesOf } from '../adapters/store/damage.ts'
import { runTypeScript } from '../support/child-process.ts'
import {
  type CommandProcess,
  commandPath,
  configWithAnyPort,
  runCommand,
  serve,
} from '../support/command-process.ts'
import { IN_CONTAINER, testWithContainers } from '../support/namespaces.ts'
import { diskFolder, tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const TICKETS = 30
const [REFUSED, BROKEN, IN_USE] = [1, 70, 75]

async function readCure(dataDir: string): Promise<string> {
  const command = runCommand(['check-data', '--data-dir', dataDir])
  expect(await command.exit).toBe(REFUSED)
  return command.err()
}

async function checkData(dataDir: string, ...words: readonly string[]) {
  const command = runCommand(['check-data', '--data-dir', dataDir, '--json', ...words])
  const code = await command.exit
  return { code, answer: JSON.parse(command.out() || command.err()) }
}

test('a garbled database is named, set aside, and what is intact is served', async () => {
  const dataDir = tempFolder()
  const tickets = join(dataDir, 'tickets')
  mkdirSync(tickets)
  for (let n = 0; n < TICKETS; n++)
    writeFileSync(join(tickets, `T-${n}.md`), `---\ntitle: Number ${n}\nstate: Todo\n---\nNothing.\n`)
  const config = configWithAnyPort({ tracker: { driver: 'local', path: tickets }, worker: { local: false } })
  writeFileSync(join(dataDir, 'config.json'), config, { mode: 0o600 })
  const host = serve(dataDir)
  await host.waitForLaunch()
  const runs = async (from: typeof host) => ((await from.request('/api/runs')).body as unknown[]).length
  await until('the tickets are queued', async () => (await runs(host)) === TICKETS)
  expect(await checkData(dataDir)).toMatchObject({
    code: 0,
    answer: { damage: [], runs: TICKETS, isInUse: true },
  })
  const early = runCommand(['check-data', '--set-aside', '--data-dir', dataDir])
  expect(await early.exit).toBe(IN_USE)
  expect(early.err()).toMatch(/nothing is set aside[\s\S]*run this command again/)
  expect(early.err()).not.toContain('start with another')
  host.process.kill('SIGTERM')
  expect(await host.exit).toBe(0)

  await garbleRuns(dataDir)
  expect(await readCure(dataDir)).toContain(`switchyard check-data --set-aside --data-dir ${dataDir}`)
  const refused = serve(dataDir)
  expect(await refused.exit).toBe(BROKEN)
  expect(refused.err()).toMatch(/page \d+ of the table runs .*switchyard check-data/)
  const doctor = runCommand(['doctor', '--data-dir', dataDir, '--json'])
  expect(await doctor.exit).toBe(REFUSED)
  expect(JSON.parse(doctor.out()).findings).toContainEqual({
    id: 'data',
    status: 'fail',
    message: expect.stringContaining('of the table runs'),
    cure: `switchyard check-data --data-dir ${dataDir}`,
  })
  const aside = await checkData(dataDir, '--set-aside')
  expect(aside.code).toBe(0)
  const lostIds = (aside.answer.lost as { id: string }[]).map(({ id }) => id)
  const lostRuns = lostIds.filter((id) => id.startsWith('run '))
  expect(lostRuns.length).toBeGreaterThan(0)
  const afterwards = runCommand(['check-data', '--data-dir', dataDir])
  expect(await afterwards.exit).toBe(0)
  expect(afterwards.err()).toContain(`${basename(aside.answer.folder)}/lost.json`)
  expect((await checkData(dataDir)).answer.lost.map(({ id }: { id: string }) => id)).toEqual(
    expect.arrayContaining(lostRuns),
  )

  const again = serve(dataDir)
  await again.waitForLaunch()
  const { items } = (await again.request('/api/attention')).body as AttentionResponse
  const folder = basename(aside.answer.folder)
  expect(items).toContainEqual(expect.objectContaining({ id: `damage:set aside ${folder}`, kind: 'damage' }))
  // No ticket of a lost run is begun anew, because its run is known to have been there.
  await until('the tracker was asked', async () => {
    const { body } = await again.request('/api/tracker/status')
    return (body as { lastPollAt?: string }).lastPollAt !== undefined
  })
  expect(await runs(again)).toBe(TICKETS - lostRuns.length)
  const id = lostRuns[0]?.slice('run '.length) ?? ''
  expect(items.find(({ id }) => id === `damage:set aside ${folder}`)?.runs).toContain(id)
  expect(await again.request(`/api/runs/${id}`)).toMatchObject({ status: 500 })
  await expectAcknowledged(dataDir, again)
})

async function expectAcknowledged(dataDir: string, host: CommandProcess): Promise<void> {
  const damaged = async () => {
    const { items } = (await host.request('/api/attention')).body as AttentionResponse
    return items.filter(({ kind }) => kind === 'damage').map(({ id }) => id)
  }
  const before = await damaged()
  const acknowledge = (body: { id: string }) =>
    host.request('/api/attention/acknowledge', { method: 'POST', body })
  expect(before.length).toBeGreaterThan(1)
  expect(await acknowledge({ id: 'damage:nothing' })).toMatchObject({ status: 404 })
  for (const id of before.filter((each) => each.startsWith('damage:run ')))
    expect(await acknowledge({ id })).toMatchObject({ status: 409 })
  const command = runCommand(['runs', 'acknowledge', '--data-dir', dataDir])
  expect(await command.exit).toBe(0)
  expect(await damaged()).toEqual([])
  host.process.kill('SIGTERM')
  await host.exit
  const next = serve(dataDir)
  await next.waitForLaunch()
  expect(((await next.request('/api/attention')).body as AttentionResponse).items).toEqual(
    expect.not.arrayContaining([expect.objectContaining({ kind: 'damage' })]),
  )
}

/** Garbles the first page of the table of runs. */
testWithContainers(
  'a host of another container is no damage, although it has the same process id',
  async () => {
    const dataDir = diskFolder()
    const host = runTypeScript('test/support/store-child.ts', ['own', dataDir], {}, IN_CONTAINER)
    await until('the host has answered', () => host.lines.length > 0)
    const [program = '', ...words] = [...IN_CONTAINER, process.execPath, commandPath, 'check-data', dataDir]
    const { status, stderr } = spawnSync(program, words, { encoding: 'utf8' })
    host.process.kill('SIGKILL')
    await host.ended
    expect([status, stderr]).toEqual([
      0,
      expect.stringMatching(/ is whole: .* because the directory is in use/),
    ])
  },
)

async function garbleRuns(dataDir: string): Promise<void> {
  const path = join(dataDir, 'state', 'data.mdb')
  const bytes = readFileSync(path)
  for (const page of pagesOf(dataDir)) {
    garblePage(dataDir, page)
    const { damage } = await checkDataDir(dataDir, { random: realRandom })
    if (damage.some(({ message }) => / of the table runs is not /.test(message))) return
    writeFileSync(path, bytes)
  }
}

/** The sandboxes of a worker, on a real disk. */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { Log } from '../../../../core/ports/log.ts'
import { Sandboxes } from '../../../../worker/run/disk/sandboxes.ts'
import { removeFolderTree, SANDBOX_GID, SANDBOX_UID_BASE } from '../../../../worker/sandbox/folders.ts'
import { ORDINARY_UID } from '../../../support/sandbox.ts'

let data = ''
let now = 0
let isConfirmed = true
let messages: string[] = []
beforeEach(async () => {
  data = await mkdtemp(join(tmpdir(), 'switchyard-sandboxes-'))
  mkdirSync(join(data, 'sandboxes'))
  mkdirSync(join(data, 'trash'))
  now = Date.parse('2026-01-01T00:00:00.000Z')
  isConfirmed = true
  messages = []
})
afterEach(() => rm(data, { recursive: true, force: true }))

const log: Log = {
  debug: () => {},
  info: (_fields, message) => void messages.push(message),
  warn: (_fields, message) => void messages.push(message),
  error: (_fields, message) => void messages.push(message),
}

const opened = (diskBytes?: number): Promise<Sandboxes> =>
  Sandboxes.open({
    folder: join(data, 'sandboxes'),
    trash: join(data, 'trash'),
    clock: { now: () => now, isConfirmed: () => isConfirmed },
    log,
    ownerFor: () => undefined,
    firstNumber: 0,
    diskBytes: async () => diskBytes,
    deleteFolder: (folder) => rm(folder, { recursive: true, force: true }),
  })

const HOUR_MS = 3_600_000
const nobodyIsBusy = () => false

/** A finished run with this many KiB in its checkout. */
async function ended(sandboxes: Sandboxes, runId: string, kib: number, unpushed = false, quotaGib?: number) {
  const { work } = await sandboxes.create(runId, quotaGib)
  writeFileSync(join(work, 'file'), Buffer.alloc(kib * 1024, 1))
  const until = await sandboxes.retain(runId, { hours: 24, unpushed })
  await sandboxes.waitUntilSettled()
  now += 1_000
  return until
}

describe('a sandbox on disk', () => {
  test('has its folders, for its owner only, and a record beside them', async () => {
    const sandboxes = await opened()
    const { root, work, home, out, staging, exchange } = await sandboxes.create('run-1', undefined)
    for (const folder of [work, home, out, staging, exchange])
      expect(statSync(folder).mode & 0o777).toBe(0o700)
    expect(JSON.parse(readFileSync(join(root, 'sandbox.json'), 'utf8'))).toMatchObject({
      runId: 'run-1',
      number: 0,
    })
  })

  test('has a number that is unique on this disk, also after a restart', async () => {
    const sandboxes = await opened()
    await Promise.all([sandboxes.create('run-1', undefined), sandboxes.create('run-2', undefined)])
    await sandboxes.discard('run-1')
    const again = await opened()
    const numbers = [await again.create('run-3', undefined), await again.create('run-4', undefined)]
    expect([again.get('run-2')?.number, ...numbers.map(({ number }) => number)].sort()).toEqual([0, 1, 2])
  })

  test('is known after a restart, with its retention time', async () => {
    const until = await ended(await opened(), 'run-1', 4)
    expect((await opened()).get('run-1')).toMatchObject({ retainedUntil: until, unpushed: false })
  })

  test('keeps its agent, its isolation and a person’s visit over a restart', async () => {
    const sandboxes = await opened()
    await sandboxes.create('run-1', undefined)
    const agent = { provider: 'agentA', session: 'a-session', model: 'opus' } as const
    const walls = { network: 'allowlist', allowedHosts: ['api.example.com'], maxProcesses: 99 } as const
    sandboxes.recordAgent('run-1', agent, { ...walls, allowedHosts: [...walls.allowedHosts] })
    await sandboxes.retain('run-1', { hours: 1, unpushed: false, sessionId: 'a-session' })
    await sandboxes.markVisited('run-1')
    await sandboxes.waitUntilSettled()
    expect((await opened()).get('run-1')).toMatchObject({ agent, walls, unpushed: true })
  })

  test('a follow-up reuses a retained sandbox until it expires, and bills only new usage', async () => {
    const sandboxes = await opened()
    expect(await sandboxes.openRetained('run-1')).toBeUndefined()
    const { number } = await sandboxes.create('run-1', undefined)
    expect(await sandboxes.openRetained('run-1')).toBeUndefined()
    sandboxes.recordAgent('run-1', { provider: 'agentA', session: 'a-session' })
    await sandboxes.retain('run-1', { hours: 24, unpushed: false, sessionId: 'a-session' })
    await sandboxes.waitUntilSettled()
    const since = new Date(now).toISOString()
    expect(await sandboxes.openRetained('run-1')).toMatchObject({
      number,
      root: join(data, 'sandboxes/run-1'),
    })
    expect((await opened()).get('run-1')).toMatchObject({ sessionId: 'a-session', agent: { since } })
    now += 24 * HOUR_MS
    expect(await sandboxes.openRetained('run-1')).toBeUndefined()
  })

  test('of an earlier attempt of the same run is replaced', async () => {
    const sandboxes = await opened()
    await ended(sandboxes, 'run-1', 4)
    const { work } = await sandboxes.create('run-1', undefined)
    expect(readdirSync(work)).toEqual([])
  })

  test('a folder with a damaged record is discarded, and the log says so', async () => {
    const { root } = await (await opened()).create('run-1', undefined)
    writeFileSync(join(root, 'sandbox.json'), '{"v":1,"runId":"ru')
    const again = await opened()
    await again.waitUntilSettled()
    expect([again.all(), existsSync(root)]).toEqual([[], false])
    expect(messages).toEqual([expect.stringMatching(/record .*discarded/)])
  })

  test.each(['{"summary":"Mended."}', '{"summ'])(
    'a folder with a damaged record and a note of finished work (%s) is left alone',
    async (note) => {
      const { root, staging } = await (await opened()).create('run-1', undefined)
      writeFileSync(join(staging, 'unpublished.json'), note)
      writeFileSync(join(root, 'sandbox.json'), '{"v":1,"runId":"ru')
      const again = await opened()
      await again.waitUntilSettled()
      expect([existsSync(staging), messages]).toEqual([true, [expect.stringMatching(/record .*left alone/)]])
    },
  )

  test.each<[string, (record: string) => void]>([
    // A link to a folder, which no read succeeds on.
    ['that cannot be read', (record) => symlinkSync('.', record)],
    ['of a later version', (record) => writeFileSync(record, '{"v":2,"runId":"run-1"}')],
  ])('a folder with a record %s is left alone, and the log says so', async (_, change) => {
    const { root, number: firstNumber } = await (await opened()).create('run-1', undefined)
    const record = join(root, 'sandbox.json')
    await rm(record)
    change(record)
    // As the folders of a root worker are.
    const isRoot = process.getuid?.() === 0
    if (isRoot) chownSync(join(root, 'work'), SANDBOX_UID_BASE + firstNumber, SANDBOX_GID)
    const again = await opened()
    await again.waitUntilSettled()
    expect([again.all(), existsSync(root)]).toEqual([[], true])
    expect(messages).toEqual([expect.stringMatching(/record .*left alone/)])
    // A new execution of the run keeps it too, and other sandboxes do not get its user.
    const { number } = await again.create('run-2', undefined)
    await again.create('run-1', undefined)
    const [aside = ''] = readdirSync(dirname(root)).filter((name) => name.startsWith('run-1.'))
    expect(existsSync(join(dirname(root), aside, 'work'))).toBe(true)
    expect(messages.at(-1)).toMatch(/set aside/)
    if (isRoot) expect(number).not.toBe(firstNumber)
  })

  test('the next start deletes the trash of a daemon that died', async () => {
    mkdirSync(join(data, 'trash', 'run-0-1-1'))
    await (await opened()).waitUntilSettled()
    expect(readdirSync(join(data, 'trash'))).toEqual([])
  })

  test.each(['../run-1', '', '.', 'a/b', 'a b', '-x'])('%j is no valid folder name', async (name) => {
    const sandboxes = await opened()
    await expect(sandboxes.create(name, undefined)).rejects.toThrow('not a name for a folder')
    await sandboxes.discard(name)
    expect(existsSync(join(data, 'sandboxes'))).toBe(true)
  })
})

/** The runs whose sandboxes went, in their order on the disk. */
async function reclaim(sandboxes: Sandboxes, isBusy: (runId: string) => boolean = nobodyIsBusy) {
  const before = sandboxes.all()
  await sandboxes.reclaim(isBusy)
  return before.map(({ runId }) => runId).filter((runId) => sandboxes.get(runId) === undefined)
}

/** The runs whose sandboxes need the host's word. */
const askedFor = async (sandboxes: Sandboxes) =>
  (await sandboxes.reclaim(nobodyIsBusy)).map(({ runId }) => runId)

describe('disk is reclaimed', () => {
  test('when the retention time has passed, and not before', async () => {
    const sandboxes = await opened()
    await ended(sandboxes, 'run-1', 4)
    now += 23 * HOUR_MS
    expect(await reclaim(sandboxes)).toEqual([])
    now += HOUR_MS
    expect(await reclaim(sandboxes, (runId) => runId === 'run-1')).toEqual([])
    expect(await reclaim(sandboxes)).toEqual(['run-1'])
  })

  test('beyond the quota, the oldest first', async () => {
    const sandboxes = await opened()
    const quotaGib = 1 / 1024
    for (const runId of ['run-1', 'run-2', 'run-3']) await ended(sandboxes, runId, 400, false, quotaGib)
    expect(await reclaim(sandboxes)).toEqual(['run-1'])
    expect(await reclaim(sandboxes)).toEqual([])
  })

  test('beyond a quarter of the disk without a quota, also after a restart', async () => {
    const sandboxes = await opened(4 * 1024 * 1024)
    for (const runId of ['run-1', 'run-2', 'run-3']) await ended(sandboxes, runId, 400)
    expect(await reclaim(await opened())).toEqual([])
    expect(await reclaim(await opened(4 * 1024 * 1024))).toEqual(['run-1'])
    expect(await reclaim(await opened(4 * 1024 * 1024))).toEqual([])
  })

  test('beyond a tiny quota altogether, but for the sandbox in use', async () => {
    const sandboxes = await opened(2 ** 40)
    for (const runId of ['run-1', 'run-2', 'run-3']) await ended(sandboxes, runId, 400, false, 0.001 / 1024)
    expect(await reclaim(sandboxes, (runId) => runId === 'run-2')).toEqual(['run-1', 'run-3'])
    await sandboxes.waitUntilSettled()
    expect(readdirSync(join(data, 'sandboxes'))).toEqual(['run-2'])
  })

  test('never from unpushed work to make room: neither beyond the quota nor on a full disk', async () => {
    const sandboxes = await opened()
    const quotaGib = 0.5 / 1024
    await ended(sandboxes, 'run-1', 600, true, quotaGib)
    await ended(sandboxes, 'run-2', 600, false, quotaGib)
    expect(await reclaim(sandboxes)).toEqual(['run-2'])
    expect([sandboxes.listDiscardable(nobodyIsBusy), sandboxes.countKept(nobodyIsBusy)]).toEqual([[], 1])
  })

  test('but not from a sandbox that becomes busy meanwhile', async () => {
    const sandboxes = await opened()
    const quotaGib = 0.5 / 1024
    for (const runId of ['run-1', 'run-2']) await ended(sandboxes, runId, 600, false, quotaGib)
    let isBusy = false
    const taken = reclaim(sandboxes, (runId) => isBusy && runId === 'run-2')
    isBusy = true
    expect(await taken).toEqual(['run-1'])
    expect(sandboxes.get('run-2')).toBeDefined()
    expect(existsSync(sandboxes.foldersOf('run-2').work)).toBe(true)
  })

  test('from a run that died with an earlier daemon and was not recovered', async () => {
    await (await opened()).create('run-1', undefined)
    now += 1_000
    const again = await opened()
    await again.create('run-2', undefined)
    expect(await reclaim(again)).toEqual(['run-1'])
  })

  test('not while the host’s clock says another time: what has expired needs the host’s word', async () => {
    const sandboxes = await opened()
    await ended(sandboxes, 'run-1', 4)
    isConfirmed = false
    now += 30 * 24 * HOUR_MS
    expect(await reclaim(sandboxes)).toEqual([])
    expect(await askedFor(sandboxes)).toEqual(['run-1'])
    isConfirmed = true
    expect(await reclaim(sandboxes)).toEqual(['run-1'])
  })

  test('with unpushed work only on the host’s word, whatever the clocks say', async () => {
    const sandboxes = await opened()
    await ended(sandboxes, 'run-1', 4, true)
    expect(await askedFor(sandboxes)).toEqual([])
    now += 30 * 24 * HOUR_MS
    expect(await askedFor(sandboxes)).toEqual(['run-1'])
    expect(await askedFor(sandboxes)).toEqual(['run-1'])
    expect(messages.filter((message) => message.includes('unpushed work'))).toHaveLength(1)
    await sandboxes.discard('run-1')
    expect(await askedFor(sandboxes)).toEqual([])
  })

  test('from a run in which an agent worked before its daemon died, only on the host’s word', async () => {
    const sandboxes = await opened()
    await sandboxes.create('run-1', undefined)
    sandboxes.recordAgent('run-1', { provider: 'agentA', session: 'a-session' })
    await sandboxes.waitUntilSettled()
    expect(await askedFor(await opened())).toEqual(['run-1'])
  })

  test.each([0o000, 0o400, 0o100])('a folder with mode %i still counts', async (mode) => {
    await asOrdinary(async () => {
      const sandboxes = await opened()
      const { work } = await sandboxes.create('run-1', 1)
      mkdirSync(join(work, 'closed'))
      writeFileSync(join(work, 'closed', 'file'), Buffer.alloc(1024 * 1024, 1))
      chmodSync(join(work, 'closed'), mode)
      await sandboxes.retain('run-1', { hours: 1, unpushed: false })
      await sandboxes.waitUntilSettled()
      expect(sandboxes.get('run-1')?.bytes).toBeGreaterThanOrEqual(1024 * 1024)
    })
  })

  test.each([
    ['under a name that is not UTF-8', "os.mkdir(b'\\xff'); os.chdir(b'\\xff')"],
    [
      'below the longest possible path',
      "for _ in range(60): os.mkdir('d' * 200); os.chmod('.', 0o100); os.chdir('d' * 200)",
    ],
  ])('a file %s still counts', async (_, go) => {
    const sandboxes = await opened()
    const { work } = await sandboxes.create('run-1', 1)
    const script = `import os\n${go}\nopen('file', 'wb').write(bytes(1024 * 1024))`
    execFileSync('python3', ['-c', script], { cwd: work })
    await sandboxes.retain('run-1', { hours: 1, unpushed: false })
    await sandboxes.waitUntilSettled()
    expect(sandboxes.get('run-1')?.bytes).toBeGreaterThanOrEqual(1024 * 1024)
    await removeFolderTree(work)
  })

  test('measuring does not follow links', async () => {
    const sandboxes = await opened()
    const { work } = await sandboxes.create('run-1', 1)
    symlinkSync('/usr', join(work, 'all'))
    await sandboxes.retain('run-1', { hours: 1, unpushed: false })
    await sandboxes.waitUntilSettled()
    expect(sandboxes.get('run-1')?.bytes).toBeLessThan(1024 * 1024)
  })
})

/** Runs as a user whom folder modes keep out, which root is not. */
async function asOrdinary(act: () => Promise<void>): Promise<void> {
  if (process.geteuid?.() !== 0) return act()
  for (const folder of [data, join(data, 'sandboxes'), join(data, 'trash')])
    chownSync(folder, ORDINARY_UID, ORDINARY_UID)
  process.seteuid?.(ORDINARY_UID)
  try {
    await act()
  } finally {
    process.seteuid?.(0)
  }
}

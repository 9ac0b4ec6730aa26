/** `switchyard audit` over the trail of a real host: every source, a kill, an edit of the file, and a forged entry. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { AuditEntry } from '../../protocol/audit.ts'
import { configWithAnyPort, runCommand, serve } from '../support/command-process.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const [REFUSED, USAGE] = [1, 2]

async function run(dataDir: string, ...words: readonly string[]) {
  const command = runCommand([...words, '--data-dir', dataDir])
  return { code: await command.exit, out: command.out(), err: command.err() }
}

async function readTrail(dataDir: string, ...words: readonly string[]): Promise<AuditEntry[]> {
  const { code, out } = await run(dataDir, 'audit', '--json', ...words)
  expect(code).toBe(0)
  return JSON.parse(out)
}

const inShort = ({ source, action, on, keys, status }: AuditEntry) =>
  [source, action, ...Object.values(on ?? {}), ...(keys ?? []), status ?? '-'].join(' ')

function prepare() {
  const dataDir = join(tempFolder(), 'data')
  mkdirSync(dataDir)
  const file = join(dataDir, 'config.json')
  const write = (more: object) =>
    writeFileSync(file, configWithAnyPort({ worker: { local: false }, ...more }), { mode: 0o600 })
  write({})
  return {
    dataDir,
    write,
    trailFile: () => join(dataDir, 'audit', readdirSync(join(dataDir, 'audit'))[0] ?? ''),
  }
}

test('what people do from every source is in the trail of a host, also after it was killed', async () => {
  const { dataDir, write, trailFile } = prepare()
  const host = serve(dataDir)
  const { version } = await host.waitForLaunch()
  expect((await run(dataDir, 'pause')).code).toBe(0)
  expect((await run(dataDir, 'cancel', 'ENG-9')).code).not.toBe(0)
  expect((await run(dataDir, 'config', 'set', 'tracker.reviewState', 'hunter2')).code).toBe(0)
  await host.request('/api/resume', { method: 'POST' })
  write({ tracker: { reviewState: 'edited' } })
  await until('the edit is recorded', () => readFileSync(trailFile(), 'utf8').includes('"file"'))
  host.process.kill('SIGKILL')
  await host.exit
  const again = serve(dataDir)
  await again.waitForLaunch()
  again.process.kill('SIGTERM')
  expect(await again.exit).toBe(0)

  const newestFirst = await readTrail(dataDir)
  expect(newestFirst.toReversed().map(inShort)).toEqual([
    `host startHost ${version} -`,
    'command pauseDispatch 200',
    'command changeSettings tracker.reviewState 200',
    'api resumeDispatch 200',
    'file changeSettings tracker.reviewState -',
    `host startHost ${version} -`,
    'host stopHost 0',
  ])
  expect(readFileSync(trailFile(), 'utf8')).not.toContain('hunter2')
  expect((await readTrail(dataDir, '--source', 'file', '--limit', '1')).map(({ n }) => n)).toEqual([5])
  expect((await readTrail(dataDir, '--limit', '2')).map(({ n }) => n)).toEqual([7, 6])
  const table = await run(dataDir, 'audit')
  expect(table.out).toMatch(/\tcommand\tchange settings\ttracker\.reviewState\t200\n/)
})

test('a check proves that nothing was changed, and with an earlier hash that nothing was cut off', async () => {
  const { dataDir, trailFile } = prepare()
  expect(await run(dataDir, 'audit')).toMatchObject({
    code: USAGE,
    err: expect.stringContaining('--data-dir'),
  })
  const host = serve(dataDir)
  await host.waitForLaunch()
  await run(dataDir, 'pause')
  const [newest] = await readTrail(dataDir)
  const hash = newest?.hash ?? ''
  const whole = await run(dataDir, 'audit', '--verify')
  expect(whole.code).toBe(0)
  expect(whole.err.replaceAll(/\s+/g, ' ')).toContain(`the newest has the hash ${hash}`)
  await run(dataDir, 'resume')
  host.process.kill('SIGTERM')
  await host.exit
  expect(host.err()).toContain('"entries":')

  expect((await run(dataDir, 'audit', '--verify', '--head', hash)).code).toBe(0)
  expect(await run(dataDir, 'audit', '--head', 'nothing')).toMatchObject({ code: USAGE })
  const text = readFileSync(trailFile(), 'utf8')
  writeFileSync(trailFile(), `${text.split('\n').slice(0, 1).join('\n')}\n`)
  expect((await run(dataDir, 'audit', '--verify')).code).toBe(0)
  expect(await run(dataDir, 'audit', '--head', hash.slice(0, 12))).toMatchObject({
    code: REFUSED,
    out: expect.stringContaining(`no entry has the hash ${hash.slice(0, 12)}`),
  })
  writeFileSync(trailFile(), text.replace('"source":"command"', '"source":"page"'))
  expect(await run(dataDir, 'audit', '--verify', '--json')).toMatchObject({
    code: REFUSED,
    out: expect.stringMatching(/entry 2 was changed/),
  })
  expect((await run(dataDir, 'audit')).err).toContain('the trail is not whole')
})

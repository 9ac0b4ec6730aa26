/** A folder as a code host: real files, written by switchyard and by hand. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
import type { NewPullRequest } from '../../../../core/ports/code-host.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import { RunPullResponse } from '../../../../protocol/pulls.ts'
import { createLocalCodeHost } from '../../../../providers/codehost/local/code-host.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

function openCodeHost() {
  const path = join(tempFolder(), 'code hosts')
  mkdirSync(join(path, 'ada'), { recursive: true })
  const pulls = join(path, 'ada/lamps.pulls')
  const host = () => createLocalCodeHost({ path, clock: new ManualClock() })
  const put = (name: string, text: string | object) => {
    mkdirSync(pulls, { recursive: true })
    writeFileSync(join(pulls, name), typeof text === 'string' ? text : JSON.stringify(text))
  }
  return { path, pulls, host, put }
}

const order = (more: Partial<NewPullRequest> = {}): NewPullRequest => ({
  remote: 'ada/lamps',
  head: 'mend',
  base: 'main',
  title: 'Mend',
  body: 'Words <!-- marker -->',
  draft: false,
  ...more,
})

test('a pull request is opened, and found again', async () => {
  const { host, pulls, path } = openCodeHost()
  expect(host().gitAddress('ada/lamps')).toBe(join(path, 'ada/lamps.git'))
  expect(await host().findPull('ada/lamps', 'mend', 'main')).toEqual({ ok: true, value: undefined })
  const opened = await host().openPull(order())
  expect(opened).toMatchObject({ ok: true, value: { number: 1, state: 'open' } })
  expect(await host().findPull('ada/lamps', 'mend', 'main')).toEqual(opened)
  expect(await host().findPull('ada/lamps', 'mend', 'other')).toEqual({ ok: true, value: undefined })
  const url = opened.ok ? opened.value.url : ''
  expect(createChecker(RunPullResponse)({ url, number: 1, state: 'open' })).toMatchObject({ ok: true })
  expect(fileURLToPath(url)).toBe(join(pulls, '1.json'))
  expect(JSON.parse(readFileSync(join(pulls, '1.json'), 'utf8'))).toEqual({
    number: 1,
    title: 'Mend',
    body: 'Words <!-- marker -->',
    author: 'switchyard',
    state: 'open',
    draft: false,
    baseBranch: 'main',
    headBranch: 'mend',
    createdAt: '2026-01-01T00:00:00.000Z',
    updatedAt: '2026-01-01T00:00:00.000Z',
    comments: [],
    reviews: [],
    threads: [],
  })
  expect(readdirSync(pulls)).toEqual(['1.json'])
})

test('a second pull request of the same branch is refused, and drafts are marked', async () => {
  const { host } = openCodeHost()
  await host().openPull(order({ draft: true }))
  expect(await host().openPull(order())).toMatchObject({
    ok: false,
    refusal: { kind: 'conflict', message: expect.stringContaining('number 1') },
  })
  expect(await host().findPull('ada/lamps', 'mend', 'main')).toMatchObject({ value: { state: 'draft' } })
})

test('concurrent pull requests get distinct numbers, and one branch keeps only one', async () => {
  const { host, pulls } = openCodeHost()
  const each = await Promise.all(
    Array.from({ length: 12 }, (_, index) => host().openPull(order({ head: `b${index}` }))),
  )
  expect(new Set(each.map((result) => result.ok && result.value.number)).size).toBe(12)
  const same = await Promise.all(Array.from({ length: 6 }, () => host().openPull(order())))
  expect(same.filter(({ ok }) => ok)).toHaveLength(1)
  expect(
    same.filter((result) => !result.ok).every((result) => !result.ok && result.refusal.kind === 'conflict'),
  ).toBe(true)
  const heads = readdirSync(pulls).map(
    (name) => JSON.parse(readFileSync(join(pulls, name), 'utf8')).headBranch,
  )
  expect(heads.filter((head) => head === 'mend')).toHaveLength(1)
})

test('a file written by hand needs five fields, and closed ones are not found', async () => {
  const { host, put } = openCodeHost()
  const manual = { title: 'By hand', baseBranch: 'main', headBranch: 'mend' }
  put('3.json', { number: 3, state: 'closed', ...manual })
  put('4.json', { number: 4, state: 'merged', ...manual })
  expect(await host().findPull('ada/lamps', 'mend', 'main')).toEqual({ ok: true, value: undefined })
  put('5.json', { number: 5, state: 'open', ...manual })
  expect(await host().findPull('ada/lamps', 'mend', 'main')).toMatchObject({ value: { number: 5 } })
  expect(await host().openPull(order({ head: 'next' }))).toMatchObject({ value: { number: 6 } })
})

test('an unreadable file is reported, keeps its number and affects no other', async () => {
  const { host, put, pulls } = openCodeHost()
  put('1.json', '{ torn')
  put('2.json', { number: 7, title: 'x', state: 'open', baseBranch: 'main', headBranch: 'mend' })
  put('3.json', { number: 3, title: 'x', state: 'ajar', baseBranch: 'main', headBranch: 'mend' })
  put('notes.txt', 'mine')
  put('05.json', '{}')
  symlinkSync('/etc/passwd', join(pulls, '9.json'))
  mkdirSync(join(pulls, '10.json'))
  const folder = host().pullFolder('ada/lamps')
  const readPulls = folder.ok ? await folder.value.readAll() : folder
  expect(readPulls).toMatchObject({
    ok: true,
    value: {
      pulls: [],
      problems: [
        expect.stringMatching(/^1\.json: .*not JSON/),
        expect.stringMatching(/^2\.json: \/number: must be 2/),
        expect.stringMatching(/^3\.json: \/state: must be/),
        expect.stringMatching(/^9\.json is a link/),
        expect.stringMatching(/^10\.json is not a regular file/),
      ],
    },
  })
  expect(await host().openPull(order())).toMatchObject({ ok: true, value: { number: 11 } })
})

test('neither names nor links lead out of the folder', async () => {
  const { host, path } = openCodeHost()
  for (const remote of ['../etc', 'ada/..', 'ada', 'a/b/c', '-x/y', 'ada/\0']) {
    expect(await host().openPull(order({ remote }))).toMatchObject({ refusal: { kind: 'invalid' } })
    expect(await host().findPull(remote, 'mend', 'main')).toMatchObject({ refusal: { kind: 'invalid' } })
  }
  const elsewhere = tempFolder()
  symlinkSync(elsewhere, join(path, 'ada/lamps.pulls'))
  expect(await host().openPull(order())).toMatchObject({ ok: false })
  expect(readdirSync(elsewhere)).toEqual([])
  rmSync(join(path, 'ada/lamps.pulls'))
})

test('a pull request that could not be read back is refused', async () => {
  const { host, pulls } = openCodeHost()
  expect(await host().openPull(order({ body: 'x'.repeat(200_000) }))).toMatchObject({
    refusal: { kind: 'invalid', message: expect.stringContaining('/body') },
  })
  expect(existsSync(join(pulls, '1.json'))).toBe(false)
  expect(await host().openPull(order())).toMatchObject({ value: { number: 1 } })
})

test('no number follows the largest possible one', async () => {
  const { host, put, pulls } = openCodeHost()
  put('999999999999999.json', '{}')
  expect(await host().openPull(order())).toMatchObject({
    refusal: { kind: 'conflict', message: expect.stringContaining('999999999999999') },
  })
  expect(readdirSync(pulls)).toEqual(['999999999999999.json'])
})

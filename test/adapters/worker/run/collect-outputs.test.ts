/** Artifacts and memories from an agent's output folder, whose content is untrusted. */
import { execFileSync } from 'node:child_process'
import { linkSync, mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { ExecutionReport } from '../../../../core/daemon/ports.ts'
import { ARTIFACT_BYTES_MAX, ARTIFACT_PART_BYTES_MAX } from '../../../../protocol/limits.ts'
import { collectOutputs } from '../../../../worker/run/execution/collect-outputs.ts'
import { createSecretSearch } from '../../../../worker/secrets/secret-search.ts'

let out = ''
beforeEach(async () => {
  out = await mkdtemp(join(tmpdir(), 'switchyard-out-'))
  mkdirSync(join(out, 'artifacts'))
})
afterEach(() => rm(out, { recursive: true, force: true }))

const KEY = 'sk-Ant_03xZ9qLmT7vB2nR5wK8dJ4sH1f'
const secretSearch = createSecretSearch([{ name: 'the key', value: KEY }])

async function collected(artifactBytes?: number) {
  const all: ExecutionReport[] = []
  const reporter = {
    report: (report: ExecutionReport) => void all.push(report),
    waitForCapacity: () => Promise.resolve(),
  }
  const left = await collectOutputs(out, {
    reporter,
    instant: () => '2026-01-01T00:00:00.000Z',
    mayContinue: () => true,
    artifactBytes,
    search: secretSearch,
  })
  return { all, ...left }
}

const put = (name: string, data: string | Buffer) => writeFileSync(join(out, 'artifacts', name), data)

/** Joins the parts as the host does. */
function assembled(all: readonly ExecutionReport[], name: string): Buffer {
  const parts = all.flatMap((report) => (report.is === 'artifact' && report.name === name ? [report] : []))
  expect(parts.map(({ part }) => part)).toEqual(parts.map((_, n) => n))
  expect(parts.map(({ final }) => final)).toEqual(parts.map((_, n) => n === parts.length - 1))
  return Buffer.concat(parts.map(({ data }) => Buffer.from(data, 'base64')))
}

describe('artifacts', () => {
  test.each([0, 1, ARTIFACT_PART_BYTES_MAX, ARTIFACT_PART_BYTES_MAX + 1, 3 * ARTIFACT_PART_BYTES_MAX])(
    'one of %i bytes arrives completely, in parts, followed by its event',
    async (size) => {
      const data = Buffer.from(Array.from({ length: size }, (_, n) => n % 251))
      put('report.html', data)
      const { all, artifacts } = await collected()
      expect(artifacts).toEqual(['report.html'])
      expect(assembled(all, 'report.html').equals(data)).toBe(true)
      expect(all.at(-1)).toMatchObject({
        event: { type: 'artifact', name: 'report.html', size, contentType: 'text/html; charset=utf-8' },
      })
    },
  )

  test('folders become part of the name, and no two get the same', async () => {
    mkdirSync(join(out, 'artifacts', 'a'))
    put('a-b.txt', 'one')
    writeFileSync(join(out, 'artifacts', 'a', 'b.txt'), 'two')
    const { artifacts } = await collected()
    expect([...artifacts].sort()).toEqual(['2-a-b.txt', 'a-b.txt'])
  })

  test('control characters and leading dots in names are replaced', async () => {
    put('x\x1b[2J\u202etxt.exe', 'x')
    put('..hidden', 'x')
    expect((await collected()).artifacts).toEqual(['_hidden', 'x_[2J_txt.exe'])
  })

  test('links, pipes and files with a second name are left out and named', async () => {
    symlinkSync('/etc/passwd', join(out, 'artifacts', 'link'))
    execFileSync('mkfifo', [join(out, 'artifacts', 'pipe')])
    writeFileSync(join(out, 'elsewhere'), 'secret')
    linkSync(join(out, 'elsewhere'), join(out, 'artifacts', 'hard'))
    const { artifacts, leftOut } = await collected()
    expect(artifacts).toEqual([])
    expect([...leftOut].sort()).toEqual([
      expect.stringMatching(/^artifact hard .*: it has several names$/),
      expect.stringMatching(/^artifact link .* not a plain file$/),
      expect.stringMatching(/^artifact pipe .* not a plain file$/),
    ])
  })

  test('a folder that is a link is not entered', async () => {
    await rm(join(out, 'artifacts'), { recursive: true })
    mkdirSync(join(out, 'artifacts'))
    symlinkSync('/etc', join(out, 'artifacts', 'etc'))
    expect((await collected()).artifacts).toEqual([])
  })

  test('a link in place of the artifacts folder is not followed', async () => {
    const elsewhere = await mkdtemp(join(tmpdir(), 'switchyard-elsewhere-'))
    writeFileSync(join(elsewhere, 'key'), 'secret')
    await rm(join(out, 'artifacts'), { recursive: true })
    symlinkSync(elsewhere, join(out, 'artifacts'))
    const { all, artifacts, leftOut } = await collected()
    await rm(elsewhere, { recursive: true })
    expect({ all, artifacts }).toEqual({ all: [], artifacts: [] })
    expect(leftOut).toEqual([expect.stringContaining('folder was replaced')])
  })

  test('one that is too large is left out, and the others arrive', async () => {
    put('a.bin', '')
    truncateSync(join(out, 'artifacts', 'a.bin'), 600 * 1024 * 1024)
    put('b.txt', 'fine')
    const { artifacts, leftOut } = await collected()
    expect(artifacts).toEqual(['b.txt'])
    expect(leftOut).toEqual([expect.stringContaining('artifact a.bin is left out: it has 629145600 bytes')])
  })

  test('those beyond the budget of the run are left out, with the number of bytes', async () => {
    put('a.txt', 'x'.repeat(600))
    put('b.txt', 'x'.repeat(600))
    put('c.txt', 'x'.repeat(400))
    const { artifacts, leftOut } = await collected(1_000)
    expect(artifacts).toEqual(['a.txt', 'c.txt'])
    expect(leftOut).toEqual([
      expect.stringMatching(
        /^artifact b\.txt is left out: it has 600 bytes, .*\(sandbox\.maxArtifactsMib\)$/,
      ),
    ])
  })

  test('one above the maximum of a single artifact is left out, however large the budget is', async () => {
    put('a.bin', '')
    truncateSync(join(out, 'artifacts', 'a.bin'), ARTIFACT_BYTES_MAX + 1)
    const { artifacts, leftOut } = await collected(2 * ARTIFACT_BYTES_MAX)
    expect(artifacts).toEqual([])
    expect(leftOut).toEqual([expect.stringContaining('and an artifact at most 1073741824')])
  })

  test('artifacts beyond the maximum number are left out', async () => {
    for (let n = 0; n < 250; n += 1) put(`f${String(n).padStart(3, '0')}`, 'x')
    const { artifacts, leftOut } = await collected()
    expect(artifacts).toHaveLength(200)
    expect(leftOut).toEqual([expect.stringContaining('more artifacts than 200 ')])
  })
})

describe('memories', () => {
  test('one per line, without list marks, duplicates and invisible characters', async () => {
    writeFileSync(
      join(out, 'memories'),
      '- uses tabs\n\n* tests   need node\n- uses tabs\nx\u202ey\x1b[31m\n',
    )
    const { facts, all } = await collected()
    expect(facts).toEqual(['uses tabs', 'tests need node', 'xy[31m'])
    expect(all).toEqual([{ is: 'memories', facts }])
  })

  test('at most a hundred, each at most five hundred characters', async () => {
    writeFileSync(
      join(out, 'memories'),
      Array.from({ length: 200 }, (_, n) => `${n} ${'x'.repeat(900)}`).join('\n'),
    )
    const { facts } = await collected()
    expect([facts.length, Math.max(...facts.map((fact) => fact.length))]).toEqual([100, 500])
  })

  test('a missing file and a link in its place report nothing', async () => {
    symlinkSync('/etc/passwd', join(out, 'memories'))
    expect((await collected()).all).toEqual([])
  })
})

describe('a secret', () => {
  const archive = (content: string) => gzipSync(Buffer.from(content))

  test.each<[string, () => void, RegExp]>([
    ['in an artifact', () => put('report.txt', `key: ${KEY}`), /^the artifact report\.txt holds the key, /],
    ['in base64', () => put('a.b64', Buffer.from(`x${KEY}`).toString('base64')), /^the artifact a\.b64 /],
    ['far behind', () => put('large', `${'.'.repeat(700_000)}${KEY}`), /^the artifact large /],
    ['inside gzip', () => put('log.gz', archive(`${'.'.repeat(300_000)}${KEY}`)), /^the artifact log\.gz /],
    ['in the name of an artifact', () => put(`${KEY}.txt`, ''), /^an artifact holds the key, /],
    [
      'in a memory',
      () => writeFileSync(join(out, 'memories'), `- the key is ${KEY}\n`),
      /^a memory holds the key, /,
    ],
    [
      'in the name of what is left out',
      () => symlinkSync('/etc', join(out, 'artifacts', KEY)),
      /^the name of a file /,
    ],
  ])('%s: nothing is reported', async (_, leave, sentence) => {
    put('0-first.txt', 'harmless')
    writeFileSync(join(out, 'memories'), '- the tests run with node --test\n')
    leave()
    const { all, artifacts, facts, leftOut, foundSecret = '' } = await collected()
    expect({ all, artifacts, facts, leftOut }).toEqual({ all: [], artifacts: [], facts: [], leftOut: [] })
    expect(foundSecret).toMatch(sentence)
    expect(foundSecret).not.toContain(KEY)
  })

  test('what only begins like gzip is searched as it is', async () => {
    put('fake.gz', Buffer.concat([archive('x').subarray(0, 10), Buffer.from(KEY)]))
    expect((await collected()).foundSecret).toMatch(/^the artifact fake\.gz /)
    put('fake.gz', Buffer.concat([archive('x').subarray(0, 10), Buffer.alloc(3_000_000, 7)]))
    expect((await collected()).artifacts).toEqual(['fake.gz'])
  })
})

/** Hostile repositories and configurations must not harm the local code host. */
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { PullDetailFacts } from '../../../../core/ports/code-host.ts'
import { no } from '../../../../core/result.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import { PullDetail } from '../../../../protocol/pulls.ts'
import { diffTrees } from '../../../../providers/codehost/local/git-files.ts'
import { createGitRunner, type RunGit } from '../../../../providers/codehost/local/git-run.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { type LocalBench, localBench, REMOTE } from './local-fixture.ts'
import { git, granted, kindOf, tipOf } from './pull-suite.ts'

const MIB = 1024 * 1024

async function detailOf({ host }: LocalBench, number: number): Promise<PullDetailFacts> {
  const detail = granted(await host.detail({ remote: REMOTE, number }))
  expect(createChecker(PullDetail)({ ...detail, repo: 'key', remote: REMOTE })).toMatchObject({ ok: true })
  expect(Buffer.byteLength(JSON.stringify(detail))).toBeLessThan(16 * MIB)
  return detail
}

async function shownOf(
  files: Record<string, string | Buffer | null>,
  before: Record<string, string> = { a: 'a\n' },
) {
  const bench = await localBench()
  await bench.push('main', { files: before })
  await bench.push('work', { files })
  return detailOf(bench, await bench.open({ head: 'work' }))
}

describe('no program of a repository runs', () => {
  test('no hook, no external diff, no text conversion, no filter, no monitor, no signature check', async () => {
    const bench = await localBench()
    const attributes = '* diff=evil filter=evil text\n'
    for (const branch of ['main', 'one', 'two', 'three']) {
      await bench.push(branch, {
        files: { '.gitattributes': attributes, 'a.txt': 'a\n', [`${branch}.txt`]: 'x\n' },
      })
    }
    await bench.push('main', { files: { 'after.txt': 'x\n' } })
    const witness = join(tempFolder(), 'witness')
    const program = join(bench.bare, 'program')
    writeFileSync(program, `#!/bin/sh\necho "$0 $*" >> ${witness}\ncat\n`)
    chmodSync(program, 0o755)
    mkdirSync(join(bench.bare, 'hooks'), { recursive: true })
    for (const hook of [
      'reference-transaction',
      'post-update',
      'update',
      'pre-receive',
      'pre-merge-commit',
      'commit-msg',
    ]) {
      writeFileSync(join(bench.bare, 'hooks', hook), `#!/bin/sh\n'${program}' ${hook} < /dev/null\n`, {
        mode: 0o755,
      })
    }
    const settings = [
      'core.fsmonitor',
      'diff.external',
      'diff.evil.command',
      'diff.evil.textconv',
      'filter.evil.clean',
      'filter.evil.smudge',
      'gpg.program',
      'core.pager',
      'core.sshCommand',
      'core.editor',
      'core.alternateRefsCommand',
      'uploadpack.packObjectsHook',
    ]
    for (const key of settings) await git(bench.bare, ['config', key, `'${program}'`])
    for (const key of ['log.showSignature', 'commit.gpgSign', 'merge.renormalize'])
      await git(bench.bare, ['config', key, 'true'])
    await git(bench.bare, ['config', 'core.attributesFile', join(bench.bare, 'attributes')])
    writeFileSync(join(bench.bare, 'attributes'), attributes)
    mkdirSync(join(bench.bare, 'info'), { recursive: true })
    writeFileSync(join(bench.bare, 'info/attributes'), attributes)
    for (const [head, method] of [
      ['one', 'merge'],
      ['two', 'squash'],
      ['three', 'rebase'],
    ] as const) {
      const number = await bench.open({ head })
      expect((await detailOf(bench, number)).files[0]?.patch).toContain('+x')
      await bench.host.list(REMOTE, 'person')
      expect(await bench.host.merge({ remote: REMOTE, number }, method)).toMatchObject({ ok: true })
    }
    await bench.host.repos()
    expect(existsSync(witness)).toBe(false)
  })

  test('a repository with merge programs is readable, but its owner has to merge', async () => {
    const bench = await localBench()
    const witness = join(tempFolder(), 'witness')
    await git(bench.bare, ['config', 'merge.evil.driver', `touch ${witness}`])
    mkdirSync(join(bench.bare, 'info'), { recursive: true })
    writeFileSync(join(bench.bare, 'info/attributes'), '* merge=evil\n')
    await bench.push('main', { files: { a: '1\n2\n3\n4\n5\n' } })
    await bench.push('work', { files: { a: 'one\n2\n3\n4\n5\n' } })
    await bench.push('main', { files: { a: '1\n2\n3\n4\nfive\n' } })
    const number = await bench.open({ head: 'work' })
    expect(await detailOf(bench, number)).toMatchObject({ mergeableState: 'blocked', changedFiles: 1 })
    for (const method of ['merge', 'squash', 'rebase'] as const) {
      expect(await bench.host.merge({ remote: REMOTE, number }, method)).toMatchObject({
        refusal: { kind: 'conflict', message: expect.stringContaining('merge by hand') },
      })
    }
    expect(existsSync(witness)).toBe(false)
  })

  test('replace refs and alternates are not followed', async () => {
    const bench = await localBench()
    const main = await bench.push('main', { files: { a: 'a\n' } })
    const work = await bench.push('work', { files: { b: 'b\n' } })
    await git(bench.bare, ['update-ref', `refs/replace/${work}`, main])
    const detail = await detailOf(bench, await bench.open({ head: 'work' }))
    expect(detail).toMatchObject({ headSha: work, changedFiles: 1, state: 'open' })
  })
})

describe('names and contents', () => {
  test('content that looks like a diff header stays content', async () => {
    const trap = 'x\rdiff --git a/evil b/evil\r@@ -1 +1 @@\u2028diff --git a/evil b/evil\n'
    const { files } = await shownOf({
      '1\ndiff --git a/evil b/evil\n@@ -1 +1 @@': 'name\n',
      'a b\t"q"\\': trap,
      z: 'z\n',
    })
    expect(files.map(({ path }) => path)).toEqual([
      '1\ndiff --git a/evil b/evil\n@@ -1 +1 @@',
      'a b\t"q"\\',
      'z',
    ])
    expect(files.map(({ patch }) => patch)).toEqual([
      '@@ -0,0 +1 @@\n+name',
      `@@ -0,0 +1 @@\n+${trap.slice(0, -1)}`,
      '@@ -0,0 +1 @@\n+z',
    ])
  })

  test('type and mode changes do not shift the patches of other files', async () => {
    const bench = await localBench()
    await bench.push('main', { files: { a: 'a\n', b: 'b\n', c: 'c\n' } })
    const link =
      'commit refs/heads/work\ncommitter P <p@x> 1767225600 +0000\ndata 1\nx\nfrom refs/heads/main\nM 120000 inline a\ndata 1\nb\nM 100755 inline b\ndata 2\nb\n\nM 100644 inline c\ndata 2\nC\n\n'
    await git(bench.bare, ['fast-import', '--quiet'], link)
    const { files } = await detailOf(bench, await bench.open({ head: 'work' }))
    expect(files.map(({ path, status, patch }) => [path, status, patch])).toEqual([
      ['a', 'changed', '@@ -1 +0,0 @@\n-a\n@@ -0,0 +1 @@\n+b\n\\ No newline at end of file'],
      ['b', 'modified', undefined],
      ['c', 'modified', '@@ -1 +1 @@\n-c\n+C'],
    ])
  })

  test('any file names and contents are listed with their own patches', async () => {
    const piece = fc.constantFrom(
      'a',
      'é',
      '\n',
      '\t',
      '"',
      '\\',
      ' ',
      'diff --git ',
      '@@ -1 +1 @@',
      '\r',
      '\u2028',
      '-',
      '+',
      '漢',
    )
    const name = fc.array(piece, { minLength: 1, maxLength: 4 }).map((parts) => `f${parts.join('')}`)
    const line = fc
      .array(
        piece.filter((text) => text !== '\n'),
        { maxLength: 3 },
      )
      .map((parts) => parts.join(''))
    const files = fc.dictionary(name, fc.array(line, { minLength: 1, maxLength: 4 }), {
      minKeys: 1,
      maxKeys: 5,
      noNullPrototype: true,
    })
    await fc.assert(
      fc.asyncProperty(files, async (written) => {
        const texts = Object.fromEntries(
          Object.entries(written).map(([path, rows]) => [path, `${rows.join('\n')}\n`]),
        )
        const detail = await shownOf(texts)
        expect(new Set(detail.files.map(({ path }) => path))).toEqual(new Set(Object.keys(texts)))
        for (const { path, patch, additions } of detail.files) {
          const rows = written[path] ?? []
          expect(patch?.split('\n').slice(1)).toEqual(rows.map((row) => `+${row}`))
          expect(additions).toBe(rows.length)
        }
      }),
      { numRuns: 12 },
    )
  }, 120_000)

  test('invalid UTF-8 and impossible dates are shown as well as possible', async () => {
    const bench = await localBench()
    await bench.push('main', { files: { a: 'a\n' } })
    const stream = Buffer.concat([
      Buffer.from(
        'commit refs/heads/work\nauthor \xff\x1b[31m <> 1 +0000\ncommitter X <x@x> 99999999999999 +0000\ndata 5\n',
        'latin1',
      ),
      Buffer.from([0xff, 0xfe, 0x1b, 0x5b, 0x0a]),
      Buffer.from('from refs/heads/main\nM 100644 inline "b\\377"\ndata 3\n', 'latin1'),
      Buffer.from([0xe9, 0x0a, 0x0a]),
    ])
    await git(bench.bare, ['fast-import', '--quiet'], stream)
    const number = await bench.open({ head: 'work' })
    const detail = await detailOf(bench, number)
    expect(detail.files).toMatchObject([
      { path: 'b\ufffd', status: 'added', patch: '@@ -0,0 +1,2 @@\n+\ufffd\n+' },
    ])
    // A commit dated in the far future must not stay on top of the list.
    expect(detail.updatedAt <= '2026-01-01T00:00:00.000Z').toBe(true)
    for (const method of ['rebase', 'squash', 'merge'] as const) {
      const before = await tipOf(bench.bare, 'main')
      const answer = await bench.host.merge({ remote: REMOTE, number }, method)
      expect(answer.ok).toBe((await tipOf(bench.bare, 'main')) !== before)
      if (answer.ok) break
    }
  })
})

describe('other hostile pushes', () => {
  const place = (number: number) => ({ remote: REMOTE, number })

  test('a file name that begins with a tab does not shift line counts', async () => {
    const { files } = await shownOf({ '\tx': '1\n2\n', '\t': '1\n', m: '1\n2\n3\n', n: '1\n2\n3\n4\n' })
    expect(files.map(({ path, additions }) => [path, additions])).toEqual([
      ['\t', 1],
      ['\tx', 2],
      ['m', 3],
      ['n', 4],
    ])
  })

  test.each(['fix\u3000bug', 'fix\u00a0bug', 'fix\u2028bug'])(
    'a branch %j is opened and merged like any other',
    async (head) => {
      const bench = await localBench()
      await bench.push('main', { files: { a: 'a\n' } })
      const headSha = await bench.push(head, { files: { b: 'b\n' } })
      const number = await bench.open({ head })
      expect(await detailOf(bench, number)).toMatchObject({ headSha, changedFiles: 1 })
      expect(await bench.host.merge(place(number), 'merge')).toMatchObject({ ok: true })
    },
  )

  test('a ref in the place of a recorded pull request does not block the others', async () => {
    const bench = await localBench()
    await bench.push('main', { files: { a: 'a\n' } })
    for (const head of ['one', 'two', 'three']) await bench.push(head, { files: { [head]: 'b\n' } })
    const [first, second, third] = [
      await bench.open({ head: 'one' }),
      await bench.open({ head: 'two' }),
      await bench.open({ head: 'three' }),
    ]
    await git(bench.bare, ['update-ref', `refs/pull/${first}`, 'main'])
    await bench.host.list(REMOTE, 'person')
    await git(bench.bare, ['update-ref', 'refs/heads/main', 'refs/heads/two'])
    const states = granted(await bench.host.states(REMOTE, [first, second, third], 'person'))
    expect([...states]).toEqual([
      [first, 'open'],
      [second, 'merged'],
      [third, 'open'],
    ])
  })

  test('a branch with a second root commit is not rebased', async () => {
    const bench = await localBench()
    await bench.push('main', { files: { a: 'a\n' } })
    await bench.push('work', { files: { b: 'b\n' } })
    const orphan =
      'commit refs/heads/orphan\ncommitter P <p@x> 1767225600 +0000\ndata 1\nx\nM 100644 inline c\ndata 2\nc\n\n'
    await git(bench.bare, ['fast-import', '--quiet'], orphan)
    const both = ['merge-tree', '--write-tree', '--allow-unrelated-histories', 'work', 'orphan']
    const tree = (await git(bench.bare, both)).trim()
    const joined = `tree ${tree}\nparent ${await tipOf(bench.bare, 'work')}\nparent ${await tipOf(bench.bare, 'orphan')}\nauthor P <p@x> 1 +0000\ncommitter P <p@x> 1 +0000\n\nboth\n`
    const sha = (await git(bench.bare, ['hash-object', '-t', 'commit', '-w', '--stdin'], joined)).trim()
    await git(bench.bare, ['update-ref', 'refs/heads/work', sha])
    const number = await bench.open({ head: 'work' })
    expect(await bench.host.merge(place(number), 'rebase')).toMatchObject({
      refusal: { kind: 'conflict', message: expect.stringContaining('second root commit') },
    })
    expect(await bench.host.merge(place(number), 'squash')).toMatchObject({ ok: true })
  })

  test.each(['author X <x@x>', 'author X <x@x> 1 +99999', 'author X <x@x> -5 +0000', 'author '])(
    'a commit by %j is rebased like any other',
    async (author) => {
      const bench = await localBench()
      const main = await bench.push('main', { files: { a: 'a\n' } })
      const blob = (await git(bench.bare, ['hash-object', '-w', '--stdin'], 'b\n')).trim()
      const tree = (await git(bench.bare, ['mktree'], `100644 blob ${blob}\tb\n`)).trim()
      const commit = `tree ${tree}\nparent ${main}\n${author}\ncommitter X <x@x> 1 +0000\n\nOdd\n`
      const made = ['hash-object', '-t', 'commit', '-w', '--stdin', '--literally']
      await git(bench.bare, ['update-ref', 'refs/heads/work', (await git(bench.bare, made, commit)).trim()])
      await bench.push('main', { files: { c: 'c\n' } })
      const number = await bench.open({ head: 'work' })
      expect(await bench.host.merge(place(number), 'rebase')).toMatchObject({ ok: true })
    },
  )
})

describe('sizes', () => {
  test('a huge file, patch or message loses only its own text', async () => {
    const bench = await localBench()
    await bench.push('main', { files: { a: 'a\n' } })
    await bench.push('work', { files: { 'small.txt': 'small\n' }, message: `Long\n\n${'m'.repeat(3 * MIB)}` })
    await bench.push('work', {
      files: {
        huge: 'x'
          .repeat(79)
          .concat('\n')
          .repeat(MIB / 4),
        'control.txt': '\u0001'.repeat(2 * MIB),
      },
    })
    const detail = await detailOf(bench, await bench.open({ head: 'work' }))
    expect(detail).toMatchObject({ changedFiles: 3, commits: { length: 2 } })
    const patchOf = (path: string) => detail.files.find((file) => file.path === path)?.patch
    expect(patchOf('huge')).toBeUndefined()
    expect(patchOf('control.txt')).toBeUndefined()
    expect(detail.commits[0]?.message).toMatch(/^Long\n\nm+$/)
  }, 60_000)

  test('files that take too long to compare are listed without patches', async () => {
    const bench = await localBench()
    const from = await bench.push('main', { files: { a: 'a\n', b: 'b\n' } })
    const to = await bench.push('work', { files: { a: 'A\n', c: 'c\n' } })
    const run = createGitRunner(bench.clock)(bench.bare)
    const slow: RunGit = async (order) =>
      order.args.some((argument) => /^--(patch|numstat|shortstat)$/.test(argument))
        ? no('failed', 'git diff-tree took more than 20 s, and was ended')
        : run(order)
    expect(await diffTrees(slow, from, to)).toMatchObject({
      value: {
        changedFiles: 2,
        files: [
          { path: 'a', status: 'modified' },
          { path: 'c', status: 'added' },
        ],
      },
    })
  })

  test('the first of thousands of files are listed, and all are counted', async () => {
    const names = Array.from(
      { length: 4_000 },
      (_, at) => `${'deep/'.repeat(20)}${String(at).padStart(4, '0')}.txt`,
    )
    const detail = await shownOf(Object.fromEntries(names.map((name) => [name, 'x\n'])))
    expect(detail).toMatchObject({ changedFiles: 4_000, additions: 4_000, files: { length: 3_000 } })
    expect(detail.files.at(-1)).toMatchObject({ additions: 1 })
  }, 60_000)

  test('the newest of hundreds of commits are listed, and a rebase is refused', async () => {
    const bench = await localBench()
    await bench.push('main', { files: { a: 'a\n' } })
    const commits = Array.from({ length: 300 }, (_, at) => {
      const from = at === 0 ? 'from refs/heads/main\n' : ''
      return `commit refs/heads/work\ncommitter P <p@x> ${1_767_225_600 + at} +0000\ndata 3\n${100 + at}\n${from}M 100644 inline b\ndata 3\n${100 + at}\n`
    })
    await git(bench.bare, ['fast-import', '--quiet'], commits.join(''))
    const number = await bench.open({ head: 'work' })
    const { commits: listed } = await detailOf(bench, number)
    expect([listed.length, listed[0]?.message, listed.at(-1)?.message]).toEqual([250, '150', '399'])
    expect(await bench.host.merge({ remote: REMOTE, number }, 'rebase')).toMatchObject({
      refusal: { kind: 'conflict', message: expect.stringContaining('too many to rebase') },
    })
    expect(kindOf(await bench.host.merge({ remote: REMOTE, number }, 'squash'))).toBeUndefined()
  }, 60_000)
})

/** Tests that commits which tests write without git are those that git would write. */
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { type WrittenCommit, writeCommit } from '../../../support/github/commit-writer.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { filesAt, git, makeBare } from './pull-suite.ts'

const BY = 'Ada Example <ada@example.org> 1770000000 +0000'
const COMMITS: readonly Omit<WrittenCommit, 'branch' | 'author' | 'committer'>[] = [
  { message: 'Begin', files: { 'README.md': '# Hello\n', 'a/b/c.txt': 'c', 'a/b.txt': 'b', 'a-b': '' } },
  { message: 'Ändern\n\nWith a body.\n', files: { 'a.txt': Buffer.from([0, 255, 10]), 'ä/界.txt': 'x' } },
  { message: 'A folder becomes a file', files: { 'a/b': 'file', 'README.md': null } },
  { message: 'A file becomes a folder', files: { 'a/b/d/e.txt': 'e', 'ä/界.txt': null, missing: null } },
  { message: '', files: {} },
]

test('commits have the hashes that git fast-import gives them, and git reads them', async () => {
  const [written, imported] = [join(tempFolder(), 'written.git'), join(tempFolder(), 'imported.git')]
  await Promise.all([makeBare(written), makeBare(imported)])
  let parent: string | undefined
  const marks: string[] = []
  for (const commit of COMMITS) {
    parent = writeCommit(written, { ...commit, branch: 'some/work', parent, author: BY, committer: BY })
    marks.push(parent ?? 'unknown')
    await git(imported, ['fast-import', '--quiet', '--force'], streamOf(commit, marks.at(-2)))
    expect((await git(imported, ['rev-parse', 'some/work'])).trim()).toBe(parent)
  }
  expect(await git(written, ['fsck', '--strict', '--no-dangling'])).toBe('')
  expect(await filesAt(written, 'some/work')).toEqual(await filesAt(imported, 'some/work'))
})

test('a commit on top of one that git wrote has its files, and is left to git when a pack holds them', async () => {
  const bare = join(tempFolder(), 'bare.git')
  await makeBare(bare)
  const files = { 'a b': 'a', 'c/ä/d': 'd', e: 'e' }
  await git(bare, ['fast-import', '--quiet'], streamOf({ message: 'By git', files }, undefined))
  const tip = async () => (await git(bare, ['rev-parse', 'some/work'])).trim()
  const more = {
    branch: 'some/work',
    message: 'More',
    author: BY,
    committer: BY,
    files: { 'c/f': 'f', e: null },
  }
  const written = writeCommit(bare, { ...more, parent: await tip() })
  expect(await tip()).toBe(written)
  expect(await filesAt(bare, 'some/work')).toEqual(['a b', 'c/f', 'c/ä/d'])
  expect(await git(bare, ['show', 'some/work:c/ä/d', 'some/work:c/f'])).toBe('df')
  await git(bare, ['fast-import', '--quiet'], streamOf({ message: 'By git', files: {} }, written))
  await git(bare, ['repack', '-q', '-a', '-d'])
  const packed = await tip()
  expect(writeCommit(bare, { ...more, parent: packed })).toBeUndefined()
  expect(await tip()).toBe(packed)
})

function streamOf({ message, files }: Pick<WrittenCommit, 'message' | 'files'>, parent?: string): Buffer {
  const changes = Object.entries(files).flatMap(([path, content]) =>
    content === null ? [`D ${path}\n`] : [`M 100644 inline ${path}\n`, ...dataOf(content)],
  )
  const from = parent === undefined ? '' : `from ${parent}\n`
  const head = `commit refs/heads/some/work\nauthor ${BY}\ncommitter ${BY}\n`
  return Buffer.concat([head, ...dataOf(message), from, ...changes].map((part) => Buffer.from(part)))
}

const dataOf = (content: string | Buffer) => [`data ${Buffer.byteLength(content)}\n`, content, '\n']

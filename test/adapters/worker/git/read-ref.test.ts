/** References read from git's files say what git says. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { readRef } from '../../../../worker/git/mirror/bare-repository.ts'
import { commitFiles, createRepository, git } from '../../../support/git.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

test('loose, packed and peeled references, and names that contain each other', async () => {
  const folder = tempFolder()
  createRepository(folder, { First: {}, Second: {} })
  const [first, second] = [git(folder, 'rev-parse', 'main~'), git(folder, 'rev-parse', 'main')]
  for (const branch of ['a/main', 'main2', 'ma']) git(folder, 'branch', branch, first)
  git(folder, 'tag', '-a', '-m', 'One', 'v1', first)
  git(folder, 'pack-refs', '--all')
  commitFiles(folder, 'three', {})
  git(folder, 'branch', 'loose', second)
  const repository = join(folder, '.git')
  const read = (ref: string) => readRef(repository, ref)
  expect(await read('refs/heads/main')).toBe(git(folder, 'rev-parse', 'main'))
  expect(await read('refs/heads/loose')).toBe(second)
  for (const branch of ['a/main', 'main2', 'ma']) expect(await read(`refs/heads/${branch}`)).toBe(first)
  expect(await read('refs/tags/v1')).toBe(git(folder, 'rev-parse', 'v1'))
})

test.each(['gone', 'a', 'main/below', 'x'.repeat(300), ''])('there is no branch %j', async (branch) => {
  const repository = join(tempFolder(), 'bare')
  mkdirSync(join(repository, 'refs/heads/a'), { recursive: true })
  writeFileSync(join(repository, 'refs/heads/main'), `${'1'.repeat(40)}\n`)
  writeFileSync(join(repository, 'packed-refs'), `# pack-refs with: peeled\n${'2'.repeat(40)} refs/heads/x\n`)
  expect(await readRef(repository, `refs/heads/${branch}`)).toBeUndefined()
})

test.each(['', 'ref: refs/heads/main\n', 'broken'])('a loose reference %j has no object', async (text) => {
  const repository = join(tempFolder(), 'bare')
  mkdirSync(join(repository, 'refs/heads'), { recursive: true })
  writeFileSync(join(repository, 'refs/heads/main'), text)
  expect(await readRef(repository, 'refs/heads/main')).toBeUndefined()
})

/** References read from git's files say what git says. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { readRef } from '../../../../worker/git/bare-repository.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const git = (folder: string, ...args: string[]) =>
  execFileSync('git', ['-C', folder, '-c', 'user.name=A', '-c', 'user.email=a@b', ...args], {
    encoding: 'utf8',
  }).trim()

test('loose, packed and peeled references, and names that contain each other', async () => {
  const folder = tempFolder()
  git(folder, 'init', '-q', '--initial-branch=main')
  const commit = (message: string) => {
    git(folder, 'commit', '-q', '--allow-empty', '-m', message)
    return git(folder, 'rev-parse', 'HEAD')
  }
  const [first, second] = [commit('one'), commit('two')]
  for (const branch of ['a/main', 'main2', 'ma']) git(folder, 'branch', branch, first)
  git(folder, 'tag', '-a', '-m', 'One', 'v1', first)
  git(folder, 'pack-refs', '--all')
  const third = commit('three')
  git(folder, 'branch', 'loose', second)
  const repository = join(folder, '.git')
  const read = (ref: string) => readRef(repository, ref)
  expect(await read('refs/heads/main')).toBe(third)
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

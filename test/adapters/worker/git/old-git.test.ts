/** An old git: a program that answers with its version and refuses the options of newer ones. */
import { spawnSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { yes } from '../../../../core/result.ts'
import { tryMerge } from '../../../../providers/codehost/local/git-merge.ts'
import type { RunGit } from '../../../../providers/codehost/local/git-run.ts'
import { readGitVersion } from '../../../../worker/git/git-version.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

function oldGit(version: string): string {
  const program = join(tempFolder(), 'git')
  const script = `#!/bin/sh
case "$1" in
version) echo "git version ${version}" ;;
merge-tree) echo 'usage: git merge-tree <base-tree> <branch1> <branch2>' >&2; exit 129 ;;
*) exec /usr/bin/git "$@" ;;
esac
`
  writeFileSync(program, script)
  chmodSync(program, 0o755)
  return program
}

function runnerOf(program: string, folder: string): RunGit {
  return async ({ args }) => {
    const { status, stdout, stderr } = spawnSync(program, [...args], { cwd: folder })
    return yes({ ...(status === null ? {} : { code: status }), output: stdout, errorText: stderr.toString() })
  }
}

test('a worker refuses a git that no run works with, and names what it found', async () => {
  const refused = await readGitVersion(oldGit('2.25.1'))
  expect(refused).toMatchObject({ ok: false, refusal: { message: expect.stringContaining('2.25.1') } })
  expect(await readGitVersion(oldGit('2.34.1'))).toEqual(yes('2.34.1'))
  expect(await readGitVersion('/nowhere/git')).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
  expect(await readGitVersion()).toEqual(yes(expect.stringMatching(/^\d+\.\d+/)))
})

test('a merge with an old git is refused with the version that merges need', async () => {
  const folder = tempFolder()
  const bare = join(folder, 'a.git')
  spawnSync('/usr/bin/git', ['init', '--quiet', '--bare', bare])
  const merged = await tryMerge(runnerOf(oldGit('2.34.1'), bare), 'a', 'b')
  expect(merged).toMatchObject({
    ok: false,
    refusal: { kind: 'conflict', message: expect.stringMatching(/2\.38 .*2\.34\.1/) },
  })
  const newer = await tryMerge(runnerOf(oldGit('2.39.5'), bare), 'a', 'b')
  expect(newer).toMatchObject({ ok: false, refusal: { message: expect.stringContaining('usage') } })
})

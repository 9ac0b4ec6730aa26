/** Versions of git: reading them, comparing them, and the sentence about an old one. */
import { expect, test } from '@jest/globals'
import { explainOldGit, isGitTooOld, parseGitVersion } from '../../core/git-version.ts'

test.each([
  ['git version 2.39.5\n', '2.39.5'],
  ['git version 2.39.5 (Apple Git-154)', '2.39.5'],
  ['git version 2.45.GIT', '2.45'],
  ['git version 2.30.0.windows.1', '2.30.0'],
  ['', undefined],
])('%j', (answer, version) => {
  expect(parseGitVersion(answer)).toBe(version)
})

test.each([
  ['2.25.1', true],
  ['2.37.9', true],
  ['2.38', false],
  ['2.38.0', false],
  ['2.100.0', false],
  ['3.0.0', false],
  ['1.99', true],
  [undefined, false],
])('git %s is too old for merges: %s', (version, isTooOld) => {
  expect(isGitTooOld(version, 'merges')).toBe(isTooOld)
})

test('the sentence names the version found, the version needed and a command', () => {
  expect(explainOldGit('a worker', '2.25.1', 'runs')).toBe(
    'a worker needs git 2.29 or newer, and this machine has 2.25.1; install a newer one: Debian 12 and Ubuntu 24.04 have one, for an older Ubuntu: sudo add-apt-repository ppa:git-core/ppa && sudo apt-get update && sudo apt-get install git',
  )
})

/**
 * Conflict markers that came in with the work: in files where they stand neither in the pull request as it was nor in
 * its base, for some files are about markers. Looked for outside, in the clean repository.
 */

import type { Git } from './git.ts'
import { runRepositoryPath } from './run-repository.ts'

const SEARCH_MS_MAX = 2 * 60_000
const FILES_MAX = 200
const FILES_NAMED_MAX = 5
const MARKER_START = '^<{7} '
const MARKER_END = '^>{7} '

/** What cannot be looked at in time has none: the rebase and the agent have both said that they are done. */
export async function filesWithMarkers(
  git: Git,
  staging: string,
  commit: string,
  { base, head }: { readonly base: string; readonly head: string },
): Promise<readonly string[]> {
  const folder = runRepositoryPath(staging)
  const run = async (args: readonly string[]): Promise<readonly string[] | undefined> => {
    const ran = await git.run({ args, folder, isUntrusted: true, timeoutMs: SEARCH_MS_MAX })
    if (!ran.ok || (ran.value.code !== 0 && ran.value.code !== 1)) return undefined
    return ran.value.output.split('\0').filter((name) => name !== '')
  }
  const touched = (from: string) =>
    run([
      'diff',
      '--no-ext-diff',
      '--no-textconv',
      '--no-renames',
      '--name-only',
      '-z',
      `-G${MARKER_START}`,
      from,
      commit,
    ])
  const sinceBase = (await touched(base)) ?? []
  if (sinceBase.length === 0) return []
  const sinceHead = await touched(head)
  const both = sinceBase.filter((name) => sinceHead?.includes(name) ?? true).slice(0, FILES_MAX)
  if (both.length === 0) return []
  const paths = both.map((name) => `:(literal)${name}`)
  const grep = [
    'grep',
    '-z',
    '--name-only',
    '-I',
    '--all-match',
    '-E',
    '-e',
    MARKER_START,
    '-e',
    MARKER_END,
    commit,
    '--',
  ]
  const found = (await run([...grep, ...paths])) ?? []
  return found.map((name) => name.slice(commit.length + 1)).slice(0, FILES_NAMED_MAX)
}

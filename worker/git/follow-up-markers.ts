/**
 * `filesWithMarkers` finds files in which the work left conflict markers. Markers that the pull request or its base
 * already contained do not count, because some files are about markers. Runs outside, in the run repository.
 */
import type { Git } from './git.ts'
import { runRepositoryPath } from './run-repository.ts'

const SEARCH_MS_MAX = 2 * 60_000
const FILES_MAX = 200
const FILES_NAMED_MAX = 5
const MARKER_START = '^<{7} '
const MARKER_END = '^>{7} '

/** A search that fails or times out counts as no markers: the rebase and the agent both report completion. */
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

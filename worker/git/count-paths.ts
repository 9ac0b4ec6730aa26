/**
 * `countPaths` refuses work that changes too many files, before anything lists them: folders that contain one another
 * name more files than any machine can list.
 */
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { no, type Result, yes } from '../../core/result.ts'
import type { Git } from './git.ts'
import { BoundedStream, WORK_PATHS_MAX } from './work-bounds.ts'

const COUNT_MS_MAX = 2 * 60_000
const NUL = 0

const TOO_MANY = no(
  'invalid',
  `the agent’s work changes more than ${WORK_PATHS_MAX} files, so nothing was published; its work stays in its sandbox: see what it added, and whether .gitignore should name it`,
)

/** @param folder the run repository */
export async function countPaths(
  git: Git,
  folder: string,
  head: string,
  base: string,
): Promise<Result<void>> {
  const files = await countNames(git, folder, ['ls-tree', '-r', '-z', '--name-only', head], WORK_PATHS_MAX)
  if (!files.ok) return files
  if (files.value === undefined) {
    const before = await countNames(git, folder, ['ls-tree', '-r', '-z', '--name-only', base])
    if (!before.ok) return before
    const most = (before.value ?? 0) + WORK_PATHS_MAX
    const all = await countNames(git, folder, ['ls-tree', '-r', '-z', '--name-only', head], most)
    if (!all.ok || all.value === undefined) return all.ok ? TOO_MANY : all
  }
  const changed = await countNames(
    git,
    folder,
    ['diff-tree', '-r', '-z', '--name-only', base, head],
    WORK_PATHS_MAX,
  )
  return changed.ok && changed.value === undefined ? TOO_MANY : changed.ok ? yes(undefined) : changed
}

/** Undefined: there are more than `most`. */
async function countNames(
  git: Git,
  folder: string,
  args: readonly string[],
  most = Number.POSITIVE_INFINITY,
): Promise<Result<number | undefined>> {
  const counter = new BoundedStream({ endsMax: most, end: NUL })
  const counted = await git.runChecked('counting the changed files', {
    args,
    folder,
    isUntrusted: true,
    readOutput: (output) =>
      pipeline(output, counter, new Writable({ write: (_piece, _encoding, done) => done() })),
    timeoutMs: COUNT_MS_MAX,
  })
  if (counter.isOver) return yes(undefined)
  return counted.ok ? yes(counter.ends) : counted
}

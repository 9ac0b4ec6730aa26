/**
 * `bundleWork` writes a bundle of collected work that may never be pushed: the commits of the run's branch beyond the
 * commit at which the work starts. People fetch the branch from it.
 *
 * `keepHead` names the collected commit in the run repository, and `forgetHead` precedes each collection. So the branch is
 * there only when the last collection has succeeded, and nothing of the bundle holds a secret of the run.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Result, yes } from '../../core/result.ts'
import { readRef, writeRef } from './bare-repository.ts'
import type { Git } from './git.ts'
import { runRepositoryPath } from './run-repository.ts'

export interface WorkBundle {
  readonly head: string
  readonly path: string
}

const BUNDLE_FILE = 'unpublished.bundle'
const BUNDLE_MS_MAX = 10 * 60_000

const refOf = (branch: string): string => `refs/heads/${branch}`

export const keepHead = (staging: string, branch: string, head: string): Promise<void> =>
  writeRef(runRepositoryPath(staging), refOf(branch), head)

export const forgetHead = (staging: string, branch: string): Promise<void> =>
  rm(join(runRepositoryPath(staging), refOf(branch)), { recursive: true, force: true })

/** The host has the bundle, or the work is published. */
export const deleteBundle = ({ staging }: { readonly staging: string }): Promise<void> =>
  rm(join(staging, BUNDLE_FILE), { force: true })

/** undefined: no work is collected. */
export async function bundleWork(
  git: Git,
  { staging, branch, base }: { readonly staging: string; readonly branch: string; readonly base: string },
): Promise<Result<WorkBundle | undefined>> {
  const folder = runRepositoryPath(staging)
  const head = await readRef(folder, refOf(branch))
  if (head === undefined) return yes(undefined)
  const path = join(staging, BUNDLE_FILE)
  const bundled = await git.runChecked('bundling the work', {
    args: ['bundle', 'create', '--quiet', path, refOf(branch), `^${base}`],
    folder,
    isUntrusted: true,
    timeoutMs: BUNDLE_MS_MAX,
  })
  return bundled.ok ? yes({ head, path }) : bundled
}

/**
 * The artifact with the commits of a run that could not be published: its names, and the command that fetches the commits
 * into a clone of the run's repository.
 */
import type { Run } from './run.ts'

export const UNPUBLISHED_BUNDLE = 'unpublished.bundle'
const FOLLOW_UP_BUNDLE = /^unpublished-[\w-]+\.bundle$/
/** The kind of the id and the digits that name its millisecond. */
const ID_CHARS = 15

/** The commits of each follow-up have an artifact of their own: those of an earlier one may be nowhere else. */
export const bundleName = (followUp: { readonly id: string } | null | undefined): string =>
  followUp == null ? UNPUBLISHED_BUNDLE : `unpublished-${followUp.id.slice(0, ID_CHARS)}.bundle`

export const isBundle = (name: string): boolean => name === UNPUBLISHED_BUNDLE || FOLLOW_UP_BUNDLE.test(name)

/** The newest bundle. */
export const bundleAmong = (artifacts: readonly string[] = []): string | undefined =>
  artifacts.findLast(isBundle)

/**
 * Each branch of the bundle becomes `kept/<branch>`, so no branch of the person's own is in the way. The branch that an
 * older bundle has left is replaced. A ticket's name would mean its newest run, so the command has the run's id.
 */
export function fetchBundleCommand({ id }: Pick<Run, 'id'>, bundle: string): string {
  const file = `${id}.bundle`
  return `switchyard runs artifacts ${id} ${bundle} --to ${file} && git fetch ${file} '+refs/heads/*:refs/heads/kept/*'`
}

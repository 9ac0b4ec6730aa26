import type { Run } from './run.ts'

/** A completed run that left nothing to review: its work is on no branch and in no pull request. */
export const changedNothing = ({
  status,
  prUrl,
  result,
}: Pick<Run, 'status' | 'prUrl' | 'result'>): boolean =>
  status === 'completed' &&
  prUrl === undefined &&
  result !== undefined &&
  result.prUrl === undefined &&
  result.branch === undefined

/** The words for it behind the status of a run. */
export const UNCHANGED_WORDS = 'it changed nothing'

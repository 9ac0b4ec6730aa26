/** How many lines a change adds and removes. The list of pull requests has them without loading a diff. */
import type { PullFile } from '../../../protocol/pulls.ts'
import { formatCount } from '../../text/amounts.ts'

/** `+31 −9`. */
export function Changes({ additions, deletions }: Pick<PullFile, 'additions' | 'deletions'>) {
  return (
    <span class="diff-changes">
      <span class="tone-good">
        <span class="visually-hidden">lines added </span>+{formatCount(additions)}
      </span>{' '}
      <span class="tone-bad">
        <span class="visually-hidden">lines removed </span>−{formatCount(deletions)}
      </span>
    </span>
  )
}

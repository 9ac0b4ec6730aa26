/**
 * Selects the remarks on a pull request that a follow-up obeys: those of people who may write to the repository.
 *
 * Anybody may comment on a public repository, and an agent can't tell an order from data. So the other remarks are left
 * out before any budget is applied, and only their authors are named.
 */
import type { RepoMapping } from '../../protocol/config.ts'
import { UNHEARD_NAMED_MAX } from '../../protocol/limits.ts'
import type { PullComment, PullReview, PullThread } from '../../protocol/pulls.ts'
import { isSameName } from '../tickets/names.ts'

export interface Conversation {
  readonly comments: readonly PullComment[]
  readonly reviews: readonly PullReview[]
  readonly threads: readonly PullThread[]
}

export interface ObeyedConversation extends Conversation {
  /** The authors of remarks that were left out. */
  readonly unheard: readonly string[]
}

type Authored = Pick<PullComment | PullReview, 'author' | 'authorMayWrite'>

/** @param orders absent: only writers */
export function selectOrders(
  { comments, reviews, threads }: Conversation,
  orders: RepoMapping['orders'],
): ObeyedConversation {
  const listed = orders === undefined || orders === 'writers' ? [] : orders
  const unheard = new Set<string>()
  const isObeyed = (remark: Authored): boolean => {
    // A code host that is a folder of this machine has no strangers.
    if (remark.authorMayWrite !== false || listed.some((login) => isSameName(login, remark.author)))
      return true
    unheard.add(remark.author)
    return false
  }
  return {
    comments: comments.filter(isObeyed),
    reviews: reviews.filter(isObeyed),
    threads: threads.flatMap((thread) => {
      const obeyed = thread.comments.filter(isObeyed)
      return obeyed.length === 0 ? [] : [{ ...thread, comments: obeyed }]
    }),
    unheard: [...unheard].slice(0, UNHEARD_NAMED_MAX),
  }
}

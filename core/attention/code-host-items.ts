/** The items about the code host: repositories that can't be read, runs without one, and work that can't be published. */
import type { AttentionItem } from '../../protocol/attention.ts'
import { ATTENTION_ID_CHARS_MAX, ATTENTION_ITEM_RUNS_MAX, TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import { connectCommandFor } from '../explain/connect-command.ts'
import { runInCommand } from '../run/name-in-commands.ts'
import { topicOf } from '../run/queue-reasons.ts'
import { toSingleLine, truncate } from '../safe-text.ts'
import { formatNames } from '../tickets/names.ts'
import type { AttentionFacts, UnreadableRepository } from './facts.ts'

export const UNMAPPED = 'unmapped:'
/** Each other run is published within an hour after the cause is gone. */
const NAMES_IN_CURE_MAX = 10

export const bounded = (text: string): string => truncate(toSingleLine(text), TEXT_CHARS_MAX)

export const namesOf = (runs: readonly Run[]): string =>
  formatNames([...new Set(runs.map(({ ticket }) => ticket.identifier))])

/** Each repository has one item, with the words of whoever tried it first, and with all runs that wait for it. */
export function codeHostItems({ unreadable }: AttentionFacts): AttentionItem[] {
  const bySubject = new Map<string, UnreadableRepository[]>()
  for (const each of unreadable) {
    const [subject = each.reason] = each.reason.split(': ')
    bySubject.set(subject, [...(bySubject.get(subject) ?? []), each])
  }
  return [...bySubject].flatMap(([subject, all]) => {
    const [first] = all.toSorted((a, b) => (a.since < b.since ? -1 : 1))
    return first === undefined ? [] : [itemOfRepository(subject, first, all)]
  })
}

function itemOfRepository(
  subject: string,
  { reason, since }: UnreadableRepository,
  all: readonly UnreadableRepository[],
): AttentionItem {
  const waiting = all.flatMap((each) => each.waiting)
  const unfollowed = all.flatMap((each) => each.unfollowed)
  const [first] = waiting
  const words = [
    reason,
    ...(waiting.length === 0 ? [] : [`waiting for it: ${namesOf(waiting)}`]),
    ...(unfollowed.length === 0
      ? []
      : [`not followed until then: the pull requests of ${namesOf(unfollowed)}`]),
  ]
  const waitCure = first === undefined ? 'switchyard doctor' : `switchyard explain ${runInCommand(first)}`
  return {
    id: `codehost:${subject}`,
    kind: 'codehost',
    message: bounded(words.join('; ')),
    cure: TOKEN_REFUSED.test(reason) ? 'switchyard connect codehost' : waitCure,
    since,
  }
}

/** The words of workers and of the host about a token that is good no more. */
const TOKEN_REFUSED = /\brefused the token\b/

export function itemOfUnmapped({ run, reason }: AttentionFacts['unmapped'][number]): AttentionItem {
  return {
    id: `${UNMAPPED}${run.id}`,
    kind: 'codehost',
    message: bounded(reason),
    cure: `switchyard explain ${runInCommand(run)}`,
    runId: run.id,
    ticketId: run.ticket.id,
    since: run.queuedAt ?? run.createdAt,
  }
}

/** All runs with the same cause have one item, because one act of a person helps them all. */
export function itemOfWork({ cause, runs, since }: AttentionFacts['unpublished'][number]): AttentionItem {
  const [first] = runs
  const ids = runs.slice(0, ATTENTION_ITEM_RUNS_MAX).map(({ id }) => id)
  const subject = runs.length === 1 ? 'a run is' : `${runs.length} runs are`
  const names = runs.slice(0, NAMES_IN_CURE_MAX).map(runInCommand)
  const isCredential = topicOf(cause.split(': ')[0] ?? '') === 'credential'
  return {
    id: truncate(`publish:${cause}`, ATTENTION_ID_CHARS_MAX),
    kind: 'codehost',
    message: bounded(`${subject} done and can’t be published: ${cause}`),
    cure: isCredential ? connectCommandFor(cause) : `switchyard retry ${names.join(' ')}`,
    ...(runs.length === 1 && first !== undefined
      ? { runId: first.id, ticketId: first.ticket.id }
      : { runs: ids }),
    since,
  }
}

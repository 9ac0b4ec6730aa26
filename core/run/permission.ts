/**
 * Whether a person may do this to a run now. Whether the run is known is asked before.
 *
 * Lasting reasons come before passing ones; each says what to do instead.
 */
import { printable } from '../../protocol/explain.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import { type Answer, no, yes } from '../refusal.ts'
import { isTerminal } from './change.ts'

/** `asked` is what the person called the ticket. */
export function mayRunTicket(
  asked: string,
  facts: { readonly ticket: Ticket | undefined; readonly activeRun: string | undefined },
): Answer<Ticket> {
  const { ticket, activeRun } = facts
  if (ticket === undefined)
    return no('unknown', `no ticket ${printable(asked)} among those that the tracker shows`)
  if (activeRun !== undefined) return no('conflict', busy(ticket, activeRun))
  return yes(ticket)
}

export function mayRetry(run: Run, facts: { readonly otherActiveRun: string | undefined }): Answer<void> {
  if (!isTerminal(run.status)) {
    return no('conflict', `${run.id} is ${run.status}: wait for its end or cancel it before a retry`)
  }
  if (facts.otherActiveRun !== undefined) return no('conflict', busy(run.ticket, facts.otherActiveRun))
  return yes(undefined)
}

export function mayDiscard(run: Run, facts: { readonly booted: boolean }): Answer<void> {
  if (!isTerminal(run.status)) {
    return no(
      'conflict',
      `${run.id} is ${run.status}: wait for its end or cancel it before discarding its sandbox`,
    )
  }
  if (run.sandbox.id === undefined) return notThere(run)
  if (facts.booted) {
    return no('conflict', `the sandbox of ${run.id} is in use: close its terminals or release it first`)
  }
  return yes(undefined)
}

function busy(ticket: Ticket, activeRun: string): string {
  return `ticket ${printable(ticket.identifier)} has an active run, ${activeRun}: wait for its end or cancel it`
}

function notThere({ id, sandbox }: Run): Answer<void> {
  return sandbox.retainedUntil === undefined
    ? no('conflict', `${id} has left no sandbox to discard`)
    : no('gone', `the sandbox of ${id} is gone already`)
}

/** Adds the command that helps to a refusal of the host to change a run. */
import type { Client } from '../../../client/client.ts'
import { HostRefusal } from '../../../client/errors.ts'
import { hasEnded } from '../../../client/run-events.ts'
import { runInCommand, ticketInCommand } from '../../../core/run/name-in-commands.ts'
import type { Run } from '../../../protocol/run.ts'

export type RunVerb = 'attach' | 'cancel' | 'discard' | 'followup' | 'publish' | 'release' | 'retry'

/** An unfinished run has to end first. */
const WHILE_ACTIVE: Readonly<Record<RunVerb, string | undefined>> = {
  attach: 'logs -f',
  cancel: undefined,
  discard: 'cancel',
  followup: 'runs wait',
  publish: 'runs wait',
  release: undefined,
  retry: 'runs wait',
}

/** Undefined where the record of the run does not tell what helps. */
export function cureOfRun(verb: RunVerb, run: Run): string | undefined {
  const { status, prState } = run
  const name = runInCommand(run)
  if (!hasEnded(run)) {
    const command = status === 'queued' && verb !== 'discard' ? 'explain' : WHILE_ACTIVE[verb]
    return command === undefined ? undefined : `switchyard ${command} ${name}`
  }
  if (verb !== 'followup' && verb !== 'retry') return undefined
  if (prState === 'merged') return `switchyard start ${ticketInCommand(run.ticket)}`
  if (verb === 'retry') return undefined
  if (status !== 'completed') return `switchyard retry ${name}`
  return prState === 'closed' ? `switchyard pulls reopen ${name}` : undefined
}

/** Rejects with the refusal and its cure. Another active run of the ticket, or an open session, may be in the way. */
export async function withRunCure(
  client: Client,
  verb: RunVerb,
  run: Run,
  answer: Promise<Run>,
): Promise<Run> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof HostRefusal && error.status < 500 && error.cure === undefined)
      error.cure = cureOfRun(verb, run) ?? (await cureOfConflict(client, run, error).catch(() => undefined))
    throw error
  }
}

async function cureOfConflict(
  client: Client,
  run: Run,
  { status }: HostRefusal,
): Promise<string | undefined> {
  if (status !== 409 || !hasEnded(run)) return undefined
  const [newest] = await client.listRuns({ ticket: run.ticket.identifier, limit: 1 })
  if (newest !== undefined && newest.id !== run.id && !hasEnded(newest))
    return `switchyard runs wait ${runInCommand(newest)}`
  return run.sandbox.id === undefined ? undefined : `switchyard release ${runInCommand(run)}`
}

/** The refusal of another run of a ticket. */
export async function withTicketCure(client: Client, ticket: string, answer: Promise<Run>): Promise<Run> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof HostRefusal && error.status === 409) {
      const [newest] = await client.listRuns({ ticket, limit: 1 }).catch(() => [])
      const isQueued = newest?.status === 'queued'
      if (newest !== undefined && !hasEnded(newest))
        error.cure ??= `switchyard ${isQueued ? 'explain' : 'runs wait'} ${runInCommand(newest)}`
    }
    throw error
  }
}

/**
 * The verbs that change a run: cancel, retry, publish, followup, release, discard; and acknowledge, for runs that were
 * lost.
 */
import { HostRefusal } from '../../../client/errors.ts'
import { hasEnded } from '../../../client/run-events.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { Run } from '../../../protocol/run.ts'
import type { Output } from '../../output/output.ts'
import { formatClock, type Present } from '../../output/times.ts'
import { findRuns } from '../command/names.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { readRunOptions } from '../tickets/start.ts'
import { type RunVerb, withRunCure } from './run-cures.ts'
import { describeRun } from './runs.ts'

export interface ActionOptions extends ClientOptions {
  readonly instructions?: string | undefined
}

type RunAction = (run: Run) => Promise<Run>

export function cancel(context: CommandContext, names: readonly string[]): Promise<void> {
  return actOn(context, names, 'cancel', ({ id }) => context.client.cancelRun({ id }), describeCancelled)
}

/** A worker that has the run ends it first. A run that had ended stays as it was. */
export function describeCancelled(output: Output, run: Run): string {
  if (run.status === 'cancelled') return describeRun(output, run)
  if (hasEnded(run)) return output.stdout.clean(`${run.ticket.identifier} has ended already: ${run.status}`)
  return output.stdout.clean(
    `${run.ticket.identifier} is being cancelled, ${run.status} until its worker has ended it`,
  )
}

export async function retry(context: CommandContext<ActionOptions>, names: readonly string[]): Promise<void> {
  const body = await readRunOptions(context.options)
  await actOn(context, names, 'retry', ({ id }) =>
    context.client.retryRun({ id, ...(body === undefined ? {} : { body }) }),
  )
}

interface PublishFlags extends ClientOptions {
  readonly anyway?: boolean | undefined
}

export async function publish(
  context: CommandContext<PublishFlags>,
  names: readonly string[],
): Promise<void> {
  const { client, options } = context
  const body = options.anyway === true ? { anyway: options.anyway } : {}
  await actOn(context, names, 'publish', ({ id }) => client.publishRun({ id, body }))
}

export async function followUp(
  context: CommandContext<ActionOptions>,
  names: readonly string[],
): Promise<void> {
  const body = await readRunOptions(context.options)
  await actOn(context, names, 'followup', ({ id }) =>
    context.client.followUpRun({ id, ...(body === undefined ? {} : { body }) }),
  )
}

export function release(context: CommandContext, names: readonly string[]): Promise<void> {
  const { client, present } = context
  return actOn(
    context,
    names,
    'release',
    ({ id }) => client.releaseRun({ id }),
    (output, run) => describeReleased(output, run, present()),
  )
}

/** The state of the run would read like the outcome of the command: `ENG-251 failed`. */
function describeReleased({ stdout }: Output, run: Run, present: Present): string {
  const { ticket, sandbox } = run
  const until = Date.parse(sandbox.retainedUntil ?? '')
  // Only a disk that is kept can have been booted, and none of a run that goes on.
  const outcome =
    hasEnded(run) && until > present.now
      ? `released, disk kept until ${formatClock(until, present)}`
      : 'nothing was booted'
  return stdout.clean(`${ticket.identifier}: ${outcome}`)
}

export async function discard(context: CommandContext, names: readonly string[]): Promise<void> {
  const { client, questions, options, present } = context
  const runs = await findRuns(client, names)
  await questions.confirmLoss({
    loss: runs.map((run) => lossOf(run, present())).join('; '),
    yes: options.yes,
    command: `switchyard discard ${names.map(quoteWord).join(' ')}`,
  })
  await actOnRuns(
    context,
    runs,
    'discard',
    ({ id }) => client.discardRun({ id }),
    ({ stdout }, { ticket }) => stdout.clean(`${ticket.identifier}: sandbox discarded`),
  )
}

function lossOf({ ticket, sandbox }: Run, present: Present): string {
  const where = sandbox.workerName === undefined ? '' : ` on ${sandbox.workerName}`
  const until = sandbox.retainedUntil
  const kept = until === undefined ? '' : `, kept until ${formatClock(Date.parse(until), present)}`
  return `this deletes ${ticket.identifier}'s sandbox${where}${kept}`
}

/** `switchyard runs acknowledge`: a person knows what was lost with a damaged database that was set aside. */
export async function acknowledge({ client, output }: CommandContext): Promise<void> {
  const { items } = await client.readAttention()
  const losses = items.filter(({ mayAcknowledge }) => mayAcknowledge === true)
  for (const { id } of losses) await client.acknowledgeAttention({ body: { id } })
  if (output.format === 'json') output.json({ acknowledged: losses })
  else if (losses.length === 0) output.note('Nothing is lost that was not acknowledged before.')
  else for (const { message } of losses) output.data(output.stdout.clean(`acknowledged: ${message}`))
}

async function actOn(
  context: CommandContext,
  names: readonly string[],
  verb: RunVerb,
  action: RunAction,
  describe = describeRun,
): Promise<void> {
  await actOnRuns(context, await findRuns(context.client, names), verb, action, describe)
}

/** The refusal of one run names it, because there may be several. */
async function actOnRuns(
  { client, output }: CommandContext,
  runs: readonly Run[],
  verb: RunVerb,
  action: RunAction,
  describe = describeRun,
): Promise<void> {
  for (const run of runs) {
    const changed = await withRunCure(client, verb, run, action(run)).catch((error) => {
      if (error instanceof HostRefusal && runs.length > 1)
        error.message = `${run.ticket.identifier}: ${error.message}`
      throw error
    })
    output.outcomeLine(changed, changed.id, describe(output, changed))
  }
}

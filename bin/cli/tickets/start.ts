/** `switchyard start`: queues tickets, or creates one from words and queues it. `tickets create` is the same in full. */
import { providerNamed } from '../../../client/agent-names.ts'
import type { Client } from '../../../client/client.ts'
import { HostRefusal, reasonOf } from '../../../client/errors.ts'
import type { NewTicketRequest } from '../../../protocol/new-ticket.ts'
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { Run, RunOptions, Ticket } from '../../../protocol/run.ts'
import { shortId } from '../../output/short-names.ts'
import { type ExitError, refusedError, usageError } from '../../process/exit.ts'
import { readTextOption } from '../../process/parse-option.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { withTicketCure } from '../runs/run-cures.ts'
import { waitForRuns } from '../runs/wait.ts'

export interface StartOptions extends ClientOptions {
  readonly repo?: string | undefined
  readonly description?: string | undefined
  readonly instructions?: string | undefined
  readonly agent?: string | undefined
  readonly model?: string | undefined
  readonly watch?: boolean | undefined
}

export interface CreateOptions extends ClientOptions {
  readonly repo?: string | undefined
  readonly description?: string | undefined
  readonly priority?: string | undefined
  readonly label?: readonly string[] | true | undefined
  readonly start: boolean
}

/** Words are what no ticket is called: more than one word, or anything where a repository is named. */
export async function start(
  context: CommandContext<StartOptions>,
  names: readonly string[],
): Promise<number | undefined> {
  const { options } = context
  const [first = ''] = names
  const isNew = options.repo !== undefined || names.some((name) => /\s/.test(name))
  if (!isNew) return await startTickets(context, names)
  if (names.length > 1)
    throw usageError('the words of a new ticket must stand in quotes', newTicketCommand(names, options.repo))
  return await startWords(context, first)
}

export async function startTickets(
  context: CommandContext<Partial<StartOptions> & ClientOptions>,
  names: readonly string[],
): Promise<number | undefined> {
  const { client, options } = context
  const body = await readRunOptions(options)
  const runs: Run[] = []
  for (const name of names) {
    const queued = client.runTicket({ id: name, ...(body === undefined ? {} : { body }) })
    const run = await withTicketCure(client, name, queued).catch((error) => {
      if (!(error instanceof HostRefusal) || error.status !== 404) throw error
      // Words without quotes arrive as several names.
      throw noTicket(name, runs.length === 0 ? names : [name])
    })
    runs.push(run)
    reportQueued(context, run)
  }
  return options.watch === true ? await waitForRuns(context, runs, { isCourse: true }) : undefined
}

const noTicket = (name: string, words: readonly string[]): ExitError =>
  refusedError(
    `no ticket is called ${name}`,
    `switchyard tickets, or for a new one: ${newTicketCommand(words)}`,
  )

const newTicketCommand = (words: readonly string[], repo = 'KEY'): string =>
  `switchyard start ${quoteWord(words.join(' '))} --repo ${quoteWord(repo)}`

async function startWords(context: CommandContext<StartOptions>, title: string): Promise<number | undefined> {
  const { client, options, output } = context
  if (options.instructions !== undefined)
    throw usageError('--instructions is for tickets that exist', 'put the words into --description')
  const choice = await readRunOptions(options)
  const request: NewTicketRequest = {
    title,
    // A run that has begun keeps its agent, so the ticket waits until the run is asked for with the choice.
    ...(choice === undefined ? {} : { start: false }),
    ...(options.repo === undefined ? {} : { repo: options.repo }),
    ...(options.description === undefined
      ? {}
      : { description: await readTextOption(options.description, '--description') }),
  }
  const { ticket, run: queued } = await client.createTicket({ body: request })
  const run = choice === undefined ? queued : await runWith(client, ticket, choice)
  if (run === undefined) throw refusedError(`${ticket.identifier} was created, and no run of it is queued`)
  output.outcomeLine(
    run,
    run.id,
    `${ticket.identifier} created in ${ticket.state}, run ${shortId(run.id)} ${run.status}`,
  )
  return options.watch === true ? await waitForRuns(context, [run], { isCourse: true }) : undefined
}

/** Says that the ticket is there: the same command again would create another one. */
async function runWith(client: Client, { id, identifier }: Ticket, body: RunOptions): Promise<Run> {
  try {
    return await client.runTicket({ id, body })
  } catch (error) {
    const cure = `switchyard start ${quoteWord(identifier)}`
    throw refusedError(`${identifier} was created, and its run was refused: ${reasonOf(error)}`, cure)
  }
}

export async function createTicket(context: CommandContext<CreateOptions>, title: string): Promise<void> {
  const { client, options, output } = context
  const { repo, description, priority, label, start } = options
  const body: NewTicketRequest = {
    title,
    start,
    ...(repo === undefined ? {} : { repo }),
    ...(description === undefined ? {} : { description: await readTextOption(description, '--description') }),
    // The option takes the words 1 to 4 only.
    ...(priority === undefined ? {} : { priority: Number(priority) as 1 | 2 | 3 | 4 }),
    ...(Array.isArray(label) ? { labels: [...label] } : {}),
  }
  const answer = await client.createTicket({ body })
  const { ticket, run } = answer
  const queued = run === undefined ? '' : `, run ${shortId(run.id)} ${run.status}`
  output.outcome(answer, ticket.identifier, `${ticket.identifier} created in ${ticket.state}${queued}`)
}

function reportQueued({ output }: CommandContext, run: Run): void {
  output.outcomeLine(run, run.id, `${run.ticket.identifier} ${run.status}, run ${shortId(run.id)}`)
}

/** Undefined when nothing is asked for beyond the run. */
export async function readRunOptions(options: {
  readonly instructions?: string | undefined
  readonly agent?: string | undefined
  readonly model?: string | undefined
}): Promise<RunOptions | undefined> {
  const { instructions, agent, model } = options
  if (instructions === undefined && agent === undefined && model === undefined) return undefined
  return {
    ...(instructions === undefined
      ? {}
      : { instructions: await readTextOption(instructions, '--instructions') }),
    // The host refuses a provider that it does not know, and lists those that it knows.
    ...(agent === undefined
      ? {}
      : { provider: (providerNamed(agent) ?? agent) as NonNullable<RunOptions['provider']> }),
    ...(model === undefined ? {} : { model }),
  }
}

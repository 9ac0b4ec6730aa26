/** `switchyard tickets`: the eligible tickets, in the order in which they are taken, and one in full. */
import type { Client } from '../../../client/client.ts'
import { priorityWord } from '../../../client/priorities.ts'
import { ticketInCommand } from '../../../core/run/name-in-commands.ts'
import { changedNothing } from '../../../protocol/changed-nothing.ts'
import type { Ticket } from '../../../protocol/run.ts'
import type { TicketRun } from '../../../protocol/ticket-query.ts'
import { shortId } from '../../output/short-names.ts'
import type { TableColumn } from '../../output/table.ts'
import { formatAge, formatAgeOf } from '../../output/times.ts'
import { findTicket } from '../command/names.ts'
import type { CommandContext } from '../command/run-command.ts'

/** The unfinished run of each ticket, or its newest, by the id of the ticket. */
async function readRuns(client: Client): Promise<ReadonlyMap<string, TicketRun>> {
  const runs = await client.listTicketRuns()
  return new Map(runs.map((run) => [run.ticketId, run]))
}

const stateOfRun = (run: Pick<TicketRun, 'status' | 'unchanged'> | undefined): string =>
  run === undefined ? '-' : run.unchanged === true ? 'changed nothing' : run.status

const columnsWith = (runs: ReadonlyMap<string, TicketRun>): readonly TableColumn<Ticket>[] => [
  { heading: 'TICKET', cell: ({ identifier }) => identifier },
  { heading: 'TITLE', cell: ({ title }) => title, shrinksTo: 12, shrinks: 'end' },
  { heading: 'STATE', cell: ({ state }) => state },
  { heading: 'RUN', cell: ({ id }) => stateOfRun(runs.get(id)) },
  { heading: 'PRIORITY', cell: ({ priority }) => priorityWord(priority) ?? '-', givesWay: 2 },
  { heading: 'REPO', cell: ({ repo }) => repo ?? '-', givesWay: 3 },
  {
    heading: 'LABELS',
    cell: ({ labels }) => labels.join(' ') || '-',
    givesWay: 1,
    shrinksTo: 8,
    shrinks: 'end',
  },
]
const NAME_COLUMNS = 12

/** A ticket that somebody has just labelled is there after the next poll. */
async function describePolls({ client, present }: CommandContext): Promise<string> {
  const { state, lastPollAt, nextPollAt } = await client.readTrackerStatus()
  if (state !== 'connected' || lastPollAt === undefined) return ''
  const { now } = present()
  const next = nextPollAt === undefined ? '' : `, and will be in ${formatAge(Date.parse(nextPollAt) - now)}`
  return ` The tracker was asked ${formatAgeOf(lastPollAt, now)} ago${next}.`
}

export async function tickets(context: CommandContext, name?: string): Promise<void> {
  const { client, output } = context
  if (name === undefined) {
    const isTable = output.format === 'table'
    const [listed, runs] = await Promise.all([client.listTickets(), isTable ? readRuns(client) : new Map()])
    // In a table the tickets without a run come first.
    const isToDo = ({ id }: Ticket): boolean => !runs.has(id)
    const records = isTable
      ? [...listed.filter(isToDo), ...listed.filter((ticket) => !isToDo(ticket))]
      : listed
    const polls = isTable && records.length === 0 ? await describePolls(context) : ''
    output.list({
      records,
      id: ({ identifier }) => identifier,
      columns: columnsWith(runs),
      empty: `No ticket is eligible now.${polls} Next: switchyard status`,
    })
    return
  }
  const ticket = await findTicket(client, name)
  if (output.format === 'json') output.json(ticket)
  else if (output.format === 'id') output.data(ticket.identifier)
  else {
    const { stdout } = output
    output.data(
      stdout.alignEnds(stdout.clean(`${ticket.identifier}  ${ticket.title}`), stdout.clean(ticket.state)),
    )
    const [run] = await client.listRuns({ ticket: ticket.identifier, limit: 1 })
    const facts: readonly [string, string][] = [
      ['address', ticket.url],
      ['repo', ticket.repo ?? '-'],
      ['priority', priorityWord(ticket.priority) ?? '-'],
      ['labels', ticket.labels.join(', ') || '-'],
      [
        'newest run',
        run === undefined
          ? 'none'
          : `${changedNothing(run) ? 'changed nothing' : run.status}, ${shortId(run.id)}`,
      ],
    ]
    for (const [heading, value] of facts)
      if (value !== '') output.data(stdout.truncate(`${heading.padEnd(NAME_COLUMNS)}${stdout.clean(value)}`))
    output.next(`switchyard start ${ticketInCommand(ticket)}`)
  }
}

/** `switchyard tickets`: the eligible tickets, in the order in which they are taken, and one in full. */
import type { Client } from '../../client/client.ts'
import { priorityWord } from '../../client/priorities.ts'
import { changedNothing } from '../../client/run-events.ts'
import { ticketInCommand } from '../../core/run/name-in-commands.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import { findTicket } from '../client/names.ts'
import type { CommandContext } from '../client/run-command.ts'
import { shortId } from '../output/short-ids.ts'
import type { TableColumn } from '../output/table.ts'

/** Older runs of eligible tickets are not looked through. */
const RUNS_MAX = 200

/** The newest run of each ticket, by the id of the ticket. */
async function readNewestRuns(client: Client): Promise<ReadonlyMap<string, Run>> {
  const runs = await client.listRuns({ limit: RUNS_MAX })
  return new Map([...runs].reverse().map((run) => [run.ticket.id, run]))
}

const stateOfRun = (run: Run | undefined): string =>
  run === undefined ? '-' : changedNothing(run) ? 'changed nothing' : run.status

const columnsWith = (runs: ReadonlyMap<string, Run>): readonly TableColumn<Ticket>[] => [
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

export async function tickets({ client, output }: CommandContext, name?: string): Promise<void> {
  if (name === undefined) {
    const isTable = output.format === 'table'
    const [listed, runs] = await Promise.all([
      client.listTickets(),
      isTable ? readNewestRuns(client) : new Map(),
    ])
    // In a table the tickets without a recent run come first.
    const isToDo = ({ id }: Ticket): boolean => !runs.has(id)
    const records = isTable
      ? [...listed.filter(isToDo), ...listed.filter((ticket) => !isToDo(ticket))]
      : listed
    output.list({
      records,
      id: ({ identifier }) => identifier,
      columns: columnsWith(runs),
      empty: 'No ticket is eligible now. Next: switchyard status',
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
      ['newest run', run === undefined ? 'none' : `${stateOfRun(run)}, ${shortId(run.id)}`],
    ]
    for (const [heading, value] of facts)
      if (value !== '') output.data(stdout.truncate(`${heading.padEnd(NAME_COLUMNS)}${stdout.clean(value)}`))
    output.next(`switchyard start ${ticketInCommand(ticket)}`)
  }
}

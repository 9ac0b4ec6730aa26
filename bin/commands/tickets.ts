/** `switchyard tickets`: the eligible tickets, in the order in which they are taken, and one in full. */
import { priorityWord } from '../../client/priorities.ts'
import { ticketInCommand } from '../../core/run/name-in-commands.ts'
import type { Ticket } from '../../protocol/run.ts'
import { findTicket } from '../client/names.ts'
import type { CommandContext } from '../client/run-command.ts'
import type { TableColumn } from '../output/table.ts'

const COLUMNS: readonly TableColumn<Ticket>[] = [
  { heading: 'TICKET', cell: ({ identifier }) => identifier },
  { heading: 'TITLE', cell: ({ title }) => title, shrinksTo: 12, shrinks: 'end' },
  { heading: 'STATE', cell: ({ state }) => state },
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
const NAME_COLUMNS = 11

export async function tickets({ client, output }: CommandContext, name?: string): Promise<void> {
  if (name === undefined) {
    output.list({
      records: await client.listTickets(),
      id: ({ identifier }) => identifier,
      columns: [...COLUMNS],
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
    const facts: readonly [string, string][] = [
      ['address', ticket.url],
      ['repo', ticket.repo ?? '-'],
      ['priority', priorityWord(ticket.priority) ?? '-'],
      ['labels', ticket.labels.join(', ') || '-'],
    ]
    for (const [heading, value] of facts)
      if (value !== '') output.data(stdout.truncate(`${heading.padEnd(NAME_COLUMNS)}${stdout.clean(value)}`))
    output.next(`switchyard start ${ticketInCommand(ticket)}`)
  }
}

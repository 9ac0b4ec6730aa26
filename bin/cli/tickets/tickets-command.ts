/**
 * The noun `tickets`, and the command `start`, which queues them.
 *
 * `start.ts` makes tickets and runs; `tickets.ts` lists what is eligible. Runs that exist are in `runs/`.
 */
import { Option } from '@commander-js/extra-typings'
import { clientCommand } from '../command/client-options.ts'
import { clientAction, runCommand } from '../command/run-command.ts'
import { orMeantVerb } from '../command/usage-errors.ts'

const loadTickets = () => import('./tickets.ts')
const loadStart = () => import('./start.ts')

export const ticketsCommand = () =>
  clientCommand('tickets', 'Tickets that are eligible now')
    .argument('[ticket]', 'one ticket')
    .action((name, options, noun) =>
      runCommand(options, async (context) => {
        const { tickets } = await loadTickets()
        if (name === undefined) await tickets(context)
        else await orMeantVerb(noun, [name], () => tickets(context, name))
      }),
    )
    .addCommand(
      clientCommand('list', 'Tickets that are eligible now').action(
        clientAction(loadTickets, ({ tickets }, context) => tickets(context)),
      ),
    )
    .addCommand(
      clientCommand('show', 'One ticket')
        .argument('<ticket>')
        .action(clientAction(loadTickets, ({ tickets }, context, name) => tickets(context, name))),
    )
    .addCommand(
      clientCommand('start', 'Queue tickets')
        .argument('<ticket...>')
        .action(clientAction(loadStart, ({ startTickets }, context, names) => startTickets(context, names))),
    )
    .addCommand(
      clientCommand('create', 'Make a ticket where tickets live')
        .argument('<title>')
        .option('--repo <key>', 'the repository')
        .option('--description <text>', 'the description; - reads standard input')
        .addOption(new Option('--priority <n>', '1 is urgent, 4 is low').choices(['1', '2', '3', '4']))
        .option('--label <label...>', 'labels of the ticket')
        .option('--no-start', 'leave it where it is not eligible')
        .action(clientAction(loadStart, ({ createTicket }, context, title) => createTicket(context, title))),
    )

export const startCommand = () =>
  clientCommand('start', 'Queue a ticket, or a new one made from words')
    .argument('<ticket-or-words...>', 'tickets, or the title of a new one in quotes')
    .option('--repo <key>', 'the repository of a new ticket')
    .option('--description <text>', 'the description of a new ticket; - reads standard input')
    .option('--instructions <text>', 'words for the agent; - reads standard input')
    .option('--agent <name>', 'claude, codex or gemini')
    .option('--model <name>', 'the model of the agent')
    .option('--watch', 'wait until it has ended')
    .action(clientAction(loadStart, ({ start }, context, names) => start(context, names)))

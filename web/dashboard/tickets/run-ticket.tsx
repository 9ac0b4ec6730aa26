/** Starts a run of a ticket, with instructions and another agent where a person gives them. */
import type { Ticket } from '../../../protocol/run.ts'
import { showOutcome } from '../../elements/toasts.ts'
import { runAddress } from '../addresses.ts'
import { usualAgent } from '../runs/agent-fields.tsx'
import { askRunOptions } from '../runs/run-options.tsx'
import { host } from '../state/host.ts'

export const askForRun = (ticket: Ticket): Promise<void> =>
  askRunOptions({
    title: `Start a run of ${ticket.identifier}`,
    lead: ticket.title,
    usual: usualAgent(ticket.repo),
    act: 'Start run',
    busyWord: 'Starting',
    hint: 'Words for the agent besides the ticket.',
    send: async (body) => {
      const run = await host.runTicket({ id: ticket.id, body })
      showOutcome(`${ticket.identifier} is queued.`, { to: runAddress(run.id), text: 'Show the run' })
    },
  })

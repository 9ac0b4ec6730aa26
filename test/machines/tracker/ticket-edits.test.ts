/** An edited ticket among many waiting runs costs the read of one run, and sends one event. */
import { expect, test } from '@jest/globals'
import { TicketEdits, type TicketEditsPorts } from '../../../actors/tracker/ticket-edits.ts'
import type { Ticket } from '../../../protocol/run.ts'
import { aRun } from '../../rules/run/runs.ts'
import { sampleTicket } from '../../rules/tickets/samples.ts'

const RUNS = 500

function createEdits() {
  const listed = new Map<string, Ticket>()
  const read: string[] = []
  const sent: unknown[] = []
  const ports = {
    runs: { activeRunOf: (ticketId: string) => (listed.has(ticketId) ? `run-${ticketId}` : undefined) },
    intake: { currentTicket: (ticket: Ticket) => listed.get(ticket.id) ?? ticket },
    system: {
      peek(_: string, runId: string) {
        read.push(runId)
        const run = aRun({ id: runId, ticket: sampleTicket({ id: runId.slice('run-'.length) }) })
        return { context: { run, job: 'run', lease: null } }
      },
      send: (_: string, runId: string, event: object) => sent.push([runId, event]) > 0,
    },
  }
  for (let n = 0; n < RUNS; n++) listed.set(`t-${n}`, sampleTicket({ id: `t-${n}` }))
  return { listed, read, sent, edits: new TicketEdits(ports as unknown as TicketEditsPorts) }
}

test('one edited ticket among many costs the read of one run', () => {
  const { listed, read, sent, edits } = createEdits()
  const ticket = sampleTicket({ id: 't-7', repo: 'web' })
  listed.set('t-7', ticket)
  edits.onTicketsChanged(['t-7', 'ENG-t-7'])
  expect(read).toEqual(['run-t-7'])
  expect(sent).toEqual([['run-t-7', { type: 'ticket edited', ticket }]])
})

test('tickets that read as in their runs, as after a restart, send nothing', () => {
  const { listed, sent, edits } = createEdits()
  edits.onTicketsChanged(listed.keys())
  expect(sent).toEqual([])
})

/** An edited ticket among many waiting runs costs the read of one run, and sends one event. */
import { expect, test } from '@jest/globals'
import type { HostContext } from '../../../actors/host-context.ts'
import type { RunManager } from '../../../actors/runs/run-manager.ts'
import { TicketEdits } from '../../../actors/tracker/module.ts'
import { TICKETS_PER_TURN } from '../../../actors/tracker/ticket-backlog.ts'
import type { TicketIntake } from '../../../actors/tracker/ticket-intake.ts'
import type { Ticket } from '../../../protocol/run.ts'
import { aRun } from '../../rules/run/runs.ts'
import { sampleTicket } from '../../rules/tickets/samples.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const RUNS = 2 * TICKETS_PER_TURN + 1

function createEdits() {
  const listed = new Map<string, Ticket>()
  const read: string[] = []
  const sent: unknown[] = []
  const clock = new ManualClock()
  const system = {
    peek(_: string, runId: string) {
      read.push(runId)
      const run = aRun({ id: runId, ticket: sampleTicket({ id: runId.slice('run-'.length) }) })
      return { context: { run, job: 'run', lease: null, publishing: null } }
    },
    send: (_: string, runId: string, event: object) => sent.push([runId, event]) > 0,
  }
  const runs = { activeRunOf: (ticketId: string) => (listed.has(ticketId) ? `run-${ticketId}` : undefined) }
  const intake = { currentTicket: (ticket: Ticket) => listed.get(ticket.id) ?? ticket }
  for (let n = 0; n < RUNS; n++) listed.set(`t-${n}`, sampleTicket({ id: `t-${n}` }))
  const edits = new TicketEdits(
    { clock, system } as unknown as HostContext,
    runs as unknown as RunManager,
    intake as unknown as TicketIntake,
  )
  return { clock, listed, read, sent, edits }
}

test('one edited ticket among many costs the read of one run', () => {
  const { listed, read, sent, edits } = createEdits()
  const ticket = sampleTicket({ id: 't-7', repo: 'web' })
  listed.set('t-7', ticket)
  edits.onTicketsChanged(['t-7', 'ENG-t-7'])
  expect(read).toEqual(['run-t-7'])
  expect(sent).toEqual([['run-t-7', { type: 'ticket edited', ticket }]])
})

test('tickets that read as in their runs, as after a restart or a comment, send nothing', async () => {
  const { clock, listed, read, sent, edits } = createEdits()
  listed.set('t-7', sampleTicket({ id: 't-7', updatedAt: '2030-01-01T00:00:00.000Z' }))
  edits.onTicketsChanged(listed.keys())
  await clock.advance(0)
  expect([read.length, sent]).toEqual([RUNS, []])
})

test('many edits are sent in several turns, and those of the next listing after them', async () => {
  const { clock, listed, sent, edits } = createEdits()
  for (const id of listed.keys()) listed.set(id, sampleTicket({ id, repo: 'web' }))
  edits.onTicketsChanged(listed.keys())
  expect(sent).toHaveLength(TICKETS_PER_TURN)
  listed.set('t-0', sampleTicket({ id: 't-0', repo: 'api' }))
  edits.onTicketsChanged(['t-0'])
  await clock.advance(0)
  expect(sent).toHaveLength(RUNS + 1)
})

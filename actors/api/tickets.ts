/**
 * The API call that creates a ticket in the tracker and starts it.
 *
 * The tracker creates the ticket in its eligible place at once. So a host that stops before the run is on disk loses
 * nothing: the next poll queues the run. A ticket has one active run, however many polls see it meanwhile.
 */
import type { NewTicket, Tracker } from '../../core/ports.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import { formatNames } from '../../core/tickets/names.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { NewTicketRequest, NewTicketResponse } from '../../protocol/new-ticket.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { ApiDependencies } from './api-dependencies.ts'
import type { HostApi } from './host-api.ts'

type TicketsApi = Pick<HostApi, 'createTicket'>

export function createTicketsApi(api: ApiDependencies): TicketsApi {
  return { createTicket: (request) => createTicket(api, request) }
}

async function createTicket(
  api: ApiDependencies,
  request: NewTicketRequest,
): Promise<Result<NewTicketResponse>> {
  const { connection, intake } = api.views.tracker
  const ticket = checkRequest(api, request)
  if (!ticket.ok) return ticket
  const { epoch } = connection
  const created = await connection.ask((tracker) => createIn(tracker, ticket.value))
  if (!created.ok) return toApiRefusal(created)
  // Another tracker was configured meanwhile, and the host knows nothing of this one's tickets any more.
  if (epoch !== connection.epoch) return yes({ ticket: created.value.ticket })
  const runId = intake.adoptTicket(created.value, ticket.value.isEligible)
  const committed = await api.whenCommitted()
  if (!committed.ok) return committed
  const run = runId === undefined ? undefined : api.context.store.database.runs.get(runId)
  return yes({
    ticket: created.value.ticket,
    ...(run === undefined ? {} : { run: api.views.scheduler.shownRun(run) }),
  })
}

/** Everything that can be refused without the tracker. */
function checkRequest(
  { context, views, mayChange }: ApiDependencies,
  { title, description = '', repo, priority = 0, labels = [], start = true }: NewTicketRequest,
): Result<NewTicket> {
  const may = mayChange()
  if (!may.ok) return may
  const config = context.config()
  const mapping = findMapping(repo, config)
  if (!mapping.ok) return mapping
  if (!views.tracker.connection.isConnected) return NOT_CONNECTED
  const space = start ? views.runs.checkQueueLimit() : yes(undefined)
  if (!space.ok) return space
  const words = { title: title.trim(), description, priority, labels: labels.map((label) => label.trim()) }
  const { eligible: rules } = config.tracker
  return yes({ ...words, ...mapping.value, repos: config.repos, rules, isEligible: start })
}

const NOT_CONNECTED = no('conflict', 'no tracker is connected; connect one first')

function findMapping(key: string | undefined, { repos }: ServiceConfig): Result<Pick<NewTicket, 'repo'>> {
  if (key === undefined) return yes({})
  const mapping = Object.hasOwn(repos, key) ? repos[key] : undefined
  if (mapping !== undefined) return yes({ repo: { key, mapping } })
  const keys = Object.keys(repos)
  const cure = keys.length === 0 ? 'add it there first' : `use one of ${formatNames(keys)}`
  return no('invalid', `/repo: ${printable(key)} is not a key under repos; ${cure}`)
}

async function createIn(tracker: Tracker, ticket: NewTicket) {
  return tracker.createTicket === undefined ? CANNOT_CREATE : tracker.createTicket(ticket)
}

const CANNOT_CREATE = no(
  'conflict',
  'this tracker creates no tickets; create the ticket where the others are',
)

/** Only what is wrong with the request itself stays `invalid`. */
function toApiRefusal({ refusal }: Refused): Refused {
  return refusal.kind === 'invalid' ? no('invalid', refusal.message) : no('conflict', refusal.message)
}

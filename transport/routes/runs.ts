/** Routes of tickets and runs, in the order of the specification's table. */
import type { ArtifactFile, HostApi, RunEventPage } from '../../actors/api/host-api.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { TicketSummarizer } from '../../core/tickets/ticket-summary.ts'
import { TurnQueue } from '../../core/turn-queue.ts'
import { changedNothing } from '../../protocol/changed-nothing.ts'
import type { Ticket } from '../../protocol/run.ts'
import { createTicketFilter, situationOf, ticketComparison } from '../../protocol/ticket-filter.ts'
import type { TicketListQuery, TicketRun, TicketSummaryQuery } from '../../protocol/ticket-query.ts'
import {
  type Download,
  download,
  type Headers,
  json,
  jsonArrayDownload,
  type Reply,
  refusalReply,
  resultReply,
} from '../reply.ts'
import type { Handlers, Presence } from './route-table.ts'
import { RunListing } from './run-listing.ts'

type RunRoute =
  | 'listTickets'
  | 'listTicketRuns'
  | 'summarizeTickets'
  | 'createTicket'
  | 'runTicket'
  | 'listRuns'
  | 'summarizeRuns'
  | 'readRun'
  | 'readRunEvents'
  | 'readPlacement'
  | 'readAttention'
  | 'acknowledgeAttention'
  | 'explainTicket'
  | 'explainRun'
  | 'readArtifact'
  | 'cancelRun'
  | 'retryRun'
  | 'publishRun'
  | 'discardRun'
  | 'followUpRun'
  | 'resumeRun'
  | 'releaseRun'

export function runHandlers(hostApi: HostApi, clock: Pick<Clock, 'monotonic'>): Pick<Handlers, RunRoute> {
  const listing = new RunListing(hostApi, clock)
  const tickets = new TicketPages(hostApi)
  return {
    listTickets: ({ query, presence }) => tickets.answer(query, presence),
    listTicketRuns: ({ query, presence }) => tickets.answerRuns(query, presence),
    summarizeTickets: ({ query, presence }) => tickets.summarize(query, presence),
    createTicket: async ({ body }) => resultReply(await hostApi.createTicket(body), 201),
    runTicket: async ({ params, body }) => resultReply(await hostApi.runTicket(params.id, body)),
    listRuns: ({ query, presence }) => listing.answer(query, presence),
    summarizeRuns: ({ query, presence }) => listing.summarize(query, presence),
    readRun: ({ params }) => resultReply(hostApi.run(params.id)),
    readRunEvents: async ({ params, query }) => {
      const page = hostApi.runEvents(params.id, query)
      if (!page.ok) return refusalReply(page.refusal)
      return jsonArrayDownload(page.value.events, eventPageLinks(params.id, page.value))
    },
    readPlacement: ({ params }) => resultReply(hostApi.placement(params.id)),
    readAttention: () => json(hostApi.attention()),
    acknowledgeAttention: async ({ body }) => resultReply(await hostApi.acknowledgeAttention(body.id)),
    explainTicket: ({ params }) => resultReply(hostApi.explainTicket(params.id)),
    explainRun: ({ params }) => resultReply(hostApi.explainRun(params.id)),
    readArtifact: async ({ params }) => {
      const found = await hostApi.artifact(params.id, params.name)
      return found.ok ? artifactDownload(found.value, params.name) : refusalReply(found.refusal)
    },
    cancelRun: async ({ params }) => resultReply(await hostApi.cancelRun(params.id)),
    retryRun: async ({ params, body }) => resultReply(await hostApi.retryRun(params.id, body)),
    publishRun: async ({ params, body }) => resultReply(await hostApi.publishRun(params.id, body)),
    discardRun: async ({ params }) => resultReply(await hostApi.discardRun(params.id)),
    followUpRun: async ({ params, body }) => resultReply(await hostApi.followUpRun(params.id, body)),
    resumeRun: async ({ params }) => resultReply(await hostApi.resumeRun(params.id)),
    releaseRun: async ({ params }) => resultReply(await hostApi.releaseRun(params.id)),
  }
}

function eventPageLinks(id: string, { prev, next }: RunEventPage): Headers {
  const path = `/api/runs/${encodeURIComponent(id)}/events`
  const links = [
    ...(prev === undefined ? [] : [`<${path}?before=${prev.before}&limit=${prev.limit}>; rel="prev"`]),
    ...(next === undefined ? [] : [`<${path}?after=${next.after}&limit=${next.limit}>; rel="next"`]),
  ]
  return links.length === 0 ? [] : [['link', links.join(', ')]]
}

/** An agent made the artifact, so a browser must not run scripts in it or load anything for it. */
const SANDBOXED: Headers = [['content-security-policy', "sandbox; default-src 'none'"]]

function artifactDownload(file: ArtifactFile, name: string): Download {
  const saved: Headers = file.download ? [['content-disposition', `attachment; ${encodeFileName(name)}`]] : []
  return download({ type: file.contentType, size: file.size, read: () => file.read() }, [
    ...SANDBOXED,
    ...saved,
  ])
}

/**
 * Encodes a file name as RFC 8187, so that no name can end the header. The name was percent-decoded from UTF-8, so it
 * contains no lone surrogate, which could not be encoded.
 */
function encodeFileName(name: string): string {
  const encoded = encodeURIComponent(name)
  return `filename*=UTF-8''${encoded.replace(/['()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)}`
}

// ---- tickets -------------------------------------------------------------------------------------------------------

/** A batch takes a few milliseconds. */
const BATCH_TICKETS = 500
/** The host reads each of these runs from disk. */
const BATCH_RUNS = 100

interface TicketPage {
  readonly tickets: readonly Ticket[]
  readonly headers: Headers
}

/**
 * TicketPages answers what is asked about the eligible tickets: a list or a page of it, the runs beside them, a summary.
 *
 * Asking what the runs of thousands of tickets do is spread over turns of the event loop. Each answer is about the
 * tickets of one moment.
 */
class TicketPages {
  readonly #hostApi: Pick<HostApi, 'tickets' | 'activeTicketRun' | 'ticketRun'>
  readonly #batches = new TurnQueue(setImmediate)

  constructor(hostApi: Pick<HostApi, 'tickets' | 'activeTicketRun' | 'ticketRun'>) {
    this.#hostApi = hostApi
  }

  answer(query: TicketListQuery, presence: Presence): Reply | Promise<Reply> {
    if (Object.keys(query).length === 0) return json(this.#hostApi.tickets())
    return this.#page('/api/tickets', query, presence).then(({ tickets, headers }) =>
      json(
        query.omit === undefined ? tickets : tickets.map((ticket) => ({ ...ticket, description: '' })),
        200,
        headers,
      ),
    )
  }

  async answerRuns(query: TicketListQuery, presence: Presence): Promise<Download> {
    const { tickets, headers } = await this.#page('/api/tickets/runs', query, presence)
    return jsonArrayDownload(this.#readRuns(tickets), headers)
  }

  async summarize(query: TicketSummaryQuery, presence: Presence): Promise<Reply> {
    const summarizer = new TicketSummarizer(query)
    await this.#forEach(this.#hostApi.tickets(), presence, (ticket) =>
      summarizer.add(ticket, () => this.#situationOf(ticket)),
    )
    return json(summarizer.summary())
  }

  async #page(path: string, query: TicketListQuery, presence: Presence): Promise<TicketPage> {
    const { limit, skip = 0, sort = 'queue' } = query
    const fits = createTicketFilter(query)
    const found: Ticket[] = []
    await this.#forEach(this.#hostApi.tickets(), presence, (ticket) => {
      if (fits(ticket, () => this.#situationOf(ticket))) found.push(ticket)
    })
    // The host has them in the order of the queue.
    if (sort !== 'queue') found.sort(ticketComparison(sort))
    const end = limit === undefined ? found.length : skip + limit
    const tickets = found.slice(skip, end)
    return { tickets, headers: end < found.length ? nextPage(path, { ...query, skip: end }) : [] }
  }

  async #forEach(
    tickets: readonly Ticket[],
    presence: Presence,
    take: (ticket: Ticket) => void,
  ): Promise<void> {
    for (let at = 0; at < tickets.length && !presence.hasGone; at += BATCH_TICKETS)
      await this.#batches.run(async () => tickets.slice(at, at + BATCH_TICKETS).forEach(take))
  }

  async *#readRuns(tickets: readonly Ticket[]): AsyncGenerator<readonly string[]> {
    for (let at = 0; at < tickets.length; at += BATCH_RUNS)
      yield await this.#batches.run(async () =>
        tickets.slice(at, at + BATCH_RUNS).flatMap((ticket) => this.#runOf(ticket) ?? []),
      )
  }

  #runOf({ id }: Ticket): string | undefined {
    const run = this.#hostApi.ticketRun(id)
    if (run === undefined) return undefined
    const found: TicketRun = {
      ticketId: id,
      runId: run.id,
      status: run.status,
      ...(changedNothing(run) ? { unchanged: true } : {}),
    }
    return JSON.stringify(found)
  }

  #situationOf({ id }: Ticket) {
    return situationOf(this.#hostApi.activeTicketRun(id))
  }
}

/** The Link header of a page of the same query. */
function nextPage(path: string, query: TicketListQuery): Headers {
  const next = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) next.append(name, String(value))
  return [['link', `<${path}?${next}>; rel="next"`]]
}

/** Tickets and runs, in the order of the specification's table. */
import type { ArtifactFile, FrontDesk } from '../../actors/api/host-api.ts'
import type { QueryOf } from '../../protocol/routes.ts'
import type { Run } from '../../protocol/run.ts'
import { answered, type Download, download, type Headers, json, refused } from '../reply.ts'
import type { Handlers } from './route-table.ts'

type RunRoute =
  | 'listTickets'
  | 'runTicket'
  | 'listRuns'
  | 'readRun'
  | 'readRunEvents'
  | 'readPlacement'
  | 'readArtifact'
  | 'cancelRun'
  | 'retryRun'
  | 'discardRun'
  | 'followUpRun'
  | 'resumeRun'
  | 'releaseRun'

export function runHandlers(desk: FrontDesk): Pick<Handlers, RunRoute> {
  return {
    listTickets: () => json(desk.tickets()),
    runTicket: async ({ params }) => answered(await desk.runTicket(params.id)),
    listRuns: ({ query }) => {
      const page = desk.runs(query)
      if (!page.ok) return refused(page.refusal)
      const { runs, more } = page.value
      return json(runs, 200, more ? nextPage(query, runs.at(-1)) : undefined)
    },
    readRun: ({ params }) => answered(desk.run(params.id)),
    readRunEvents: async ({ params, query }) => answered(await desk.runEvents(params.id, query)),
    readPlacement: ({ params }) => answered(desk.placement(params.id)),
    readArtifact: async ({ params }) => {
      const found = await desk.artifact(params.id, params.name)
      return found.ok ? artifact(found.value, params.name) : refused(found.refusal)
    },
    cancelRun: async ({ params }) => answered(await desk.cancelRun(params.id)),
    retryRun: async ({ params }) => answered(await desk.retryRun(params.id)),
    discardRun: async ({ params }) => answered(await desk.discardRun(params.id)),
    followUpRun: async ({ params }) => answered(await desk.followUpRun(params.id)),
    resumeRun: async ({ params }) => answered(await desk.resumeRun(params.id)),
    releaseRun: async ({ params }) => answered(await desk.releaseRun(params.id)),
  }
}

/** The same question, from the last run on. What the route does not know (a cache key) is not carried along. */
function nextPage(query: QueryOf<'listRuns'>, last: Run | undefined): Headers | undefined {
  if (last === undefined) return undefined
  const next = new URLSearchParams()
  if (query.limit !== undefined) next.set('limit', String(query.limit))
  for (const status of query.status ?? []) next.append('status', status)
  if (query.ticket !== undefined) next.set('ticket', query.ticket)
  next.set('before', last.id)
  return [['link', `</api/runs?${next}>; rel="next"`]]
}

/** An agent made it, so a browser that shows it must neither guess what it is nor let it run or load anything. */
const SHUT_IN: Headers = [['content-security-policy', "sandbox; default-src 'none'"]]

function artifact(file: ArtifactFile, name: string): Download {
  const saved: Headers = file.download ? [['content-disposition', `attachment; ${fileName(name)}`]] : []
  return download({ type: file.contentType, size: file.size, read: () => file.read() }, [
    ...SHUT_IN,
    ...saved,
  ])
}

/**
 * RFC 8187: everything but a few letters percent-encoded, so that no name can end the header or begin another. It came
 * percent-decoded, and so holds no half of a surrogate pair, which could not be encoded again.
 */
function fileName(name: string): string {
  const encoded = encodeURIComponent(name)
  return `filename*=UTF-8''${encoded.replace(/['()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)}`
}

/** Routes of tickets and runs, in the order of the specification's table. */
import type { ArtifactFile, HostApi, RunEventPage } from '../../actors/api/host-api.ts'
import {
  type Download,
  download,
  type Headers,
  json,
  jsonArrayDownload,
  refusalReply,
  resultReply,
} from '../reply.ts'
import type { Handlers } from './route-table.ts'
import { RunListing } from './run-listing.ts'

type RunRoute =
  | 'listTickets'
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

export function runHandlers(hostApi: HostApi): Pick<Handlers, RunRoute> {
  const listing = new RunListing(hostApi)
  return {
    listTickets: () => json(hostApi.tickets()),
    createTicket: async ({ body }) => resultReply(await hostApi.createTicket(body), 201),
    runTicket: async ({ params, body }) => resultReply(await hostApi.runTicket(params.id, body)),
    listRuns: ({ query }) => listing.answer(query),
    summarizeRuns: ({ query }) => listing.summarize(query),
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

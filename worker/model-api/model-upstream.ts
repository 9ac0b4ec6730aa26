/**
 * `ModelUpstream` is the port through which the proxy contacts vendors.
 *
 * An implementation verifies certificates, follows no redirect, decodes nothing and buffers nothing.
 */
import type { Readable } from 'node:stream'

export interface ModelUpstream {
  /** Resolves with the head of any answer. Rejects when there is none; no message holds a header or a body. */
  send(request: UpstreamRequest): Promise<UpstreamResponse>
  close(): Promise<void>
}

export interface UpstreamRequest {
  readonly origin: string
  readonly path: string
  readonly method: 'GET' | 'POST'
  /** Names in lower case, the credential among them. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Readable
  /** Ends the request and the body of its answer. */
  readonly signal: AbortSignal
}

export interface UpstreamResponse {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body: Readable
}

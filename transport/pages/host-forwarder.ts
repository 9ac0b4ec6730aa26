/** The port through which a page's listener reaches the host; the one who implements it adds the launch token. */

export interface ForwardedRequest {
  readonly method: string
  /** With its query. */
  readonly path: string
  readonly contentType: string
  /** `gzip` for a browser that takes it, otherwise empty. The answer passes through as the host encodes it. */
  readonly acceptEncoding: string
  readonly body: Uint8Array | undefined
  readonly signal: AbortSignal
}

export interface ForwardedReply {
  readonly status: number
  header(name: string): string | undefined
  readonly body: AsyncIterable<Uint8Array>
}

/** `onEnd` is called exactly once, and nothing after it. */
export interface ForwardedSocketListener {
  onOpen(): void
  onText(text: string): void
  /** @param code of the host's close frame */
  onEnd(reason: string, code: number | undefined): void
}

export interface ForwardedSocket {
  /** Does nothing unless the socket is open. */
  send(text: string): void
  /** Bytes that the host has not taken yet. */
  backlog(): number
  close(): void
}

export interface HostForwarder {
  /** Rejects with an error whose message says why the host cannot be reached. */
  send(request: ForwardedRequest): Promise<ForwardedReply>
  /** @param path with its query */
  dial(path: string, listener: ForwardedSocketListener): ForwardedSocket
}

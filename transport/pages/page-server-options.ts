/** The parts from which a page's listener is opened, and what it is then. */
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { Exchange } from '../exchange.ts'
import type { Address, HttpListener, ListenerResponse } from '../listener-port.ts'
import { type Reply, refusal } from '../reply.ts'
import type { ProgramSource } from './page-sockets.ts'

export const PAGE_REQUESTS_MAX = 256
export const PAGE_SIGN_INS_MAX = 16

export interface PageServerOptions {
  readonly listener: HttpListener
  readonly clock: Clock
  readonly log: Log
  readonly address: Address
  /** The option or setting that chooses the port, for the message about a port that is taken. */
  readonly portSetting: string
  /** The command that prints a new link. */
  readonly command: string
  /** The paths of the host's sockets that the page reaches. */
  readonly sockets: readonly string[]
  /** Whether the page reaches a path of the host by requests. */
  readonly forwards: (path: string) => boolean
  /** Answers for browsers that are signed in, by path. */
  readonly documents?: ReadonlyMap<string, () => Reply | Promise<Reply>>
  /** A source for programs that listen at its path, with a code in the query. */
  readonly programs?: { readonly path: string; readonly source: ProgramSource }
  /** The folder with the page's files. */
  readonly folder: string
  readonly forwarder: HostForwarder
  /** Presented by other commands of the same user, which get new codes for it. */
  readonly linkSecret: string
}

export interface PageServer {
  readonly port: number
  /** A link with a new code: good once, and for a minute. */
  createLink(): string
  /** Closes all sockets with the reason, then the port. */
  close(reason: string): Promise<void>
}

const TOO_MANY_SIGN_INS = refusal(503, 'too many browsers sign in at once; try again in a moment', [
  ['retry-after', '1'],
])

/**
 * `PageExchanges` keeps the requests of a page that are not answered yet, and limits them by kind, so that those which
 * anybody on this machine may send take no place from those of a browser that is signed in.
 */
export class PageExchanges {
  readonly #all = new Set<Exchange>()
  readonly #forwards = new Set<Exchange>()
  readonly #signIns = new Set<Exchange>()

  count(): number {
    return this.#all.size
  }

  /** Whether another request may wait for the host. */
  mayForward(): boolean {
    return this.#forwards.size < PAGE_REQUESTS_MAX
  }

  start(response: ListenerResponse): Exchange {
    return this.#keep(new Exchange(response, undefined), this.#all)
  }

  startForward(response: ListenerResponse): Exchange {
    return this.#keep(this.start(response), this.#forwards)
  }

  /**
   * A browser sends its code at once. Above the limit the sign-in that has waited longest is ended, because to refuse
   * the next one would let anybody keep all places.
   */
  startSignIn(response: ListenerResponse): Exchange {
    const pending = [...this.#signIns].filter(({ isOver }) => !isOver)
    if (pending.length >= PAGE_SIGN_INS_MAX) pending[0]?.replyAndClose(TOO_MANY_SIGN_INS)
    return this.#keep(this.start(response), this.#signIns)
  }

  #keep(exchange: Exchange, kept: Set<Exchange>): Exchange {
    kept.add(exchange)
    exchange.onEnd(() => kept.delete(exchange))
    return exchange
  }
}

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

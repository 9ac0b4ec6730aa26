/**
 * A dispatcher that observes a WebSocket handshake and keeps the reason of its failure.
 *
 * A WebSocket does not report why it could not be opened: the HTTP reply, or the network error.
 */
import { isNativeError } from 'node:util/types'
import { Agent, Dispatcher } from 'undici'
import { ERROR_VALUE_CHARS_MAX } from '../../protocol/limits.ts'
import type { HostReply } from './ask-host.ts'

/** A host's refusal is one sentence. */
const BODY_BYTES_MAX = 16 * 1024

type DispatchHandler = Dispatcher.DispatchHandler

export class DialHandshake extends Dispatcher {
  readonly #agent = new Agent()
  readonly #body: Buffer[] = []
  #bytes = 0
  #status: number | undefined
  #challenge: string | undefined
  #failure: string | undefined

  /** The HTTP reply instead of a WebSocket, as far as it has arrived. */
  get reply(): HostReply | undefined {
    if (this.#status === undefined) return undefined
    return {
      status: this.#status,
      text: Buffer.concat(this.#body).toString(),
      ...(this.#challenge === undefined ? {} : { challenge: this.#challenge }),
    }
  }

  /** The network error, when there was no reply. */
  get failure(): string | undefined {
    return this.#failure
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: DispatchHandler): boolean {
    const fail = (error: Error) => handler.onError?.(error)
    // Everything else about the handler stays unchanged.
    const watched: DispatchHandler = Object.create(handler, {
      onError: {
        value: (error: Error) => {
          this.#failure ??= innermostReason(error)
          fail(error)
        },
      },
      onHeaders: {
        value: (...headers: Parameters<NonNullable<DispatchHandler['onHeaders']>>) => {
          const [status, raw] = headers
          if (status < 200) return handler.onHeaders?.(...headers) ?? true
          this.#status = status
          this.#challenge = findChallenge(raw)
          return true
        },
      },
      onData: {
        value: (bytes: Buffer) => {
          if (!this.#keepBody(bytes)) fail(new Error('no WebSocket'))
          return true
        },
      },
      // Fail only when the reply is complete: the WebSocket closes at once, and the rest would be lost.
      onComplete: { value: () => fail(new Error('no WebSocket')) },
    })
    return this.#agent.dispatch(options, watched)
  }

  /** Stops observing; the connection has ended. */
  stopWatching(): void {
    this.#agent.destroy().catch(() => {})
  }

  #keepBody(bytes: Buffer): boolean {
    this.#bytes += bytes.length
    if (this.#bytes > BODY_BYTES_MAX) return false
    this.#body.push(Buffer.from(bytes))
    return true
  }
}

/** Names and values alternate. */
function findChallenge(raw: readonly Buffer[]): string | undefined {
  const texts = raw.map((part) => part.toString('latin1'))
  const at = texts.findIndex((text, index) => index % 2 === 0 && text.toLowerCase() === 'www-authenticate')
  return at < 0 ? undefined : texts[at + 1]
}

/** The message of the innermost cause: the outer errors only state that the connection failed. */
function innermostReason(error: Error): string {
  let inner: unknown = error
  while (isNativeError(inner) && isNativeError(inner.cause)) inner = inner.cause
  // When several addresses were tried, report the first error.
  if (isNativeError(inner) && 'errors' in inner && Array.isArray(inner.errors)) inner = inner.errors[0]
  return (isNativeError(inner) ? inner.message : String(inner)).slice(0, ERROR_VALUE_CHARS_MAX)
}

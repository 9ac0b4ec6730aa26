/**
 * What a terminal's line is dialled through, watched until it stands: a WebSocket does not tell why it could not be
 * opened, be it what was answered in its place or what is wrong with the way there.
 */
import { isNativeError } from 'node:util/types'
import { Agent, Dispatcher } from 'undici'
import { ERROR_VALUE_CHARS_MAX } from '../../protocol/limits.ts'
import type { HostReply } from './ask-host.ts'

/** A host's refusal is a sentence. */
const BODY_BYTES_MAX = 16 * 1024

type DispatchHandler = Dispatcher.DispatchHandler

export class DialHandshake extends Dispatcher {
  readonly #agent = new Agent()
  readonly #body: Buffer[] = []
  #bytes = 0
  #status: number | undefined
  #failure: string | undefined

  /** What the host said in place of a line, as far as it has come. */
  get reply(): HostReply | undefined {
    return this.#status === undefined
      ? undefined
      : { status: this.#status, text: Buffer.concat(this.#body).toString() }
  }

  /** Why nothing was said at all. */
  get failure(): string | undefined {
    return this.#failure
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: DispatchHandler): boolean {
    const fail = (error: Error) => handler.onError?.(error)
    // With everything else about the handler left as it is.
    const watched: DispatchHandler = Object.create(handler, {
      onError: {
        value: (error: Error) => {
          this.#failure ??= innermostReason(error)
          fail(error)
        },
      },
      onHeaders: {
        value: (...headers: Parameters<NonNullable<DispatchHandler['onHeaders']>>) => {
          const [status] = headers
          if (status < 200) return handler.onHeaders?.(...headers) ?? true
          this.#status = status
          return true
        },
      },
      onData: {
        value: (bytes: Buffer) => {
          if (!this.#keepBody(bytes)) fail(new Error('no line'))
          return true
        },
      },
      // Only now: whoever hears of it goes, and the sentence with it.
      onComplete: { value: () => fail(new Error('no line')) },
    })
    return this.#agent.dispatch(options, watched)
  }

  /** A line that stands is none of its business any more. */
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

/** The innermost one: the outer ones say only that it failed. */
function innermostReason(error: Error): string {
  let inner: unknown = error
  while (isNativeError(inner) && isNativeError(inner.cause)) inner = inner.cause
  // Several addresses were tried; one of them speaks for all.
  if (isNativeError(inner) && 'errors' in inner && Array.isArray(inner.errors)) inner = inner.errors[0]
  return (isNativeError(inner) ? inner.message : String(inner)).slice(0, ERROR_VALUE_CHARS_MAX)
}

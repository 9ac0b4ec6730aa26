/**
 * `PageExchanges` keeps the requests of a page that are not answered yet, and limits them by kind, so that those which
 * anybody on this machine may send take no place from those of a browser that is signed in.
 */
import { PAGE_REQUESTS_MAX, PAGE_SIGN_INS_MAX } from '../../protocol/limits.ts'
import { Exchange } from '../exchange.ts'
import type { ListenerResponse } from '../listener-port.ts'
import { refusal } from '../reply.ts'

const TOO_MANY_SIGN_INS = refusal(503, 'too many browsers sign in at once; try again in a moment', [
  ['retry-after', '1'],
])

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

/**
 * A crew of workers in a process of its own, and how a bench brings them to a host.
 */

import type { Child, Workshop } from './bench-resources.ts'
import type { Membership, Order, Took, Waits } from './raw/worker-load-protocol.ts'

/** Fewer than may stand before the door without having said who they are. */
const AT_ONCE = 32

export interface Door {
  readonly port: number
  /** The launch token; a bare server asks for none. */
  readonly token?: string
}

export class Crew {
  readonly #child: Child
  readonly #door: Door

  constructor(workshop: Workshop, door: Door) {
    this.#child = workshop.script('bench/raw/worker-load.ts')
    this.#door = door
  }

  async enroll(workers: number, slots: number): Promise<readonly Membership[]> {
    const { port } = this.#door
    const members: Membership[] = []
    while (members.length < workers) {
      const coming = Array.from({ length: Math.min(AT_ONCE, workers - members.length) }, () =>
        pairingToken(this.#door),
      )
      const tokens = await Promise.all(coming)
      members.push(...((await this.#ask({ do: 'enroll', port, slots, tokens })) as Membership[]))
    }
    return members
  }

  async hold(leases: number): Promise<void> {
    await this.#ask({ do: 'hold', leases })
  }

  cycles(count: number, events: number): Promise<Took> {
    return this.#ask({ do: 'cycles', count, events }) as Promise<Took>
  }

  frames(perLease: number): Promise<Took> {
    return this.#ask({ do: 'frames', perLease }) as Promise<Took>
  }

  replay(frames: number): Promise<Took> {
    return this.#ask({ do: 'replay', frames }) as Promise<Took>
  }

  async dispatches(count: number, tickets: number, restMs: number): Promise<readonly number[]> {
    const { token = '' } = this.#door
    const { waits } = (await this.#ask({ do: 'dispatches', token, count, tickets, restMs })) as Waits
    return waits
  }

  async beat(everyMs: number): Promise<void> {
    await this.#ask({ do: 'beat', everyMs })
  }

  leave(): Promise<void> {
    return this.#child.stop()
  }

  async #ask(order: Order): Promise<unknown> {
    this.#child.say(JSON.stringify(order))
    return JSON.parse(await this.#child.line())
  }
}

async function pairingToken({ port, token }: Door): Promise<string> {
  if (token === undefined) return 'anybody'
  const headers = { authorization: `Bearer ${token}` }
  const answer = await fetch(`http://127.0.0.1:${port}/api/workers/pairing-tokens`, {
    method: 'POST',
    headers,
  })
  if (!answer.ok) throw new Error(`no pairing token: ${answer.status} ${await answer.text()}`)
  return ((await answer.json()) as { token: string }).token
}

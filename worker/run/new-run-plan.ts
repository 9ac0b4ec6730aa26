/** A run's own course: a new sandbox, the run's branch from its base on, and a pull request at the end. */
import type { ExecutionRequest } from '../../core/daemon/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { CheckedOut } from '../git/git-ports.ts'
import type { HandsParts } from './dependencies.ts'
import { promptFor } from './prompt.ts'
import type { Room } from './sandbox-session.ts'
import type { Sandboxes } from './sandboxes.ts'
import type { Course, Errand, Publishing, Shown } from './work-plan.ts'

export class NewWork implements Course {
  readonly #hands: HandsParts
  readonly #sandboxes: Sandboxes
  readonly #order: ExecutionRequest
  #from: CheckedOut | undefined

  constructor(hands: HandsParts, sandboxes: Sandboxes, order: ExecutionRequest) {
    this.#hands = hands
    this.#sandboxes = sandboxes
    this.#order = order
  }

  folders() {
    const { run, sandbox } = this.#order.job
    return this.#sandboxes.create(run.id, sandbox?.diskQuotaGib)
  }

  async checkOut(room: Room, signal: AbortSignal): Promise<Result<void>> {
    const told = (line: string) => room.say(line)
    const { sources } = this.#hands
    const checked = await sources.checkOut(this.#order.job, room.folders, room, signal, told)
    if (!checked.ok) return checked
    this.#from = checked.value
    return yes(undefined)
  }

  errand(): Errand {
    return { prompt: promptFor(this.#order.job) }
  }

  setup(): 'must' {
    return 'must'
  }

  isKept(): boolean {
    return false
  }

  holdsMore(): boolean {
    return false
  }

  async publish({ room, said, fence, signal }: Publishing): Promise<Result<Shown | undefined>> {
    const { job, leaseId } = this.#order
    const from = this.#from
    if (from === undefined) return yes(undefined)
    const { sources, codehostFor } = this.#hands
    const collected = await sources.collect(job, room.folders, room, from)
    if (!collected.ok) return collected
    if (collected.value.diff.text !== '') room.say(collected.value.diff.text)
    if (collected.value.head === undefined) return yes(undefined)
    const codehost = codehostFor(job)
    if (!codehost.ok) return codehost
    const { folders } = room
    const told = (line: string) => room.say(line)
    const order = { job, leaseId, folders, from, collected: collected.value, summary: said, told }
    const published = await sources.publish(order, codehost.value, fence, signal)
    if (!published.ok) return published
    const { prUrl, prState, pushed } = published.value
    return yes({ prUrl, prState, pushed, branch: job.branch })
  }
}

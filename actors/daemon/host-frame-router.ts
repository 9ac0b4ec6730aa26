/**
 * What the host says on a line that is up, and to whom it matters.
 */
import type { Log } from '../../core/ports.ts'
import type { HostFrame, HostFrameOf } from '../../protocol/frames.ts'
import { parseJson } from '../../protocol/parse.ts'
import type { Dispatches } from './dispatch-admission.ts'
import type { Workshop } from './execution-runner.ts'
import type { Executions } from './executions.ts'
import type { Post } from './frame-outbox.ts'
import type { Line } from './host-connection.ts'
import type { BootedRoom } from './resumed-sandboxes.ts'
import type { Timers } from './timers.ts'

export interface EarPorts {
  readonly log: Log
  readonly timers: Timers
  readonly line: Line
  readonly post: Post
  readonly executions: Executions
  readonly dispatches: Dispatches
  readonly workshop: Workshop
  readonly booted: BootedRoom
}

export class Ear {
  readonly #ports: EarPorts

  constructor(ports: EarPorts) {
    this.#ports = ports
  }

  hear(frame: HostFrame): void {
    const { booted, executions, line } = this.#ports
    switch (frame.type) {
      case 'heartbeat-ack':
      case 'worker-state':
        line.state = frame.state
        return
      case 'dispatch':
        void this.#ports.dispatches.offered(frame)
        return
      case 'lease-ack':
        this.#acknowledged(frame)
        return
      case 'run-complete-ack':
        executions.acknowledged(frame.leaseId)
        return
      case 'lease-lost':
        this.#ports.dispatches.lose(frame.leaseId)
        executions.lose(frame.leaseId, `the lease is lost: ${frame.reason}`)
        return
      case 'cancel':
        this.#ports.dispatches.cancel(frame.leaseId, frame.reason)
        executions.cancel(frame.leaseId, frame.reason)
        return
      case 'discard':
        this.#discard(frame.runId)
        return
      case 'sandbox-boot':
        booted.wanted(frame)
        return
      case 'sandbox-release':
        booted.release(frame.runId)
        return
      case 'attach-open':
        booted.open(frame)
        return
      case 'attach-input':
        booted.input(frame)
        return
      case 'attach-resize':
        booted.resize(frame)
        return
      case 'attach-close':
        booted.close(frame.sessionId)
        return
      case 'attach-ask':
        booted.tellTaken(frame.sessionId)
        return
      default:
        this.#ports.log.debug({ frame: frame.type }, 'a frame that nobody waits for')
    }
  }

  /** What is booted for a person is closed first. */
  #discard(runId: string): void {
    const { booted, workshop } = this.#ports
    booted.afterClosing(runId, () => workshop.discard(runId), 'the run was discarded')
  }

  /**
   * A host of a later version may say what this one does not know: that is no reason to part. An offer that can't be
   * read is answered, so that its run does not wait for nothing. What was wrong is not logged: it may hold a secret.
   */
  hearUnknown(text: string, error: string): void {
    const leaseId = offeredLease(text)
    if (leaseId === undefined) this.#ports.log.warn({ chars: text.length }, 'the host said what is no frame')
    else this.#ports.dispatches.reject(leaseId, `malformed: ${error}`)
  }

  #acknowledged({ leases, echo }: HostFrameOf<'lease-ack'>): void {
    const { executions, line, post, timers } = this.#ports
    const since = echo === undefined ? line.registeredAt : Math.min(echo, timers.now())
    for (const { leaseId, seq, expiresAt, remainingMs } of leases) {
      executions.renew(leaseId, expiresAt, since, remainingMs)
      // One that is given up is not told any more.
      if (executions.standing(leaseId) !== 'held') continue
      post.acknowledged(leaseId, seq)
      executions.tellAgain(leaseId)
    }
  }
}

function offeredLease(text: string): string | undefined {
  const parsed = parseJson(text)
  // Of any shape at all.
  const frame = (parsed.ok ? parsed.value : undefined) as { type?: unknown; lease?: { id?: unknown } } | null
  const id = frame?.type === 'dispatch' ? frame.lease?.id : undefined
  return typeof id === 'string' && id.length <= 256 ? id : undefined
}

/** Routes the frames of the host, once registered, to the parts of the daemon that handle them. */
import type { Log, Meters } from '../../core/ports.ts'
import type { HostFrame, HostFrameOf } from '../../protocol/frames.ts'
import { parseJson } from '../../protocol/parse.ts'
import type { DaemonContext } from './daemon-context.ts'
import type { DispatchAdmission } from './dispatch-admission.ts'
import type { ExecutionRunner } from './execution-runner.ts'
import type { Executions } from './executions.ts'
import type { FrameOutbox } from './frame-outbox.ts'
import type { HostClock } from './host-clock.ts'
import type { ResumedSandboxes } from './resumed-sandboxes.ts'
import type { Settlements } from './settlements.ts'
import type { SharedActors } from './shared-actors.ts'

export interface HostFrameRouterPorts extends Pick<DaemonContext, 'timers' | 'hostSender'> {
  readonly log: Log
  readonly meters: Meters
  readonly hostClock: HostClock
  /** The ages of sandboxes are judged differently from now on. */
  readonly onTimeChange: () => void
  readonly outbox: FrameOutbox
  readonly settlements: Settlements
  readonly executions: Executions
  readonly dispatchAdmission: DispatchAdmission
  readonly runner: ExecutionRunner
  readonly resumedSandboxes: ResumedSandboxes
  readonly sharedActors: SharedActors
}

/** Why a text of the host was not read as a frame. */
export interface UnreadFrame {
  readonly error: string
  readonly isUnknownType: boolean
}

export class HostFrameRouter {
  readonly #ports: HostFrameRouterPorts

  constructor(ports: HostFrameRouterPorts) {
    this.#ports = ports
  }

  /** The worker ends: refuses the dispatches that are not answered yet. */
  refuseOffers(): void {
    this.#ports.dispatchAdmission.refusePending()
  }

  route(frame: HostFrame): void {
    const { resumedSandboxes, executions, hostClock, hostSender, settlements, onTimeChange } = this.#ports
    switch (frame.type) {
      case 'heartbeat-ack':
        hostSender.workerState = frame.state
        settlements.repeat()
        if (hostClock.onHeartbeatAck(frame)) onTimeChange()
        return
      case 'worker-state':
        hostSender.workerState = frame.state
        return
      case 'dispatch':
        void this.#ports.dispatchAdmission.answerOffer(frame)
        return
      case 'lease-ack':
        this.#applyLeaseAck(frame)
        if (hostClock.onLeaseAck(frame.leases)) onTimeChange()
        return
      case 'run-complete-ack':
        executions.acknowledgeCompletion(frame.leaseId)
        return
      case 'lease-costs-ack':
        settlements.acknowledge(frame.leaseId)
        return
      case 'lease-lost':
        this.#ports.dispatchAdmission.withdraw(frame.leaseId)
        executions.loseLease(frame.leaseId, `the lease is lost: ${frame.reason}`)
        return
      case 'cancel':
        this.#ports.dispatchAdmission.cancel(frame.leaseId, frame.reason)
        executions.cancel(frame.leaseId, frame.reason)
        return
      case 'discard':
        this.#discard(frame.runId)
        return
      case 'sandbox-boot':
        resumedSandboxes.requestBoot(frame)
        return
      case 'sandbox-release':
        resumedSandboxes.release(frame.runId)
        return
      case 'attach-open':
        resumedSandboxes.openView(frame)
        return
      case 'attach-input':
        resumedSandboxes.input(frame)
        return
      case 'attach-resize':
        resumedSandboxes.resize(frame)
        return
      case 'attach-close':
        resumedSandboxes.closeView(frame.sessionId)
        return
      case 'attach-ask':
        resumedSandboxes.sendInputCount(frame.sessionId)
        return
      case 'watch-actors':
        this.#ports.sharedActors.onWatch(frame.on)
        return
      default:
        this.#ports.log.debug({ frame: frame.type }, 'ignored a frame that has no handler')
    }
  }

  /** Closes a resumed sandbox of the run before it is discarded. */
  #discard(runId: string): void {
    const { resumedSandboxes, runner } = this.#ports
    resumedSandboxes.runAfterClosing(runId, () => runner.discard(runId), 'the run was discarded')
  }

  /**
   * A host of a later version may send frames that this version does not know, so the connection stays open. A dispatch
   * that cannot be read is rejected, so that its run does not wait. The text is not logged, because it may hold a secret.
   */
  handleUnknown(text: string, { error, isUnknownType }: UnreadFrame): void {
    const { log, meters, dispatchAdmission } = this.#ports
    if (isUnknownType) {
      meters.count('frames_total', { type: 'unknown' })
      log.debug({ chars: text.length }, 'ignored a frame of the host whose type this version does not know')
      return
    }
    const leaseId = readOfferedLeaseId(text)
    if (leaseId === undefined)
      log.warn({ chars: text.length }, 'ignored a frame of the host that does not match its schema')
    else dispatchAdmission.reject(leaseId, `malformed: ${error}`)
  }

  #applyLeaseAck({ leases, echo }: HostFrameOf<'lease-ack'>): void {
    const { executions, hostSender, outbox, timers } = this.#ports
    const since = echo === undefined ? hostSender.registeredAt : Math.min(echo, timers.now())
    for (const { leaseId, seq, expiresAt, remainingMs } of leases) {
      executions.renew(leaseId, expiresAt, since, remainingMs)
      // An abandoned execution sends no frames any more.
      if (executions.leaseStanding(leaseId) !== 'held') continue
      outbox.applyAcknowledgement(leaseId, seq)
      executions.repeatCompletion(leaseId)
    }
  }
}

function readOfferedLeaseId(text: string): string | undefined {
  const parsed = parseJson(text)
  // The value may have any shape.
  const frame = (parsed.ok ? parsed.value : undefined) as { type?: unknown; lease?: { id?: unknown } } | null
  const id = frame?.type === 'dispatch' ? frame.lease?.id : undefined
  return typeof id === 'string' && id.length <= 256 ? id : undefined
}

/** Routes the frames of the host, once registered, to the parts of the daemon that handle them. */
import type { HostFrame, HostFrameOf } from '../../protocol/frames.ts'
import { parseJson } from '../../protocol/parse.ts'
import type { ModuleViews } from '../runtime/module.ts'
import type { DaemonContext } from './daemon-context.ts'
import type { DispatchAdmission } from './dispatch-admission.ts'
import type { SharedActors } from './shared-actors.ts'

/** Why a text of the host was not read as a frame. */
export interface UnreadFrame {
  readonly error: string
  readonly isUnknownType: boolean
}

type HostRouterModules = Pick<ModuleViews, 'frameOutbox' | 'settlements' | 'executions' | 'resumedSandboxes'>

export class HostFrameRouter {
  readonly #context: DaemonContext
  readonly #modules: HostRouterModules
  readonly #dispatchAdmission: DispatchAdmission
  readonly #sharedActors: SharedActors

  constructor(
    context: DaemonContext,
    modules: HostRouterModules,
    dispatchAdmission: DispatchAdmission,
    sharedActors: SharedActors,
  ) {
    this.#context = context
    this.#modules = modules
    this.#dispatchAdmission = dispatchAdmission
    this.#sharedActors = sharedActors
  }

  /** The worker ends: refuses the dispatches that are not answered yet. */
  refuseOffers(): void {
    this.#dispatchAdmission.refusePending()
  }

  route(frame: HostFrame): void {
    const { hostClock, hostSender } = this.#context
    const { resumedSandboxes, settlements } = this.#modules
    const { executions } = this.#modules.executions
    switch (frame.type) {
      case 'heartbeat-ack':
        hostSender.workerState = frame.state
        settlements.repeat()
        if (hostClock.onHeartbeatAck(frame)) this.#onTimeChange()
        return
      case 'worker-state':
        hostSender.workerState = frame.state
        return
      case 'dispatch':
        void this.#dispatchAdmission.answerOffer(frame)
        return
      case 'lease-ack':
        this.#applyLeaseAck(frame)
        if (hostClock.onLeaseAck(frame.leases)) this.#onTimeChange()
        return
      case 'run-complete-ack':
        executions.acknowledgeCompletion(frame.leaseId)
        return
      case 'lease-costs-ack':
        settlements.acknowledge(frame.leaseId)
        return
      case 'lease-lost':
        this.#dispatchAdmission.withdraw(frame.leaseId)
        executions.loseLease(frame.leaseId, `the lease is lost: ${frame.reason}`)
        return
      case 'cancel':
        this.#dispatchAdmission.cancel(frame.leaseId, frame.reason)
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
        this.#sharedActors.onWatch(frame.on)
        return
      default:
        this.#context.log.debug({ frame: frame.type }, 'ignored a frame that has no handler')
    }
  }

  /** The ages of sandboxes are judged differently from now on. */
  #onTimeChange(): void {
    this.#context.publish({ view: 'host clock' })
  }

  /** Closes a resumed sandbox of the run before it is discarded. */
  #discard(runId: string): void {
    const { resumedSandboxes, executions } = this.#modules
    const { runner } = executions
    resumedSandboxes.runAfterClosing(runId, () => runner.discard(runId), 'the run was discarded')
  }

  /**
   * A host of a later version may send frames that this version does not know, so the connection stays open. A dispatch
   * that cannot be read is rejected, so that its run does not wait. The text is not logged, because it may hold a secret.
   */
  handleUnknown(text: string, { error, isUnknownType }: UnreadFrame): void {
    const { log, meters } = this.#context
    if (isUnknownType) {
      meters.count('frames_total', { type: 'unknown' })
      log.debug({ chars: text.length }, 'ignored a frame of the host whose type this version does not know')
      return
    }
    const leaseId = readOfferedLeaseId(text)
    if (leaseId === undefined)
      log.warn({ chars: text.length }, 'ignored a frame of the host that does not match its schema')
    else this.#dispatchAdmission.reject(leaseId, `malformed: ${error}`)
  }

  #applyLeaseAck({ leases, echo }: HostFrameOf<'lease-ack'>): void {
    const { hostSender, timers } = this.#context
    const { executions } = this.#modules.executions
    const since = echo === undefined ? hostSender.registeredAt : Math.min(echo, timers.now())
    for (const { leaseId, seq, expiresAt, remainingMs } of leases) {
      executions.renew(leaseId, expiresAt, since, remainingMs)
      // An abandoned execution sends no frames any more.
      if (executions.leaseStanding(leaseId) !== 'held') continue
      this.#modules.frameOutbox.applyAcknowledgement(leaseId, seq)
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

/**
 * Provisioning sets up other machines as workers: it holds one record for each machine, performs the steps that its
 * actor asks for, and answers the request at the end.
 *
 * A provisioning goes on when the client that asked for it goes away: every wait is bounded, and dashboards see the
 * steps. Two provisionings of one machine and user never run at once.
 */
import { SCRIPTS } from '../../core/provision/scripts.ts'
import { formatStep, type ProvisionStep } from '../../core/provision/step-lines.ts'
import {
  type ProvisionTarget,
  readTarget,
  requireReachableFleet,
  targetId,
} from '../../core/provision/target.ts'
import { no, type Result, SERVICE_FAILED, yes } from '../../core/result.ts'
import { PROVISION_STEP_MS_MAX } from '../../protocol/limits.ts'
import type { ProvisionPush, ProvisionRequest, ProvisionResponse } from '../../protocol/provision.ts'
import { defineHostModule, type HostContext } from '../host-context.ts'
import { effectHandlers } from '../runtime/module.ts'
import { type InstallationPorts, WorkerInstallation } from './install-worker.ts'
import { type PreparationPorts, TargetPreparation } from './prepare-target.ts'
import {
  PROVISION,
  type ProvisionEffect,
  type ProvisionEvent,
  type ProvisionInput,
  provisionKind,
} from './provision.machine.ts'
import {
  asResult,
  PROVISION_STEPS,
  type Provision,
  type StepResult,
  tailOf,
  withoutToken,
} from './provision-remote.ts'

/** Machines that may be provisioned at once. */
export const PROVISIONS_MAX = 4
/** How long a host that stops undoes what its provisionings have begun. */
const PROVISION_STOP_MS_MAX = 3_000

export interface ProvisioningPorts
  extends PreparationPorts,
    InstallationPorts,
    Pick<HostContext, 'system' | 'log' | 'meters'> {
  readonly push: (push: ProvisionPush) => void
}

export class Provisioning {
  readonly #ports: ProvisioningPorts
  readonly #preparation: TargetPreparation
  readonly #installation: WorkerInstallation
  readonly #provisions = new Map<string, Provision>()
  #next = 1

  constructor(ports: ProvisioningPorts) {
    this.#ports = ports
    this.#preparation = new TargetPreparation(ports)
    this.#installation = new WorkerInstallation(ports)
  }

  get size(): number {
    return this.#provisions.size
  }

  async provision(request: ProvisionRequest): Promise<Result<ProvisionResponse>> {
    const target = readTarget(request)
    if (!target.ok) return target
    const reachable = requireReachableFleet(this.#ports.config().fleet, this.#ports.fleetPort())
    if (!reachable.ok) return reachable
    const id = targetId(target.value)
    if ([...this.#provisions.values()].some((each) => each.id === id))
      return no('conflict', `${id} is being provisioned already; wait until that has ended`)
    if (this.#provisions.size >= PROVISIONS_MAX)
      return no('conflict', `${PROVISIONS_MAX} machines are being provisioned; wait until one has ended`)
    return await new Promise((settle) => this.#begin(id, target.value, settle))
  }

  runEffect(effect: ProvisionEffect): void {
    const provision = this.#provisions.get(effect.provision)
    if (provision === undefined) return
    switch (effect.type) {
      case 'provision.perform':
        void this.#perform(provision, effect.step)
        return
      case 'provision.report':
        this.#report(provision, effect.status, effect.message)
        return
      case 'provision.undo':
        void this.#undo(provision).then(() => this.#send(provision, { type: 'undone' }))
        return
      case 'provision.end':
        this.#end(provision, effect.isDone)
        return
      case 'provision.crashed':
        this.#end(provision, false)
        return
    }
  }

  /** The host stops: what was begun is undone, within a time limit. */
  async interruptAll(): Promise<void> {
    if (this.#provisions.size === 0) return
    for (const provision of this.#provisions.values()) {
      provision.refusal = no('unavailable', 'the service is stopping; the provisioning was undone').refusal
      provision.isOver = true
      this.#send(provision, { type: 'interrupted' })
    }
    const { clock } = this.#ports
    const until = clock.monotonic() + PROVISION_STOP_MS_MAX
    while (this.#provisions.size > 0 && clock.monotonic() < until)
      await new Promise<void>((resolve) => void clock.after(50, resolve))
  }

  stop(): void {
    for (const provision of [...this.#provisions.values()]) {
      provision.leftover ||= 'the service stopped before that was undone; provision the machine again'
      this.#end(provision, false)
    }
  }

  // ---- records -------------------------------------------------------------------------------------------------------

  #begin(id: string, target: ProvisionTarget, settle: Provision['settle']): void {
    const key = `provision-${this.#next++}`
    const provision: Provision = {
      key,
      id,
      target,
      settle,
      lines: [],
      step: 'connect',
      stepNumber: 0,
      stepBegan: 0,
      shell: undefined,
      plan: undefined,
      copied: [],
      token: '',
      enrolled: undefined,
      connectionBefore: undefined,
      refusal: no('failed', 'the provisioning failed').refusal,
      leftover: '',
      isOver: false,
    }
    this.#provisions.set(key, provision)
    const input: ProvisionInput = { provision: key }
    const spawned = this.#ports.system.spawn(PROVISION, key, input)
    if (!spawned.ok) this.#end(provision, false)
  }

  #end(provision: Provision, isDone: boolean): void {
    if (!this.#provisions.delete(provision.key)) return
    const { meters, log } = this.#ports
    provision.isOver = true
    provision.shell?.close()
    meters.count('provisions_total', { outcome: isDone ? 'done' : provision.step })
    if (isDone) {
      log.info({ target: provision.id }, 'a machine was provisioned')
      provision.settle(yes({ ok: true, output: provision.lines.map((line) => `${line}\n`).join('') }))
    } else {
      const { kind, message } = provision.refusal
      const text = provision.leftover === '' ? message : `${message}\n  ${provision.leftover}`
      log.warn({ target: provision.id, step: provision.step, reason: text }, 'provisioning a machine failed')
      provision.settle(asResult({ kind, message: text }))
    }
    provision.token = ''
  }

  #send(provision: Provision, event: ProvisionEvent): void {
    this.#ports.system.send(PROVISION, provision.key, event)
  }

  // ---- steps ---------------------------------------------------------------------------------------------------------

  async #perform(provision: Provision, step: ProvisionStep): Promise<void> {
    provision.step = step
    provision.stepNumber += 1
    provision.stepBegan = this.#ports.clock.monotonic()
    this.#push(provision, 'running', '')
    const result = await this.#performStep(provision, step).catch((error: unknown) => {
      this.#ports.log.error({ err: error, step }, 'a step of a provisioning threw; please report this')
      return FAILED
    })
    // The machine has gone on without this step.
    if (provision.step !== step || provision.isOver) return
    if (result.ok) {
      const message = withoutToken(provision, result.message)
      this.#send(
        provision,
        'isNew' in result
          ? { type: 'checked', message, isNew: result.isNew }
          : { type: 'step done', message },
      )
      return
    }
    const { kind, message } = result.refusal
    provision.refusal = { kind, message: withoutToken(provision, message) }
    this.#send(provision, { type: 'step failed', message: withoutToken(provision, result.line) })
  }

  #performStep(
    provision: Provision,
    step: ProvisionStep,
  ): Promise<StepResult | { readonly ok: true; readonly message: string; readonly isNew: boolean }> {
    switch (step) {
      case 'connect':
        return this.#preparation.connect(provision)
      case 'check':
        return this.#preparation.check(provision)
      case 'copy':
        return this.#preparation.copy(provision)
      case 'drain':
        return this.#installation.drain(provision)
      case 'install':
        return this.#installation.install(provision)
      case 'pair':
        return this.#installation.pair(provision)
      case 'online':
        return this.#installation.waitUntilOnline(provision)
    }
  }

  #report(provision: Provision, status: 'done' | 'failed', message: string): void {
    const ms = Math.max(0, this.#ports.clock.monotonic() - provision.stepBegan)
    const { step, stepNumber: number } = provision
    provision.lines.push(formatStep({ step, number, count: PROVISION_STEPS, status, ms, message }))
    this.#push(provision, status, message, ms)
  }

  #push(provision: Provision, status: ProvisionPush['status'], message: string, ms = 0): void {
    const { id, step, stepNumber: number } = provision
    this.#ports.push({ type: 'provision', id, step, status, message, number, count: PROVISION_STEPS, ms })
  }

  // ---- undoing -------------------------------------------------------------------------------------------------------

  /**
   * Undoes what a failed provisioning has done: on the target, and in the fleet. A connection that was lost is made
   * again. What can't be undone is said in the answer.
   */
  async #undo(provision: Provision): Promise<void> {
    this.#installation.forgetEnrollment(provision)
    // A command may still run on a connection that was interrupted.
    if (provision.isOver) this.#disconnect(provision)
    const undone = await this.#undoOnTarget(provision).catch((error: unknown) => {
      this.#ports.log.error({ err: error }, 'undoing a provisioning threw; please report this')
      return no('failed', SERVICE_FAILED)
    })
    this.#installation.giveBack(provision)
    if (undone.ok) return
    const { host } = provision.target
    provision.leftover = `what was begun on ${host} could not be undone (${undone.refusal.message}); provision it again, which mends it`
  }

  async #undoOnTarget(provision: Provision): Promise<Result<void>> {
    const { machines, clock } = this.#ports
    let last = await tryUndo(provision)
    for (const ms of RECONNECT_PAUSES_MS) {
      if (last.ok || last.refusal.kind !== 'unavailable') return last
      this.#disconnect(provision)
      if (ms > 0) await new Promise<void>((resolve) => void clock.after(ms, resolve))
      const connected = await machines.connect(provision.target)
      provision.shell = connected.ok ? connected.value : undefined
      last = connected.ok ? await tryUndo(provision) : no('unavailable', connected.refusal.message)
    }
    return last
  }

  #disconnect(provision: Provision): void {
    provision.shell?.close()
    provision.shell = undefined
  }
}

const FAILED: StepResult = {
  ok: false,
  line: 'internal error',
  refusal: no('failed', 'the service failed; its log says why').refusal,
}

const RECONNECT_PAUSES_MS = [0, 1_000, 4_000]

/** Refused as `unavailable` without a connection. */
async function tryUndo(provision: Provision): Promise<Result<void>> {
  const values = [provision.copied.join('\n')]
  const ran = await provision.shell?.run({ script: SCRIPTS.undo, values, msMax: PROVISION_STEP_MS_MAX })
  if (ran === undefined) return no('unavailable', 'there is no connection')
  if (!ran.ok) return ran
  return ran.value.code === 0 ? yes(undefined) : no('failed', withoutToken(provision, tailOf(ran.value.err)))
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    /** Absent where the host can reach no other machines. */
    readonly provisioning: Pick<Provisioning, 'provision'> | undefined
  }
}

/** The provisioning module sets up other machines as workers over SSH. */
export const provisioningModule = defineHostModule({
  name: 'provisioning',
  kinds: [provisionKind],
  create(context, { workers, terminals }) {
    const { provisioning: ports, broadcast, store } = context
    if (ports === undefined) return { view: undefined }
    const provisioning = new Provisioning({
      ...context,
      ...ports,
      installation: store.installation,
      workers: workers.registry,
      terminals: terminals.sessions,
      pairingTokens: workers.pairingTokens,
      push: (push) => broadcast.send(push),
    })
    return {
      view: provisioning,
      effects: effectHandlers<ProvisionEffect>({ provision: (effect) => provisioning.runEffect(effect) }),
      drain: () => provisioning.interruptAll(),
      stop: () => provisioning.stop(),
      sizes: () => ({ provisioning: provisioning.size }),
    }
  },
})

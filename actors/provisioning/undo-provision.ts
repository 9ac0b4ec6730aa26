/**
 * ProvisionUndoing undoes what a failed provisioning has done: on the target, and in the fleet. A connection that was lost
 * is made again. What can't be undone is said in the answer.
 */
import type { Clock, Log } from '../../core/ports.ts'
import { SCRIPTS } from '../../core/provision/scripts.ts'
import type { RemoteMachines } from '../../core/remote-ports.ts'
import { no, type Result, SERVICE_FAILED, yes } from '../../core/result.ts'
import { PROVISION_STEP_MS_MAX } from '../../protocol/limits.ts'
import type { WorkerInstallation } from './install-worker.ts'
import type { Provision } from './provision-record.ts'
import { tailOf, withoutToken } from './provision-remote.ts'

export interface ProvisionUndoingPorts {
  readonly clock: Pick<Clock, 'after'>
  readonly log: Log
  readonly machines: RemoteMachines
  readonly installation: Pick<WorkerInstallation, 'forgetEnrollment' | 'giveBack'>
}

const RECONNECT_PAUSES_MS = [0, 1_000, 4_000]

export class ProvisionUndoing {
  readonly #ports: ProvisionUndoingPorts

  constructor(ports: ProvisionUndoingPorts) {
    this.#ports = ports
  }

  async undo(provision: Provision): Promise<void> {
    const { installation, log } = this.#ports
    installation.forgetEnrollment(provision)
    // A command may still run on a connection that was interrupted.
    if (provision.isOver) this.#disconnect(provision)
    const undone = await this.#undoOnTarget(provision).catch((error: unknown) => {
      log.error({ err: error }, 'undoing a provisioning threw; please report this')
      return no('failed', SERVICE_FAILED)
    })
    installation.giveBack(provision)
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

/** Refused as `unavailable` without a connection. */
async function tryUndo(provision: Provision): Promise<Result<void>> {
  const values = [provision.copied.join('\n')]
  const ran = await provision.shell?.run({ script: SCRIPTS.undo, values, msMax: PROVISION_STEP_MS_MAX })
  if (ran === undefined) return no('unavailable', 'there is no connection')
  if (!ran.ok) return ran
  return ran.value.code === 0 ? yes(undefined) : no('failed', withoutToken(provision, tailOf(ran.value.err)))
}

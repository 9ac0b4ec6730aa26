/**
 * WorkerInstallation performs the later steps of a provisioning: it drains an earlier version, installs the service,
 * pairs the worker and waits until it is online.
 *
 * Runs in flight and open sessions end before the worker of an earlier version is stopped. An operator's drain is never
 * lifted.
 */

import { SCRIPTS } from '../../core/provision/scripts.ts'
import { remoteLine } from '../../core/provision/step-lines.ts'
import { formatDuration } from '../../protocol/format.ts'
import type { HostContext } from '../host-context.ts'
import type { TerminalSessions } from '../terminals/terminal-sessions.ts'
import type { EnrolledWorker } from '../workers/enrolled-worker.ts'
import type { PairingTokens } from '../workers/join-keys.ts'
import { WORKER, type WorkerEvent } from '../workers/worker.machine.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import { planOf } from './prepare-target.ts'
import {
  done,
  failStep,
  type Provision,
  runRemote,
  type StepFailure,
  type StepResult,
  tailOf,
} from './provision-remote.ts'

/** How long a started worker may take until it is online. */
export const PROVISION_ONLINE_MS_MAX = 60_000
/** How long an upgrade waits for the worker's runs; after that the earlier version stays in use. */
const PROVISION_DRAIN_MS_MAX = 30 * 60_000
/** How often a waiting provisioning reads the state of its worker. */
const PROVISION_POLL_MS = 250

export interface InstallationPorts extends Pick<HostContext, 'clock' | 'system'> {
  readonly workers: Pick<WorkerRegistry, 'get'>
  readonly terminals: Pick<TerminalSessions, 'viewCountOn'>
  readonly pairingTokens: PairingTokens
}

/** A remote worker is asked how it is at every eighth poll of the registry. */
const POLLS_PER_STATUS = 8

const SERVICE_WORDS = {
  system: 'systemd unit switchyard-worker',
  user: 'systemd user unit switchyard-worker, lingering on',
  none: 'supervised process, because there is no systemd; it does not start when the machine boots',
} as const

export class WorkerInstallation {
  readonly #ports: InstallationPorts

  constructor(ports: InstallationPorts) {
    this.#ports = ports
  }

  async drain(provision: Provision): Promise<StepResult> {
    const { worker: id, isUnchanged } = planOf(provision)
    const worker = this.#find(id)
    if (isUnchanged || worker === undefined) return done('nothing to change, its runs go on')
    this.#send(worker.id, { type: 'drained', by: 'provision' })
    const began = this.#ports.clock.monotonic()
    while (!provision.isOver) {
      const left = this.#countBusy(worker.id)
      const ms = this.#ports.clock.monotonic() - began
      if (left === 0) return done(`${worker.name} has no runs, after ${formatDuration(ms)}`)
      if (ms > PROVISION_DRAIN_MS_MAX)
        return failStep(`${left} runs or sessions are left`, {
          sentence: `${worker.name} has ${left} runs or sessions after ${formatDuration(ms)}; the version that was there stays in use`,
          cure: 'try again when they have ended',
        })
      await this.#pause()
    }
    return failStep('interrupted', { sentence: 'the host is stopping' })
  }

  async install(provision: Provision): Promise<StepResult> {
    const { facts, files, workerPackage, isUnchanged, worker } = planOf(provision)
    if (isUnchanged) return done(`${SERVICE_WORDS[facts.manager]}, unchanged`)
    provision.connectionBefore = this.#find(worker)?.connection?.number
    const installed = await runRemote(provision, 'install the service', {
      script: SCRIPTS.install,
      values: [workerPackage.folder, files.start, files.run, files.unit, files.authority],
    })
    if (!installed.ok) return installed
    const isNew = worker === undefined
    const failure = isNew ? undefined : await this.#start(provision, '')
    return failure ?? done(SERVICE_WORDS[facts.manager])
  }

  async pair(provision: Provision): Promise<StepResult> {
    const { pairingTokens } = this.#ports
    provision.token = pairingTokens.issue().token
    pairingTokens.watch(provision.token, (workerId) => {
      provision.enrolled = workerId
    })
    const failure = await this.#start(provision, provision.token)
    if (failure !== undefined) return failure
    return await this.#waitFor(provision, 'redeem its token', () =>
      provision.enrolled === undefined ? undefined : done('token redeemed, credential stored'),
    )
  }

  async waitUntilOnline(provision: Provision): Promise<StepResult> {
    const { files, workerPackage, nodePath, facts, worker } = planOf(provision)
    const online = await this.#waitFor(provision, 'come online', () => {
      const found = this.#find(worker ?? provision.enrolled)
      const isBack = found?.online === true && found.connection?.number !== provision.connectionBefore
      return isBack ? done(describeWorker(found)) : undefined
    })
    if (!online.ok) return online
    const keep = [workerPackage.folder, nodePath.slice(facts.base.length + 1).split('/')[0] ?? '']
    const finished = await runRemote(provision, 'keep the installation', {
      script: SCRIPTS.finish,
      values: [files.mark, keep.join('\n')],
    })
    if (!finished.ok) return finished
    this.giveBack(provision)
    return online
  }

  /** Ends the drain of a provisioning, this one or one that a killed host had begun; others hold their own. */
  giveBack({ plan }: Provision): void {
    if (plan?.worker !== undefined) this.#send(plan.worker, { type: 'drain released', by: 'provision' })
  }

  /** The enrollment of a worker that is not kept ends, and so does its token. */
  forgetEnrollment(provision: Provision): void {
    if (provision.token !== '') this.#ports.pairingTokens.forget(provision.token)
    if (provision.enrolled !== undefined) this.#send(provision.enrolled, { type: 'revoked' })
  }

  // ---- waiting -----------------------------------------------------------------------------------------------------

  async #start(provision: Provision, token: string): Promise<StepFailure | undefined> {
    const started = await runRemote(provision, 'start the worker', { script: SCRIPTS.start, values: [token] })
    return started.ok ? undefined : started
  }

  /** Waits for the worker; a worker that has ended on its machine ends the waiting with its own words. */
  async #waitFor(
    provision: Provision,
    what: string,
    isThere: () => StepResult | undefined,
  ): Promise<StepResult> {
    const { clock } = this.#ports
    const began = clock.monotonic()
    for (let polls = 1; !provision.isOver; polls += 1) {
      const result = isThere()
      if (result !== undefined) return result
      const isLate = clock.monotonic() - began > PROVISION_ONLINE_MS_MAX
      if (isLate || polls % POLLS_PER_STATUS === 0) {
        const ended = await this.#readEnd(provision, isLate, what)
        if (ended !== undefined) return isThere() ?? ended
      }
      await this.#pause()
    }
    return failStep('interrupted', { sentence: 'the host is stopping' })
  }

  async #readEnd(provision: Provision, isLate: boolean, what: string): Promise<StepFailure | undefined> {
    const ran = await runRemote(provision, 'report its worker', { script: SCRIPTS.status })
    if (!ran.ok) return ran
    const [state = '', ...log] = ran.value.out.split('\n')
    const [, code] = /^ended (\d*)$/.exec(state) ?? []
    if (code === undefined && !isLate) return undefined
    const { host } = provision.target
    const own = remoteLine(
      log.findLast((line) => line.startsWith('switchyard: '))?.slice('switchyard: '.length) ?? '',
    )
    const finding = code === undefined ? `did not ${what} in time` : `ended with ${code}`
    return failStep(own === '' ? finding : own, {
      sentence: `the worker on ${host} ${finding}${own === '' ? '' : `: ${own}`}`,
      tail: tailOf(log.join('\n')),
    })
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => void this.#ports.clock.after(PROVISION_POLL_MS, resolve))
  }

  #countBusy(id: string): number {
    const worker = this.#find(id)
    if (worker === undefined) return 0
    return worker.leases.size + Math.max(worker.attachSessions, this.#ports.terminals.viewCountOn(id))
  }

  #find(id: string | undefined): EnrolledWorker | undefined {
    return id === undefined ? undefined : this.#ports.workers.get(id)
  }

  #send(worker: string, event: WorkerEvent): void {
    this.#ports.system.send(WORKER, worker, event)
  }
}

function describeWorker({ id, agents = {} }: EnrolledWorker): string {
  const found = Object.entries(agents).filter(([, agent]) => agent?.found === true)
  const words = found.map(([name, agent]) => (agent?.loggedIn === true ? `${name} logged in` : name))
  return [id, ...words].join(', ')
}

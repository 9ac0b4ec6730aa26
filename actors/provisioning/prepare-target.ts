/** TargetPreparation performs the first steps of a provisioning: it connects, checks the machine, and copies the files. */
import { isSameHash } from '../../core/fleet/token.ts'
import type { CopiedFile, HostNode, RemoteMachines, WorkerFiles } from '../../core/ports/machines.ts'
import { formatInstalledFiles } from '../../core/provision/installed-files.ts'
import { judgeMachine, type MachineFacts } from '../../core/provision/machine-report.ts'
import { SCRIPTS } from '../../core/provision/scripts.ts'
import { remoteLine } from '../../core/provision/step-lines.ts'
import { chooseFleetAddress, type FleetAddress } from '../../core/provision/target.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { WorkerRegistry } from '../workers/worker-registry.ts'
import {
  done,
  failMachine,
  failStep,
  failWith,
  type Provision,
  type ProvisionPlan,
  runRemote,
  type StepFailure,
  type StepResult,
} from './provision-remote.ts'

/** The time limit of one copy. */
const PROVISION_COPY_MS_MAX = 10 * 60_000

export interface PreparationPorts {
  readonly machines: RemoteMachines
  readonly files: WorkerFiles
  readonly fleetPort: () => number | undefined
  readonly hostUser?: string
  readonly config: () => ServiceConfig
  readonly installation: string
  readonly workers: Pick<WorkerRegistry, 'get'>
}

export type CheckResult =
  | StepFailure
  | { readonly ok: true; readonly message: string; readonly isNew: boolean }

const KEY_FROM = { known_hosts: 'in known_hosts', hostKeySha256: 'as given' } as const
const GIB = 1024 ** 3
const MIB = 1024 ** 2
/** An unpacked package is about four times as large as its archive, and an upgrade has two of them for a moment. */
const UNPACKED_FACTOR = 5

export class TargetPreparation {
  readonly #ports: PreparationPorts

  constructor(ports: PreparationPorts) {
    this.#ports = ports
  }

  async connect(provision: Provision): Promise<StepResult> {
    const { target } = provision
    const connected = await this.#ports.machines.connect(target)
    if (!connected.ok) {
      const { kind, message } = connected.refusal
      return kind === 'failed'
        ? failStep(message.split('\n')[0] ?? '', {
            sentence: `${target.host} can't be reached by SSH: ${message}`,
          })
        : failWith(connected.refusal)
    }
    if (provision.isOver) {
      connected.value.close()
      return failStep('interrupted', { sentence: 'the host is stopping' })
    }
    provision.shell = connected.value
    const { hostKey, hostKeyFrom } = connected.value
    return done(`host key ${hostKey}, ${KEY_FROM[hostKeyFrom]}`)
  }

  async check(provision: Provision): Promise<CheckResult> {
    const { files } = this.#ports
    const address = this.#address(provision)
    if (!address.ok) return failWith(address.refusal)
    const ran = await runRemote(provision, 'check itself', { script: SCRIPTS.check })
    if (!ran.ok) return ran
    const hostNode = await files.hostNode()
    const judged = judgeMachine(ran.value.out, hostNode, 0)
    if (!judged.ok) return failMachine(provision, judged.problem, ran.value)
    const found = await files.findPackage(judged.facts.arch)
    if (!found.ok) return failWith(found.refusal)
    const node = judged.facts.node === undefined ? hostNode : undefined
    const neededBytes = (found.value.bytes + (node?.bytes ?? 0)) * UNPACKED_FACTOR
    const withSpace = judgeMachine(ran.value.out, hostNode, neededBytes)
    if (!withSpace.ok) return failMachine(provision, withSpace.problem, ran.value)
    const worker = this.#workerOf(judged.facts)
    if (!worker.ok)
      return failStep(worker.refusal.message, {
        sentence: `${provision.target.host} ${worker.refusal.message}`,
      })
    const plan = await this.#plan(provision, {
      facts: judged.facts,
      address: address.value,
      node,
      worker: worker.value,
      workerPackage: found.value,
    })
    provision.plan = plan
    if (node === undefined) {
      const unreachable = await reachFleet(provision, plan)
      if (unreachable !== undefined) return unreachable
    }
    return { ok: true, message: describeMachine(judged.facts), isNew: plan.worker === undefined }
  }

  async copy(provision: Provision): Promise<StepResult> {
    const { facts, workerPackage, node, isUnchanged } = planOf(provision)
    const { version, folder, bytes } = workerPackage
    const isThere = facts.installed?.mark.startsWith(`${version} `) === true
    if (isThere && (isUnchanged || node === undefined))
      return done(`switchyard-worker ${version} is there already`)
    if (node !== undefined) {
      const failure = await this.#copyNode(provision, node)
      if (failure !== undefined) return failure
    }
    const copied = await copyFile(provision, workerPackage, ['unpack', workerPackage.sha256, folder, PROGRAM])
    if (!copied.ok) return copied
    const withNode = node === undefined ? '' : `, and Node.js ${node.version}`
    return done(`switchyard-worker ${version}, ${Math.ceil(bytes / MIB)} MiB${withNode}`)
  }

  // ---- the plan ----------------------------------------------------------------------------------------------------

  #address({ shell }: Provision): Result<FleetAddress> {
    const port = this.#ports.fleetPort()
    if (port === undefined) return no('conflict', 'the fleet listener was closed meanwhile')
    return chooseFleetAddress(this.#ports.config().fleet, port, shell?.localAddress ?? '')
  }

  /**
   * The worker that an earlier provisioning of this host has enrolled; refused when it is another host's. A machine
   * that names a worker without proof gets an enrollment of its own: else it could have the runs of others stopped.
   */
  #workerOf({ installed }: MachineFacts): Result<string | undefined> {
    if (installed === undefined) return yes(undefined)
    const { installation, workerId, proof } = installed
    if (installation !== '' && installation !== this.#ports.installation)
      return no(
        'conflict',
        'is a worker of another host; remove that one first, or provision it as another user',
      )
    const worker = this.#ports.workers.get(workerId)
    return yes(worker !== undefined && isSameHash(proof, worker.context.hash) ? worker.id : undefined)
  }

  async #plan(
    { target }: Provision,
    found: Pick<ProvisionPlan, 'facts' | 'workerPackage' | 'node' | 'worker'> & {
      readonly address: FleetAddress
    },
  ): Promise<ProvisionPlan> {
    const { facts, workerPackage, node, worker, address } = found
    const { tls } = this.#ports.config().fleet
    const authority = tls === undefined ? undefined : await this.#ports.files.fleetAuthority(tls.certFile)
    const nodePath = node === undefined ? (facts.node ?? '') : `${facts.base}/${nodeFolder(node)}/bin/node`
    const files = formatInstalledFiles({
      base: facts.base,
      node: nodePath,
      folder: workerPackage.folder,
      version: workerPackage.version,
      ...address,
      hostUser: this.#ports.hostUser,
      name: target.name,
      concurrency: target.concurrency,
      authority: authority ?? '',
      manager: facts.manager,
      isRoot: facts.isRoot,
    })
    const { installed } = facts
    const isUnchanged = worker !== undefined && installed?.mark === files.mark && installed.isRunning
    return { facts, workerPackage, node, nodePath, files, url: address.url, worker, isUnchanged }
  }

  async #copyNode(provision: Provision, node: HostNode): Promise<StepFailure | undefined> {
    const folder = nodeFolder(node)
    const copied = await copyFile(provision, node, ['store', node.sha256, folder, 'bin/node'])
    if (!copied.ok) return copied
    const tried = await runRemote(provision, "run this host's Node.js", {
      script: SCRIPTS.tryNode,
      values: [`${folder}/bin/node`],
    })
    if (!tried.ok)
      return failStep(tried.line, {
        sentence: `${provision.target.host} has no Node.js 20 or newer, and this host's does not run there`,
        cure: `try, on ${provision.target.host}: install Node.js 24: https://nodejs.org/en/download`,
      })
    return await reachFleet(provision, planOf(provision))
  }
}

const PROGRAM = 'bin/switchyard-worker.mjs'
const nodeFolder = ({ version }: HostNode): string => `node-${version}`

/** Throws when the check has not passed. */
export function planOf({ plan }: Provision): ProvisionPlan {
  if (plan === undefined) throw new Error('a step was to begin before the check')
  return plan
}

async function copyFile(
  provision: Provision,
  file: CopiedFile,
  values: readonly [how: string, sha256: string, folder: string, program: string],
) {
  provision.copied.push(values[2])
  return await runRemote(provision, 'receive the copy', {
    script: SCRIPTS.copy,
    values,
    payload: file,
    msMax: PROVISION_COPY_MS_MAX,
  })
}

/** The target asks the fleet listener for something that it refuses with 403. */
async function reachFleet(
  provision: Provision,
  { url, nodePath, files }: ProvisionPlan,
): Promise<StepFailure | undefined> {
  const base = url.replace(/^ws/, 'http').replace(/\/ws\/worker$/, '')
  const asked = await runRemote(provision, 'ask the host', {
    script: SCRIPTS.reach,
    values: [nodePath, `${base}/api/worker/demand?workerId=none`, files.authority],
  })
  if (!asked.ok) return asked
  const answer = remoteLine(asked.value.out)
  if (answer === 'answered 403') return undefined
  const { host } = provision.target
  return failStep(`${base}: ${answer}`, {
    sentence: `${host} can't reach this host's fleet listener at ${base} (${answer})`,
    cure: `open that port for ${host}, or name an address that reaches it: switchyard config set fleet.publicUrl URL`,
  })
}

function describeMachine({ arch, nodeVersion, bwrapVersion, freeBytes }: MachineFacts): string {
  const free = freeBytes >= GIB ? `${Math.floor(freeBytes / GIB)} GiB` : `${Math.floor(freeBytes / MIB)} MiB`
  return `linux ${arch}, node ${nodeVersion.replace(/^v(\d+\.\d+)\.\d+/, '$1')}, bwrap ${bwrapVersion}, ${free} free`
}

/** The record of one provisioning: what its effects share, and never leaves them. */
import type { InstalledFiles } from '../../core/provision/installed-files.ts'
import type { MachineFacts } from '../../core/provision/machine-report.ts'
import type { ProvisionStep } from '../../core/provision/step-lines.ts'
import type { ProvisionTarget } from '../../core/provision/target.ts'
import type { HostNode, RemoteShell, WorkerPackage } from '../../core/remote-ports.ts'
import type { Refusal, Result } from '../../core/result.ts'
import type { ProvisionResponse } from '../../protocol/provision.ts'

/** The findings of the check, and what follows from them. */
export interface ProvisionPlan {
  readonly facts: MachineFacts
  readonly workerPackage: WorkerPackage
  /** Copied, when the target has no suitable program. */
  readonly node: HostNode | undefined
  readonly nodePath: string
  readonly files: InstalledFiles
  readonly url: string
  /** The worker of this host that the target has already. */
  readonly worker: string | undefined
  /** The worker has this version and these settings, and runs. */
  readonly isUnchanged: boolean
}

export interface Provision {
  /** The key of its actor. */
  readonly key: string
  /** The target's name; no other provisioning has it at the same time. */
  readonly id: string
  readonly target: ProvisionTarget
  readonly settle: (answer: Result<ProvisionResponse>) => void
  readonly lines: string[]
  step: ProvisionStep
  /** Counted from 1. */
  stepNumber: number
  /** Monotonic milliseconds. */
  stepBegan: number
  shell: RemoteShell | undefined
  plan: ProvisionPlan | undefined
  /** Folders that were copied. */
  readonly copied: string[]
  token: string
  /** The worker that the token has enrolled. */
  enrolled: string | undefined
  /** The number of the worker's connection before its restart. */
  connectionBefore: number | undefined
  refusal: Refusal
  /** Why the undoing failed. */
  leftover: string
  /** Nothing waits any more. */
  isOver: boolean
}

export const PROVISION_STEPS = 6

/** The record of a provisioning, the commands that it runs on its target, and the words for what went wrong there. */

import type {
  HostNode,
  RemoteCommand,
  RemoteOutput,
  RemoteShell,
  WorkerPackage,
} from '../../core/ports/machines.ts'
import type { InstalledFiles } from '../../core/provision/installed-files.ts'
import type { MachineFacts, MachineProblem } from '../../core/provision/machine-report.ts'
import { type ProvisionStep, remoteLine } from '../../core/provision/step-lines.ts'
import type { ProvisionTarget } from '../../core/provision/target.ts'
import { no, type Refusal, type Result } from '../../core/result.ts'
import { PROVISION_STEP_MS_MAX } from '../../protocol/limits.ts'
import type { ProvisionResponse } from '../../protocol/provision.ts'

export const PROVISION_STEPS = 6

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

/** A failed step: its line, and the refusal that answers the request. */
export interface StepFailure {
  readonly ok: false
  readonly line: string
  readonly refusal: Refusal
}

export interface StepSuccess {
  readonly ok: true
  readonly message: string
}

export type StepResult = StepSuccess | StepFailure

export const done = (message: string): StepSuccess => ({ ok: true, message })

/** @param sentence begins with the target's name */
export function failStep(
  line: string,
  refusal: { readonly sentence: string; readonly cure?: string; readonly tail?: string },
): StepFailure {
  const { sentence, cure, tail = '' } = refusal
  const lines = [
    sentence,
    ...(cure === undefined ? [] : [`  ${cure}`]),
    ...(tail === '' ? [] : ['  its output ends with:', ...tail.split('\n').map((each) => `  | ${each}`)]),
  ]
  return { ok: false, line, refusal: no('failed', lines.join('\n')).refusal }
}

export const failWith = (refusal: Refusal): StepFailure => ({
  ok: false,
  line: remoteLine(refusal.message.split('\n')[0] ?? ''),
  refusal,
})

export function failMachine(
  { target }: Provision,
  problem: MachineProblem,
  output: RemoteOutput,
): StepFailure {
  const { host } = target
  return failStep(problem.finding, {
    sentence: `${host} ${problem.sentence}`,
    cure: `try, on ${host}: ${problem.cure}`,
    tail: tailOf(output.err),
  })
}

/** Refused with the step's failure when the command failed, took too long or lost its connection. */
export async function runRemote(
  provision: Provision,
  what: string,
  command: Omit<RemoteCommand, 'msMax' | 'values'> & Partial<RemoteCommand>,
): Promise<{ readonly ok: true; readonly value: RemoteOutput } | StepFailure> {
  const { shell, target } = provision
  if (shell === undefined) throw new Error('a command was to run before the connection')
  const ran = await shell.run({ values: [], msMax: PROVISION_STEP_MS_MAX, ...command })
  if (!ran.ok)
    return failStep(`${what}: ${ran.refusal.message}`, {
      sentence: `${target.host} could not ${what}: ${ran.refusal.message}`,
    })
  if (ran.value.code === 0) return { ok: true, value: ran.value }
  const tail = tailOf(`${ran.value.out}\n${ran.value.err}`)
  const last = remoteLine(tail.split('\n').at(-1) ?? '') || describeCode(ran.value.code)
  return failStep(`${what}: ${last}`, { sentence: `${target.host} could not ${what}: ${last}`, tail })
}

const describeCode = (code: number | undefined): string =>
  code === undefined ? 'ended by a signal' : `exit code ${code}`

/** How much of a failed command's output an error quotes. */
const PROVISION_TAIL_CHARS_MAX = 1_000

/** The end of an output: whole lines without control characters. */
export function tailOf(output: string): string {
  const lines = output
    .split('\n')
    .map(remoteLine)
    .filter((line) => line !== '')
  let tail = ''
  for (const line of lines.reverse()) {
    if (tail.length + line.length > PROVISION_TAIL_CHARS_MAX) break
    tail = tail === '' ? line : `${line}\n${tail}`
  }
  return tail
}

/** Hides the pairing token in whatever the target has sent. */
export function withoutToken({ token }: Provision, text: string): string {
  return token === '' ? text : text.replaceAll(token, '***')
}

export const asResult = (refusal: Refusal): Result<never> => ({ ok: false, refusal })

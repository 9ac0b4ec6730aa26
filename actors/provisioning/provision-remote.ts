/** Runs the commands of a provisioning on its target, and words what went wrong there. */
import type { MachineProblem } from '../../core/provision/sandbox-problem.ts'
import { remoteLine } from '../../core/provision/step-lines.ts'
import type { RemoteCommand, RemoteOutput } from '../../core/remote-ports.ts'
import { no, type Refusal, type Result } from '../../core/result.ts'
import { PROVISION_STEP_MS_MAX, PROVISION_TAIL_CHARS_MAX } from '../../protocol/limits.ts'
import type { Provision } from './provision-record.ts'

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

/**
 * Machines that are being set up over SSH: their steps as the host tells them to every page.
 *
 * Steps of one machine follow each other from number 1; a first step begins a new attempt.
 */
import type { ProvisionPush, ProvisionRequest } from '../../../protocol/provision.ts'

export interface SetUpMachine {
  /** `ann@forge`, or `ann@forge:2222`. */
  readonly id: string
  readonly steps: readonly ProvisionPush[]
  /** The number of steps that the host has named. */
  readonly count: number
  /** The answer to the request of this page. */
  readonly outcome?: { readonly isDone: boolean; readonly message: string }
}

export type SetUpMachines = ReadonlyMap<string, SetUpMachine>

/** As the host names the target in its messages. */
export function targetId({
  user,
  host,
  port = 22,
}: Pick<ProvisionRequest, 'user' | 'host' | 'port'>): string {
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  return `${user}@${bare.includes(':') ? `[${bare}]` : bare}${port === 22 ? '' : `:${port}`}`
}

export function applyStep(all: SetUpMachines, push: ProvisionPush): SetUpMachines {
  const { id, number, count } = push
  const before = all.get(id)
  const isNew = before === undefined || (number === 1 && push.status === 'running')
  const earlier = isNew ? [] : before.steps.filter((step) => step.number !== number)
  const steps = [...earlier, push].sort((a, b) => a.number - b.number)
  const outcome = isNew || before.outcome === undefined ? {} : { outcome: before.outcome }
  return new Map(all).set(id, { id, steps, count, ...outcome })
}

export function applyOutcome(
  all: SetUpMachines,
  id: string,
  outcome: NonNullable<SetUpMachine['outcome']>,
): SetUpMachines {
  const before = all.get(id) ?? { id, steps: [], count: 0 }
  return new Map(all).set(id, { ...before, outcome })
}

export type ProvisioningState = 'running' | 'done' | 'failed'

export function provisioningState({ steps, count, outcome }: SetUpMachine): ProvisioningState {
  if (outcome !== undefined) return outcome.isDone ? 'done' : 'failed'
  const last = steps.at(-1)
  if (last?.status === 'failed') return 'failed'
  return last?.status === 'done' && last.number === count ? 'done' : 'running'
}

/** The user and the machine of `ann@forge` or `ann@forge:2222`; undefined for another text. */
export function parseTarget(text: string): Pick<ProvisionRequest, 'user' | 'host' | 'port'> | undefined {
  const found = /^([^@\s]+)@(\[[^\]\s]+\]|[^:\s]+)(?::(\d{1,5}))?$/.exec(text.trim())
  if (found === null) return undefined
  const [, user = '', host = '', port] = found
  return { user, host, ...(port === undefined ? {} : { port: Number(port) }) }
}

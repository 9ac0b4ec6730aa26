/** Judges the answer of a service to the question whose credential this is. */
import type { Refusal, Result } from '../../core/result.ts'
import { fail, type Judgement, ok, warn } from './finding.ts'

export interface AccountCures {
  /** The command that connects the service again. */
  readonly connect: string
  /** The setting with the service's address. */
  readonly addressKey: string
}

export function judgeAccount(driver: string, account: Result<string>, cures: AccountCures): Judgement {
  if (account.ok) return ok(`${driver}, connected as ${account.value}`)
  return judgeRefusal(driver, account.refusal, cures)
}

/** A service out of reach says nothing about the credential. */
export function judgeRefusal(
  driver: string,
  { kind, message }: Refusal,
  { connect, addressKey }: AccountCures,
): Judgement {
  const isAway = kind === 'unavailable' || kind === 'failed'
  return isAway
    ? warn(
        `${driver} is out of reach: ${message}`,
        `check the network, and switchyard config get ${addressKey}`,
      )
    : fail(`${driver}: ${message}`, connect)
}

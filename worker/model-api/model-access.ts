/**
 * `ModelAccess` says for one credential of an agent: which vendor's API takes it, on which paths, in which headers.
 *
 * The credential itself stays with the worker. The agent gets a placeholder of the same form, so that its program
 * behaves as with the credential: the same login, the same limits, the same prices.
 */
import { no, type Result, yes } from '../../core/result.ts'
import type { RunCredentials } from '../../protocol/frames.ts'

export type AgentCredential = NonNullable<RunCredentials['agent']>

export interface ModelRoute {
  readonly method: 'GET' | 'POST'
  readonly path: RegExp
}

/** The forms in which vendors word an error. */
export type ModelErrorStyle = 'anthropic' | 'openai' | 'google'

export interface ModelAccess {
  /** The only origin that the credential is sent to. */
  readonly origin: string
  /** The agent's program puts it in front of all paths. */
  readonly basePath: string
  readonly routes: readonly ModelRoute[]
  readonly errorStyle: ModelErrorStyle
  /** The headers of a request, by the vendor's own headers that the agent sent. They replace those of the same name. */
  credentialHeaders(sent: Readonly<Record<string, string>>): Readonly<Record<string, string>>
  /** The parts of the credential that must not appear in an answer. */
  readonly secrets: readonly string[]
  readonly placeholder: AgentCredential
}

/** Refuses a credential that works only inside the sandbox, and one that has expired. `now`: wall milliseconds. */
export type OpenModelAccess = (credential: AgentCredential, now: number) => Result<ModelAccess>

/** A key is the first line of its text. Other characters could end the header and begin another. */
export function readKeyLine(value: string): Result<string> {
  const [line = ''] = value.trim().split('\n')
  const key = line.trim()
  return /^[!-~]+$/.test(key) ? yes(key) : no('invalid', 'it is empty, or has characters that no key has')
}

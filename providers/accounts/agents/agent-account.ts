/**
 * AgentAccount checks one agent's credentials and finds its login on this machine.
 *
 * A key is tested with one small request that costs nothing. For a login copied from a machine only the form is checked:
 * a request could use it up or refresh it while its owner uses it. The first run shows whether such a login works.
 */
import type { Clock } from '../../../core/ports.ts'
import type { FoundLogin } from '../../../core/provider-ports.ts'
import type { Result } from '../../../core/result.ts'
import type { AgentProvider } from '../../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { Http } from '../../http/http-types.ts'
import type { ProgramEnvironment } from '../../run-program.ts'

export interface AgentAccount {
  /** Checks the credential at its place in the configuration, and describes it. */
  check(agent: ServiceConfig['agent'], ports: AgentCheckPorts): Promise<Result<string>>
  /**
   * Finds a login that lasts for a whole run on another machine and does not disturb its owner here. An unusable login
   * is refused with the step to take instead. Nothing is logged.
   */
  findLogin(ports: AgentLoginSearchPorts): Promise<Result<FoundLogin>>
}

export interface AgentCheckPorts {
  readonly http: Http
  readonly clock: Pick<Clock, 'now'>
  /** Replaces addresses of the vendors' APIs; without a trailing slash. */
  readonly baseUrls?: Readonly<Partial<Record<AgentProvider, string>>>
}

export interface AgentLoginSearchPorts extends AgentCheckPorts {
  readonly clock: Pick<Clock, 'now' | 'after'>
  /** The environment of this process: PATH, HOME and the folders of the agents. */
  readonly environment: ProgramEnvironment
  /** The user id that must own the login files. */
  readonly uid: number
  readonly inheritable?: () => readonly number[]
  /** Aborting this signal kills all running agent commands. */
  readonly stopSignal?: AbortSignal
}

/** The dependencies of every group of API calls. */
import type { Result } from '../../core/result.ts'
import type { HostContext } from '../host-context.ts'
import type { ModuleViews } from '../runtime/module.ts'

export interface ApiDependencies {
  readonly context: HostContext
  readonly views: ModuleViews
  /** Refused while nothing may be changed: the service is stopping, or the disk takes no writes. */
  readonly mayChange: () => Result<void>
  /** Resolves once everything up to now is on disk. */
  readonly whenCommitted: () => Promise<Result<void>>
}

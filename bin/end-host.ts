/**
 * Ends the process of a host: after its orderly stop, and when it could not start.
 *
 * The store is closed first, for a bounded time. Everything that a start had begun would keep the process alive.
 */
import type { Log, Store } from '../core/ports.ts'
import { CLOSE_STORE_MS_MAX } from '../protocol/limits.ts'
import { realClock } from './clock.ts'
import type { HostProviders } from './create-providers.ts'
import { EXIT } from './exit.ts'
import { removeLaunch } from './launch-file.ts'
import { createOutputFor } from './output/create-output.ts'
import { reportError } from './report-error.ts'
import { watchRescue } from './rescue.ts'
import { startExitError } from './store-exit-code.ts'

export interface HostEnding {
  readonly dataDir: string
  readonly store: Store
  readonly log: Log
}

export async function endHost(
  exitCode: number,
  reason: string,
  { dataDir, store, log, providers }: HostEnding & { readonly providers: HostProviders },
): Promise<never> {
  const rescue = watchRescue(store.database.state())
  realClock.after(CLOSE_STORE_MS_MAX + rescue.msMax, () =>
    end(log, exitCode === EXIT.done ? EXIT.broken : exitCode, rescue.describe(reason)),
  )
  // A host without a disk, or without its directory, writes nothing there.
  const recordStop = async () => {
    if (store.database.state().is === 'ready')
      await store.trail.record({ source: 'host', action: 'stopHost', status: exitCode })
  }
  const inOrder = [
    () => removeLaunch(dataDir, store.database),
    () => providers.close(),
    recordStop,
    () => store.close(),
  ]
  for (const step of inOrder)
    await step().catch((error) => log.error({ err: error }, 'could not close everything in order'))
  end(log, exitCode, rescue.describe(reason))
}

function end(log: Log, exitCode: number, reason: string): never {
  if (exitCode === EXIT.done) log.info({ reason }, 'stopped')
  else {
    log.error({ exitCode, reason }, 'stopped')
    process.stderr.write(`switchyard: ${reason}\n`)
  }
  process.exit(exitCode)
}

/** Prints a sentence with its cure; `--log-level debug` shows where the failure happened. */
export async function endFailedStart(error: unknown, { dataDir, store, log }: HostEnding): Promise<never> {
  log.debug({ err: error }, 'the host could not start')
  const code = reportError(startExitError(error, dataDir), createOutputFor(process.argv.slice(2)))
  realClock.after(CLOSE_STORE_MS_MAX, () => process.exit(code))
  await store.close().catch((failure) => log.error({ err: failure }, 'could not close everything in order'))
  process.exit(code)
}

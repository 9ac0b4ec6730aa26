/**
 * The front desk, staffed: each thing the doors may ask is a look at what is durable, or an event for a life.
 */
import type { Ledger } from '../../core/ports.ts'
import { no } from '../../core/refusal.ts'
import { HELLO_FINISHED_RUNS } from '../../protocol/limits.ts'
import type { Run, RunStatus } from '../../protocol/run.ts'
import type { HealthResponse } from '../../protocol/worker.ts'
import type { ActorHost } from '../kit/host.ts'
import type { ConfigVault } from './config-vault.ts'
import type { FrontDesk } from './front-desk.ts'
import { ROOT, SETTINGS } from './kinds.ts'
import type { Pushes } from './pushes.ts'
import type { SettingsDrawer } from './settings.effects.ts'
import type { SettingsEvent } from './settings.machine.ts'

export interface DeskParts {
  readonly host: ActorHost
  readonly vault: ConfigVault
  readonly drawer: SettingsDrawer
  readonly pushes: Pushes
  readonly health: HealthResponse
  readonly ledger: Ledger
}

export function frontDesk({ host, vault, drawer, pushes, health, ledger }: DeskParts): FrontDesk {
  // From the moment the doors are being opened: a request may come in before the root has heard that they are.
  const open = () => ['recovering', 'serving'].includes(String(host.peek(ROOT, ROOT)?.value))
  return {
    health: () => health,
    config: () => vault.redacted,
    changeSettings: async (patch) => {
      if (!open()) return no('unavailable', 'the service is stopping')
      const state = ledger.state()
      if (state.is !== 'ready') return no('unavailable', `the disk takes no writes: ${state.reason}`)
      const { handle, answer } = drawer.put(patch)
      const arrived: SettingsEvent = { type: 'patch arrived', handle }
      if (!host.tell(SETTINGS, SETTINGS, arrived))
        drawer.settle(handle, no('unavailable', 'the service is stopping'))
      return answer
    },
    hello: () => ({
      type: 'hello',
      runs: helloRuns(ledger),
      tickets: [],
      config: vault.redacted,
      linearStatus: { state: 'disconnected' },
      workers: [],
    }),
    onPush: (listener) => pushes.listen(listener),
    allowedOrigins: () => vault.configuration.effective.server.allowedOrigins,
    // Nobody can enroll yet, so every credential is a wrong one.
    admitWorker: () => no('forbidden', 'unknown worker, or a missing or wrong credential'),
    open,
    storeState: () => ledger.state(),
    actorsByKind: () => host.count(),
  }
}

const UNFINISHED: readonly RunStatus[] = ['queued', 'preparing', 'running', 'finalizing']
const FINISHED: readonly RunStatus[] = ['completed', 'failed', 'cancelled']

/** Every unfinished run and the newest finished ones, newest first. */
function helloRuns(ledger: Ledger): Run[] {
  const unfinished = ledger.runs.list({ status: UNFINISHED })
  const finished = ledger.runs.list({ status: FINISHED, limit: HELLO_FINISHED_RUNS })
  return [...unfinished, ...finished].sort((a, b) => (a.id < b.id ? 1 : -1))
}

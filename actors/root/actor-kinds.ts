/**
 * Every kind of life a host knows, with what happens to it when it throws.
 */

import { accountKinds } from '../accounts/connect.kinds.ts'
import { leaseKind } from '../leases/lease.machine.ts'
import { runKind } from '../runs/run.machine.ts'
import { type ActorKind, fatalOnCrash, restartOrFatal } from '../runtime/actor-kind.ts'
import { settingsMachine } from '../settings/settings.machine.ts'
import { terminalSessionKind } from '../terminals/terminal-session.machine.ts'
import { trackerConnectionKind } from '../tracker/tracker-connection.machine.ts'
import { trackerPollKind } from '../tracker/tracker-poll.machine.ts'
import { connectionKind } from '../workers/connection.machine.ts'
import { localWorkerKind } from '../workers/local-worker.machine.ts'
import { workerKind } from '../workers/worker.machine.ts'
import { rootMachine } from './root.machine.ts'

/** There is one of each; its key is its name. */
export const ROOT = 'root'
export const SETTINGS = 'settings'

const root: ActorKind = { name: ROOT, logic: rootMachine, supervision: fatalOnCrash, diskless: true }
const settings: ActorKind = { name: SETTINGS, logic: settingsMachine, supervision: restartOrFatal }

export const hostKinds: readonly ActorKind[] = [
  root,
  settings,
  trackerPollKind,
  trackerConnectionKind,
  ...accountKinds,
  runKind,
  leaseKind,
  workerKind,
  connectionKind,
  localWorkerKind,
  terminalSessionKind,
]

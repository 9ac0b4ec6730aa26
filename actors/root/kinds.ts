/**
 * Every kind of life a host knows, with what happens to it when it throws.
 */
import { attachKind } from '../attach/attach.machine.ts'
import { connectKinds } from '../connect/connect.kinds.ts'
import { connectionKind } from '../fleet/connection.machine.ts'
import { localWorkerKind } from '../fleet/local-worker.machine.ts'
import { workerKind } from '../fleet/worker.machine.ts'
import { intakeKind } from '../intake/intake.machine.ts'
import { linkKind } from '../intake/link.machine.ts'
import { fatalAtOnce, type Kind, restartedOrFatal } from '../kit/kind.ts'
import { leaseKind } from '../lease/lease.machine.ts'
import { runKind } from '../run/run.machine.ts'
import { rootMachine } from './root.machine.ts'
import { settingsMachine } from './settings.machine.ts'

/** There is one of each; its key is its name. */
export const ROOT = 'root'
export const SETTINGS = 'settings'

const root: Kind = { name: ROOT, logic: rootMachine, supervision: fatalAtOnce, diskless: true }
const settings: Kind = { name: SETTINGS, logic: settingsMachine, supervision: restartedOrFatal }

export const hostKinds: readonly Kind[] = [
  root,
  settings,
  intakeKind,
  linkKind,
  ...connectKinds,
  runKind,
  leaseKind,
  workerKind,
  connectionKind,
  localWorkerKind,
  attachKind,
]

/**
 * The units of deploy/systemd/, for machines on which nobody runs `switchyard service install` or provisions a worker.
 *
 * A test compares them with what is checked in, and writes them anew with `npm run test:update`.
 */
import {
  formatServiceUnit,
  hostStopSeconds,
  type ServiceRole,
  type ServiceScope,
  type ServiceUnit,
  workerStopSeconds,
} from '../core/service/systemd-unit.ts'
import { configDefaults } from '../protocol/config.ts'

const ACCOUNT = 'switchyard'
const NODE = '/usr/bin/node'

/** Where programs and settings lie. */
const PLACES: Readonly<Record<ServiceScope, { readonly programs: string; readonly settings: string }>> = {
  system: { programs: '/opt', settings: '/etc/switchyard' },
  user: { programs: '%h/.local/lib', settings: '%h/.config/switchyard' },
}
const NAMES: Readonly<Record<ServiceRole, string>> = {
  host: 'switchyard-host',
  worker: 'switchyard-worker',
  supervisor: 'switchyard-supervise',
}
const roles: readonly ServiceRole[] = ['host', 'worker', 'supervisor']

/** The text of each unit by its path below deploy/systemd/. */
export function unitsToDeploy(): ReadonlyMap<string, string> {
  const units = roles.flatMap((role) => [
    [`${NAMES[role]}.service`, formatServiceUnit(unitOf(role, 'system'))] as const,
    [`user/${NAMES[role]}.service`, formatServiceUnit(unitOf(role, 'user'))] as const,
  ])
  return new Map(units)
}

function unitOf(role: ServiceRole, scope: ServiceScope): ServiceUnit {
  const { programs, settings } = PLACES[scope]
  const file = `${settings}/${NAMES[role].replace('switchyard-', '')}.env`
  const stateFolder = role === 'host' ? 'switchyard-host' : 'switchyard-worker'
  const manager = scope === 'user' ? 'systemctl --user' : 'systemctl'
  const commands: Readonly<Record<ServiceRole, string>> = {
    host: `${programs}/switchyard/dist/bin/switchyard.js serve --data-dir %S/${stateFolder} $SWITCHYARD_OPTIONS`,
    worker: `${programs}/switchyard-worker/bin/switchyard-worker.mjs worker --host \${SWITCHYARD_HOST} --data-dir %S/${stateFolder} --token-file %S/${stateFolder}/token $SWITCHYARD_OPTIONS`,
    supervisor: `${programs}/switchyard-worker/bin/switchyard-worker.mjs supervise --host \${SWITCHYARD_HOST} --data-dir %S/${stateFolder} $SWITCHYARD_OPTIONS -- --token-file %S/${stateFolder}/token $SWITCHYARD_WORKER_OPTIONS`,
  }
  const variables: Readonly<Record<ServiceRole, string>> = {
    host: 'SWITCHYARD_OPTIONS (of serve)',
    worker: 'SWITCHYARD_HOST (its address), SWITCHYARD_OPTIONS (of worker)',
    supervisor:
      'SWITCHYARD_HOST (its address), SWITCHYARD_OPTIONS (of supervise), SWITCHYARD_WORKER_OPTIONS (of worker)',
  }
  return {
    role,
    scope,
    command: `${NODE} ${commands[role]}`,
    notes: [
      `Copy this file to ${scope === 'user' ? '~/.config/systemd/user' : '/etc/systemd/system'}, and write`,
      `${variables[role]} into ${file.replace('%h', '~')}.`,
      `Settings of your own belong into: ${manager} edit ${NAMES[role]}`,
    ],
    settings: [`EnvironmentFile=${role === 'host' ? '-' : ''}${file}`],
    ...(scope === 'system' ? { account: ACCOUNT } : {}),
    stateFolder,
    stopSeconds: role === 'host' ? hostStopSeconds : workerStopSeconds(configDefaults.sandbox.maxRunMinutes),
  }
}

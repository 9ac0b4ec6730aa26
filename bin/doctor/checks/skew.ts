/** Compares the versions of the host, of its workers and of this command. */
import { PROTOCOL_VERSION } from '../../../protocol/limits.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { VERSION } from '../../version.ts'
import { type Check, fail, type Judgement, ok, warn } from '../finding.ts'
import type { AnsweringHost } from '../found-host.ts'

export const skewCheck: Check = {
  id: 'skew',
  places: ['host', 'elsewhere'],
  async judge({ host }) {
    const found = await host()
    if (found.is !== 'running') return []
    const problems = [
      ...judgeRefusals(found),
      ...judgeCommand(found.health.version),
      ...found.workers.flatMap((worker) => judgeWorker(worker, found.health.version)),
    ]
    return problems.length === 0 ? [ok(`everything is ${found.health.version}`)] : problems
  },
}

const compareVersions = (a: string, b: string): number => a.localeCompare(b, 'en', { numeric: true })

function judgeWorker({ name, local, capabilities }: WorkerView, hostVersion: string): readonly Judgement[] {
  if (capabilities === undefined) return []
  const { version } = capabilities
  const difference = compareVersions(version, hostVersion)
  if (difference === 0) return []
  return difference < 0
    ? [
        warn(
          `worker ${name} is ${version}, the host ${hostVersion}`,
          local === true
            ? `install switchyard ${hostVersion} on ${name}, then start its worker again`
            : `switchyard workers provision USER@${provisionTarget(name)}`,
        ),
      ]
    : [
        warn(
          `worker ${name} is ${version}, newer than the host ${hostVersion}`,
          `install switchyard ${version} here, then start the host again`,
        ),
      ]
}

/** Provisioning again upgrades a worker. Its name is that of its machine unless it was given another one. */
const provisionTarget = (name: string): string => (/^[\w.-]+$/.test(name) ? name : 'HOST')

function judgeCommand(hostVersion: string): readonly Judgement[] {
  if (VERSION === hostVersion) return []
  return [warn(`the host is ${hostVersion}, this command ${VERSION}`, `start the host again with ${VERSION}`)]
}

/** The host counts workers whose first frame names another protocol; the counts begin at its start. */
const REFUSED = /^switchyard_worker_registrations_total\{[^}]*outcome="protocol"[^}]*\} (\d+)/m

function judgeRefusals({ metrics, health }: AnsweringHost): readonly Judgement[] {
  const count = Number(REFUSED.exec(metrics)?.[1] ?? 0)
  if (count === 0) return []
  return [
    fail(
      `a worker was refused because it does not speak protocol ${PROTOCOL_VERSION}; refused so far: ${count}`,
      `install switchyard ${health.version} on it; its address is in the host's log, and a new start of the host counts anew`,
    ),
  ]
}

/**
 * Crashes daemons of seeds with damage while reports are on their disks that the host has not acknowledged: other crashes
 * mostly find none.
 */
import { randomFor } from './plan.ts'
import type { World } from './world.ts'

/** How often the commit of a report leads to a crash. */
const COMMITS_SHARE = 0.03
const CRASHES_MAX = 5
/** With a silent line more than one report waits. */
const SILENT_SHARE = 0.7
const SILENT_MS_MAX = 20_000
/** Most daemons come back while their leases live. */
const DOWN_MS_MAX = 60_000

export function scheduleReportingCrashes(world: World): void {
  const random = randomFor(world.plan.seed, 'reporting crashes')
  let left = CRASHES_MAX
  world.onReportStored = (name) => {
    if (left === 0 || !random.chance(COMMITS_SHARE)) return
    const link = world.links.get(name)
    if (link === undefined || world.time.now >= world.plan.faultsEndMs) return
    left -= 1
    const silentMs = random.chance(SILENT_SHARE) ? random.fraction() * SILENT_MS_MAX : 0
    const downMs = random.fraction() ** 2 * DOWN_MS_MAX
    if (silentMs > 0) {
      world.view.isDisturbed = true
      link.silentToHostUntil = Math.max(link.silentToHostUntil, world.time.now + silentMs)
    }
    world.time.in(silentMs, () => crash(world, name, downMs))
  }
}

function crash(world: World, name: string, downMs: number): void {
  const worker = world.workers.get(name)
  if (world.time.now >= world.plan.faultsEndMs || worker?.isOn !== true) return
  worker.crash(downMs > DOWN_MS_MAX / 2)
  world.time.in(downMs, () => worker.switchOn())
}

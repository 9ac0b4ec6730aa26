/** The sandbox driver of bubblewrap. */
import type { SandboxDriver } from '../driver.ts'
import { makeLauncher } from './launch.ts'
import { probeSandbox } from './probe.ts'

export const bubblewrap: SandboxDriver = {
  async probe() {
    const probed = await probeSandbox()
    if (!probed.ok) return probed
    const { bwrap, keepsHostName, landlockProblem } = probed
    const hasLandlock = landlockProblem === undefined
    return {
      ok: true,
      walls: ['namespaces', 'allowed system calls', ...(hasLandlock ? ['Landlock'] : [])],
      missingWalls: hasLandlock ? [] : [`Landlock (${landlockProblem})`],
      createLauncher: (clock) => makeLauncher({ bwrap, clock, keepsHostName, hasLandlock }),
    }
  },
}

/** The sandbox driver of bubblewrap. */
import type { SandboxDriver } from '../driver.ts'
import { makeLauncher } from './launch.ts'
import { probeSandbox } from './probe.ts'

export const bubblewrap: SandboxDriver = {
  async probe() {
    const probed = await probeSandbox()
    if (!probed.ok) return probed
    const { bwrap, keepsHostName } = probed
    return { ok: true, createLauncher: (clock) => makeLauncher({ bwrap, clock, keepsHostName }) }
  },
}

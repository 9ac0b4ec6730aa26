/** The sandbox registry lists the driver of every sandbox provider, by its name in the configuration. */
import { SANDBOX_PROVIDERS, type SandboxProvider } from '../../protocol/config.ts'
import { bubblewrap } from './bwrap/driver.ts'
import type { AvailableSandbox, SandboxDriver, SandboxUnavailable } from './driver.ts'

const SANDBOX_DRIVERS: Readonly<Record<SandboxProvider, SandboxDriver>> = {
  bwrap: bubblewrap,
}

/** Returns the first provider that works on this machine; if there is none, why the first one does not. */
export async function findSandbox(
  drivers: Readonly<Record<SandboxProvider, SandboxDriver>> = SANDBOX_DRIVERS,
): Promise<AvailableSandbox | SandboxUnavailable> {
  let problem: SandboxUnavailable | undefined
  for (const provider of SANDBOX_PROVIDERS) {
    const probed = await drivers[provider].probe()
    if (probed.ok) return { ...probed, provider }
    problem ??= probed
  }
  return problem ?? { ok: false, reason: 'unsupported-platform', detail: 'there is no sandbox provider' }
}

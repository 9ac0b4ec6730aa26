/** Starts beanstalkd with a log that it syncs at every write. */
import type { BenchResources } from '../bench-resources.ts'
import { freePort } from '../served-host.ts'
import type { PeerServer } from './peer.ts'
import { waitForPort } from './wait-for-port.ts'

export async function startBeanstalkd(resources: BenchResources, program: string): Promise<PeerServer> {
  const folder = resources.createFolder('beanstalkd')
  const port = await freePort()
  const child = resources.start(program, ['-l', '127.0.0.1', '-p', String(port), '-b', folder, '-f', '0'])
  await waitForPort(child, port)
  return {
    pid: child.pid,
    port,
    async stop() {
      await child.stop()
      resources.removeFolder(folder)
    },
  }
}

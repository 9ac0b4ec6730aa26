/** Opens the connection to a machine's SSH server, within a time limit. */
import { connect as dial, type Socket } from 'node:net'
import type { Clock } from '../core/ports.ts'
import { remoteLine } from '../core/provision/step-lines.ts'
import type { RemoteTarget } from '../core/remote-ports.ts'
import { no, type Result, yes } from '../core/result.ts'
import { PROVISION_CONNECT_MS_MAX } from '../protocol/limits.ts'

export function openSocket(
  { host, port }: Pick<RemoteTarget, 'host' | 'port'>,
  { clock }: { readonly clock: Pick<Clock, 'after'> },
): Promise<Result<Socket>> {
  return new Promise((resolve) => {
    const socket = dial({ host, port })
    const end = (result: Result<Socket>) => {
      cancel()
      if (!result.ok) socket.destroy()
      resolve(result)
    }
    const cancel = clock.after(PROVISION_CONNECT_MS_MAX, () =>
      end(no('failed', `no answer from port ${port} within ${PROVISION_CONNECT_MS_MAX / 1000} s`)),
    )
    socket.once('connect', () => end(yes(socket)))
    // The listener stays, because the library adds its own only later.
    socket.on('error', ({ message }) => end(no('failed', remoteLine(message))))
  })
}
